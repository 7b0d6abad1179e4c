"""Actors whose classes are written in Python."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import everwarp as ew
import numpy as np
import pytest


@ew.actor
class Account:
    """Money."""

    balance: ew.i64

    # As in the quickstart: a method without `->` returns nothing.
    def deposit(self, amount: ew.i64): self.balance += amount  # type: ignore[no-untyped-def]  # fmt: skip
    def read(self) -> ew.i64: return self.balance  # fmt: skip


@ew.actor(mailbox=500)
class Everything:
    small: ew.u8
    flag: ew.boolean
    ratio: ew.f32
    exact: ew.f64
    last: ew.i16

    def put(self, small: ew.u8, flag: ew.boolean, ratio: ew.f32, exact: ew.f64, last: ew.i16) -> None:
        self.small, self.flag = small, flag
        self.ratio = ratio
        self.exact = exact
        self.last = last

    def times(self, n: ew.i64, m: ew.i64) -> ew.i64:
        return n * m

    def root(self, x: ew.f64) -> ew.f64:
        return math.sqrt(x)

    def remainder(self, n: ew.i64, m: ew.i64) -> ew.i64:
        return n % m

    def get_small(self) -> ew.u8:
        return self.small

    def get_flag(self) -> ew.boolean:
        return self.flag

    def get_ratio(self) -> ew.f32:
        return self.ratio

    def get_exact(self) -> ew.f64:
        return self.exact

    def get_last(self) -> ew.i16:
        return self.last

    def sorted_middle(self, a: ew.i64, b: ew.i64, c: ew.i64) -> ew.i64:
        items = ew.array(ew.i64, [a, b, c])
        for i in range(3):
            for j in range(2):
                if items[j] > items[j + 1]:
                    x = items[j]
                    items[j] = items[j + 1]
                    items[j + 1] = x
        return items[1]


@ew.actor
class Payer:
    balance: ew.i64

    def deposit(self, amount: ew.i64) -> None:
        self.balance += amount

    def pay(self, to: ew.actor_id, amount: ew.i64) -> None:
        assert amount <= self.balance
        self.balance -= amount
        to.deposit.tell(amount)

    def read(self) -> ew.i64:
        return self.balance


def test_the_quickstart() -> None:
    with ew.engine() as engine:  # a GPU if there is one
        accounts = engine.spawn(Account, 1_000_000)
        accounts.deposit.tell(np.arange(1_000_000))
        assert accounts[41].read.ask() == 41
        assert accounts[-1].read.ask() == 999_999


def test_one_actor_and_several(engine: ew.Engine) -> None:
    one = engine.spawn(Account)
    one.deposit.tell(5)
    one.deposit.tell(-7)
    assert one.read.ask() == -2
    some = engine.spawn(Account, 5)
    some.deposit.tell([1, 2, 3, 4, 5])
    some[1:3].deposit.tell(100)
    assert some.read.ask() == [1, 102, 103, 4, 5]
    assert [account.read.ask() for account in some] == [1, 102, 103, 4, 5]
    assert asyncio.run(some[2].read.ask_async()) == 103


def test_all_types_arrive(engine: ew.Engine) -> None:
    actors = engine.spawn(Everything, 3)
    actors.put.tell([0, 128, 255], [True, False, True], [0.5, -1.25, 3.0], [0.1, -1e300, 5e-324], [-32768, -1, 32767])
    assert actors.get_small.ask() == [0, 128, 255]
    assert actors.get_flag.ask() == [True, False, True]
    assert actors.get_ratio.ask() == [0.5, -1.25, 3.0]
    assert actors.get_exact.ask() == [0.1, -1e300, 5e-324]
    assert actors.get_last.ask() == [-32768, -1, 32767]
    assert actors.sorted_middle.ask([3, -5, 9], 4, [1, 2, 3]) == [3, 2, 4]
    columns = (np.array([7, 8, 9], np.uint8), np.zeros(3, bool), np.ones(3), np.arange(3.0), np.array([-5, 0, 5], np.int64))
    actors.put.tell(*columns)
    assert actors.get_small.ask() == [7, 8, 9] and actors.get_last.ask() == [-5, 0, 5]
    assert actors.get_exact.ask() == [0.0, 1.0, 2.0]


def test_integers_need_no_numpy(engine: ew.Engine) -> None:
    amounts = [1, -2, 2**62, -(2**63)]
    exact = array("q", amounts)
    for values in (amounts, tuple(amounts), exact, memoryview(exact), array("i", [1, -2, 3, -4]), range(4)):
        accounts = engine.spawn(Account, 4)
        accounts.deposit.tell(values)
        assert accounts.read.ask() == list(values)
    accounts = engine.spawn(Account, 4)
    # A view with gaps, and in the other order.
    every = memoryview(array("q", [5, 0, 6, 0, 7, 0, 8, 0]))[::2]
    accounts.deposit.tell(every)
    accounts.deposit.tell(memoryview(array("q", [4, 3, 2, 1]))[::-1])
    assert accounts.read.ask() == [6, 8, 10, 12]
    with pytest.raises(TypeError, match="a float"):
        accounts.deposit.tell([1, 2, 3.0, 4])
    with pytest.raises(OverflowError):
        accounts.deposit.tell([1, 2, 3, 2**63])
    with pytest.raises(TypeError, match="a float"):
        accounts.deposit.tell(array("d", [1, 2, 3, 4]))
    assert accounts.read.ask() == [6, 8, 10, 12]


def test_actors_send_messages_and_money_is_kept(engine: ew.Engine) -> None:
    count = 1000
    payers = engine.spawn(Payer, count)
    payers.deposit.tell(100)
    order = np.random.default_rng(5).permutation(count)
    for _ in range(5):
        payers.pay.tell(np.asarray(payers.ids)[order], np.arange(count) % 20)
    engine.settle()
    balances = payers.read.ask()
    assert sum(balances) == 100 * count and len(set(balances)) > 20


def test_a_failure_ends_one_actor_and_names_the_line(engine: ew.Engine) -> None:
    line = line_of("assert amount <=")
    first, second = engine.spawn(Payer, 2)
    first.deposit.tell(5)
    second.deposit.tell(6)
    first.pay.tell(second, 7)
    engine.settle()
    assert second.read.ask() == 6
    with pytest.raises(ew.ActorGone, match=f"AssertionError.*line {line}"):
        first.read.ask()
    assert any("AssertionError" in reason for reason in engine.failures())
    grown = engine.spawn(Account)
    grown.deposit.tell(2**63 - 1)
    grown.deposit.tell(1)
    engine.settle()
    with pytest.raises(ew.ActorError, match=f"OverflowError.*line {line_of('def deposit(self, amount: ew.i64): self')}`"):
        grown.read.ask()


def test_wrong_messages_are_refused(engine: ew.Engine) -> None:
    account = engine.spawn(Account)
    with pytest.raises(AttributeError, match="no message 'withdraw': there are deposit, read"):
        account.withdraw.tell(3)
    with pytest.raises(TypeError, match="deposit takes amount, and there are 2 values"):
        account.deposit.tell(3, 4)
    with pytest.raises(TypeError, match="deposit returns nothing"):
        account.deposit.ask(3)
    with pytest.raises(TypeError, match="1.5 is a float: convert it with int"):
        account.deposit.tell(1.5)
    with pytest.raises(OverflowError, match="does not fit i64"):
        account.deposit.tell(2**63)
    with pytest.raises(ValueError, match="3 values, and the message goes to one actor"):
        account.deposit.tell([1, 2, 3])
    with pytest.raises(TypeError, match="`amount` is i64, and '5' is a value of the type str"):
        account.deposit.tell("5")
    with pytest.raises(TypeError, match="a value of the type float32: convert it with int"):
        account.deposit.tell(np.float32(2.5))
    with pytest.raises(TypeError, match="`a` is i64, and not an actor"):
        engine.spawn(Everything).sorted_middle.ask(account, account, [account])
    with pytest.raises(TypeError, match="decorated with @everwarp.actor"):
        engine.spawn(int)
    with pytest.raises(IndexError, match="there are 1 actors"):
        account[1]


def test_actors_end_with_their_engine() -> None:
    with ew.engine("cpu", size=1) as engine:
        actors = engine.spawn(Account, 3)
        actors[0].kill()
        actors[1].stop()
        with pytest.raises(ew.ActorGone):
            actors[0].read.ask()
        assert actors[2].read.ask() == 0
    for use in (
        actors[2].read.ask,
        lambda: actors.deposit.tell(1),
        actors.stop,
        actors.kill,
        engine.settle,
        engine.failures,
        lambda: engine.spawn(Account),
    ):
        with pytest.raises(ew.EngineClosed, match="use it|use them"):
            use()
    engine.close()


def test_room_is_limited() -> None:
    with ew.engine("cpu", size=1) as engine:
        first = engine.spawn(Account, 10, capacity=16)
        with pytest.raises(ew.StartFailed, match="room for 16 actors .* larger `capacity`"):
            engine.spawn(Account, 10)
        engine.settle()
        # Those that did fit have ended again.
        rest = engine.spawn(Account, 6)
        rest.deposit.tell(range(6))
        assert rest.read.ask() == list(range(6)) and sum(first.read.ask()) == 0
        with pytest.raises(ValueError, match="Account has its capacity already"):
            engine.spawn(Account, capacity=100)
        for wrong in ({"count": 0}, {"count": 2**40}, {"count": 5, "capacity": 4}, {"messages": 0}, {"capacity": 2**40}):
            with pytest.raises(ValueError, match="must be"):
                engine.spawn(Everything, **wrong)


def test_a_program_that_sends_faster_than_actors_handle_waits() -> None:
    with ew.engine("cpu", size=1) as engine:
        accounts = engine.spawn(Account, 1000, capacity=1000, messages=2000)
        for _ in range(50):
            accounts.deposit.tell(np.ones(1000, np.uint8))
        assert accounts.read.ask() == [50] * 1000


def test_the_mailbox_and_the_sends_of_a_class_are_limits() -> None:
    @ew.actor(sends=1)
    class Twice:
        n: ew.i64

        def add(self, to: ew.actor_id) -> None:
            to.one.tell()
            to.one.tell()

        def one(self) -> None:
            self.n += 1

        def read(self) -> ew.i64:
            return self.n

    with ew.engine("cpu", size=1) as engine:
        sender, receiver = engine.spawn(Twice, 2)
        sender.add.tell(receiver)
        engine.settle()
        with pytest.raises(ew.ActorGone, match="raise `sends`, in `add`"):
            sender.read.ask()
        assert receiver.read.ask() <= 1
    with pytest.raises(TypeError, match="has a base class"):
        ew.actor(type("B", (Path,), {}))
    with pytest.raises(TypeError, match="decorates a class"):
        ew.actor(len)
    for wrong in ({"mailbox": 0}, {"mailbox": 4096}, {"sends": -1}, {"sends": 125}):
        with pytest.raises(ValueError, match="not -?[0-9]+$"):
            ew.actor(**wrong)(type("A", (), {}))


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("message", "values", "reason", "text"),
    [
        ("times", (2**62, 2), "OverflowError", "return n * m"),
        ("root", (-1.0,), "ValueError", "return math.sqrt(x)"),
        ("remainder", (7, 0), "ZeroDivisionError", "return n % m"),
    ],
)
def test_a_failed_ask_names_the_line_and_ends_one_actor(
    engine: ew.Engine, message: str, values: tuple[Any, ...], reason: str, text: str
) -> None:
    first, second = engine.spawn(Everything, 2)
    line = line_of(text)
    with pytest.raises(ew.ActorFailed, match=f"{reason}.*line {line}`"):
        first.message(message).ask(*values)
    with pytest.raises(ew.ActorGone, match=f"{reason}.*line {line}`"):
        first.times.ask(1, 1)
    assert second.times.ask(21, -2) == -42 and second.root.ask(2.25) == 1.5 and second.remainder.ask(-7, 5) == 3


def test_actors_belong_to_their_class_and_their_engine(engine: ew.Engine) -> None:
    account = engine.spawn(Account)
    assert repr(account) == "<1 actor of Account on the CPU engine: the engine is the CPU engine>"
    assert len(engine.spawn(Account, 3)[::2]) == 2 and len(account[1:]) == 0
    account[1:].deposit.tell(3)
    assert account[1:].read.ask() == [] and account.read.ask() == 0
    with ew.engine("cpu", size=1) as other:
        there = other.spawn(Account)
        there.deposit.tell(9)
        account.deposit.tell(8)
        assert (there.read.ask(), account.read.ask()) == (9, 8)
    with pytest.raises(ValueError, match="there are 3 actors: choose one"):
        _ = engine.spawn(Account, 3).id


def test_an_engine_made_for_wgpu_refuses_actors_and_says_what_to_do() -> None:
    try:
        engine = ew.engine("wgpu")
    except ew.DeviceError:
        return  # This machine has no adapter.
    with engine, pytest.raises(ew.StartFailed, match="these actors run on the CPU engine only: .* make the engine"):
        engine.spawn(Account)


def test_an_engine_that_was_left_to_choose_runs_actors() -> None:
    with ew.engine() as engine:
        account = engine.spawn(Account)
        account.deposit.tell(3)
        assert account.read.ask() == 3
        if engine.kind == "cpu":
            assert account.why == "the engine is the CPU engine"
        elif engine.kind == "cuda":
            assert "on the GPU" in repr(account) and account.why == "the GPU runs all classes of the program"
        else:
            assert "CPU engine" in repr(account) and "not run on" in account.why


def test_a_million_accounts_on_a_gpu(cuda: None) -> None:
    with ew.engine("cuda") as engine:
        accounts = engine.spawn(Account, 1_000_000)
        assert "on the GPU" in repr(accounts) and accounts.why == "the GPU runs all classes of the program"
        accounts.deposit.tell(np.arange(1_000_000))
        accounts.deposit.tell(np.arange(1_000_000))
        assert accounts[41].read.ask() == 82
        assert accounts[:1000].read.ask() == [2 * n for n in range(1000)]


def test_values_and_failures_on_a_gpu_are_those_of_the_cpu_engine(cuda: None) -> None:
    with ew.engine("cuda") as engine:
        first, second = engine.spawn(Everything, 2)
        second.put.tell(200, True, 0.1, 0.1, -3)
        assert second.get_small.ask() == 200 and second.get_flag.ask() is True and second.get_last.ask() == -3
        assert second.get_ratio.ask() == float(np.float32(0.1)) and second.get_exact.ask() == 0.1
        assert second.sorted_middle.ask(9, -4, 5) == 5
        with pytest.raises(ew.ActorFailed, match="OverflowError"):
            first.times.ask(1 << 62, 4)
        with pytest.raises(ew.ActorGone):
            first.times.ask(1, 1)
        assert second.times.ask(21, -2) == -42 and second.root.ask(2.25) == 1.5 and second.remainder.ask(-7, 5) == 3


def test_threads_share_actors(engine: ew.Engine) -> None:
    accounts = engine.spawn(Account, 100)

    def work(_: int) -> list[int]:
        accounts.deposit.tell(1)
        return accounts[:10].read.ask()

    with ThreadPoolExecutor(4) as pool:
        for balances in pool.map(work, range(40)):
            assert all(1 <= balance <= 40 for balance in balances)
    assert accounts.read.ask() == [40] * 100


def test_ctrl_c_ends_the_wait_for_actors_that_never_stop(tmp_path: Path) -> None:
    code = """
import _thread, signal, threading, everwarp as ew
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
@ew.actor
class Ball:
    n: ew.i64
    def hit(self, one: ew.actor_id, other: ew.actor_id) -> None:
        self.n += 1
        other.hit.tell(other, one)
    def read(self) -> ew.i64:
        return self.n
engine = ew.engine("cpu", size=1)
one, other = engine.spawn(Ball, 2)
one.hit.tell(one, other)
threading.Timer(0.3, _thread.interrupt_main).start()
try:
    engine.settle()
except KeyboardInterrupt:
    print("interrupted", flush=True)
threading.Timer(0.3, _thread.interrupt_main).start()
try:
    one.read.ask()
except KeyboardInterrupt:
    print("once more", flush=True)
"""
    file = tmp_path / "ball.py"
    file.write_text(code)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted\nonce more\n" and done.returncode == 0, done.stdout + done.stderr


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_child_of_a_fork_gets_an_error(engine: ew.Engine) -> None:
    account = engine.spawn(Account)
    account.deposit.tell(4)
    assert account.read.ask() == 4
    child = os.fork()
    if child == 0:
        code = 1
        try:
            account.read.ask()
        except ew.ForkedError:
            code = 7
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def _hidden(self) -> None: pass", "no `_` at its start"),
        ("pass", "handles no message"),
        ("def f(self) -> None: pass\n    m: ew.i64 = 3", "A.m: a field begins with zero"),
        ("@staticmethod\n    def f() -> None: pass", "is no staticmethod"),
        ("async def f(self) -> None: pass", "leave out `async`"),
        ("def f(self, n: ew.i64 = 3) -> None: pass", "no defaults"),
        ("def f(self, n) -> None: pass", "`n` has no type"),
        ("def f(self, *n: ew.i64) -> None: pass", "no `\\*`"),
        ("def stop(self) -> None: pass", "`everwarp.Actors` has this name"),
        ("def f(self, a: ew.array(ew.i64, 2)) -> None: pass", "so it is a number"),
        ("def f(self, a: ew.i64, b: ew.i64, c: ew.i64, d: ew.i64, e: ew.i64) -> ew.i64: return a", "up to 5 fields"),
        ("def f(self, to: ew.actor_id) -> None: to.missing.tell(1)", "the message `missing` is not known"),
        ("def f(self, to: ew.i64) -> None: to.f.tell(1)", "goes to an everwarp.actor_id"),
        ("def f(self) -> None: self.missing = 1", "has no field `missing`"),
    ],
)
def test_classes_that_cannot_be_actors(body: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(f"import everwarp as ew\n@ew.actor\nclass A:\n    n: ew.i64\n    {body}\n")
    space: dict[str, Any] = {"__name__": "everwarp"}
    with pytest.raises((ew.Unsupported, TypeError), match=message):
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), space)
