"""Topics, streams, keys and deactivated actors."""

from __future__ import annotations

import asyncio

import everwarp as ew
import numpy as np
import pytest
from conftest import until


@ew.actor(mailbox=4)
class Listener:
    sum: ew.i64
    heard: ew.i64
    lost: ew.u64

    def say(self, n: ew.i64) -> None:
        self.sum += n
        self.heard += 1

    def missed(self, count: ew.u64) -> None:
        self.lost += count

    def pass_on(self, to: ew.actor_id, first: ew.i64, count: ew.i64) -> None:
        for n in range(count):
            to.say.tell(first + n)

    def total(self) -> ew.i64:
        return self.sum

    def count(self) -> ew.i64:
        return self.heard

    def losses(self) -> ew.u64:
        return self.lost


def test_a_topic_passes_messages_on_to_its_subscribers(engine: ew.Engine) -> None:
    first, second, third = engine.spawn(Listener, 3)
    topic = engine.topic(Listener)
    assert topic.subscribers == 0 and "topic of Listener with 0" in repr(topic)
    topic.say.tell(100)
    engine.settle()
    topic.subscribe(first)
    topic.subscribe(second)
    topic.subscribe(first)
    assert topic.subscribers == 2
    topic.say.tell(5)
    # Handlers publish, too.
    third.pass_on.tell(topic, 10, 3)
    engine.settle()
    assert [actor.total.ask() for actor in (first, second, third)] == [38, 38, 0]
    assert topic.unsubscribe(second) == 1 and topic.unsubscribe(second) == 0
    topic.say.tell(1)
    engine.settle()
    assert [actor.total.ask() for actor in (first, second)] == [39, 38]
    first.kill()
    topic.say.tell(1)
    assert until(lambda: topic.subscribers == 0)
    with pytest.raises(ew.ActorFailed):
        topic.total.ask()


def test_a_slow_subscriber_misses_messages_and_is_notified(engine: ew.Engine) -> None:
    slow, fast = engine.spawn(Listener, 2)
    topic = engine.topic(Listener)
    topic.subscribe(slow, "misses")
    topic.subscribe(fast)
    slow.deactivate()
    for n in range(20):
        topic.say.tell(n)
        engine.settle()
    assert fast.count.ask() == 20
    slow.activate()
    engine.settle()
    assert slow.count.ask() == 4
    topic.say.tell(0)
    assert until(lambda: slow.count.ask() == 5 and slow.losses.ask() == 16)
    for wrong in ("drops", None):
        with pytest.raises(ValueError, match='"waits" or "misses"'):
            topic.subscribe(slow, wrong)  # type: ignore[arg-type]


def test_what_actors_send_to_an_outlet_comes_out(engine: ew.Engine) -> None:
    sender = engine.spawn(Listener)
    with engine.outlet(Listener, credits=3) as outlet:
        assert outlet.next(0.01) is None and not outlet.closed
        for first in range(0, 40, 4):
            sender.pass_on.tell(outlet, first, 4)
        found = [outlet.next(60) for _ in range(40)]
        assert [item and item.values for item in found] == [(n,) for n in range(40)]
        assert all(item and item.sender == sender.id and item.message == "say" for item in found)
        outlet.say.tell(7)
        last = asyncio.run(outlet.next_async(60))
        assert last is not None and (last.sender, last.values) == (0, (7,))
        outlet.kill()
        assert list(outlet.received()) == [] and outlet.closed
    with pytest.raises(ew.ActorGone, match="closed"):
        outlet.next()
    with pytest.raises(ew.ActorGone):
        outlet.say.tell(1)


def test_an_inlet_carries_arrays_in_their_order(engine: ew.Engine) -> None:
    receiver, relay = engine.spawn(Listener, 2)
    outlet = engine.outlet(Listener)
    with engine.inlet(outlet, credits=5) as to_outlet:
        to_outlet.say.send(np.arange(300))
        assert [item and item.values for item in (outlet.next(60) for _ in range(300))] == [(n,) for n in range(300)]
    with engine.inlet(receiver, credits=5) as inlet:
        inlet.say.send(np.arange(1000))
        inlet.say.send([1, 2, 3])
        asyncio.run(inlet.say.send_async(4))
        assert inlet.flush(60)
        assert until(lambda: receiver.count.ask() == 1004)
        assert receiver.total.ask() == 999 * 500 + 10
        receiver.deactivate()
        with pytest.raises(TimeoutError, match="of 100 messages were sent within 0.05 s"):
            inlet.say.send(range(100), timeout=0.05)
        receiver.kill()
        with pytest.raises(ew.ActorGone):
            for _ in range(10_000):
                inlet.say.send(1)
        with pytest.raises(AttributeError, match="handles no message 'shout'"):
            inlet.shout.send(1)
        with pytest.raises(OverflowError):
            inlet.say.send(2**63)
    with pytest.raises(ew.ActorGone, match="closed"):
        inlet.say.send(1)
    with pytest.raises(TypeError, match="single actor"):
        engine.inlet(5)  # type: ignore[arg-type]
    for make in (lambda: engine.outlet(Listener, 0), lambda: engine.inlet(relay, 0)):
        with pytest.raises(ValueError, match="one credit"):
            make()


def test_a_deactivated_actor_keeps_its_messages(engine: ew.Engine) -> None:
    actors = engine.spawn(Listener, 3)
    actors.deactivate()
    actors.say.tell([1, 2, 3])
    engine.settle()
    with pytest.raises(TimeoutError):
        actors[0].total.ask(timeout=0.02)
    actors.activate()
    assert actors.total.ask() == [1, 2, 3]


def test_the_first_use_of_a_key_makes_its_actor() -> None:
    with ew.engine("cpu", size=1) as engine:
        ada = engine.at(Listener, 7, capacity=4)
        ada.say.tell(5)
        assert engine.at(Listener, 7).id == ada.id and engine.at(Listener, 8).id != ada.id
        assert engine.at(Listener, 7).total.ask() == 5
        ada.kill()
        assert until(lambda: engine.at(Listener, 7).id != ada.id)
        assert engine.at(Listener, 2**64 - 1).total.ask() == 0
        engine.at(Listener, 0)
        with pytest.raises(ew.StartFailed, match="room for 4 actors"):
            engine.at(Listener, 1)
        for wrong in (-1, 2**64):
            with pytest.raises(ValueError, match="a key is from 0"):
                engine.at(Listener, wrong)
        with pytest.raises(TypeError):
            engine.at(Listener, "ada")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="decorated"):
            engine.at(int, 1)


def test_streams_and_topics_end_with_their_engine() -> None:
    with ew.engine("cpu", size=1) as engine:
        actor = engine.spawn(Listener)
        topic, outlet, inlet = engine.topic(Listener), engine.outlet(Listener), engine.inlet(actor)
        timer, letters = actor.say.every(0.001, 1), engine.dead_letters(Listener)
        group = engine.supervise(actor)
    for use in (
        lambda: topic.say.tell(1),
        lambda: topic.subscribe(actor),
        outlet.next,
        lambda: inlet.say.send(1),
        inlet.flush,
        timer.cancel,
        lambda: [letters.next(1) for _ in range(10_000)],
        lambda: group.restarts,
        lambda: engine.topic(Listener),
        lambda: engine.at(Listener, 1),
        lambda: engine.supervise(actor),
        actor.activate,
    ):
        with pytest.raises(ew.EngineClosed, match="use it|use them"):
            use()
    outlet.close()
    inlet.close()


def test_ask_array_returns_an_array_of_the_results_type(engine: ew.Engine) -> None:
    @ew.actor
    class Types:
        n: ew.i64

        def small(self, x: ew.i8) -> ew.i8:
            return x

        def wide(self, x: ew.u32) -> ew.u32:
            return x

        def signed(self, x: ew.i64) -> ew.i64:
            return x

        def half(self, x: ew.f32) -> ew.f32:
            return x

        def exact(self, x: ew.f64) -> ew.f64:
            return x

        def odd(self, x: ew.i64) -> ew.boolean:
            return x % 2 == 1

    actors = engine.spawn(Types, 3000)
    for name, dtype in (("small", "i1"), ("wide", "u4"), ("signed", "i8"), ("half", "f4"), ("exact", "f8")):
        values = (np.arange(3000) - (0 if name == "wide" else 1500)) % 128 - (0 if name == "wide" else 64)
        given = values.astype(dtype)
        found = actors.message(name).ask_array(given)
        assert found.dtype == np.dtype(dtype) and (found == given).all(), name
        assert actors.message(name).ask(given) == given.tolist(), name
    assert actors.odd.ask_array(np.arange(3000)).tolist() == [n % 2 == 1 for n in range(3000)]

    async def main() -> None:
        found = await actors.signed.ask_array_async(np.arange(3000))
        assert found.dtype == np.int64 and found.tolist() == list(range(3000))
        assert await actors[:3].signed.ask_async([4, 5, 6]) == [4, 5, 6]

    asyncio.run(main())
    # The same actor twice, so that the order matters: both are asked, one after the other.
    twice = ew.Actors(actors._class, actors._system, memoryview(np.array([actors[0].id, actors[1].id, actors[0].id], "u8")), False)
    assert twice.signed.ask([1, 2, 3]) == [1, 2, 3]


def test_asks_of_asyncio_are_futures_and_coroutines(engine: ew.Engine) -> None:
    actors = engine.spawn(Listener, 4)
    actors.say.tell([1, 2, 3, 4])

    async def main() -> None:
        assert await asyncio.create_task(actors[0].total.ask_async()) == 1
        assert await asyncio.wait_for(actors[1].total.ask_async(), 60) == 2
        async with asyncio.timeout(60):
            assert await asyncio.shield(actors[2].total.ask_async()) == 3
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(actor.total.ask_async()) for actor in actors]
        assert [task.result() for task in tasks] == [1, 2, 3, 4]
        with pytest.raises(TypeError, match="takes nothing"):
            await actors[0].total.ask_async(3)
        with pytest.raises(TypeError, match="returns nothing"):
            await actors[0].say.ask_async(3)
        with pytest.raises(ValueError, match="timeout"):
            await actors[0].total.ask_async(timeout=float("nan"))
        ended = actors[3].total.ask_async()
        ended.close()
        assert await actors[3].total.ask_async() == 4

    asyncio.run(main())
    assert asyncio.run(actors[1].total.ask_async()) == 2


def test_full_mailboxes_delay_asks_of_asyncio(engine: ew.Engine) -> None:
    actor = engine.spawn(Listener)

    async def main() -> list[int]:
        # Many more than the mailbox of four holds.
        return await asyncio.gather(*(actor.total.ask_async(timeout=60) for _ in range(200)))

    assert asyncio.run(main()) == [0] * 200


def test_an_engine_that_is_closed_ends_asks_of_asyncio() -> None:
    async def main() -> None:
        engine = ew.engine("cpu", size=1)
        actor = engine.spawn(Listener)
        actor.deactivate()
        ask = asyncio.ensure_future(actor.total.ask_async(timeout=60))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(engine.close)
        with pytest.raises((ew.EngineClosed, ew.ActorError)):
            await ask
        with pytest.raises(ew.EngineClosed):
            await actor.total.ask_async()

    asyncio.run(main())
