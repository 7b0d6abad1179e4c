"""Modules: WebAssembly programs that run as processes."""

from __future__ import annotations

import os
from typing import Union

from . import _native

Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]


class Module:
    """A WebAssembly module for `wasm32-wasip1` that exports `_start`.

    It is read and validated here, and each engine compiles it once. Keep it for as long as you start processes of it.

    Parameters
    ----------
    source
        The path of a `.wasm` file, or its bytes.
    name
        What messages call it; by default the file's name.

    Raises
    ------
    LoadFailed
        The file cannot be read, or is no module that can be a process.
    """

    def __init__(self, source: Source, *, name: str | None = None) -> None:
        if isinstance(source, (bytes, bytearray, memoryview)):
            self._inner = _native.Module.from_bytes(name or "module", bytes(source))
        elif name is None:
            self._inner = _native.Module.from_file(os.fspath(source))
        else:
            with open(source, "rb") as file:
                self._inner = _native.Module.from_bytes(name, file.read())

    @property
    def name(self) -> str:
        """The name, by which processes spawn it and messages mention it."""
        return self._inner.name

    @property
    def start_bytes(self) -> int:
        """The bytes of memory and tables that a process of this module starts with."""
        return self._inner.start_bytes

    @property
    def uses_channels(self) -> bool:
        """Whether the module imports `everwarp:gpu`, which brings channels and children."""
        return self._inner.uses_channels

    def __repr__(self) -> str:
        return repr(self._inner)


class ModuleCache:
    """Modules by the path and the state of their files, so that an engine compiles a file once."""

    def __init__(self) -> None:
        self._modules: dict[tuple[str, int, int], Module] = {}

    def get(self, source: Module | Source) -> Module:
        if isinstance(source, Module):
            return source
        if isinstance(source, (bytes, bytearray, memoryview)):
            return Module(source)
        path = os.path.abspath(os.fspath(source))
        try:
            state = os.stat(path)
        except OSError:
            return Module(source)  # It raises the error that names the file.
        key = (path, state.st_mtime_ns, state.st_size)
        if key not in self._modules:
            self._modules[key] = Module(source)
        return self._modules[key]
