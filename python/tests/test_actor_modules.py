"""Classes become modules whose exports handle messages. `test_actors.py` runs them."""

from __future__ import annotations

import re

import everwarp as ew
import pytest
from everwarp._compile.actor import Limits, compile_actor, messages
from everwarp._compile.module import parse
from everwarp.types import actor_id


class Payer:
    balance: ew.i64
    level: ew.u8

    def deposit(self, amount: ew.i64, kind: ew.i8, fast: ew.boolean) -> None:
        self.balance += amount * (2 if fast else 1) + kind

    def pay(self, to: actor_id, amount: ew.i64) -> None:
        assert amount <= self.balance
        self.balance -= amount
        to.deposit.tell(amount, 1, True)  # type: ignore[attr-defined]

    def middle(self, a: ew.i64, b: ew.f32) -> ew.f32:
        items = ew.array(ew.f64, [a, b, 3.0])
        return items[1] + self.level


LIMITS = Limits(mailbox=32, sends=4, restarts=0, seconds=1, retries=0, atomic=False, latest=False)


def compiled(cls: type) -> bytes:
    own = ew.struct(cls)
    methods = [item for item in vars(cls).values() if callable(item)]
    return compile_actor(own, [parse(method, own=own) for method in methods], LIMITS)


def test_a_class_describes_its_messages() -> None:
    module = compiled(Payer)
    assert module.startswith(b"\0asm\x01\0\0\0")
    for line in (
        b"mailbox 32\nsends 4\nscratch 4096\n",
        b"message deposit amount:i64 kind:i32 fast:bool\n",
        b"message pay to:actor amount:i64\n",
        b"message middle a:i64 b:f32 -> result:f32",
    ):
        assert line in module
    for name in (b"on.deposit", b"on.pay", b"on.middle", b"everwarp:tell", b"AssertionError"):
        assert name in module
    # A memory of 4,096 bytes of scratch and 16 of state, in pages of one byte, that does not grow.
    assert b"\x05\x07\x01\x09\x90\x20\x90\x20\x00" in module


def test_a_class_without_arrays_has_no_scratch() -> None:
    class Plain:
        n: ew.u64

        def add(self, n: ew.u64) -> None:
            self.n += n

    module = compiled(Plain)
    assert b"scratch" not in module and b"\x05\x05\x01\x09\x08\x08\x00" in module


def test_a_message_has_few_fields_that_are_numbers() -> None:
    class Wide:
        n: ew.i64

        def f(self, a: ew.i64, b: ew.i64, c: ew.i64, d: ew.i64, e: ew.i64) -> ew.i64:
            return a

    own = ew.struct(Wide)
    with pytest.raises(ew.Unsupported, match=re.escape("one with a result up to 4")):
        messages([parse(Wide.f, own=own)])
