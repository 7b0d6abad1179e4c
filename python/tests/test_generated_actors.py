"""Generated programs of actors compute the same in CPython, in two orders, and on an engine.

`EVERWARP_ACTOR_PROGRAMS=100000 pytest tests/test_generated_actors.py` runs more of them.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import everwarp as ew
import pytest

from actor_programs import ACTIONS, HEAD, ON_A_GPU, ActorProgram, actor_program

PROGRAMS = int(os.environ.get("EVERWARP_ACTOR_PROGRAMS", "2000"))
#: How many programs share an engine, whose start costs as much as some of them.
TOGETHER = 100
PARTS = 8
#: On a GPU the classes of an engine are compiled together, for some seconds.
PROGRAMS_ON_A_GPU, TOGETHER_ON_A_GPU = 6, 2
#: Actors of each class.
ACTORS = 3
GETTERS = ("get_sum", "get_mixed", "get_asked", "get_ratio", "get_did")


class Played:
    """Actors of a program, in a rehearsal or on an engine."""

    def __init__(self, program: ActorProgram, classes: list[Any], spawn: Any, key: int) -> None:
        self.actors = [spawn(cls, ACTORS) for cls in classes]
        self.key = key

    def meet(self) -> None:
        for at, actors in enumerate(self.actors):
            after, last = self.actors[(at + 1) % len(self.actors)], self.actors[at - 1]
            for number in range(ACTORS):
                actors[number].meet.tell(after[(number + 1) % ACTORS], last[number - 1].id)

    def begin(self) -> None:
        for actors in self.actors:
            actors.begin.tell([2, 3, 4], [self.key, self.key + 1, self.key + 2])

    def result(self) -> list[Any]:
        return [[getattr(actors, name).ask() for name in GETTERS] for actors in self.actors]


def rehearsed(program: ActorProgram, classes: list[Any], key: int, seed: int | None) -> tuple[list[Any], int, list[str]]:
    """The result in CPython, how many messages were handled, and which failures there were."""
    stage = ew.Rehearsal(seed)
    played, handled = Played(program, classes, stage.spawn, key), 0
    for phase in (played.meet, played.begin):
        phase()
        while stage.step():
            handled += 1
    return played.result(), handled, stage.failures()


class Tally:
    """What programs have done that agreed."""

    def __init__(self) -> None:
        self.ran, self.handled, self.did, self.different = 0, 0, 0, set[str]()

    def compare(self, kind: Literal["cpu", "cuda"], size: int | None, some: dict[int, ActorProgram], file: Path) -> None:
        """Runs programs on an engine, all at a time, and each in CPython, and compares the results."""
        # This class names all others, so that they are one program on the engine.
        names = [name for program in some.values() for name in program.classes]
        fields = "".join(f"    {name.lower()}: {name}\n" for name in names)
        all_ = f"\n@ew.actor\nclass All:\n{fields}\n    def nothing(self) -> None:\n        pass\n"
        file.write_text(HEAD + "".join(program.text for program in some.values()) + all_)
        spec = importlib.util.spec_from_file_location(f"generated_{file.stem}", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with ew.engine(kind, size=size) as engine:
            everything = engine.spawn(module.All, capacity=1 << 15, messages=1 << 17)
            assert ("the CPU engine" if kind == "cpu" else "the GPU") in repr(everything)
            played = {
                number: Played(program, [getattr(module, name) for name in program.classes], engine.spawn, number)
                for number, program in some.items()
            }
            for one in played.values():
                one.meet()
            engine.settle()
            for one in played.values():
                one.begin()
            engine.settle()
            for number, program in some.items():
                classes = [getattr(module, name) for name in program.classes]
                result = played[number].result()
                for seed in (None, number):
                    wanted, messages, failures = rehearsed(program, classes, number, seed)
                    assert result == wanted, program.text
                    self.handled += messages
                    # A child that was to die is the only one that fails.
                    assert all(reason.startswith("AssertionError") for reason in failures), program.text
                self.ran += 1
                self.different.add(repr(result))
                for actors in result:
                    for bits in actors[-1]:
                        self.did |= bits
            assert all("AssertionError" in reason for reason in engine.failures())

    def check(self, ran: int, actions: Sequence[int]) -> None:
        assert self.ran == ran
        # Programs that do nothing would agree, too.
        assert len(self.different) > ran * 3 // 4 and self.handled > 20 * ran
        if ran >= 100:
            assert self.did == sum(1 << action for action in actions), f"the actions {self.did:b} ran"
        print(f"{ran} programs with {self.handled} messages in CPython, {len(self.different)} results")


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_of_actors_compute_the_same_in_cpython(part: int, tmp_path: Path) -> None:
    numbers, tally = range(part, PROGRAMS, PARTS), Tally()
    for first in range(0, len(numbers), TOGETHER):
        some = {number: actor_program(number) for number in numbers[first : first + TOGETHER]}
        tally.compare("cpu", 2, some, tmp_path / f"actors_{part}_{first}.py")
    tally.check(len(numbers), range(len(ACTIONS)))


def test_programs_of_actors_compute_the_same_on_a_gpu(cuda: None, tmp_path: Path) -> None:
    tally = Tally()
    for first in range(0, PROGRAMS_ON_A_GPU, TOGETHER_ON_A_GPU):
        numbers = range(first, first + TOGETHER_ON_A_GPU)
        some = {number: actor_program(number, ON_A_GPU) for number in numbers}
        tally.compare("cuda", None, some, tmp_path / f"actors_on_a_gpu_{first}.py")
    tally.check(PROGRAMS_ON_A_GPU, ON_A_GPU)
