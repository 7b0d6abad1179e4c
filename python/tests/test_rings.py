"""Ring kernels: every message has its result once and in order, and each phase does what it says."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import everwarp as ew
import numpy as np
import pytest

F64 = ctypes.POINTER(ctypes.c_double)
HANDLER = ctypes.CFUNCTYPE(ctypes.c_int32, F64, ctypes.c_uint64, F64, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int64))


def handler(body: Callable[..., int]) -> Any:
    """A function of C from one of Python. It is slow, and enough for tests."""
    made = HANDLER(body)
    made.__name__ = body.__name__
    return made


@handler
def double(source: Any, inputs: int, target: Any, outputs: int, state: Any) -> int:
    for at in range(min(inputs, outputs)):
        target[at] = 2 * source[at]
    return 0


@handler
def picky(source: Any, inputs: int, target: Any, outputs: int, state: Any) -> int:
    target[0] = source[0]
    return 3 if source[0] == 1 else 0


def kernel(engine: ew.Engine, code: Any = double, size: int = 4, **options: Any) -> ew.RingKernel:
    return engine.ring_kernel(code, input=(ew.f64, size), output=(ew.f64, size), **options)


def test_messages_come_back_once_and_in_order(engine: ew.Engine) -> None:
    with kernel(engine, capacity=8) as ring:
        for first in range(0, 40, 8):
            for n in range(first, first + 8):
                ring.send(np.full(4, float(n)))
            for n in range(first, first + 8):
                result = ring.receive(timeout=30)
                assert result.dtype == np.float64 and result.tolist() == [2.0 * n] * 4
        assert ring.stats == {"waiting": 0, "ready": 0, "started": 40, "failed": 0, "received": 40}
    with pytest.raises(ew.EngineClosed):
        ring.send(np.zeros(4))


def test_senders_and_receivers_are_threads(engine: ew.Engine) -> None:
    with kernel(engine, capacity=2) as ring:
        sender = threading.Thread(target=lambda: [ring.send(np.full(4, float(n))) for n in range(200)])
        sender.start()
        got = [ring.receive(timeout=30)[0] for _ in range(200)]
        sender.join()
    assert got == [2.0 * n for n in range(200)]


def test_results_are_views_without_numpy_arrays(engine: ew.Engine) -> None:
    with engine.ring_kernel(double, input=("f64", (2, 2)), output=("f64", (2, 2))) as ring:
        ring.send(memoryview(bytes(32)).cast("d"))
        result = ring.receive(timeout=30)
        assert isinstance(result, memoryview) and result.tolist() == [[0, 0], [0, 0]]


def test_a_full_stream_says_so(engine: ew.Engine) -> None:
    ring = kernel(engine, capacity=2)
    with pytest.raises(ew.StartFailed, match="`double` was not launched"):
        ring.send(np.zeros(4))
    ring.launch()
    ring.try_send(np.zeros(4))
    ring.try_send(np.ones(4))
    with pytest.raises(ew.RingFull, match="2 messages waiting"):
        ring.try_send(np.zeros(4))
    with pytest.raises(TimeoutError, match="no room for a message after 0.01 s"):
        ring.send(np.zeros(4), timeout=0.01)
    with pytest.raises(TimeoutError, match="no result after 0.01 s: it is not active"):
        ring.receive(timeout=0.01)
    ring.activate()
    assert ring.receive(timeout=30).tolist() == [0] * 4
    ring.deactivate()
    ring.send(np.ones(4))
    ring.terminate()
    assert ring.receive()[0] == 2 and ring.receive()[0] == 2
    for use in (ring.receive, ring.activate, lambda: ring.send(np.zeros(4))):
        with pytest.raises(ew.RingEnded, match="make and launch another"):
            use()


def test_a_message_that_fails_fails_alone(engine: ew.Engine) -> None:
    with kernel(engine, picky, 1) as ring:
        for n in range(3):
            ring.send(np.array([float(n)]))
        assert ring.receive(timeout=30)[0] == 0
        with pytest.raises(ew.RingFailed, match="`picky` failed for message 1: the handler returned 3"):
            ring.receive(timeout=30)
        assert ring.receive(timeout=30)[0] == 2


def test_slices_of_buffers_go_through_without_copies(engine: ew.Engine) -> None:
    source, target = ew.UnifiedBuffer((8, 4), ew.f64), engine.buffer((8, 4), ew.f64)
    source.host[:] = np.arange(32.0).reshape(8, 4)
    ring = kernel(engine)
    ring.launch()
    for row in range(8):
        ring.send(source[row], out=target[row])
    with pytest.raises(ew.BufferInUse, match="a result of a ring kernel, made at .*test_rings.py, line"):
        np.asarray(target.host)
    np.asarray(source.host.readonly_view())
    with pytest.raises(ew.BufferInUse, match="a message to a ring kernel"):
        source.host[0] = 1
    ring.activate()
    for _ in range(8):
        assert len(ring.receive(timeout=30)) == 0
    assert (np.asarray(target.host) == 2 * np.asarray(source.host)).all()
    assert source.holders == [] and target.holders == []
    held = np.asarray(source.host)
    with pytest.raises(ew.BufferInUse, match="an array of the host's side"):
        ring.send(source[0])
    del held
    ring.terminate()


def test_the_state_is_the_handlers_own(engine: ew.Engine) -> None:
    @handler
    def count(source: Any, inputs: int, target: Any, outputs: int, state: Any) -> int:
        state[0] += 1
        target[0] = state[0]
        return 0

    state = ew.UnifiedBuffer(1, ew.i64)
    state.host[0] = 10
    with kernel(engine, count, 1, state=state) as ring:
        for _ in range(5):
            ring.send(np.zeros(1))
        assert [ring.receive(timeout=30)[0] for _ in range(5)] == [11, 12, 13, 14, 15]
        with pytest.raises(ew.BufferInUse, match="the state of the ring kernel `count`"):
            state.host[0]
    assert state.host[0] == 15


def test_the_same_with_asyncio(engine: ew.Engine) -> None:
    async def talk() -> list[float]:
        async with kernel(engine, capacity=4) as ring:
            await ring.launch()
            await ring.activate()

            async def send() -> None:
                for n in range(300):
                    await ring.send(np.full(4, float(n)))

            sender = asyncio.create_task(send())
            got = [(await ring.receive(timeout=30))[0] for _ in range(300)]
            await sender
            await ring.deactivate()
            with pytest.raises(TimeoutError, match="not active"):
                await ring.receive(timeout=0.01)
            for _ in range(4):
                await ring.send(np.ones(4))
            with pytest.raises(TimeoutError, match="no room"):
                await ring.send(np.ones(4), timeout=0.01)
            await ring.terminate()
            rest = [float(result[0]) async for result in ring]
        return [*got, *rest]

    assert asyncio.run(talk()) == [2.0 * n for n in range(300)] + [2.0] * 4


def test_other_tasks_run_while_one_waits(engine: ew.Engine) -> None:
    async def talk() -> int:
        ticks = 0
        async with kernel(engine) as ring:
            waiting = asyncio.create_task(ring.receive())
            while ticks < 20:
                ticks += 1
                await asyncio.sleep(0.001)
            assert not waiting.done()
            await ring.send(np.ones(4))
            assert (await waiting)[0] == 2
            cancelled = asyncio.create_task(ring.receive())
            await asyncio.sleep(0.001)
            cancelled.cancel()
            await ring.send(np.zeros(4))
            assert (await ring.receive(timeout=30))[0] == 0
        return ticks

    assert asyncio.run(talk()) == 20


def test_what_does_not_fit_is_refused(engine: ew.Engine) -> None:
    with kernel(engine) as ring:
        for wrong in (np.zeros(3), np.zeros(4, dtype=np.float32), np.zeros(4, dtype=np.int64)):
            with pytest.raises(BufferError, match=r"is f64 of the shape \(4,\), and .* was given"):
                ring.send(wrong)
        with pytest.raises(BufferError, match="row order"):
            ring.send(np.zeros(8)[::2])
        with pytest.raises(TypeError, match="a message is an array"):
            ring.send([1.0, 2.0, 3.0, 4.0])
        with pytest.raises(BufferError, match="has f64 there, and the buffer has f32"):
            ring.send(ew.UnifiedBuffer(4, ew.f32))
        with pytest.raises(ValueError, match="5 x f64 was given"):
            ring.send(ew.UnifiedBuffer(5, ew.f64))
        with pytest.raises(TypeError, match="a result goes to a UnifiedBuffer"):
            ring.send(np.zeros(4), out=np.zeros(4))  # type: ignore[arg-type]
        ring.send(np.ones(4))
        assert ring.receive(timeout=30)[0] == 2
    for wrong_handler in (lambda: 0, print, "f", None):
        with pytest.raises(TypeError):
            kernel(engine, wrong_handler)
    with pytest.raises(TypeError, match="is a function of Python: decorate it with @everwarp.function"):
        kernel(engine, lambda: 0)
    with pytest.raises(TypeError, match="a pair of a type and a shape"):
        engine.ring_kernel(double, input=4, output=(ew.f64, 4))
    with pytest.raises(ValueError, match="at least one message"):
        kernel(engine, capacity=0)
    with pytest.raises(ew.StartFailed, match="the address 0"):
        kernel(engine, 0).launch()


def test_objects_of_two_engines_are_not_mixed(engine: ew.Engine) -> None:
    with ew.engine("cpu", size=1) as other, kernel(engine) as ring:
        with pytest.raises(ew.WrongEngine, match="belongs to another engine than the ring kernel `double`"):
            ring.send(other.buffer(4, ew.f64))
        with pytest.raises(ew.WrongEngine):
            ring.send(np.zeros(4), out=other.buffer(4, ew.f64))
        with pytest.raises(ew.WrongEngine):
            kernel(engine, state=other.buffer(1, ew.i64))


def test_a_handler_without_a_twin_is_refused_by_the_cpu_engine(engine: ew.Engine) -> None:
    source = "__device__ int handle(const double*, uint64_t, double*, uint64_t, void*);"
    with pytest.raises(ew.StartFailed, match="`add` has CUDA C\\+\\+ and no twin"):
        kernel(engine, ew.native(cuda=source, name="add")).launch()
    with pytest.raises(TypeError, match="a twin for the CPU"):
        ew.native()
    with kernel(engine, ew.native(double, cuda=source, name="add")) as ring:
        ring.send(np.ones(4))
        assert ring.name == "add" and ring.receive(timeout=30)[0] == 2
        assert (ring.kind, ring.why) == ("cpu", "the engine is the CPU engine")


def test_a_closed_engine_ends_its_kernels() -> None:
    with ew.engine("cpu", size=1) as own:
        ring = kernel(own)
        ring.launch()
        ring.send(np.zeros(4))
    for use in (ring.receive, ring.activate, lambda: ring.send(np.zeros(4)), lambda: kernel(own).launch()):
        with pytest.raises(ew.EngineClosed):
            use()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_kernel_is_refused_after_a_fork(engine: ew.Engine) -> None:
    with kernel(engine) as ring:
        child = os.fork()
        if child == 0:
            try:
                ring.send(np.zeros(4))
            except ew.ForkedError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_exception_in_the_block_does_not_wait_for_messages(engine: ew.Engine) -> None:
    @handler
    def slow(source: Any, inputs: int, target: Any, outputs: int, state: Any) -> int:
        time.sleep(0.05)
        return 0

    begin = time.monotonic()
    with pytest.raises(KeyError), kernel(engine, slow) as ring:
        for _ in range(60):
            ring.send(np.zeros(4))
        raise KeyError
    assert ring._inner is not None
    assert time.monotonic() - begin < 2


@ew.struct
class Average:
    count: ew.i64
    total: ew.f64


@ew.function
def average(message: ew.array(ew.f32, 4), result: ew.array(ew.f64, 2), state: Average) -> None:
    for value in message:
        assert value >= 0.0
        state.total += value
        state.count += 1
    result[0] = state.total / state.count
    result[1] = float(state.count)


def test_functions_of_the_subset_are_handlers(engine: ew.Engine) -> None:
    plain = Average()
    line = inspect.getsourcelines(average.python)[1] + 3
    with engine.ring_kernel(average, capacity=4) as ring:
        for n in range(20):
            message = np.arange(4, dtype=np.float32) * np.float32(0.1) + np.float32(n)
            ring.send(message)
            expected = [0.0, 0.0]
            average.python([float(value) for value in message], expected, plain)
            assert ring.receive(timeout=30).tolist() == expected, "the same as in CPython"
        ring.send(np.array([1, -1, 0, 0], dtype=np.float32))
        with pytest.raises(ew.RingFailed, match=f"message 20: .*line {line}"):
            ring.receive(timeout=30)
        ring.send(np.zeros(4, dtype=np.float32))
        assert ring.receive(timeout=30)[1] == 85, "what it had counted before the failure stays"
    with engine.ring_kernel(average, input=("f32", (2, 2))) as ring:
        ring.send(np.ones((2, 2), dtype=np.float32))
        assert ring.receive(timeout=30).tolist() == [1, 4]
    with pytest.raises(ValueError, match=r"input is f64 \(4,\), and the handler takes array\(f32, 4\)"):
        engine.ring_kernel(average, input=("f64", 4))

    @ew.function
    def number(x: ew.f64) -> ew.f64:
        return x

    with pytest.raises(ew.Unsupported, match="takes two arrays, the message and the result"):
        engine.ring_kernel(number)


def test_numba_compiles_handlers(engine: ew.Engine) -> None:
    numba: Any = pytest.importorskip("numba", reason="numba is not installed")
    types = numba.types
    pointer = types.CPointer(types.float64)

    @numba.cfunc(types.int32(pointer, types.uint64, pointer, types.uint64, types.voidptr))
    def halves(source: Any, inputs: Any, target: Any, outputs: Any, state: Any) -> int:
        for at in range(inputs):
            target[at] = source[at] / 2
        return 0

    with kernel(engine, halves, 1000) as ring:
        ring.send(np.arange(1000.0))
        assert (ring.receive(timeout=30) == np.arange(1000.0) / 2).all()
