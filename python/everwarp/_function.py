"""`everwarp.function`: functions of a typed subset of Python that run on every engine."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import FunctionError
from ._arrays import fitting, ordered
from ._types import Scalar

if TYPE_CHECKING:
    from ._module import Module

MISSING = object()


class Function:
    """A compiled function. Calling it runs it in CPython, with the same checks of its parameters and its result.

    `Engine.map` runs it for each element of arrays.
    """

    def __init__(self, python: Callable[..., Any]) -> None:
        from ._compile.module import parse
        from ._compile.process import compile_process

        #: The function as it was written.
        self.python = python
        self.__everwarp_signature__ = parse(python)
        self._signature = self.__everwarp_signature__
        functools.update_wrapper(self, python)
        if self._signature.result is not None:
            #: The function as a WebAssembly module, whose process reads records and writes results.
            self.wasm = compile_process(self._signature)
        else:
            self._check_only()
        self._module: Module | None = None

    def _check_only(self) -> None:
        """A function without a result is called by others, and cannot be mapped."""
        from ._compile.module import ModuleCompiler

        self.wasm = b""
        compiler = ModuleCompiler()
        compiler.fail = 0
        compiler.function(self._signature)

    @property
    def module(self) -> Module:
        """The function as a module."""
        from ._module import Module

        if not self.wasm:
            raise TypeError(f"`{self._signature.name}` returns nothing, so it cannot be mapped")
        for name, value in self._signature.captured.items():
            now = eval(name, {}, self._signature.names)
            if now is not value and now != value:
                raise FunctionError(
                    f"`{name}` was {value} when `{self._signature.name}` was compiled and is {now} now: pass it as a parameter"
                )
        if self._module is None:
            self._module = Module(self.wasm, name=self._signature.name)
        return self._module

    def __call__(self, *values: Any) -> Any:
        parameters = self._signature.parameters
        if len(values) != len(parameters):
            raise TypeError(f"{self._signature.name} takes {len(parameters)} arguments, and there are {len(values)}")
        converted = [
            kind(value) if isinstance(kind, Scalar) else value for value, (_, kind) in zip(values, parameters)
        ]
        result = self.python(*converted)
        return result if self._signature.result is None else self._signature.result(result)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {getattr(kind, 'name', kind)}" for name, kind in self._signature.parameters)
        result = self._signature.result
        return f"<everwarp.function {self._signature.name}({parts}) -> {result.name if result else None}>"

    def _records(self, inputs: tuple[Any, ...]) -> tuple[bytes, int, int]:
        """The inputs as records: their bytes, how many there are and the size of each."""
        from ._compile.process import record

        parameters = self._signature.parameters
        if len(inputs) != len(parameters):
            names = ", ".join(name for name, _ in parameters)
            raise TypeError(f"{self._signature.name} needs an array for each of its parameters: {names}")
        offsets, size = record(self._signature)
        if any(hasattr(item, "__array__") for item in inputs):
            data, count = self._records_of_arrays(inputs, offsets, size)
            return data, count, size
        columns = [list(ordered(name, item)) for (name, _), item in zip(parameters, inputs)]
        counts = {len(column) for column in columns}
        if len(counts) != 1:
            raise ValueError(f"the inputs have different lengths: {', '.join(str(len(c)) for c in columns)}")
        out = bytearray(counts.pop() * size)
        for (name, kind), offset, column in zip(parameters, offsets, columns):
            if isinstance(kind, Scalar):
                for index, value in enumerate(column):
                    struct.pack_into("<" + kind.code, out, index * size + offset, self._fitting(name, kind, value))
            else:
                kinds = self._parts(kind)
                for index, values in enumerate(column):
                    for (part, at), value in zip(kinds, self._items(name, kind, values)):
                        struct.pack_into(
                            "<" + part.code, out, index * size + offset + at, self._fitting(name, part, value)
                        )
        return bytes(out), len(out) // size, size

    @staticmethod
    def _parts(kind: Any) -> list[tuple[Scalar, int]]:
        if hasattr(kind, "length"):
            return [(kind.element, n * kind.element.size) for n in range(kind.length)]
        return list(kind.fields.values())

    @staticmethod
    def _items(name: str, kind: Any, value: Any) -> list[Any]:
        if hasattr(kind, "fields"):
            if not isinstance(value, kind.cls):
                raise TypeError(f"`{name}` needs objects of {kind}")
            return [getattr(value, field) for field in kind.fields]
        items = list(value)
        if len(items) != kind.length:
            raise ValueError(f"`{name}` needs {kind.length} elements each, and there are {len(items)}")
        return items

    @staticmethod
    def _fitting(name: str, kind: Scalar, value: Any) -> Any:
        if kind.kind in "iu" and isinstance(value, float):
            raise TypeError(f"`{name}` is {kind.name}, and {value} is a float")
        return kind(value)

    def _records_of_arrays(self, inputs: tuple[Any, ...], offsets: list[int], size: int) -> tuple[bytes, int]:
        import numpy as np

        arrays, shape = [], None
        for (name, kind), item in zip(self._signature.parameters, inputs):
            array = np.asarray(ordered(name, item))
            element = kind if isinstance(kind, Scalar) else getattr(kind, "element", None)
            if element is None:
                raise TypeError(f"`{name}` is a struct: pass a list of its objects for every parameter")
            wanted = (array.shape[0],) if isinstance(kind, Scalar) else (array.shape[0], kind.length)
            if array.shape != wanted:
                raise ValueError(f"`{name}` needs an array of shape {wanted}, not {array.shape}")
            if shape is not None and len(array) != shape:
                raise ValueError(f"the inputs have different lengths: {shape}, {len(array)}")
            shape = len(array)
            arrays.append(fitting(name, element, array))
        fields = {
            "names": [name for name, _ in self._signature.parameters],
            "formats": [(array.dtype, array.shape[1:]) for array in arrays],
            "offsets": offsets,
            "itemsize": size,
        }
        records: Any = np.zeros(shape or 0, dtype=np.dtype(fields))  # type: ignore[call-overload]
        for (name, _), array in zip(self._signature.parameters, arrays):
            records[name] = array
        return records.tobytes(), len(records)

    def _failure(self, report: bytes, first: int) -> FunctionError:
        from ._compile.arithmetic import FAILURES

        reason, line, number = struct.unpack("<iiq", report[:16])
        text = FAILURES.get(reason, "it failed")
        name, file = self._signature.name, self._signature.source.file
        where = f'"{file}", line {line}, in {name}' if line else f'"{file}", in {name}'
        return FunctionError(f"element {first + number}: {text} ({where})", first + number, line)


def function(python: Callable[..., Any]) -> Function:
    """Compiles a function of a typed subset of Python.

    It computes what CPython computes, bit for bit, or it fails: an integer that does not fit 64 bits, or its declared
    type, is a failure and never another number. What the subset does not have is an error here, at its line, with what to
    write instead.

    >>> @ew.function
    ... def collatz(n: ew.i64) -> ew.i64:
    ...     steps = 0
    ...     while n != 1:
    ...         n = n // 2 if n % 2 == 0 else 3 * n + 1
    ...         steps += 1
    ...     return steps
    >>> engine.map(collatz, range(1, 1000))[26]
    111
    """
    return Function(python)


__all__ = ["Function", "function"]
