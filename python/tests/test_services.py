"""Names, deadlines, timers, monitors and dead letters of actors, and asks from asyncio."""

from __future__ import annotations

import asyncio
import time
from array import array

import everwarp as ew
import pytest
from conftest import until


@ew.actor
class Counter:
    count: ew.i64

    def add(self, n: ew.i64) -> None:
        self.count += n

    def read(self) -> ew.i64:
        return self.count

    def fail(self, n: ew.i64) -> ew.i64:
        return 1 // n

    def busy(self, rounds: ew.i64) -> ew.i64:
        x = 1
        for i in range(rounds):
            x = (x * 3 + i) % 1000003
        return x


def test_an_actor_is_found_by_its_name_until_it_ends(engine: ew.Engine) -> None:
    with pytest.raises(ValueError, match="spawn some first"):
        engine.lookup(Counter, "x")
    ada, bob = engine.spawn(Counter, 2)
    ada.register("ada")
    with pytest.raises(ValueError, match="ada"):
        bob.register("ada")
    found = engine.lookup(Counter, "ada")
    assert found is not None and found.id == ada.id
    found.add.tell(3)
    assert ada.read.ask() == 3
    assert engine.lookup(Counter, "eve") is None
    assert engine.unregister(Counter, "ada") and not engine.unregister(Counter, "ada")
    bob.register("ada")
    bob.kill()
    assert until(lambda: engine.lookup(Counter, "ada") is None)


def test_timers_are_never_early_and_can_be_cancelled(engine: ew.Engine) -> None:
    actor = engine.spawn(Counter)
    begin = time.monotonic()
    actor.add.after(0.05, 1)
    assert until(lambda: actor.read.ask() == 1)
    assert time.monotonic() - begin >= 0.05
    later = actor.add.after(3600, 100)
    assert later.cancel() and not later.cancel()
    often = actor.add.every(0.001, 1)
    assert until(lambda: actor.read.ask() >= 4)
    assert often.cancel()
    engine.settle()
    last = actor.read.ask()
    time.sleep(0.05)
    assert actor.read.ask() == last
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError):
            actor.add.after(wrong, 1)
    with pytest.raises(ValueError):
        actor.add.every(0, 1)


def test_a_monitor_says_how_an_actor_has_ended(engine: ew.Engine) -> None:
    stopped, killed, failed, dead = engine.spawn(Counter, 4)
    monitors = [actor.monitor() for actor in (stopped, killed, failed)]
    assert monitors[0].wait(0.01) is None
    stopped.stop()
    killed.kill()
    failed.fail.tell(0)
    assert [monitor.wait(60) for monitor in monitors] == ["stopped", "killed", "failed"]
    assert monitors[0].wait(0) == "stopped", "it stays known"
    dead.kill()
    engine.settle()
    monitor = dead.monitor()
    assert asyncio.run(monitor.wait_async(60)) == "unknown"


def test_dead_letters_have_their_reason_and_their_values(engine: ew.Engine) -> None:
    actor = engine.spawn(Counter)
    letters = engine.dead_letters(Counter, 8)
    assert letters.next(0.01) is None
    actor.fail.tell(0)
    letter = letters.next(60)
    assert letter is not None
    assert (letter.message, letter.values, letter.to, letter.sender) == ("fail", (0,), actor.id, 0)
    assert "failed" in letter.reason
    assert letters.lost == 0
    assert asyncio.run(letters.next_async(0.01)) is None
    with pytest.raises(ValueError):
        engine.dead_letters(Counter, 0)


@ew.actor(mailbox=4000)
class Slow:
    rounds: ew.i64

    def work(self) -> None:
        for i in range(200_000):
            self.rounds += i % 3

    def read(self) -> ew.i64:
        return self.rounds


def flood(actor: ew.Actors) -> None:
    """Sends one actor so much work at once that it is busy for long."""
    ids = memoryview(array("Q", [actor.id] * 3000))
    ew.Actors(actor._class, actor._system, ids, False).work.tell()


def test_an_ask_has_a_deadline(engine: ew.Engine) -> None:
    actor = engine.spawn(Slow)
    flood(actor)
    with pytest.raises(TimeoutError):
        actor.read.ask(timeout=0.001)
    with pytest.raises(ValueError):
        actor.read.ask(timeout=-1)

    async def main() -> None:
        with pytest.raises(TimeoutError, match="0.001"):
            await actor.read.ask_async(timeout=0.001)

    asyncio.run(main())
    actor.kill()


def test_many_asks_of_asyncio_each_have_their_own_reply(engine: ew.Engine) -> None:
    actors = engine.spawn(Counter, 3000)
    actors.add.tell(range(3000))

    async def main() -> list[int]:
        one = await actors[5].read.ask_async()
        assert one == 5
        # More than may wait at a time.
        return await asyncio.gather(*(actor.read.ask_async(timeout=60) for actor in actors))

    assert asyncio.run(main()) == list(range(3000))


def test_slow_asks_wake_the_loop_and_failed_ones_raise(engine: ew.Engine) -> None:
    actors = engine.spawn(Counter, 20)

    async def main() -> None:
        asks = [actor.busy.ask_async(20_000, timeout=60) for actor in actors]
        first, *others = await asyncio.gather(*asks)
        assert all(other == first for other in others)
        with pytest.raises(ew.ActorFailed):
            await actors[0].fail.ask_async(0)
        with pytest.raises(ew.ActorGone):
            await actors[0].read.ask_async()
        # A task that is cancelled drops its reply, and the next ask has its own.
        late = engine.spawn(Slow)
        flood(late)
        slow = asyncio.ensure_future(late.read.ask_async(timeout=60))
        await asyncio.sleep(0)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert await late.read.ask_async(timeout=60) > 0
        assert await actors[1].read.ask_async(timeout=60) == 0

    # Each loop has its own way to be woken.
    asyncio.run(main())
    again = engine.spawn(Counter)

    async def other() -> int:
        result: int = await again.busy.ask_async(20_000, timeout=60)
        return result

    assert asyncio.run(other()) == again.busy.ask(20_000)
