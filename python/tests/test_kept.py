"""Asks that an actor keeps, to reply to them in a later handler."""

from __future__ import annotations

import re
from typing import Any

import everwarp as ew
import pytest

from test_handlers import PROGRAM


@ew.actor(sends=40)
class Door:
    first: ew.reply_id
    second: ew.reply_id
    waits: ew.i64
    missed: ew.i64

    def enter(self, name: ew.i64) -> ew.f32:
        self.waits += 1
        if self.waits == 1:
            self.first = ew.keep()
        elif self.waits == 2:
            self.second = ew.keep()
        return 0.25

    def open(self, value: ew.f64) -> ew.i64:
        sent = 0
        if self.enter.reply(self.first, value):
            sent += 1
        if self.enter.reply(self.second, value * 2.0):
            sent += 1
        if self.enter.reply(self.first, 0.0):
            sent += 100
        return sent

    def other(self) -> ew.i64:
        self.first = ew.keep()
        return 0

    def wrong(self) -> None:
        self.enter.reply(self.first, 1.0)

    def ask(self, door: Door, name: ew.i64) -> None:  # type: ignore[valid-type]
        door.enter.ask(name, then=self.got, failed=self.none)  # type: ignore[attr-defined]

    def bother(self, door: Door) -> None:  # type: ignore[valid-type]
        door.other.ask(then=self.counted, failed=self.none)  # type: ignore[attr-defined]

    def counted(self, value: ew.i64) -> None:
        self.waits += value

    def got(self, value: ew.f32) -> None:
        self.waits += int(value * 4.0)

    def none(self, reason: ew.u32) -> None:
        self.missed += 10 + reason

    def count(self) -> ew.i64:
        return self.waits * 1000 + self.missed

    def keep_told(self) -> None:
        self.first = ew.keep()
        assert self.first == 0


def play(spawn: Any, settle: Any) -> list[Any]:
    door, one, two, three = spawn(Door, 4)
    for asker in (one, two, three):
        asker.ask.tell(door, 1)
        settle()
    seen = [one.count.ask(), two.count.ask(), three.count.ask(), door.open.ask(1.5)]
    settle()
    seen += [one.count.ask(), two.count.ask(), door.open.ask(2.0)]
    last = spawn(Door)
    one.ask.tell(last, 1)
    two.ask.tell(last, 1)
    settle()
    last.kill()
    settle()
    return [*seen, one.count.ask(), two.count.ask()]


def test_a_reply_after_the_handler_has_returned_is_the_same_in_cpython(engine: ew.Engine) -> None:
    stage = ew.Rehearsal()
    ran = play(engine.spawn, engine.settle)
    assert ran == play(stage.spawn, stage.settle) == [0, 0, 1000, 2, 6000, 12000, 0, 6011, 12011]


def test_the_program_waits_for_a_kept_reply(engine: ew.Engine) -> None:
    import threading

    door = engine.spawn(Door)
    replies: list[float] = []
    threads = [threading.Thread(target=lambda: replies.append(door.enter.ask(1, timeout=60))) for _ in range(2)]
    for thread in threads:
        thread.start()
    while door.count.ask() < 2000:
        pass
    assert replies == [] and door.open.ask(0.5) == 2
    for thread in threads:
        thread.join(60)
    assert sorted(replies) == [0.5, 1.0]
    told = engine.spawn(Door)
    told.keep_told.tell()  # no ask: there is nothing to keep
    engine.settle()
    assert told.count.ask() == 0


def test_a_reply_to_another_message_fails_the_actor(engine: ew.Engine) -> None:
    stage = ew.Rehearsal()
    for spawn, settle, failures in (
        (engine.spawn, engine.settle, engine.failures),
        (stage.spawn, stage.settle, stage.failures),
    ):
        door, asker = spawn(Door, 2)
        asker.bother.tell(door)
        settle()
        door.wrong.tell()
        settle()
        assert "it replies to `enter`, and the ask that it has kept is another message" in failures()[-1]
        assert asker.count.ask() == 11  # the actor has ended


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = ew.keep(3)", "takes 0 arguments"),
        ("self.get.reply(3, 4)", "is an everwarp.reply_id, and this is a signed integer"),
        ("self.get.reply(ew.keep())", "`reply` takes what everwarp.keep() has returned, and the reply: `self.get.reply(kept, value)`"),
        ("self.got.reply(ew.keep(), 1)", "`got` returns nothing, so it has no reply"),
        ("self.get.reply(ew.keep(), 1.5)", "is an integer, and this is a float"),
        ("to.get.reply(ew.keep(), 1)", "write `self.get.reply(...)`"),
        ("self.get.reply(self.id, 1)", "is an everwarp.reply_id, and this is an id of A"),
    ],
)
def test_wrong_uses_are_errors_at_their_line(line: str, message: str, tmp_path: Any) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(line=line))
    space: dict[str, Any] = {"__name__": "program"}
    with pytest.raises(ew.Unsupported, match=re.escape(message)):
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), space)
