"""Objects that are used where they cannot be: after a fork, on another engine, and values that are none."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import everwarp as ew
import numpy as np
import pytest
from conftest import ENDLESS


@ew.actor
class Account:
    balance: ew.i64
    ratio: ew.f64
    friend: ew.actor_id

    def deposit(self, amount: ew.i64) -> None:
        self.balance += amount

    def read(self) -> ew.i64:
        return self.balance

    def scale(self, ratio: ew.f64) -> None:
        self.ratio = ratio

    def meet(self, friend: ew.actor_id) -> None:
        self.friend = friend

    def knows(self, friend: ew.actor_id) -> ew.boolean:
        return self.friend == friend


@ew.actor
class Stranger:
    n: ew.i64

    def hello(self) -> None:
        pass


@ew.function
def double(a: ew.array(ew.f32, 4), b: ew.array(ew.f32, 4)) -> None:  # type: ignore[valid-type]
    for i in range(4):
        b[i] = 2 * a[i]


@ew.function
def more(n: ew.i64) -> ew.i64:
    return n + 1


def uses(engine: ew.Engine) -> dict[str, Callable[[], Any]]:
    """Uses of an engine's objects, which are made here, before the fork."""
    actors = engine.spawn(Account, 3)
    one = actors[0]
    buffer = engine.buffer((4,), ew.f32)
    view = buffer.host
    ring = engine.ring_kernel(double)
    ring.launch()
    ring.activate()
    waiting = engine.ring_kernel(double)
    timer, monitor = one.deposit.after(3600, 1), one.monitor()
    letters, group = engine.dead_letters(Account), engine.supervise(actors[1:2])
    outlet, inlet, topic = engine.outlet(Account), engine.inlet(one), engine.topic(Account)
    module = ew.Module(ENDLESS, name="endless")
    processes = engine.start(module)
    return {
        "tell": lambda: actors.deposit.tell(1),
        "ask": lambda: one.read.ask(),
        "ask several": lambda: actors.read.ask(),
        "spawn": lambda: engine.spawn(Account),
        "at": lambda: engine.at(Account, 3),
        "settle": engine.settle,
        "stop": actors.stop,
        "kill": actors.kill,
        "deactivate": actors.deactivate,
        "register": lambda: one.register("ada"),
        "lookup": lambda: engine.lookup(Account, "ada"),
        "link": lambda: actors[0].link(actors[1]),
        "failures": engine.failures,
        "timer.cancel": timer.cancel,
        "monitor.wait": lambda: monitor.wait(30),
        "letters.next": lambda: letters.next(30),
        "letters.lost": lambda: letters.lost,
        "group.restarts": lambda: group.restarts,
        "group.end": group.end,
        "outlet.next": lambda: outlet.next(30),
        "outlet.closed": lambda: outlet.closed,
        "inlet.send": lambda: inlet.deposit.send([1, 2]),
        "topic.subscribe": lambda: topic.subscribe(actors),
        "topic.subscribers": lambda: topic.subscribers,
        "buffer.host": lambda: buffer.host,
        "buffer.device": lambda: buffer.device,
        "the host of a part": lambda: buffer[1:2].host,
        "an array of a view": lambda: np.asarray(view),
        "a memory view of a view": lambda: memoryview(view),
        "an element of a view": lambda: view[1],
        "an element of a view is set": lambda: view.__setitem__(1, 3.0),
        "a part of a view": lambda: memoryview(view[1:2]),
        "DLPack of a view": lambda: view.__dlpack__(),
        "Arrow's array of a view": lambda: view.__arrow_c_array__(),
        "a new buffer": lambda: engine.buffer((4,)),
        "ring.send": lambda: ring.send(np.zeros(4, np.float32)),
        "ring.receive": lambda: ring.receive(30),
        "ring.stats": lambda: ring.stats,
        "ring.launch": ring.launch,
        "ring.activate": ring.activate,
        "ring.deactivate": ring.deactivate,
        "ring.terminate": lambda: ring.terminate(30),
        "launch": waiting.launch,
        "a ring kernel's block": waiting.__enter__,
        "a new ring kernel": lambda: engine.ring_kernel(double),
        "start": lambda: engine.start(module),
        "run": lambda: engine.run(module),
        "processes.wait": lambda: processes.wait(30),
        "processes.poll": processes.poll,
        "processes.kill": processes.kill,
        "map": lambda: engine.map(more, [1, 2]),
        "ps": engine.ps,
        "run_program": lambda: engine.run_program("fib", n=5),
        "parked": lambda: engine.parked().__enter__(),
    }


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_every_use_in_the_child_of_a_fork_is_one_error() -> None:
    with ew.engine("cpu", size=2) as engine:
        all_uses = uses(engine)
        alone = ew.UnifiedBuffer((4,), ew.f32)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                # One that waits for a thread that the child does not have would wait for ever.
                signal.alarm(120)
                wrong = b""
                for name, use in all_uses.items():
                    try:
                        use()
                        wrong += f"{name} returned\n".encode()
                    except ew.ForkedError:
                        pass
                    except BaseException as error:
                        wrong += f"{name} raised {error!r}\n".encode()
                # Memory that belongs to no engine is the child's own.
                alone.host[1] = 5.0
                if alone.host[1] != 5.0:
                    wrong += b"a buffer without an engine\n"
                os.write(writes, wrong[:4096])
                os._exit(0)
            finally:
                os._exit(1)
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            wrong = pipe.read()
        assert (os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), wrong) == (0, b"")


async def asks(account: ew.Actors, value: Any) -> Any:
    return await account.knows.ask_async(value)


def test_actors_of_another_engine_or_class_are_no_values(engine: ew.Engine) -> None:
    account, friends = engine.spawn(Account), engine.spawn(Account, 2)
    stranger = engine.spawn(Stranger)
    with ew.engine("cpu", size=1) as another:
        foreign = another.spawn(Account, 2)
        for value, kind in ((foreign[0], "Account"), (stranger, "Stranger")):
            wanted = f"`friend` is an actor of {kind} on another engine, or of another program"
            for use in (
                lambda: account.meet.tell(value),
                lambda: account.knows.ask(value),
                lambda: asyncio.run(asks(account, value)),
                lambda: account.meet.after(1, value),
                lambda: friends.meet.tell([friends[0], value]),
            ):
                with pytest.raises(ew.WrongEngine, match=wanted):
                    use()
            with engine.inlet(account) as inlet, pytest.raises(ew.WrongEngine, match=wanted):
                inlet.meet.send([value])
        with pytest.raises(ew.WrongEngine):
            friends.meet.tell(foreign)
    account.meet.tell(friends[1])
    assert account.knows.ask(friends[1]) and not account.knows.ask(friends[0])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2, 3}, "`amount` is a set, whose values have no order: pass a list or an array"),
        (frozenset([1, 2, 3]), "`amount` is a set, whose values have no order"),
        ({1: 1, 2: 2, 3: 3}, "`amount` is a dictionary: pass a list or an array"),
        ({1: 1}.keys(), "`amount` is a set, whose values have no order"),
        (np.ma.array([1, 2, 3], mask=[False, True, False]), "`amount` is a masked array: pass array.filled(...)"),
        (np.ma.array([1, 2, 3]), "`amount` is a masked array"),
        (np.ones((3, 1), np.int64), "the array has 2 dimensions"),
        ([[1], [2], [3]], "is a value of the type list"),
        ((n for n in range(3)), "is a value of the type generator"),
    ],
)
def test_what_has_no_order_or_gaps_is_no_column(engine: ew.Engine, value: Any, message: str) -> None:
    accounts = engine.spawn(Account, 3)
    for use in (accounts.deposit.tell, lambda v: engine.inlet(accounts[0]).deposit.send(v)):
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            use(value)
    if "dimensions" not in message and "type" not in message:
        with pytest.raises(TypeError, match=re.escape(message.replace("amount", "n"))):
            engine.map(more, value)
    assert accounts.read.ask() == [0, 0, 0]


def test_a_masked_number_is_none(engine: ew.Engine) -> None:
    account = engine.spawn(Account)
    with pytest.raises(TypeError, match="`ratio` is a masked array"):
        account.scale.tell(np.ma.masked)
    with pytest.raises(TypeError):
        account.deposit.tell(np.ma.masked)


def test_a_buffer_of_another_engine_is_refused_by_every_call_of_a_ring_kernel(engine: ew.Engine) -> None:
    with ew.engine("cpu", size=1) as another, engine.ring_kernel(double) as ring:
        foreign, own = another.buffer((4,), ew.f32), engine.buffer((4,), ew.f32)
        for use in (
            lambda: ring.send(foreign),
            lambda: ring.send(own, out=foreign),
            lambda: ring.send(foreign.reshape((2, 2)).reshape((4,))),
            lambda: ring.try_send(foreign),
            lambda: ring.try_send(np.zeros(4, np.float32), out=foreign),
            lambda: engine.ring_kernel(double, state=None) and ring._own(foreign),
        ):
            with pytest.raises(ew.WrongEngine, match="belongs to another engine than the ring kernel `double`"):
                use()
        ring.send(own)
        assert list(ring.receive()) == [0.0] * 4
