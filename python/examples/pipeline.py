"""A pipeline of two ring kernels over NumPy arrays: one smooths chunks of a signal, the other measures their energy."""

import asyncio

import everwarp as ew
import numpy as np

CHUNK = 1024


@ew.function
def smooth(chunk: ew.array(ew.f32, 1024), result: ew.array(ew.f32, 1024)) -> None:
    for i in range(1024):
        before, after = chunk[max(i - 1, 0)], chunk[min(i + 1, 1023)]
        result[i] = 0.25 * before + 0.5 * chunk[i] + 0.25 * after


@ew.function
def energy(chunk: ew.array(ew.f32, 1024), result: ew.array(ew.f64, 1)) -> None:
    total = 0.0
    for value in chunk:
        total += value * value
    result[0] = total


async def main() -> None:
    signal = ((np.arange(200 * CHUNK) * 37 % 101 - 50) / 64).astype(np.float32).reshape(-1, CHUNK)
    with ew.engine() as engine:
        async with engine.ring_kernel(smooth) as first, engine.ring_kernel(energy) as second:

            async def feed() -> None:
                for chunk in signal:
                    await first.send(chunk)

            async def connect() -> None:
                for _ in signal:
                    await second.send(await first.receive())

            async def collect() -> list[float]:
                return [float((await second.receive())[0]) for _ in signal]

            _, _, energies = await asyncio.gather(feed(), connect(), collect())

    padded = np.pad(signal, ((0, 0), (1, 1)), mode="edge").astype(np.float64)
    plain = (0.25 * padded[:, :-2] + 0.5 * padded[:, 1:-1] + 0.25 * padded[:, 2:]) ** 2
    print(len(energies), "chunks; NumPy gets the same energies:", np.allclose(energies, plain.sum(axis=1)))


asyncio.run(main())
