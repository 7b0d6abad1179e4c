"""`everwarp.UnifiedBuffer`: typed memory with a host side and a device side, and arrays over it without copies."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from ._types import Scalar

if TYPE_CHECKING:
    from ._engine import Engine

Strategy = Literal["private", "pinned", "mapped"]

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: DLPack's number for memory of the host.
_CPU = 1
_CODES = {
    "boolean": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f32": "f",
    "f64": "d",
}  # fmt: skip


def _line() -> str:
    """The line of the program that is running: the innermost one outside of this package."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return "a place without a line" if frame is None else f"{frame.f_code.co_filename}, line {frame.f_lineno}"


def dtype_name(dtype: Any) -> str:
    """What everwarp calls a type of elements: `everwarp.f32`, `numpy.float32`, a `numpy.dtype`, `"f32"` or `"float32"`."""
    if isinstance(dtype, Scalar) and dtype.name in _CODES:
        return dtype.name
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or getattr(dtype, "name", None)
    if getattr(dtype, "isnative", True) and isinstance(name, str):
        if name in _CODES:
            return name
        if name in ("bool", "bool_"):
            return "boolean"
        for kind, long in (("u", "uint"), ("i", "int"), ("f", "float")):
            bits = name.removeprefix(long)
            if bits != name and kind + bits in _CODES:
                return kind + bits
        if name in ("int", "float") and isinstance(dtype, type):
            return "i64" if name == "int" else "f64"
    raise TypeError(f"a buffer holds {', '.join(_CODES)}, and {dtype!r} is none of these")


def shape_of(shape: Any) -> list[int]:
    """A shape, given as a number or a sequence of numbers."""
    axes = shape if isinstance(shape, Sequence) else (shape,)
    found = [operator.index(axis) for axis in axes]
    if any(axis < 0 for axis in found):
        raise ValueError(f"a shape has no negative axes, and {tuple(found)} has one")
    return found


@dataclass(frozen=True)
class Transfers:
    """What was copied between the sides of a buffer. Where both are one memory, as on the CPU engine, it says what would have
    been copied.
    """

    copies_to_device: int
    bytes_to_device: int
    copies_to_host: int
    bytes_to_host: int


class View(_native.View):
    """One side of a buffer. `numpy.asarray(view)` and `memoryview(view)` are arrays over its memory, without a copy.

    An array holds the elements until it is gone. While the host has some, the device cannot use them, and the other way
    round; that raises `BufferInUse`. An index gives a part of the view, and `view[...] = values` assigns to it.
    """

    def __new__(cls, buffer: UnifiedBuffer, device: bool, writes: bool) -> View:
        made = super().__new__(cls, buffer._inner, device, writes)
        made._buffer, made._device = buffer, device
        return made

    _buffer: UnifiedBuffer
    _device: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The elements along each axis."""
        return self._buffer.shape

    @property
    def dtype(self) -> str:
        """The type of the elements, as everwarp calls it: `f32`, for example."""
        return self._buffer.dtype

    def __len__(self) -> int:
        return len(self._buffer)

    def readonly_view(self) -> View:
        """The same side, for arrays that are only read. They exclude no other reader, and nothing is copied for them later."""
        return type(self)(self._buffer, self._device, False)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and index.step in (None, 1):
            return type(self)(self._buffer[index], self._device, not self.readonly)
        if index is Ellipsis:
            return self
        view = self.readonly_view()
        return memoryview(view)[index] if len(self.shape) == 1 and isinstance(index, int) else _numpy(view)[index]

    def __setitem__(self, index: Any, values: Any) -> None:
        target: Any = self
        if isinstance(index, slice) and index.step in (None, 1):
            # Only the part counts as changed.
            target, index = self[index], Ellipsis
        elif isinstance(index, int):
            rows = len(self)
            at = index + rows if index < 0 else index
            if not 0 <= at < rows:
                raise IndexError(f"the buffer has {rows} rows, and none has the number {index}")
            target, index = self[at : at + 1], 0
            if len(self.shape) == 1 and not hasattr(values, "__array__"):
                with memoryview(target) as one:
                    one[0] = values
                return
        array = _numpy(target)
        array[index] = _numpy(values.readonly_view()) if isinstance(values, View) else values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        # NumPy asks for this where the buffer protocol raised an error, which it forgets; it is raised again here.
        import numpy as np

        array = np.asarray(memoryview(self), dtype=dtype)
        return array.copy() if copy else array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if stream is not None:
            raise BufferError("the buffer is in memory of the host, which has no streams: pass stream=None")
        if dl_device is not None and tuple(int(part) for part in dl_device) != (_CPU, 0):
            raise BufferError(f"the buffer is in memory of the host, and not on the DLPack device {tuple(dl_device)}")
        versioned = max_version is not None and max_version[0] >= 1
        if copy:
            fresh = UnifiedBuffer(self.shape, self.dtype, strategy="private")
            with memoryview(self.readonly_view()) as source, memoryview(fresh.host) as target:
                target.cast("B")[:] = source.cast("B")
            return fresh.host.dlpack(versioned, True)
        return self.dlpack(versioned, False)

    def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        _no_options(kwargs)
        return self.arrow(True)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        return self.arrow(False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Never there so far, so `hasattr` says no: the memory is the host's."""
        raise AttributeError(
            "this buffer is in memory of the host: `__cuda_array_interface__` is for memory of a GPU, so use NumPy or DLPack"
        )

    def __repr__(self) -> str:
        side = "device" if self._device else "host"
        return f"<the {side}'s side of {self._buffer!r}>"


def _no_options(options: dict[str, Any]) -> None:
    """Arrow's interface lets a library ask for more with keywords; those that are not `None` must be refused."""
    for name, value in options.items():
        if value is not None:
            raise NotImplementedError(f"the option {name!r} of Arrow's interface is not known")


def _numpy(item: Any) -> Any:
    try:
        import numpy as np
    except ImportError:
        raise ImportError("this index needs NumPy: install it, or use memoryview(view)") from None
    return np.asarray(item)


class UnifiedBuffer:
    """Typed memory with a host side and a device side.

    `.host` and `.device` are its sides. A side has what the other wrote: ranges that are newer there are copied when an array
    of this side is made, and only they. On the CPU engine both sides are one memory, so nothing is copied, and
    `transfers` says what a GPU would have copied.

    Parameters
    ----------
    shape
        The elements along each axis, or a number.
    dtype
        `everwarp.f32`, `numpy.float32`, `"f32"` and the like.
    strategy
        `"private"`: ordinary memory of the host and memory of the device. `"pinned"`: page-locked memory of the host, from
        which a GPU copies without a detour. `"mapped"`: one memory for both, which is never copied.
    engine
        The engine that uses it; without it the buffer is for any CPU engine. The buffers of an engine that was made with
        `"cuda"` have their device side in the GPU's memory, for ring kernels; arrays are made of the host's side.

    Raises
    ------
    StartFailed
        Something else runs on the GPU, or the engine is one of wgpu.
    """

    def __init__(
        self, shape: Any, dtype: Any = "f64", *, strategy: Strategy = "pinned", engine: Engine | None = None
    ) -> None:
        self._inner = _native.Buffer(engine, dtype_name(dtype), shape_of(shape), strategy)
        self._engine = engine

    @classmethod
    def _over(cls, inner: _native.Buffer, engine: Engine | None) -> UnifiedBuffer:
        made = cls.__new__(cls)
        made._inner, made._engine = inner, engine
        return made

    @classmethod
    def from_array(cls, array: Any, *, strategy: Strategy = "private", engine: Engine | None = None) -> UnifiedBuffer:
        """A buffer over the memory of a NumPy array, or of any object with the buffer protocol, without a copy.

        From here on use the buffer's views instead of the array: what is written to the array itself is not tracked.

        Raises
        ------
        BufferError
            The elements have a type that no buffer has, or are not next to each other in row order.
        """
        return cls._over(_native.Buffer.of_object(engine, array, strategy), engine)

    @classmethod
    def from_dlpack(cls, array: Any, *, strategy: Strategy = "private", engine: Engine | None = None) -> UnifiedBuffer:
        """A buffer over the memory of an object with `__dlpack__`, version 1 or before, without a copy."""
        if not hasattr(array, "__dlpack__"):
            raise TypeError(f"{type(array).__name__} has no `__dlpack__`: pass an array of a library that has it")
        if hasattr(array, "__dlpack_device__"):
            kind, number = array.__dlpack_device__()
            if int(kind) not in (_CPU, 3):
                raise BufferError(
                    f"the array is on the DLPack device ({int(kind)}, {number}), and this import takes memory of the host: "
                    "copy it to the host first"
                )
        try:
            capsule = array.__dlpack__(max_version=(1, 1))
        except TypeError:
            # A library from before version 1.0.
            capsule = array.__dlpack__()
        return cls._over(_native.Buffer.of_dlpack(engine, capsule, strategy), engine)

    @classmethod
    def from_arrow(cls, array: Any, *, strategy: Strategy = "private", engine: Engine | None = None) -> UnifiedBuffer:
        """A buffer over the memory of an array of Arrow (`__arrow_c_device_array__` or `__arrow_c_array__`), to be read."""
        for name in ("__arrow_c_device_array__", "__arrow_c_array__"):
            if hasattr(array, name):
                schema, memory = getattr(array, name)()
                return cls._over(_native.Buffer.of_arrow(engine, schema, memory, strategy), engine)
        raise TypeError(f"{type(array).__name__} has no interface of Arrow: pass an array of pyarrow, for example")

    @property
    def host(self) -> View:
        """The host's side."""
        self._check()
        return View(self, False, True)

    @property
    def device(self) -> View:
        """The device's side. On the CPU engine it is memory of the host, too, and arrays can be made of it; arrays of memory of a
        GPU are refused with `BufferError`.
        """
        self._check()
        return View(self, True, True)

    def _check(self) -> None:
        """Raises the error of an engine that is closed, or belongs to another process."""
        if self._engine is not None:
            self._engine._check()

    @property
    def shape(self) -> tuple[int, ...]:
        """The elements along each axis."""
        return tuple(self._inner.shape)

    @property
    def dtype(self) -> str:
        """The type of the elements, as everwarp calls it: `f32`, for example."""
        return self._inner.dtype

    @property
    def strategy(self) -> str:
        """The strategy."""
        return self._inner.strategy

    @property
    def readonly(self) -> bool:
        """Whether the memory was imported and may only be read."""
        return self._inner.readonly

    @property
    def transfers(self) -> Transfers:
        """What was copied between the sides so far, for the whole buffer."""
        return Transfers(*self._inner.transfers())

    @property
    def newer(self) -> tuple[int, int]:
        """How many bytes of the whole buffer are newer on the host, and on the device."""
        return self._inner.newer()

    @property
    def holders(self) -> list[str]:
        """Who uses the buffer now: what it is, and the line that made it."""
        return self._inner.holders()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a buffer without axes has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> UnifiedBuffer:
        """Some rows, which share the memory: `buffer[10:20]`, or `buffer[3]` for one."""
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                raise ValueError("a part of a buffer has no gaps: its step is 1")
            return self._over(self._inner.part(begin, max(begin, end)), self._engine)
        at = operator.index(index)
        if not -len(self) <= at < len(self):
            raise IndexError(f"the buffer has {len(self)} rows, and none has the number {at}")
        at %= len(self)
        return self._over(self._inner.part(at, at + 1), self._engine).reshape(self.shape[1:])

    def reshape(self, shape: Any) -> UnifiedBuffer:
        """The same elements with another shape. They share the memory."""
        return self._over(self._inner.reshaped(shape_of(shape)), self._engine)

    def __repr__(self) -> str:
        return f"<everwarp.UnifiedBuffer {self.dtype} {self.shape} {self.strategy}>"


__all__ = ["Transfers", "UnifiedBuffer", "View"]
