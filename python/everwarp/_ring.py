"""Ring kernels: a handler that is launched once, and streams of messages to it and of results from it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _native
from ._buffer import _CODES, UnifiedBuffer, dtype_name, shape_of
from ._function import Function
from .errors import RingEnded, RingFull, StartFailed, WrongEngine

if TYPE_CHECKING:
    from ._engine import Engine

#: How many messages wait for a kernel, and how many results, unless its maker says otherwise.
CAPACITY = 64


class Native:
    """A handler in two forms: CUDA C++ for a GPU, and a function of C, its twin, for the CPU. Made by `everwarp.native`."""

    def __init__(self, name: str, twin: Any, cuda: str | None) -> None:
        self.name, self.twin, self.cuda = name, twin, cuda

    def __repr__(self) -> str:
        return f"<everwarp.native {self.name}>"


def native(twin: Any = None, *, cuda: str | None = None, name: str | None = None) -> Native:
    """A native handler of ring kernels.

    Parameters
    ----------
    twin
        The handler for the CPU engine: a function of ctypes, a Numba `cfunc`, or an address. Its C form is
        `int32_t f(const T *input, uint64_t inputs, U *output, uint64_t outputs, void *state)`, and a result other than 0
        is a failure.
    cuda
        The same in CUDA C++, for engines of GPUs:
        `__device__ int handle(const T *input, uint64_t inputs, U *output, uint64_t outputs, void *state)`. A block of 256
        threads handles a message: all of them call the function, which divides the work by `threadIdx.x` and may use
        `__syncthreads()`. A number other than 0 from any thread fails the message. The text includes nothing, and a wild
        pointer ends the engine.
    name
        What messages call it.
    """
    if twin is None and cuda is None:
        raise TypeError("a native handler has a twin for the CPU, CUDA C++ for a GPU, or both")
    return Native(name or str(getattr(twin, "__name__", "handler")), twin, cuda)


def _address(handler: Any) -> int:
    """Where a function of C is."""
    if isinstance(handler, int):
        return handler
    # A cfunc of Numba.
    address = getattr(handler, "address", None)
    if isinstance(address, int):
        return address
    ctypes = sys.modules.get("ctypes")
    if ctypes is not None and isinstance(handler, ctypes._CFuncPtr):
        return ctypes.cast(handler, ctypes.c_void_p).value or 0
    if callable(handler):
        raise TypeError(
            f"a handler is compiled, and {getattr(handler, '__name__', handler)!r} is a function of Python: decorate it with "
            "@everwarp.function or numba.cfunc"
        )
    raise TypeError(
        "a handler is a function with @everwarp.function, a function of ctypes, a Numba cfunc or everwarp.native(...), and "
        f"not {handler!r}"
    )


class RingKernel:
    """A handler that is launched once. `Engine.ring_kernel` makes one.

    In a `with` block the methods wait, and in an `async with` block each of the same names is to be awaited. Both launch and
    activate the kernel when they begin and terminate it when they end.
    """

    def __init__(
        self, engine: Engine, handler: Any, input: Any, output: Any, capacity: int, state: UnifiedBuffer | None
    ) -> None:
        engine._check()
        self._engine = engine
        self._wasm: bytes | None = None
        if isinstance(handler, Function):
            self._wasm, input, output = _compiled(handler, input, output)
            if state is not None:
                raise TypeError("a compiled handler keeps its state in a third parameter, a struct: leave out `state`")
        if self._wasm is None and not (isinstance(handler, Native) and handler.twin is None):
            _address(handler.twin if isinstance(handler, Native) else handler)
        self._handler = handler if isinstance(handler, Native) else native(handler)
        self._input, self._output = _signature("input", input), _signature("output", output)
        if capacity < 1:
            raise ValueError(f"a ring kernel holds at least one message, not {capacity}")
        self._capacity = capacity
        self._state = self._own(state)
        self._inner: _native.RingKernel | None = None
        self._active = False
        self._arrays = False

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._handler.name

    @property
    def kind(self) -> str:
        """The kind of the engine that runs it, once it was launched: `cpu` or `cuda`."""
        return self._launched().kind

    @property
    def why(self) -> str:
        """Why it runs there."""
        return self._launched().why

    def launch(self) -> None:
        """Launches the kernel, which keeps messages and handles none until it is activated. Again does nothing."""
        # A kernel that was launched before a fork has no threads in the child.
        self._engine._check()
        if self._inner is not None:
            return
        twin = self._handler.twin
        state = None if self._state is None else self._state._inner
        self._inner = _native.RingKernel(
            self._engine,
            self.name,
            self._input,
            self._output,
            self._capacity,
            self._wasm,
            0 if self._wasm is not None or twin is None else _address(twin),
            self._handler.cuda,
            state,
            twin,
        )
        self._engine._rings.add(self)

    def _launched(self) -> _native.RingKernel:
        if self._inner is None:
            raise StartFailed(f"the ring kernel `{self.name}` was not launched: call launch(), or use it in a `with` block")
        return self._inner

    def activate(self) -> None:
        """Handles messages from here on."""
        self._launched().activate()
        self._active = True

    def deactivate(self) -> None:
        """Keeps messages from here on and handles none. When it returns, the handler does not run."""
        self._launched().deactivate()
        self._active = False

    def terminate(self, timeout: float | None = None) -> None:
        """Handles what was sent before, and takes no messages from here on. Results can still be received."""
        self._launched().terminate(timeout)

    def _begin(self) -> None:
        self.launch()
        self.activate()

    def _own(self, buffer: UnifiedBuffer | None) -> UnifiedBuffer | None:
        """Checks that a buffer may be used with this kernel."""
        if buffer is not None and buffer._engine not in (None, self._engine):
            raise WrongEngine(
                f"the buffer belongs to another engine than the ring kernel `{self.name}`: make it with this engine, or "
                "without one"
            )
        return buffer

    def _message(self, message: Any, out: UnifiedBuffer | None) -> tuple[Any, Any, Any]:
        if out is not None and not isinstance(out, UnifiedBuffer):
            raise TypeError("a result goes to a UnifiedBuffer, or to some rows of one")
        for buffer, signature in ((message, self._input), (out, self._output)):
            if isinstance(buffer, UnifiedBuffer):
                buffer._check()
                if buffer.dtype != signature[0]:
                    raise BufferError(
                        f"the ring kernel `{self.name}` has {signature[0]} there, and the buffer has {buffer.dtype}"
                    )
                self._own(buffer)
        given = None if out is None else out._inner
        if isinstance(message, UnifiedBuffer):
            return None, message._inner, given
        if not self._arrays and hasattr(message, "__array__"):
            self._arrays = True
        if not isinstance(message, (bytes, bytearray, memoryview)) and not hasattr(message, "__array__"):
            try:
                memoryview(message)
            except TypeError:
                raise TypeError(
                    f"a message is an array, a UnifiedBuffer or an object with the buffer protocol, and not {message!r}"
                ) from None
        return message, None, given

    def send(self, message: Any, *, out: UnifiedBuffer | None = None, timeout: float | None = None) -> None:
        """Sends a message, and waits until there is room.

        Parameters
        ----------
        message
            An array of the kernel's input type, which is copied; or a `UnifiedBuffer` or some rows of one, which the handler
            reads where they are.
        out
            Where the result is to be written, without a copy. What is received then is `out` itself.
        timeout
            Raises `TimeoutError` after this many seconds.

        Raises
        ------
        BufferInUse
            The program has an array over the buffer; the message names the line.
        """
        if not self._launched().send(*self._message(message, out), timeout):
            raise TimeoutError(f"the ring kernel `{self.name}` had no room for a message after {timeout} s")

    def try_send(self, message: Any, *, out: UnifiedBuffer | None = None) -> None:
        """Sends a message if there is room, and raises `RingFull` if not."""
        if not self._launched().send(*self._message(message, out), 0.0):
            raise RingFull(
                f"the ring kernel `{self.name}` has {self._capacity} messages waiting, as many as it takes: receive results"
            )

    def receive(self, timeout: float | None = None) -> Any:
        """The oldest result, in the order of the messages: a NumPy array if messages were arrays, otherwise a memory view. It
        is empty for a message whose result went to a buffer.

        Raises
        ------
        RingFailed
            The handler failed for this message; the next call has the next result.
        RingEnded
            The kernel was terminated, and all results were received.
        TimeoutError
            There is none after `timeout` seconds.
        """
        found = self._launched().receive(timeout)
        if found is None:
            raise TimeoutError(f"the ring kernel `{self.name}` has no result after {timeout} s{self._why()}")
        return self._result(found[1])

    def _why(self) -> str:
        return "" if self._active else ": it is not active"

    def _result(self, data: bytearray) -> Any:
        name, shape = self._output
        if not data:
            shape = [0] if all(shape) else shape
        if self._arrays:
            import numpy as np

            return np.frombuffer(data, dtype=_CODES[name]).reshape(shape)
        code: Any = _CODES[name]
        view = memoryview(data)
        return view.cast("B").cast(code, shape) if len(shape) != 1 and data else view.cast(code)

    @property
    def stats(self) -> dict[str, int]:
        """Messages that wait, results that are ready, and how many messages were started, failed and received."""
        names = ("waiting", "ready", "started", "failed", "received")
        return dict(zip(names, self._launched().stats()))

    def __enter__(self) -> RingKernel:
        self._begin()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._end(kind)

    def _end(self, kind: Any) -> None:
        """Drains after a block that ended well; after an exception it ends at once, since no code receives the results."""
        if self._inner is None:
            return
        try:
            if kind is None and not self._engine.closed:
                self.terminate()
        finally:
            self._inner.close()

    async def __aenter__(self) -> AsyncRingKernel:
        await asyncio.to_thread(self._begin)
        return AsyncRingKernel(self)

    async def __aexit__(self, kind: Any, *_: object) -> None:
        await asyncio.to_thread(self._end, kind)

    def __repr__(self) -> str:
        def show(signature: tuple[str, list[int]]) -> str:
            return f"{signature[0]} {tuple(signature[1])}"

        on = "" if self._inner is None else f" on {self._inner.kind}"
        return f"<everwarp.RingKernel {self.name}: {show(self._input)} -> {show(self._output)}{on}>"


def _compiled(handler: Function, input: Any, output: Any) -> tuple[bytes, Any, Any]:
    """A compiled function as the module of a ring kernel, and the types of its messages and results."""
    from ._compile.ring import compile_ring

    wasm, arrays = compile_ring(handler.__everwarp_signature__)
    found = []
    for name, given, kind in zip(("input", "output"), (input, output), arrays):
        dtype, shape = (kind.element.name, [kind.length]) if given is None else _signature(name, given)
        count = 1
        for axis in shape:
            count *= axis
        if (dtype, count) != (kind.element.name, kind.length):
            raise ValueError(f"{name} is {dtype} {tuple(shape)}, and the handler takes {kind}: leave it out, or let it fit")
        found.append((dtype, shape))
    return wasm, found[0], found[1]


def _signature(name: str, given: Any) -> tuple[str, list[int]]:
    """The type and the shape of messages, from `(dtype, shape)`."""
    try:
        dtype, shape = given
    except (TypeError, ValueError):
        raise TypeError(f"{name} is a pair of a type and a shape, such as (everwarp.f32, 1024), and not {given!r}") from None
    return dtype_name(dtype), shape_of(shape)


class AsyncRingKernel:
    """A ring kernel in an `async with` block: the methods of `RingKernel`, to be awaited."""

    def __init__(self, kernel: RingKernel) -> None:
        self._kernel = kernel

    @property
    def kernel(self) -> RingKernel:
        """The kernel itself, whose methods wait."""
        return self._kernel

    @property
    def stats(self) -> dict[str, int]:
        """As `RingKernel.stats`."""
        return self._kernel.stats

    async def launch(self) -> None:
        """Does nothing: the block has launched the kernel."""
        self._kernel.launch()

    async def activate(self) -> None:
        """Handles messages from here on."""
        self._kernel.activate()

    async def deactivate(self) -> None:
        """Keeps messages from here on and handles none. When it returns, the handler does not run."""
        await asyncio.to_thread(self._kernel.deactivate)

    async def terminate(self, timeout: float | None = None) -> None:
        """Handles what was sent before, and takes no messages from here on."""
        await asyncio.to_thread(self._kernel.terminate, timeout)

    async def send(self, message: Any, *, out: UnifiedBuffer | None = None, timeout: float | None = None) -> None:
        """Sends a message, and waits until there is room. As `RingKernel.send`."""
        parts = self._kernel._message(message, out)
        inner = self._kernel._launched()

        def attempt(wake: Callable[[], None]) -> bool | None:
            return inner.send_or_wake(*parts, wake) or None

        await _when(attempt, timeout, f"the ring kernel `{self._kernel.name}` had no room for a message after {timeout} s")

    async def receive(self, timeout: float | None = None) -> Any:
        """The oldest result. As `RingKernel.receive`."""
        late = f"the ring kernel `{self._kernel.name}` has no result after {timeout} s{self._kernel._why()}"
        found = await _when(self._kernel._launched().receive_or_wake, timeout, late)
        return self._kernel._result(found[1])

    def __aiter__(self) -> AsyncRingKernel:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except RingEnded:
            raise StopAsyncIteration from None

    def __repr__(self) -> str:
        return repr(self._kernel)


async def _when(attempt: Callable[[Callable[[], None]], Any], timeout: float | None, late: str) -> Any:
    """Tries until there is a result, each time that the kernel's state has changed."""
    loop = asyncio.get_running_loop()
    limit = None if timeout is None else loop.time() + timeout
    while True:
        changed: asyncio.Future[None] = loop.create_future()

        def finish(changed: asyncio.Future[None] = changed) -> None:
            if not changed.done():
                changed.set_result(None)

        def wake(finish: Callable[[], None] = finish) -> None:
            # A loop that was closed meanwhile has no waiter left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(finish)

        found = attempt(wake)
        if found is not None:
            return found
        try:
            async with asyncio.timeout_at(limit):
                await changed
        except TimeoutError:
            raise TimeoutError(late) from None


__all__ = ["AsyncRingKernel", "Native", "RingKernel", "native"]
