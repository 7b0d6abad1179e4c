"""The forms for asyncio."""

from __future__ import annotations

import asyncio

import everwarp as ew
import pytest

from conftest import greeting


def test_processes_can_be_awaited(engine: ew.Engine, hello: ew.Module) -> None:
    async def main() -> list[bytes]:
        handles = [engine.start(hello, args=[str(n)]) for n in range(20)]
        return [(await handle)[0].stdout for handle in handles]

    assert asyncio.run(main()) == [greeting(n) for n in range(20)]


def test_many_runs_go_on_at_once(engine: ew.Engine, hello: ew.Module) -> None:
    async def main() -> None:
        runs = [engine.run_async(hello, args=["{instance}"], instances=10) for _ in range(20)]
        for exits in await asyncio.gather(*runs):
            assert exits.stdout == [greeting(n) for n in range(10)]
        assert (await engine.run_async(hello, args=["x"])).stdout == greeting("x")

    asyncio.run(main())


def test_the_loop_runs_while_processes_run(engine: ew.Engine, endless: ew.Module) -> None:
    async def main() -> None:
        run = asyncio.ensure_future(engine.run_async(endless))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not run.done()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        with pytest.raises(TimeoutError):
            await engine.run_async(endless, timeout=0.05)

    asyncio.run(main())


def test_errors_reach_the_task(engine: ew.Engine, traps: ew.Module) -> None:
    async def main() -> None:
        with pytest.raises(ew.ProcessError):
            await engine.run_async(traps, check=True)
        async with ew.engine("cpu", size=1) as other:
            assert not (await other.run_async(traps)).success
        with pytest.raises(ew.EngineClosed):
            await other.run_async(traps)

    asyncio.run(main())
