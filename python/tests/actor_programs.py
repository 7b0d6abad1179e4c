"""Generates programs of one to three classes of actors, from a number.

What they compute does not depend on the order in which actors handle messages: they add up, and what they add depends on the
messages alone. So a rehearsal in CPython and an engine must agree.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HEAD = "import everwarp as ew\n"
CLASS = '''
@ew.actor(sends=16, mailbox=4095)
class {own}:
    sum: ew.i64
    mixed: ew.u64
    asked: ew.i32
    ratio: ew.f64
    did: ew.u32
    next: {next}
    any: ew.actor_id
    last: ew.reply_id

    def meet(self, next: {next}, any: ew.actor_id) -> None:
        self.next = next
        self.any = any

    def begin(self, budget: ew.i64, key: ew.u64) -> None:
        self.sum += {add}
        self.mixed = (self.mixed + ew.random_bits(key, {number})) & 0xFFFF_FFFF_FFFF_FFFF
        self.ratio += {ratio}
        if budget > 0:
            {first}
            {second}

    def weigh(self, budget: ew.i64, key: ew.u64) -> ew.{result}:
        self.asked += 1
        return {reply}

    def relay(self, budget: ew.i64, key: ew.u64) -> ew.i32:
        {forward}
        return {number} - budget

    def took_own(self, value: ew.{result}, note: ew.u32) -> None:
        self.sum += int(value) * {scale} + note

    def took_next(self, value: ew.{next_result}) -> None:
        self.sum += int(value) * {number}

    def took_relay(self, value: ew.i32, note: ew.u32) -> None:
        self.sum += value * 5 - note

    def lost(self, reason: ew.u32, note: ew.u32) -> None:
        self.sum += 1000 * reason + note

    def born(self, budget: ew.i64, key: ew.u64) -> None:
        if key % 2 == 0:
            ew.parent().add.tell({born})
        else:
            ew.sender().add.tell(budget)
        self.stop()

    def die(self, budget: ew.i64, key: ew.u64) -> ew.i32:
        assert budget < 0
        return 0

    def hold(self, budget: ew.i64, key: ew.u64) -> ew.{result}:
        kept = ew.keep()
        self.let_go.tell(kept, {reply})
        self.last = kept
        return {zero}

    def let_go(self, kept: ew.reply_id, value: ew.{result}) -> None:
        if not self.hold.reply(kept, value) or self.hold.reply(kept, value):
            self.sum += 1_000_000

    def hold_on(self, budget: ew.i64, key: ew.u64) -> ew.i32:
        self.last = ew.keep()
        if key % 2 == 0:
            self.stop()
        else:
            assert self.last == 0
        return 1

    def add(self, value: ew.i64) -> None:
        self.sum += value

    def get_sum(self) -> ew.i64:
        return self.sum

    def get_mixed(self) -> ew.u64:
        return self.mixed

    def get_asked(self) -> ew.i32:
        return self.asked

    def get_ratio(self) -> ew.f64:
        return self.ratio

    def get_did(self) -> ew.u32:
        return self.did
'''
#: The same without asks that are kept.
WITHOUT_KEPT = CLASS[: CLASS.index("    def hold(")] + CLASS[CLASS.index("    def add(") :]
#: What handlers do next. Each begins with a note that it ran.
ACTIONS = (
    "self.next.begin.tell(budget - 1, (key * {odd} + {number}) & 0xFFFF_FFFF)",
    "self.begin.tell(budget - {step}, key + {number})",
    "self.any.begin.tell(budget - 2, key + 7)",
    "self.weigh.ask(budget, key, then=self.took_own, note=budget * {number})",
    "self.next.weigh.ask(budget, key, then=self.took_next)",
    "self.next.relay.ask(budget - 1, key, then=self.took_relay, note={step})",
    "ew.spawn({own}).born.tell(budget, key)",
    "child = ew.spawn({next}); child.born.tell(budget, key)",
    "mortal = ew.spawn({next}); mortal.die.ask(budget, key, then=self.took_relay, failed=self.lost, note=budget)",
    "last = ew.spawn({own}); last.stop(); last.weigh.ask(budget, key, then=self.took_own, failed=self.lost, note=3)",
    "self.hold.ask(budget, key, then=self.took_own, note=budget)",
    "self.next.hold.ask(budget, key, then=self.took_next)",
    "other = ew.spawn({next}); other.hold_on.ask(budget, key, then=self.took_relay, failed=self.lost, note=budget * 2)",
    "self.begin(budget - 2, key ^ {number})",
    "self.took_own({small}, budget)",
)
#: Those that actors on a GPU have: functions do not call themselves.
ON_A_GPU = tuple(at for at, action in enumerate(ACTIONS) if not action.startswith("self.begin("))
#: What `weigh` returns, by the type of its result.
REPLIES = {
    "i32": ("budget - self.asked * 0", "ew.i64(key % 100) - 50", "min(budget, 3)"),
    "i64": ("budget * 1_000_000_007", "-(1 << 40) + budget", "ew.i64(key & 0xFFFF_FFFF)"),
    "u8": ("key & 255", "budget * budget", "7"),
    "f64": ("budget / 2", "float(key % 1000) * 0.25", "-1.5"),
    "f32": ("budget * 0.25", "float(key % 64)", "0.5 - budget"),
    "boolean": ("key % 2 == 0", "budget > 2", "True"),
}


@dataclass(frozen=True)
class ActorProgram:
    """The text of a program, and the names of its classes."""

    text: str
    classes: list[str]


def actor_program(number: int, actions: Sequence[int] = range(len(ACTIONS))) -> ActorProgram:
    """The program of a number, with these actions."""
    pick = random.Random(number)
    cls = CLASS if any("hold" in ACTIONS[at] for at in actions) else WITHOUT_KEPT
    count = pick.choice([1, 2, 2, 3])
    names = [f"P{number}{letter}" for letter in "abc"[:count]]
    results = [pick.choice(list(REPLIES)) for _ in names]
    text = ""
    for at, own in enumerate(names):
        after = (at + 1) % count
        words: dict[str, Any] = {
            "own": own,
            "next": names[after],
            "number": number % 1000 + 1,
            "odd": 2 * pick.randrange(2, 9) + 1,
            "step": pick.randrange(1, 4),
            # Truth values are no integers, and small ones fit all other types.
            "small": {"boolean": "True", "f64": "1.5", "f32": "0.25"}.get(results[at], pick.randrange(0, 10)),
            "zero": {"boolean": "False", "f64": "0.0", "f32": "0.0"}.get(results[at], "0"),
            "result": results[at],
            "next_result": results[after],
        }
        two = pick.sample(list(actions), 2)
        first, second = (
            f"self.did = self.did | {1 << action}\n            " + ACTIONS[action].format(**words).replace("; ", "\n            ")
            for action in two
        )
        # A quoted name is that of a class that comes later.
        quoted = words["next"] if after < at else f'"{words["next"]}"'
        text += cls.format(
            **{**words, "next": quoted},
            add=pick.choice(["budget", "budget * 3 - 1", "ew.i64(key % 17)", "1 if key % 2 == 0 else -budget"]),
            # Sums of such floats are exact, so that their order does not matter.
            ratio=pick.choice(["0.5", "budget / 2", "float(key % 8)", "-0.25"]),
            reply=pick.choice(REPLIES[results[at]]),
            scale=pick.randrange(-3, 4),
            born=pick.choice(["ew.i64(key % 50)", "budget * 2", "-1"]),
            # The first class alone passes messages on, so that none goes round for ever.
            forward=f"if key % 3 != 0:\n            ew.forward({pick.choice(['self.next', 'self.any'])})"
            if at == 0 and count > 1
            else "assert key >= 0",
            first=first,
            second=second,
        )
    return ActorProgram(text, names)
