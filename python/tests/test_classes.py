"""Classes of actors that name each other: one program on one engine, checked when they are defined, or at the first spawn."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import everwarp as ew
import numpy as np
import pytest


@ew.actor
class Sensor:
    value: ew.f64
    keeper: Keeper  # type: ignore[valid-type]

    def set(self, value: ew.f64) -> None:
        self.value = value

    def attach(self, keeper: Keeper) -> None:  # type: ignore[valid-type]
        self.keeper = keeper
        keeper.joined.tell(self.id)  # type: ignore[attr-defined]

    def read(self) -> ew.f64:
        return self.value

    def tick(self) -> None:
        self.value += 1.0

    def whose(self) -> Keeper:  # type: ignore[valid-type]
        return self.keeper


@ew.actor(sends=16)
class Keeper:
    count: ew.i64
    sum: ew.f64
    lost: ew.i64
    last: Sensor  # type: ignore[valid-type]

    def joined(self, sensor: Sensor) -> None:  # type: ignore[valid-type]
        self.count += 1
        self.last = sensor

    def make(self, number: ew.i64) -> None:
        for at in range(number):
            sensor = ew.spawn(Sensor)
            sensor.set.tell(at + 0.5)  # type: ignore[attr-defined]
            sensor.attach.tell(self.id)  # type: ignore[attr-defined]

    def gather(self, sensor: Sensor) -> None:  # type: ignore[valid-type]
        sensor.read.ask(then=self.got, failed=self.none)  # type: ignore[attr-defined]

    def got(self, value: ew.f64) -> None:
        self.sum += value

    def none(self, reason: ew.u32) -> None:
        self.lost += 1 + reason

    # The same name as that of `Sensor`, and another result: another message.
    def read(self) -> ew.i64:
        return self.count

    # The same name and types: the same message.
    def tick(self) -> None:
        self.count += 100

    def poke(self, to: ew.actor_id) -> None:
        to.tick.tell()

    def total(self) -> ew.f64:
        return self.sum

    def missing(self) -> ew.i64:
        return self.lost

    def youngest(self) -> Sensor:  # type: ignore[valid-type]
        return self.last


def play(spawn: Any, settle: Any) -> list[Any]:
    sensors, keeper = spawn(Sensor, 3), spawn(Keeper)
    sensors.set.tell([1.0, 2.0, 4.0])
    sensors.attach.tell(keeper)
    settle()
    keeper.make.tell(4)
    settle()
    for sensor in sensors:
        keeper.gather.tell(sensor)
    keeper.poke.tell(sensors[0])
    keeper.poke.tell(keeper)
    settle()
    sensors[2].stop()
    settle()
    keeper.gather.tell(sensors[2].id)
    settle()
    return [
        keeper.read.ask(), keeper.total.ask(), keeper.missing.ask(), sensors[:2].read.ask(), sensors[1].whose.ask() == keeper.id,
    ]  # fmt: skip


def test_classes_send_ask_and_spawn_each_other(engine: ew.Engine) -> None:
    stage = ew.Rehearsal()
    assert play(stage.spawn, stage.settle) == play(engine.spawn, engine.settle) == [107, 7.0, 1, [2.0, 2.0], True]
    with ew.engine("cpu", size=1) as another:  # in the other order
        keeper = another.spawn(Keeper)
        keeper.make.tell(3)
        another.settle()
        made = another.actors(Sensor, keeper.youngest.ask())
        assert made.read.ask() == 2.5 and made.whose.ask() == keeper.id
        both = another.actors(Sensor, [made.id, made.id])
        assert both.read.ask() == [2.5, 2.5] and not both.single


def test_all_calls_know_which_class_a_message_belongs_to(engine: ew.Engine) -> None:
    sensors, keeper = engine.spawn(Sensor, 3), engine.spawn(Keeper)
    sensors.set.tell(np.array([0.25, 0.5, 0.75]))
    assert sensors.read.ask() == [0.25, 0.5, 0.75] and keeper.read.ask() == 0
    assert list(sensors.read.ask_array()) == [0.25, 0.5, 0.75]

    async def both() -> list[Any]:
        return list(await asyncio.gather(sensors[1].read.ask_async(), keeper.read.ask_async()))

    assert asyncio.run(both()) == [0.5, 0]
    sensors[0].register("first")
    keeper.register("first")  # names belong to classes
    found = engine.lookup(Sensor, "first"), engine.lookup(Keeper, "first")
    assert [actors and actors.id for actors in found] == [sensors[0].id, keeper.id]
    assert engine.unregister(Keeper, "first") and engine.lookup(Keeper, "first") is None
    assert engine.at(Sensor, 5).id != engine.at(Keeper, 5).id
    assert engine.at(Sensor, 5).read.ask() == 0.0 and engine.at(Keeper, 5).read.ask() == 0
    sensors[0].link(keeper)
    keeper.kill()
    assert sensors[0].monitor().wait(60) in ("killed", "unknown")
    letters = engine.dead_letters(Sensor)
    engine.spawn(Keeper).gather.tell(sensors[0].id)
    letter = letters.next(60)
    assert letter is not None and (letter.message, letter.values, letter.to) == ("read", (), sensors[0].id)
    with engine.outlet(Sensor) as outlet, engine.inlet(sensors[1]) as inlet:
        engine.spawn(Keeper).gather.tell(outlet)
        received = outlet.next(60)
        assert received is not None and received.message == "read"
        inlet.set.send([3.0, 5.0])
        assert inlet.flush(60)
    engine.settle()
    assert sensors[1].read.ask() == 5.0
    group = engine.supervise([sensors[1], engine.spawn(Keeper)])
    assert group.members == 2


def test_ids_have_the_types_of_their_classes(engine: ew.Engine) -> None:
    sensor, keeper = engine.spawn(Sensor), engine.spawn(Keeper)
    with pytest.raises(TypeError, match="`sensor` is an actor of Sensor, and this is one of Keeper"):
        keeper.gather.tell(keeper)
    with pytest.raises(ValueError, match="these are actors of Keeper, and those of Sensor are wanted"):
        engine.topic(Sensor).subscribe(keeper)
    keeper.poke.tell(sensor)  # any id will do
    # What a program passes as a number is not checked: the receiver fails, and says why.
    keeper.gather.tell(keeper.id)
    engine.settle()
    assert "it does not handle the message" in engine.failures()[-1]
    with pytest.raises(ew.ActorGone):
        keeper.read.ask()


HEAD = "import everwarp as ew\n"
WRONG = [
    ("def f(self, to: Other) -> None:\n        to.get.tell()", "Other handles no message `get`; it handles put, same, odd", 1),
    ("def f(self, to: Other) -> None:\n        self.one = to", "an id of One is wanted, and this is an id of Other", 1),
    ("def f(self, to: Other) -> None:\n        to.put.tell(1.5)", "i64 is an integer, and this is a float", 1),
    ("def f(self, to: Other) -> None:\n        to.odd.ask(then=self.get)", "`get` takes the reply of `odd`", 1),
    ("def f(self, to: Other) -> None:\n        to.odd.after(1.0)", "write `self.odd.after(...)`", 1),
    ("def f(self, to: Other) -> None:\n        self.odd.after(1.0)", "the message `odd` is not known here", 1),
    ("def f(self, to: Other) -> None:\n        ew.forward(to)", "Other does not handle the message that is passed on", 1),
    ("def f(self, to: Other, it: Third) -> None:\n        x = to\n        x = it", "use another name", 2),
    ("def f(self, to: ew.actor_id, a: Other, b: Third) -> None:\n        to.odd.tell()", "is another message in each of", 1),
    ("def f(self, to: ew.actor_id) -> None:\n        x = ew.spawn(Other)\n        x.none.tell()", "not known here", 2),
    ("def f(self, to: ew.actor_id) -> None:\n        x = ew.spawn(Missing)", "takes a class with @everwarp.actor", 1),
    ("def f(self, to: Missing) -> None:\n        pass", "`Missing` is not known", 0),
    ("def f(self, to: Point) -> None:\n        pass", "is sent in a message, so it is a number", 0),
]
PROGRAM = """from __future__ import annotations
import everwarp as ew
@ew.struct
class Point:
    x: ew.i64
@ew.actor
class One:
    one: One
    value: ew.i64
    def get(self) -> ew.i64:
        return self.value
    {method}
@ew.actor
class Other:
    value: ew.i64
    def put(self, value: ew.i64) -> None:
        self.value = value
    def same(self) -> ew.i64:
        return self.value
    def odd(self) -> ew.f64:
        return 1.5
@ew.actor
class Third:
    value: ew.i64
    def odd(self) -> ew.u8:
        return 1
"""


def load(name: str, text: str, folder: Path) -> ModuleType:
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.mark.parametrize(("method", "message", "below"), WRONG, ids=[wrong[0].splitlines()[-1].strip() for wrong in WRONG])
def test_wrong_uses_of_other_classes_are_errors_at_their_line(method: str, message: str, below: int, tmp_path: Path) -> None:
    def use() -> None:
        module = load(f"wrong_{abs(hash(method))}", PROGRAM.format(method=method), tmp_path)
        ew.Rehearsal().spawn(module.One)

    with pytest.raises(ew.Unsupported, match=re.escape(message)) as error:
        use()
    assert error.value.lineno == PROGRAM[: PROGRAM.index("{method}")].count("\n") + 1 + below


def test_a_class_that_never_comes_is_an_error_of_the_class_that_names_it_alone(engine: ew.Engine, tmp_path: Path) -> None:
    text = HEAD + """
@ew.actor
class Plain:
    value: ew.i64
    def get(self) -> ew.i64:
        return self.value
@ew.actor
class Half:
    plain: Plain
    other: "Nowhere"
    def get(self) -> ew.i64:
        return 1
"""
    module = load("half", text, tmp_path)
    assert engine.spawn(module.Plain).get.ask() == 0
    for use in (engine.spawn, ew.Rehearsal().spawn):
        with pytest.raises(TypeError, match="Half.other: `Nowhere` is not known: define a class of this name"):
            use(module.Half)


def test_a_class_that_comes_after_the_first_spawn_is_an_error_with_the_fix(engine: ew.Engine) -> None:
    @ew.actor
    class Early:
        value: ew.i64

        def get(self) -> ew.i64:
            return self.value

    assert engine.spawn(Early).get.ask() == 0

    @ew.actor
    class Late:
        value: ew.i64

        def look(self, early: Early) -> None:  # type: ignore[valid-type]
            early.get.ask(then=self.got)

        def got(self, value: ew.i64) -> None:
            self.value = value + 1

        def get(self) -> ew.i64:
            return self.value

    with pytest.raises(ew.StartFailed, match="Late belongs to one program with Early.*define both classes before the first spawn"):
        engine.spawn(Late)
    with ew.engine("cpu", size=1) as another:
        late = another.spawn(Late)
        late.look.tell(another.spawn(Early))
        another.settle()
        assert late.get.ask() == 1


def test_a_class_that_is_defined_again_leaves_its_program(tmp_path: Path) -> None:
    first = HEAD + "@ew.actor\nclass A:\n    n: ew.i64\n    def get(self) -> ew.i64:\n        return 1\n"
    second = "@ew.actor\nclass B:\n    a: A\n    def get(self) -> ew.f64:\n        return 2.5\n"
    kept = load("again", first + second + "Old = B\n" + second.replace("2.5", "3.5"), tmp_path)
    gc.collect()
    with ew.engine("cpu", size=1) as engine:
        assert (engine.spawn(kept.A).get.ask(), engine.spawn(kept.B).get.ask()) == (1, 3.5)
        with pytest.raises(ew.StartFailed, match="define both classes before the first spawn"):
            engine.spawn(kept.Old)
    with ew.engine("cpu", size=1) as engine:
        assert engine.spawn(kept.Old).get.ask() == 2.5


def test_classes_of_one_name_are_different_kinds(tmp_path: Path) -> None:
    text = "@ew.actor\nclass A:\n    n: ew.i64\n    def get(self) -> ew.i64:\n        return {}\n    def {}(self) -> None:\n        pass\n"
    one = load("first_of_two", HEAD + text.format(1, "f"), tmp_path)
    text = HEAD + "class Space:\n    pass\n" + text.format(2, "g") + """
Mine = A
def both(Other):
    @ew.actor
    class Both:
        n: ew.i64
        def begin(self) -> None:
            ew.spawn(Other).get.ask(then=self.got)
            ew.spawn(Mine).get.ask(then=self.got)
        def got(self, value: ew.i64) -> None:
            self.n = self.n * 10 + value
        def get(self) -> ew.i64:
            return self.n
    return Both
"""
    two = load("second_of_two", text, tmp_path)
    cls = two.both(one.A)
    with ew.engine("cpu", size=1) as engine:
        both = engine.spawn(cls)
        both.begin.tell()
        engine.settle()
        assert both.get.ask() in (12, 21)
        assert engine.spawn(one.A).get.ask() == 1 and engine.spawn(two.A).get.ask() == 2
    stage = ew.Rehearsal()
    both = stage.spawn(cls)
    both.begin.tell()
    stage.settle()
    assert both.get.ask() == 12


def test_a_reply_from_an_actor_of_another_class_reaches_the_asker(engine: ew.Engine, tmp_path: Path) -> None:
    text = HEAD + """
@ew.actor
class Front:
    back: "Back"
    seen: ew.i64
    def meet(self, back: "Back") -> None:
        self.back = back
    def work(self, a: ew.i32, b: ew.u8) -> ew.f32:
        self.seen += 1
        ew.forward(self.back)
        return 0.0
    def count(self) -> ew.i64:
        return self.seen
@ew.actor
class Back:
    n: ew.i64
    def work(self, a: ew.i32, b: ew.u8) -> ew.f32:
        return a / b
"""
    module = load("front", text, tmp_path)

    def play(spawn: Any, settle: Any) -> list[Any]:
        front = spawn(module.Front)
        front.meet.tell(spawn(module.Back))
        settle()
        return [front.work.ask(-7, 2), front.work.ask(1, 4), front.count.ask()]

    stage = ew.Rehearsal()
    assert play(engine.spawn, engine.settle) == play(stage.spawn, stage.settle) == [-3.5, 0.25, 2]
