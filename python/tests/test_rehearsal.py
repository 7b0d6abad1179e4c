"""Handlers that CPython runs in a rehearsal do what the engine's do."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path
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


HEAD = "import everwarp as ew\n"
#: Programs whose results do not depend on the order in which actors handle messages: what they add up is the same.
CLASS = """
@ew.actor(sends={sends}, mailbox=4095)
class P{number}:
    sum: ew.i64
    mixed: ew.u64
    asked: ew.i32
    ratio: ew.f64
    next: ew.actor_id

    def meet(self, next: ew.actor_id) -> None:
        self.next = next

    def begin(self, budget: ew.i64, key: ew.u64) -> None:
        self.sum += {add}
        self.mixed = (self.mixed + ew.random_bits(key, {number})) & 0xFFFF_FFFF_FFFF_FFFF
        self.ratio += {ratio}
        if budget > 0:
            {first}
            {second}

    def reply_to(self, budget: ew.i64, key: ew.u64) -> ew.i32:
        self.asked += 1
        return {reply}

    def took(self, value: ew.i32, note: ew.u32) -> None:
        self.sum += value * {scale} + note

    def born(self, budget: ew.i64, key: ew.u64) -> None:
        ew.parent().took.tell({born}, budget)
        self.stop()

    def get_sum(self) -> ew.i64:
        return self.sum

    def get_mixed(self) -> ew.u64:
        return self.mixed

    def get_asked(self) -> ew.i32:
        return self.asked

    def get_ratio(self) -> ew.f64:
        return self.ratio
"""
ACTIONS = (
    "self.next.begin.tell(budget - 1, (key * {odd} + {number}) & 0xFFFF_FFFF)",
    "self.begin.tell(budget - {step}, key + {number})",
    "self.next.reply_to.ask(budget, key, then=self.took, note=budget * {number})",
    "self.reply_to.ask(budget, key, then=self.took)",
    "ew.spawn(P{number}).born.tell(budget, key)",
    "self.begin(budget - 2, key ^ {number})",
    "self.took({small}, budget)",
)


def program(number: int) -> str:
    pick = random.Random(number)
    words = {
        "number": number + 1,
        "odd": 2 * pick.randrange(2, 9) + 1,
        "step": pick.randrange(1, 4),
        "small": pick.randrange(-9, 10),
    }
    return CLASS.format(
        sends=12,
        number=number + 1,
        add=pick.choice(["budget", "budget * 3 - 1", "key % 17", "1 if key % 2 == 0 else -budget"]),
        # Sums of such floats are exact, so that their order does not matter.
        ratio=pick.choice(["0.5", "budget / 2", "float(key % 8)", "-0.25"]),
        reply=pick.choice(["budget - self.asked * 0", "ew.i64(key % 100) - 50", "min(budget, 3)"]),
        scale=pick.randrange(-3, 4),
        born=pick.choice(["key % 50", "budget * 2", "-1"]),
        first=pick.choice(ACTIONS).format(**words),
        second=pick.choice(ACTIONS).format(**words),
    )


def test_generated_programs_of_actors_compute_the_same_in_cpython(tmp_path: Path) -> None:
    file = tmp_path / "programs.py"
    count = 40
    file.write_text(HEAD + "".join(program(number) for number in range(count)))
    spec = importlib.util.spec_from_file_location("generated_actors", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def play(spawn: Any, settle: Any, cls: Any, key: int) -> Any:
        actors = spawn(cls, 5)
        for at in range(5):
            actors[at].meet.tell(actors[(at + 1) % 5])
        settle()
        actors.begin.tell([3, 4, 5, 6, 7], [key + at for at in range(5)])
        settle()
        return [actors.get_sum.ask(), actors.get_mixed.ask(), actors.get_asked.ask(), actors.get_ratio.ask()]

    different = set()
    with ew.engine("cpu", size=2) as engine:
        for number in range(count):
            cls = getattr(module, f"P{number + 1}")

            def spawn(cls: Any, many: int) -> Any:
                return engine.spawn(cls, many, capacity=1 << 12, messages=1 << 14)

            one, two = ew.Rehearsal(), ew.Rehearsal(number)
            ran = play(spawn, engine.settle, cls, 1000 + number)
            assert ran == play(one.spawn, one.settle, cls, 1000 + number), program(number)
            assert ran == play(two.spawn, two.settle, cls, 1000 + number), program(number)
            assert one.failures() == [] and engine.failures() == []
            different.add(repr(ran))
    # Programs that do nothing would agree, too.
    assert len(different) > count // 2
