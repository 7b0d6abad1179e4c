"""Handlers that CPython runs in a rehearsal do what the engine's do."""

from __future__ import annotations

import re
from typing import Any

import everwarp as ew
import pytest
from test_handlers import Asker, Clock, Node, Router


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_asks_spawns_and_calls_do_what_they_do_on_an_engine(seed: int | None) -> None:
    stage = ew.Rehearsal(seed)
    asker, one, two = stage.spawn(Asker, 3)
    asker.put.tell(1000, 0, 0.0)
    one.put.tell(5, 1, 0.25)
    two.put.tell(7, -100, 0.1)
    stage.settle()
    asker.ask_value.tell(one, 11, (1 << 24) - 1)
    asker.ask_all.tell(one, two)
    stage.settle()
    assert asker.get_got.ask() == 55 + 10 - 100 + 3000
    assert asker.get_notes.ask() == (1 << 24) - 1 + 7 + 1
    assert asker.get_last.ask() == ew.f32(ew.f32(0.1) + 0.5)
    two.kill()
    asker.ask_value.tell(two, 1, 3)
    asker.ask_value.tell(one, 13, 4)
    stage.settle()
    assert sorted(str(asker.get_reasons.ask())) == ["1", "4"]
    assert "AssertionError" in stage.failures()[0]

    root = stage.spawn(Node)
    root.grow.tell(6, 0)
    stage.settle()
    assert root.alone.ask() and root.sum.ask() == sum(range(64))

    router, left, right = stage.spawn(Router, 3)
    router.set.tell(20)
    assert router.weigh.ask(1) == 43 and router.get_last.ask() == 0
    router.end.tell(left, right)
    stage.settle()
    assert not stage.alive(left.id) and not stage.alive(right.id)


def test_time_stands_still_until_it_is_let_go() -> None:
    stage = ew.Rehearsal()
    clock = stage.spawn(Clock)
    clock.begin.tell(2.0, 5)
    stage.advance(5.9)
    assert (clock.get_ticks.ask(), clock.get_own.ask()) == (2, clock.id)
    stage.advance(0.2)
    assert clock.get_ticks.ask() == 3 and clock.get_cancelled.ask()
    stage.advance(100)
    assert clock.get_ticks.ask() == 3
    clock.many.tell()
    stage.settle()
    assert "64 timers" in stage.failures()[0] and not stage.alive(clock.id)


def test_a_deadline_ends_an_ask_once() -> None:
    stage = ew.Rehearsal()
    router, other = stage.spawn(Router, 2)
    router.ask_in_time.tell(other, 3600)
    stage.settle()
    assert router.weigh.ask(0) == 1
    stage.advance(4000)
    assert router.get_silent.ask() == 0


@ew.actor(restarts=(2, 60), retries=1, atomic=True)
class Careful:
    done: ew.i64
    left: ew.i64

    def set(self, left: ew.i64) -> None:
        self.left = left

    def work(self, other: ew.actor_id) -> None:
        self.done += 1
        other.set.tell(self.done)
        assert self.left == 0

    def get(self) -> ew.i64:
        return self.done * 100 + self.left


def test_what_follows_a_failure_is_the_same(engine: ew.Engine) -> None:
    def play(spawn: Any, settle: Any) -> list[Any]:
        careful, other = spawn(Careful, 2)
        seen = []
        careful.set.tell(5)
        careful.work.tell(other)  # twice: it is handled again
        settle()
        seen += [careful.get.ask(), other.get.ask()]
        careful.set.tell(0)
        careful.work.tell(other)
        settle()
        seen += [careful.get.ask(), other.get.ask()]
        careful.set.tell(7)
        careful.work.tell(other)
        settle()
        with pytest.raises(ew.ActorGone):
            careful.get.ask()
        return seen

    stage = ew.Rehearsal()
    assert play(stage.spawn, stage.settle) == play(engine.spawn, engine.settle) == [5, 0, 100, 1]


def test_wrong_uses_are_errors_in_a_rehearsal(engine: ew.Engine) -> None:
    stage = ew.Rehearsal(capacity=2)
    asker, other = stage.spawn(Asker, 2)
    with pytest.raises(MemoryError, match="larger `capacity`"):
        stage.spawn(Asker)
    with pytest.raises(TypeError, match="get_got returns nothing|add returns nothing"):
        asker.add.ask(1, 2)
    with pytest.raises(AttributeError, match="handles no message 'missing'"):
        asker.missing.tell()
    with pytest.raises(OverflowError, match="does not fit i8"):
        asker.put.tell(1, 200, 0.0)
    asker.ask_value.tell(other, 1, 1 << 24)
    stage.settle()
    assert stage.failures() == ["OverflowError: the value does not fit its type"]
    with pytest.raises(ew.ActorGone):
        asker.get_got.ask()
    with pytest.raises(AttributeError, match=re.escape("in handlers only: see everwarp.Rehearsal")):
        ew.actor_id(3).deposit.tell(1)
    # To the engine it is a number like others.
    one, two = engine.spawn(Router, 2)
    one.end.tell(ew.actor_id(two.id), ew.actor_id(two.id))
    assert two.monitor().wait(60) in ("stopped", "killed", "unknown")
