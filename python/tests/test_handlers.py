"""Handlers that ask, spawn, set timers and call each other, against what the same program gives in plain Python."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import everwarp as ew
import numpy as np
import pytest
from conftest import until


@ew.actor(sends=4)
class Asker:
    """Asks others, and keeps what they say."""

    value: ew.i64
    small: ew.i8
    ratio: ew.f32
    got: ew.i64
    notes: ew.i64
    reasons: ew.i64
    last: ew.f64

    def put(self, value: ew.i64, small: ew.i8, ratio: ew.f32) -> None:
        self.value, self.small, self.ratio = value, small, ratio

    def read(self, times: ew.i64) -> ew.i64:
        assert times != 13
        return self.value * times

    def read_small(self) -> ew.i8:
        return self.small

    def read_ratio(self, more: ew.f32) -> ew.f32:
        return self.ratio + more

    def ask_value(self, other: ew.actor_id, times: ew.i64, note: ew.u32) -> None:
        other.read.ask(times, then=self.add, failed=self.lost, note=note)

    def ask_all(self, one: ew.actor_id, two: ew.actor_id) -> None:
        one.read.ask(2, then=self.add)
        two.read_small.ask(then=self.add_small, note=7)
        two.read_ratio.ask(0.5, then=self.keep)
        self.read.ask(3, then=self.add, note=1)

    def ask_without_failed(self, other: ew.actor_id) -> None:
        other.read.ask(1, then=self.add)

    def add(self, value: ew.i64, note: ew.u32) -> None:
        self.got += value
        self.notes += note

    def add_small(self, value: ew.i8, note: ew.i64) -> None:
        self.add(value, note)

    def keep(self, value: ew.f32) -> None:
        self.last = value

    def lost(self, reason: ew.u32, note: ew.u32) -> None:
        self.reasons = self.reasons * 10 + reason + 1
        self.notes += note

    def get_got(self) -> ew.i64:
        return self.got

    def get_notes(self) -> ew.i64:
        return self.notes

    def get_reasons(self) -> ew.i64:
        return self.reasons

    def get_last(self) -> ew.f64:
        return self.last


def test_replies_reach_the_method_that_takes_them(engine: ew.Engine) -> None:
    asker, one, two = engine.spawn(Asker, 3)
    asker.put.tell(1000, 0, 0.0)
    one.put.tell(5, 1, 0.25)
    two.put.tell(7, -100, 0.1)
    asker.ask_value.tell(one, 11, (1 << 24) - 1)
    engine.settle()
    assert (asker.get_got.ask(), asker.get_notes.ask()) == (55, (1 << 24) - 1)
    asker.ask_all.tell(one, two)
    engine.settle()
    assert asker.get_got.ask() == 55 + 10 - 100 + 3000
    assert asker.get_notes.ask() == (1 << 24) - 1 + 7 + 1
    assert asker.get_last.ask() == float(np.float32(np.float32(0.1) + 0.5))


def test_an_ask_without_a_reply_says_why(engine: ew.Engine) -> None:
    asker, gone, failing = engine.spawn(Asker, 3)
    gone.kill()
    asker.ask_value.tell(gone, 1, 3)
    engine.settle()
    asker.ask_value.tell(failing, 13, 4)
    engine.settle()
    assert (asker.get_reasons.ask(), asker.get_notes.ask(), asker.get_got.ask()) == (14, 7, 0)
    line = line_of("other.read.ask(1, then=self.add)")
    asker.ask_without_failed.tell(gone)
    engine.settle()
    wanted = f"no reply to `read`, and the ask has no `failed`: the actor does not live, line {line}"
    with pytest.raises(ew.ActorGone, match=re.escape(wanted)):
        asker.get_got.ask()


def test_a_note_that_does_not_fit_fails_the_handler(engine: ew.Engine) -> None:
    asker, other = engine.spawn(Asker, 2)
    asker.ask_value.tell(other, 1, 1 << 24)
    engine.settle()
    line = line_of("other.read.ask(times, then=self.add, failed=self.lost, note=note)")
    with pytest.raises(ew.ActorGone, match=f"OverflowError: the value does not fit its type, line {line}"):
        asker.get_got.ask()


@ew.actor(sends=3)
class Node:
    """A tree: each node asks its children for the sum of their leaves, and tells its parent."""

    waits: ew.u8
    total: ew.u64
    level: ew.u8

    def grow(self, level: ew.u8, number: ew.u64) -> None:
        self.level = level
        if level == 0:
            ew.parent().add.tell(number)
            self.stop()
            return
        self.waits = 2
        for i in range(2):
            child = ew.spawn(Node)
            child.grow.tell(level - 1, 2 * number + i)

    def add(self, number: ew.u64) -> None:
        self.total += number
        self.waits -= 1
        if self.waits == 0 and ew.parent() != 0:
            ew.parent().add.tell(self.total)
            self.stop()

    def sum(self) -> ew.u64:
        return self.total

    def alone(self) -> ew.boolean:
        return self.waits == 0


def test_handlers_spawn_and_their_children_report() -> None:
    with ew.engine("cpu", size=2) as engine:
        root = engine.spawn(Node, capacity=1 << 12)
        root.grow.tell(10, 0)
        engine.settle()
        assert root.alone.ask()
        assert root.sum.ask() == sum(range(1024))


def test_without_room_for_a_child_the_handler_fails_and_says_so() -> None:
    with ew.engine("cpu", size=1) as engine:
        root = engine.spawn(Node, capacity=4, messages=64)
        root.grow.tell(10, 0)
        engine.settle()
        line = line_of("child = ew.spawn(Node)")
        assert any(f"no room for another actor: give the first `spawn` of the class a larger `capacity`, line {line}" in reason
                   for reason in engine.failures())  # fmt: skip


@ew.actor(sends=2)
class Clock:
    ticks: ew.i64
    sum: ew.i64
    timer: ew.timer_id
    own: ew.actor_id
    cancelled: ew.boolean

    def begin(self, seconds: ew.f64, step: ew.i64) -> None:
        self.own = self.id
        self.timer = self.tick.every(seconds, step)

    def tick(self, step: ew.i64) -> None:
        self.ticks += 1
        self.sum += step
        if self.ticks == 3:
            self.cancelled = self.timer.cancel()

    def once(self, seconds: ew.f64, step: ew.i64) -> None:
        self.tick.after(seconds, step)

    def many(self) -> None:
        for _ in range(65):
            self.tick.after(3600, 1)

    def foreign(self, timer: ew.timer_id) -> ew.boolean:
        return timer.cancel()

    def get_timer(self) -> ew.timer_id:
        return self.timer

    def get_own(self) -> ew.actor_id:
        return self.own

    def get_ticks(self) -> ew.i64:
        return self.ticks

    def get_sum(self) -> ew.i64:
        return self.sum

    def get_cancelled(self) -> ew.boolean:
        return self.cancelled


def test_handlers_set_and_cancel_timers(engine: ew.Engine) -> None:
    clock = engine.spawn(Clock)
    clock.begin.tell(0.002, 5)
    assert until(lambda: clock.get_ticks.ask() >= 3)
    assert clock.get_cancelled.ask() and clock.get_own.ask() == clock.id
    # The timer is cancelled after three ticks, and a single later one comes from another timer.
    clock.once.tell(0, 100)
    assert until(lambda: clock.get_sum.ask() == 115)
    assert clock.get_ticks.ask() == 4


def test_a_timer_is_never_early(engine: ew.Engine) -> None:
    clock = engine.spawn(Clock)
    begin = time.monotonic()
    clock.once.tell(0.05, 1)
    assert until(lambda: clock.get_ticks.ask() == 1)
    assert time.monotonic() - begin >= 0.05


@pytest.mark.parametrize("seconds", [-0.5, float("nan"), float("inf"), 1e10])
def test_a_time_that_is_none_fails_the_handler(engine: ew.Engine, seconds: float) -> None:
    clock = engine.spawn(Clock)
    clock.once.tell(seconds, 1)
    engine.settle()
    with pytest.raises(ew.ActorGone, match=f"ValueError.*line {line_of('self.tick.after(seconds, step)')}"):
        clock.get_ticks.ask()


def test_an_actor_has_64_timers_and_cancels_only_its_own(engine: ew.Engine) -> None:
    clock, other = engine.spawn(Clock, 2)
    clock.begin.tell(3600.0, 1)
    timer = clock.get_timer.ask()
    assert timer != 0 and not other.foreign.ask(timer)
    assert clock.foreign.ask(timer) and not clock.foreign.ask(timer)
    other.many.tell()
    engine.settle()
    with pytest.raises(ew.ActorGone, match="64 timers that are still to come, which is the limit: cancel some first"):
        other.get_ticks.ask()


@ew.actor(sends=6)
class Router:
    count: ew.i64
    last: ew.actor_id
    silent: ew.i64

    def weigh(self, weight: ew.i64) -> ew.i64:
        self.last = ew.sender()
        return weight + self.count

    def set(self, count: ew.i64) -> None:
        self.count = self.doubled(count) + self.doubled(1)

    def doubled(self, value: ew.i64) -> ew.i64:
        return 2 * value

    def get_last(self) -> ew.actor_id:
        return self.last

    def end(self, one: ew.actor_id, two: ew.actor_id) -> None:
        one.stop()
        two.kill()

    def ask_in_time(self, to: ew.actor_id, seconds: ew.f64) -> None:
        to.weigh.ask(1, then=self.arrived, failed=self.late, timeout=seconds, note=2)

    def arrived(self, weight: ew.i64) -> None:
        self.count += weight

    def late(self, reason: ew.u32) -> None:
        self.silent = reason

    def get_silent(self) -> ew.i64:
        return self.silent


def test_methods_call_each_other_and_know_the_sender(engine: ew.Engine) -> None:
    router = engine.spawn(Router)
    router.set.tell(20)
    assert router.weigh.ask(1) == 43
    assert router.get_last.ask() == 0


def test_a_forwarded_ask_is_replied_from_there(engine: ew.Engine) -> None:
    @ew.actor
    class Passes:
        n: ew.i64

        def set(self, n: ew.i64) -> None:
            self.n = n

        def scaled(self, to: ew.actor_id, by: ew.i64) -> ew.i64:
            if to != self.id:
                ew.forward(to)
            return self.n * by

    one, two = engine.spawn(Passes, 2)
    one.set.tell(3)
    two.set.tell(100)
    assert one.scaled.ask(one, 5) == 15
    assert one.scaled.ask(two, 5) == 500
    two.kill()
    with pytest.raises(ew.ActorFailed, match="the actor does not live"):
        one.scaled.ask(two, 5)


def test_handlers_end_other_actors(engine: ew.Engine) -> None:
    router, one, two = engine.spawn(Router, 3)
    monitors = [one.monitor(), two.monitor()]
    router.end.tell(one, two)
    assert [monitor.wait(60) for monitor in monitors] == ["stopped", "killed"]


def test_an_ask_with_a_timeout_ends(engine: ew.Engine) -> None:
    router, other = engine.spawn(Router, 2)
    router.ask_in_time.tell(other, 3600)
    engine.settle()
    assert router.weigh.ask(0) == 1
    other.deactivate()
    router.ask_in_time.tell(other, 0.01)
    assert until(lambda: router.get_silent.ask() == 5)
    other.activate()
    engine.settle()
    assert router.weigh.ask(0) == 1


PROGRAM = """
import everwarp as ew
@ew.struct
class Point:
    x: ew.i64
@ew.actor
class A:
    n: ew.i64
    def f(self) -> None: pass
    def get(self) -> ew.i64: return self.n
    def got(self, value: ew.i64) -> None: self.n = value
    def wide(self, a: ew.i64, b: ew.i64, c: ew.i64, d: ew.i64, e: ew.i64) -> None: pass
    def g(self, to: ew.actor_id, ratio: ew.f64) -> None:
        {line}
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("to.get.ask()", "a handler does not wait: name the method that takes the reply, as in `get.ask(then=self.got)`"),
        ("x = to.get.ask()", "a handler does not wait"),
        ("to.f.ask(then=self.got)", "`f` returns nothing: send it with tell"),
        ("to.get.ask(then=self.f)", "`f` takes the reply of `get`: write `def f(self, result: everwarp.i64)`"),
        ("to.get.ask(then=self.missing)", "`then` is a method of this class: write `then=self.NAME`; there are f, get, got"),
        ("to.get.ask(then=to)", "`then` is a method of this class"),
        ("to.get.ask(then=self.got, failed=self.get)", "`get` learns that there is no reply"),
        ("to.get.ask(then=self.got, within=3)", "`ask` takes `then`, `failed`, `note`, `timeout` by name, and not `within`"),
        ("to.get.ask(5, then=self.got)", "`get` takes 0 values: nothing"),
        ("to.get.ask(then=self.got, note=1.5)", "an integer is needed, and this is a float"),
        ("to.got.tell(value=1)", "write the arguments without names"),
        ("to.f.after(1.5)", "write `self.f.after(...)`, and tell the other actor then"),
        ("self.f.after()", "`after` takes the seconds first"),
        ("self.wide.every(1, 1, 2, 3, 4, 5)", "the message of a timer has up to 4 fields, and `wide` has 5"),
        ("self.got.after(1.0)", "`got` takes 1 values: value"),
        ("self.cancel()", "an actor is no timer"),
        ("ratio.cancel()", "`cancel` is for an everwarp.timer_id, and this is a float"),
        ("ratio.kill()", "`kill` is for an everwarp.actor_id, and this is a float"),
        ("to.kill(3)", "`kill` takes no arguments"),
        ("ew.spawn(Point)", "`ew.spawn` takes a class with @everwarp.actor: write `ew.spawn(A)`"),
        ("ew.spawn(A, 3)", "`ew.spawn` takes a class with @everwarp.actor"),
        ("ew.forward()", "takes the actor that the message goes to"),
        ("self.absent(3)", "the class has no method `absent`; there are f, get, got"),
        ("self.got(3, 4)", "`got` takes 2 arguments: self, value"),
    ],
)
def test_wrong_uses_are_errors_at_their_line(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(line=line))
    number = file.read_text().splitlines().index(f"        {line}") + 1
    space: dict[str, Any] = {"__name__": "program"}
    with pytest.raises(ew.Unsupported, match=re.escape(message)) as error:
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), space)
    assert error.value.lineno == number


@pytest.mark.parametrize("line", ["to.got.tell(1)", "to.kill()", "ew.sender()", "ew.spawn(f)", "ew.forward(to)"])
def test_functions_are_no_handlers(line: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(f"import everwarp as ew\n@ew.function\ndef f(to: ew.actor_id) -> None:\n    {line}\n")
    with pytest.raises(ew.Unsupported, match="which only the handlers of an actor do"):
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), {"__name__": "program"})


def test_outside_of_handlers_these_calls_say_what_they_are_for() -> None:
    for call in (ew.sender, ew.parent, lambda: ew.spawn(Node), lambda: ew.forward(0)):
        with pytest.raises(RuntimeError, match="is for the handlers of an actor: spawn the class and send"):
            call()


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)
