"""Ring kernels on a GPU: compiled functions and CUDA C++, with buffers in the GPU's memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import everwarp as ew
import numpy as np
import pytest

SCALE = """
__device__ int handle(const double* input, uint64_t inputs, double* output, uint64_t, void* state) {
  int64_t* handled = (int64_t*)state;
  for (uint64_t i = threadIdx.x; i < inputs; i += blockDim.x) output[i] = 2 * input[i];
  __syncthreads();
  if (threadIdx.x == 0 && handled != nullptr) *handled += 1;
  return input[0] == 1.5 ? 3 : 0;
}
"""


@ew.struct
class Total:
    sum: ew.i64


@pytest.fixture
def engine() -> Iterator[ew.Engine]:
    try:
        engine = ew.engine("cuda")
    except ew.DeviceError as error:
        pytest.skip(f"no GPU: {error}")
    with engine:
        yield engine


def scale(engine: ew.Engine, size: int = 4, **options: object) -> ew.RingKernel:
    handler = ew.native(cuda=SCALE, name="scale")
    return engine.ring_kernel(handler, input=(ew.f64, size), output=(ew.f64, size), **options)  # type: ignore[arg-type]


def test_a_block_handles_a_message(engine: ew.Engine) -> None:
    with scale(engine, 1000, capacity=8) as ring:
        assert ring.kind == "cuda" and "on cuda" in repr(ring)
        for n in range(200):
            ring.send(np.arange(1000) + float(n))
            assert (ring.receive(timeout=60) == 2 * (np.arange(1000) + n)).all()
        ring.send(np.full(1000, 1.5))
        with pytest.raises(ew.RingFailed, match="message 200: the handler returned 3"):
            ring.receive(timeout=60)
        assert ring.stats == {"waiting": 0, "ready": 0, "started": 201, "failed": 1, "received": 201}


def test_compiled_functions_compute_what_they_compute_in_cpython(engine: ew.Engine) -> None:
    @ew.function
    def smooth(chunk: ew.array(ew.f32, 64), result: ew.array(ew.f32, 64)) -> None:  # type: ignore[valid-type]
        for i in range(64):
            before, after = chunk[max(i - 1, 0)], chunk[min(i + 1, 63)]
            result[i] = 0.25 * before + 0.5 * chunk[i] + 0.25 * after

    signal = np.sin(np.arange(20 * 64)).astype(np.float32).reshape(20, 64)
    with engine.ring_kernel(smooth) as ring:
        assert ring.kind == "cuda"
        for chunk in signal:
            ring.send(chunk)
        results = [ring.receive(timeout=60) for _ in signal]
    with ew.engine("cpu") as cpu, cpu.ring_kernel(smooth) as ring:
        for chunk, result in zip(signal, results):
            ring.send(chunk)
            assert ring.receive(timeout=60).tobytes() == result.tobytes()


def test_a_compiled_function_keeps_its_state_and_names_the_line_that_fails(engine: ew.Engine) -> None:
    @ew.function
    def divide(numbers: ew.array(ew.i64, 2), result: ew.array(ew.i64, 2), total: Total) -> None:  # type: ignore[valid-type]
        total.sum += numbers[0]
        result[0] = numbers[0] // numbers[1]
        result[1] = total.sum

    with engine.ring_kernel(divide) as ring:
        for numbers in ([7, 2], [1, 0], [9, 3]):
            ring.send(np.array(numbers))
        assert ring.receive(timeout=60).tolist() == [3, 7]
        with pytest.raises(ew.RingFailed, match="message 1: .*line "):
            ring.receive(timeout=60)
        assert ring.receive(timeout=60).tolist() == [3, 17]


def test_buffers_are_in_the_memory_of_the_gpu(engine: ew.Engine) -> None:
    messages, results = engine.buffer((8, 1000)), engine.buffer((8, 1000))
    state = engine.buffer(1, ew.i64)
    messages.host[...] = np.arange(8000).reshape(8, 1000)
    with scale(engine, 1000, state=state) as ring:
        for row in range(8):
            ring.send(messages[row], out=results[row])
        with pytest.raises(ew.BufferInUse):
            np.asarray(state.host)
        for _ in range(8):
            assert len(ring.receive(timeout=60)) == 0
    assert (np.asarray(results.host) == 2 * np.arange(8000).reshape(8, 1000)).all()
    assert messages.transfers.bytes_to_device == results.transfers.bytes_to_host == 64_000
    assert state.host[0] == 8
    with pytest.raises(BufferError, match="memory of a GPU"):
        np.asarray(results.device)


def test_the_same_with_asyncio_and_two_kernels(engine: ew.Engine) -> None:
    async def pipeline() -> list[float]:
        async with scale(engine, 16) as first, scale(engine, 16) as second:

            async def feed() -> None:
                for n in range(100):
                    await first.send(np.full(16, float(n)))

            async def connect() -> None:
                for _ in range(100):
                    await second.send(await first.receive())

            async def collect() -> list[float]:
                return [float((await second.receive())[0]) for _ in range(100)]

            return (await asyncio.gather(feed(), connect(), collect()))[2]

    assert asyncio.run(pipeline()) == [4.0 * n for n in range(100)]


def test_a_parked_engine_goes_on(engine: ew.Engine) -> None:
    with scale(engine) as ring:
        with engine.parked():
            ring.send(np.ones(4))
            with pytest.raises(TimeoutError):
                ring.receive(timeout=0.05)
        assert ring.receive(timeout=60)[0] == 2


def test_one_thing_at_a_time(engine: ew.Engine, hello: ew.Module) -> None:
    with scale(engine) as ring:
        with pytest.raises(ew.StartFailed, match="ring kernels or buffers are on this GPU"):
            engine.run(hello)
        ring.send(np.ones(4))
        assert ring.receive(timeout=60)[0] == 2
    assert engine.run(hello).success
    # What has ended makes room.
    with scale(engine) as ring:
        ring.send(np.ones(4))
        assert ring.receive(timeout=60)[0] == 2


def test_text_that_does_not_compile_names_its_line(engine: ew.Engine) -> None:
    handler = ew.native(cuda="\n__device__ int handle(const double*, uint64_t) { return x; }", name="wrong")
    with pytest.raises(ew.StartFailed, match=r"wrong\(2\)"):
        engine.ring_kernel(handler, input=(ew.f64, 1), output=(ew.f64, 1)).launch()


def test_an_engine_that_chose_the_gpu_runs_cuda_there_and_functions_of_c_on_the_cpu(engine: ew.Engine) -> None:
    engine.close()
    with ew.engine() as own, scale(own) as ring:
        assert ring.kind == "cuda", ring.why
        with own.ring_kernel(_same) as other:
            assert (other.kind, other.why) == ("cpu", "its handler has no CUDA C++")
            other.send(np.ones(2))
            ring.send(np.ones(4))
            assert (other.receive(timeout=60)[0], ring.receive(timeout=60)[0]) == (1, 2)


@ew.function
def _same(numbers: ew.array(ew.f64, 2), result: ew.array(ew.f64, 2)) -> None:  # type: ignore[valid-type]
    for i in range(2):
        result[i] = numbers[i]
