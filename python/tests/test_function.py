"""Compiled functions: what they compute, what they refuse, and how they fail."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import everwarp as ew
import numpy as np
import pytest

LIMIT = 1000
MASK = (1 << 64) - 1


@ew.function
def collatz(n: ew.i64) -> ew.i64:
    """The number of steps to 1."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@ew.function
def fnv(text: ew.array(ew.u8, 4), seed: ew.u64) -> ew.u64:  # type: ignore[valid-type]
    h = seed ^ 0xCBF29CE484222325
    for byte in text:
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


@ew.struct
class Body:
    x: ew.f64
    speed: ew.f32
    hits: ew.u8


@ew.function
def advance(body: Body, steps: ew.i32) -> ew.f64:
    for _ in range(steps):
        body.x += body.speed * 0.1
        if body.x > 10.0:
            body.speed = -body.speed
            body.hits += 1
    return body.x + 1000 * body.hits


@ew.function
def fibonacci(n: ew.i64) -> ew.i64:
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@ew.function
def largest(n: ew.i64) -> ew.i64:
    table = ew.array(ew.i32, 16)
    for i in range(n):
        table[i] = i * i
    best = 0
    for value in table:
        best = max(best, value)
    assert best < LIMIT
    return best


@ew.function
def bump(table: ew.array(ew.i64, 3), at: ew.i64) -> None:  # type: ignore[valid-type]
    table[at] += 1


@ew.function
def bumped(n: ew.i64) -> ew.i64:
    table = ew.array(ew.i64, [10, 20, 30])
    for i in range(n):
        bump(table, i % 3)
    return table[0] * 10_000 + table[1] * 100 + table[2]


def test_a_function_runs_in_cpython_and_on_the_engine(engine: ew.Engine) -> None:
    assert collatz(27) == 111
    found = engine.map(collatz, range(1, 2000))
    assert isinstance(found, memoryview) and list(found) == [collatz(n) for n in range(1, 2000)]
    array = engine.map(collatz, np.arange(1, 50_000, dtype=np.int32))
    assert array.dtype == np.int64 and array[26] == 111 and len(array) == 49_999
    assert np.array_equal(array, engine.map(collatz, np.arange(1, 50_000), chunk=999))
    assert len(engine.map(collatz, [])) == 0
    assert engine.map(collatz, np.array([], dtype=np.int64)).shape == (0,)


def test_arrays_and_structs_are_parameters(engine: ew.Engine) -> None:
    texts = np.random.default_rng(1).integers(0, 256, (500, 4), dtype=np.uint8)
    seeds = np.arange(500, dtype=np.uint64) << np.uint64(50)
    found = engine.map(fnv, texts, seeds)
    assert found.dtype == np.uint64
    for text, seed, value in zip(texts, seeds, found):
        assert fnv(ew.array(ew.u8, text.tolist()), int(seed)) == value
    bodies = [Body(n, 0.3 * n, n % 3) for n in range(100)]
    values = list(engine.map(advance, bodies, range(100)))
    assert values == [advance(body, steps) for steps, body in enumerate(bodies)]


def test_functions_call_functions(engine: ew.Engine) -> None:
    assert list(engine.map(fibonacci, range(20))) == [fibonacci(n) for n in range(20)]
    assert list(engine.map(bumped, range(9))) == [bumped(n) for n in range(9)]
    assert bumped(4) == 122131


def test_a_failure_names_the_element_and_the_line(engine: ew.Engine) -> None:
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "3 * n + 1" in text)
    with pytest.raises(ew.FunctionError, match=f"element 70: OverflowError.*line {line}, in collatz") as caught:
        engine.map(collatz, [*range(1, 71), 2**62 + 1, 2**62 + 3, *range(1, 5)], chunk=7)
    assert (caught.value.element, caught.value.line) == (70, line)
    with pytest.raises(ew.FunctionError, match="element 2: IndexError"):
        engine.map(largest, [3, 4, 17])
    with pytest.raises(ew.FunctionError, match="element 1: RecursionError|elements 1 and later: trap"):
        engine.map(fibonacci, [3, 10**9], chunk=1)


def test_inputs_that_do_not_fit_are_refused(engine: ew.Engine) -> None:
    with pytest.raises(OverflowError, match="`steps` is i32"):
        engine.map(collatz_small, np.array([2**40]))
    with pytest.raises(OverflowError, match="does not fit i32"):
        engine.map(collatz_small, [2**40])
    with pytest.raises(TypeError, match="float64: convert"):
        engine.map(collatz, np.array([1.5]))
    with pytest.raises(TypeError, match="1.5 is a float"):
        engine.map(collatz, [1.5])
    with pytest.raises(TypeError, match="for each of its parameters: text, seed"):
        engine.map(fnv, [1])
    with pytest.raises(ValueError, match="different lengths"):
        engine.map(fnv, np.zeros((2, 4), np.uint8), np.zeros(3, np.uint64))
    with pytest.raises(ValueError, match=re.escape("shape (2, 4), not (2, 5)")):
        engine.map(fnv, np.zeros((2, 5), np.uint8), np.zeros(2, np.uint64))
    with pytest.raises(TypeError, match="decorated with @everwarp.function"):
        engine.map(math.sqrt, [1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="returns nothing"):
        engine.map(bump, [1], [2])


@ew.function
def collatz_small(steps: ew.i32) -> ew.i32:
    return steps


def test_a_number_from_outside_may_not_change(engine: ew.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(engine.map(largest, [5])) == [16]
    monkeypatch.setitem(globals(), "LIMIT", 7)
    with pytest.raises(ew.FunctionError, match="`LIMIT` was 1000 .* and is 7 now: pass it as a parameter"):
        engine.map(largest, [5])


def test_f32_rounds_when_it_is_stored(engine: ew.Engine) -> None:
    @ew.function
    def third(x: ew.f32, y: ew.f64) -> ew.f32:
        return x / y

    xs = np.linspace(0.1, 9, 100).astype(np.float32)
    found = engine.map(third, xs, np.full(100, 3.0))
    assert found.dtype == np.float32
    assert found.tolist() == [third(float(x), 3.0) for x in xs]
    assert (found == (xs.astype(np.float64) / 3.0).astype(np.float32)).all()


BODIES: dict[str, tuple[str, str]] = {
    "try": ("try:\n        a = 1\n    except ValueError:\n        a = 2", "errors cannot be caught"),
    "raise": ("raise ValueError", "write `assert condition`"),
    "with": ("with open('x') as f:\n        a = 1", "`with` is not compiled"),
    "text": ("b = 'text'", "'text' is no number"),
    "list": ("b = [1, 2]", "everwarp.array"),
    "comprehension": ("b = [i for i in range(3)]", "write a loop"),
    "lambda": ("b = lambda x: x", "decorate it"),
    "unassigned": ("if a:\n        b = 1\n    a = b", "`b` may have no value here"),
    "loop": ("for i in range(a):\n        pass\n    a = i", "`i` may have no value here"),
    "unknown": ("a = missing(a)", "`missing` is not known"),
    "print": ("print(a)", "cannot be called here"),
    "type": ("b = 1\n    b = 1.5", "`b` is a signed integer before, and this is a float"),
    "alias": ("p = ew.array(ew.i64, 3)\n    q = p", "`q` would be a second name of array(i64, 3)"),
    "index": ("p = ew.array(ew.i64, 3)\n    p[3] = 1", "the index 3 is not in 0 to 2"),
    "length": ("p = ew.array(ew.i64, a)", "the length of an array is a constant"),
    "f32": ("b: ew.f32 = 1.0", "f32 is for parameters"),
    "or": ("b = a or 1", "compare them"),
    "mixed": ("b = a + u", "write everwarp.u64(x) or everwarp.i64(x)"),
    "large": ("b = 1 << 64", "18446744073709551616 does not fit 64 bits"),
    "in": ("b = a in a", "`in` and `is` are not compiled"),
    "keyword": ("b = int(x=1)", "without names"),
    "global": ("global LIMIT\n    LIMIT = 3", "pass the value as a parameter"),
    "end": ("pass", "may end without a `return` of i64"),
    "nothing": ("a + 1", "this line does nothing"),
    "power": ("b = 2.0 ** 0.5", "a power of floats is not compiled yet"),
}


@pytest.mark.parametrize("name", BODIES)
def test_what_is_not_compiled_is_an_error_at_its_line(name: str, tmp_path: Path) -> None:
    body, message = BODIES[name]
    last = "" if name == "end" else "    return a\n"
    text = f"import everwarp as ew\n\n@ew.function\ndef f(a: ew.i64, u: ew.u64) -> ew.i64:\n    {body}\n{last}"
    file = tmp_path / "program.py"
    file.write_text(text)
    space: dict[str, Any] = {"__name__": "program"}
    with pytest.raises(ew.Unsupported, match=re.escape(message)) as caught:
        exec(compile(text, str(file), "exec", dont_inherit=True), space)
    error = caught.value
    assert isinstance(error, SyntaxError) and error.filename == str(file)
    assert error.lineno is not None and (name == "end" or error.lineno >= 5)
    assert error.text is not None and error.text.strip() in text


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("def f(a) -> ew.i64:", "`a` has no type"),
        ("def f(a: ew.i64):", "the result has no type"),
        ("def f(a: str) -> ew.i64:", "a type is one of"),
        ("def f(a: ew.i64 = 1) -> ew.i64:", "no defaults"),
        ("def f(*a: ew.i64) -> ew.i64:", "no `*`"),
        ("async def f(a: ew.i64) -> ew.i64:", "leave out `async`"),
        ("def f(a: ew.i64) -> ew.array(ew.i64, 2):", "the result is a number"),
    ],
)
def test_wrong_signatures_are_errors(head: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(f"import everwarp as ew\n@ew.function\n{head}\n    return 1\n")
    with pytest.raises(ew.Unsupported, match=re.escape(message)):
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), {"__name__": "program"})


def test_exact_comparisons_and_divisions_of_large_integers(engine: ew.Engine) -> None:
    @ew.function
    def quotient(a: ew.i64, b: ew.i64) -> ew.f64:
        return a / b

    @ew.function
    def below(a: ew.i64, x: ew.f64) -> ew.boolean:
        return a < x

    generator = np.random.default_rng(3)
    a = generator.integers(-(2**63), 2**63 - 1, 20_000, endpoint=True) >> generator.integers(0, 62, 20_000)
    b = generator.integers(-(2**63), 2**63 - 1, 20_000, endpoint=True) >> generator.integers(0, 62, 20_000)
    b[b == 0] = 1
    found = engine.map(quotient, a, b)
    assert found.tolist() == [int(p) / int(q) for p, q in zip(a, b)]
    x = a.astype(np.float64) + generator.integers(-1, 2, 20_000)
    assert engine.map(below, a, x).tolist() == [int(p) < float(q) for p, q in zip(a, x)]
