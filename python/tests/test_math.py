"""`math` in compiled functions is within one unit in the last place of CPython's, and fails where that raises."""

from __future__ import annotations

import math
from collections.abc import Callable

import everwarp as ew
import numpy as np
import pytest


@ew.function
def exp(x: ew.f64) -> ew.f64:
    return math.exp(x)


@ew.function
def log(x: ew.f64) -> ew.f64:
    return math.log(x)


@ew.function
def log2(x: ew.f64) -> ew.f64:
    return math.log2(x)


@ew.function
def log10(x: ew.f64) -> ew.f64:
    return math.log10(x)


@ew.function
def sin(x: ew.f64) -> ew.f64:
    return math.sin(x)


@ew.function
def cos(x: ew.f64) -> ew.f64:
    return math.cos(x)


@ew.function
def atan(x: ew.f64) -> ew.f64:
    return math.atan(x)


@ew.function
def copysign(x: ew.f64, y: ew.f64) -> ew.f64:
    return math.copysign(x, y)


@ew.function
def radians(x: ew.f64) -> ew.f64:
    return math.radians(x) + math.degrees(x)


@ew.function
def atan2(y: ew.f64, x: ew.f64) -> ew.f64:
    return math.atan2(y, x)


@ew.function
def unit(key: ew.u64, counter: ew.u64) -> ew.f64:
    return ew.random_unit(key, counter)


@ew.function
def words(key: ew.u64, counter: ew.u64) -> ew.u64:
    return ew.random_bits(key, counter)


COUNT = 100_000


def spread(low: float, high: float) -> np.ndarray:
    """Numbers of all sizes, and a few that are special."""
    generator = np.random.default_rng(11)
    values = generator.uniform(low, high, COUNT)
    values[::3] *= 2.0 ** -generator.integers(0, 60, len(values[::3]))
    values[:6] = [0.5, 1.0, 1.5, 0.25, 2.0, 0.75]
    return values


def ulps(found: np.ndarray, expected: np.ndarray) -> int:
    """The largest distance, in units in the last place."""
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    real = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found[real]), np.signbit(expected[real]))
    a, b = np.abs(found[real]).view(np.int64), np.abs(expected[real]).view(np.int64)
    return int(np.abs(a - b).max())


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (exp, spread(-745, 709)),
        (exp, spread(-1, 1)),
        (log, np.abs(spread(0, 1e6)) + 5e-324),
        (log, spread(0.5, 2.0) + 1e-9),
        (log2, np.abs(spread(0, 1e6)) + 5e-324),
        (log2, spread(0.5, 2.0) + 1e-9),
        (log10, np.abs(spread(0, 1e6)) + 5e-324),
        (log10, spread(0.5, 2.0) + 1e-9),
        (sin, spread(-10, 10)),
        (sin, spread(-800_000, 800_000)),
        (cos, spread(-10, 10)),
        (cos, spread(-800_000, 800_000)),
        (atan, spread(-10, 10)),
        (atan, spread(-1e6, 1e6)),
    ],
)
def test_elementary_functions_are_close(
    engine: ew.Engine, function: ew.Function, values: np.ndarray
) -> None:
    expected = np.array([function.python(x) for x in values.tolist()])
    found = engine.map(function, values)
    # The C library's log10 itself is further from the truth than half a unit.
    assert ulps(found, expected) <= (2 if function is log10 else 1)
    # Most results are equal: an error in the method would change nearly all of them.
    assert (found == expected).mean() > (0.6 if function is log10 else 0.8)


def test_powers_of_two_and_ten_have_exact_logarithms(engine: ew.Engine) -> None:
    twos = [2.0**n for n in range(-1074, 1024)]
    assert engine.map(log2, twos).tolist() == [float(n) for n in range(-1074, 1024)]
    tens = [10.0**n for n in range(23)]
    assert engine.map(log10, tens).tolist() == [float(n) for n in range(23)]


def test_angles(engine: ew.Engine) -> None:
    y, x = spread(-10, 10), spread(-20, 20)[::-1].copy()
    expected = np.array([math.atan2(a, b) for a, b in zip(y, x)])
    assert ulps(engine.map(atan2, y, x), expected) <= 1
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    pairs = [(a, b) for a in special for b in special]
    y, x = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    expected = np.array([math.atan2(a, b) for a, b in pairs])
    assert ulps(engine.map(atan2, y, x), expected) <= 1
    values = spread(-720, 720)
    assert engine.map(radians, values).tolist() == [math.radians(v) + math.degrees(v) for v in values]


@pytest.mark.parametrize(
    ("function", "wrong"),
    [(exp, 710.0), (log, 0.0), (log, -1.0), (log2, 0.0), (log10, -math.inf), (sin, math.inf), (cos, -math.inf)],
)
def test_outside_of_its_domain_a_function_fails(engine: ew.Engine, function: ew.Function, wrong: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        function(wrong)
    with pytest.raises(ew.FunctionError, match="element 1: (ValueError|OverflowError)"):
        engine.map(function, [1.0, wrong])


@pytest.mark.parametrize("function", [exp, log, log2, log10, sin, cos, atan])
def test_special_values_pass_through(engine: ew.Engine, function: ew.Function) -> None:
    values = [math.nan] + ([] if function in (sin, cos) else [math.inf])
    values += [] if function in (log, log2, log10) else [0.0, -0.0, 5e-324]
    found = engine.map(function, np.array(values))
    assert ulps(found, np.array([function.python(x) for x in values])) <= 1


def test_sign_of_a_nan_is_no_sign(engine: ew.Engine) -> None:
    found = engine.map(copysign, [1.0, 2.0, math.nan, math.inf], [-0.0, 3.0, math.nan, -math.inf]).tolist()
    assert found[:2] == [-1.0, 2.0] and math.isnan(found[2]) and found[3] == -math.inf
    with pytest.raises(ew.FunctionError, match="element 1: ValueError"):
        engine.map(copysign, [1.0, 1.0], [1.0, -math.nan])


def test_random_numbers_depend_on_key_and_counter_alone(engine: ew.Engine) -> None:
    keys, counters = np.arange(2000, dtype=np.uint64) % 7, np.arange(2000, dtype=np.uint64)
    found = engine.map(unit, keys, counters)
    run: Callable[[int, int], float] = ew.random_unit
    assert found.tolist() == [run(int(k), int(c)) for k, c in zip(keys, counters)]
    assert 0 <= found.min() and found.max() < 1 and abs(found.mean() - 0.5) < 0.02
    bits = engine.map(words, keys, counters)
    assert len(set(bits.tolist())) == 2000
    # The first outputs of SplitMix64 with this seed, whose mixed key is the seed itself.
    assert ew.random_bits(0, 0) == 0xE220A8397B1DCDAF
