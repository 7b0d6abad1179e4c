"""Generated functions give the same results in CPython and in WebAssembly, bit for bit, or fail where they must.

`EVERWARP_PROGRAMS=100000 pytest tests/test_generated.py` runs more of them.
"""

from __future__ import annotations

import linecache
import math
import os
import random
import struct
from typing import Any

import everwarp as ew
import pytest

from programs import FLOATS, INTS, Endless, Generator, Oracle

PROGRAMS = int(os.environ.get("EVERWARP_PROGRAMS", "2000"))
PARTS = 8
ARGUMENTS = 6


def compiled(text: str, name: str) -> ew.Function:
    """The function `f` of a program's text."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"ew": ew, "math": math, "__name__": "generated"}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    del linecache.cache[name]
    return space["f"]


def arguments(generator: random.Random, function: ew.Function) -> list[Any]:
    values: list[Any] = []
    for _, kind in function._signature.parameters:
        if kind.kind == "f":
            values.append(kind(generator.choice(FLOATS) * generator.choice([1.0, -1.0, 3.7])))
        else:
            value = generator.choice(INTS if generator.random() < 0.3 else INTS[:9]) * generator.choice([1, -1])
            value += generator.randrange(-3, 4)
            values.append(kind.low + (value - kind.low) % (kind.high - kind.low + 1))
    return values


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    if isinstance(expected, float):
        return struct.pack("<d", found) == struct.pack("<d", expected)
    return bool(found == expected)


@pytest.mark.parametrize("part", range(PARTS))
def test_generated_programs_agree(part: int) -> None:
    results, failures, refused, endless = 0, 0, 0, 0
    with ew.engine("cpu") as engine:
        for seed in range(part, PROGRAMS, PARTS):
            text = Generator(seed).program()
            try:
                function = compiled(text, f"program {seed}")
            except ew.Unsupported as error:
                # Constants that do not fit, and the like. Most programs must be compiled.
                refused += 1
                assert error.lineno is not None and error.msg, text
                continue
            oracle = Oracle(text)
            generator = random.Random(seed)
            cases = [arguments(generator, function) for _ in range(ARGUMENTS)]
            rows, _, size = function._records(tuple(zip(*cases)))
            inputs = [rows[n * size : (n + 1) * size] for n in range(ARGUMENTS)]
            exits = engine.run(function.module, each_stdin=inputs, fuel=10_000_000)
            result = function._signature.result
            assert result is not None
            for case, exit in zip(cases, exits):
                expected = oracle(*case)
                what = f"program {seed} with {case}\n{text}"
                if expected is Endless:
                    endless += 1
                elif exit.success:
                    (found,) = struct.unpack("<" + result.code, exit.stdout)
                    assert same(found, expected), f"{found!r} instead of {expected!r}: {what}"
                    results += 1
                else:
                    assert exit.code == 101, f"{exit.status}: {what}"
                    failure = function._failure(exit.stderr, 0)
                    raised = isinstance(expected, type)
                    assert raised or oracle.large, f"{failure} instead of {expected!r}: {what}"
                    assert failure.line, what
                    failures += 1
    print(f"{results} results, {failures} failures, {refused} programs refused, {endless} runs without end")
    programs = len(range(part, PROGRAMS, PARTS))
    # The comparison means something only if most programs are compiled and most runs have a result.
    assert endless < programs / 100, f"{endless} of {programs} programs would not end"
    assert refused < programs / 2, f"{refused} of {programs} programs were refused"
    assert results > failures > 0, f"{results} results, {failures} failures"
