"""Elementary functions, written in the compiled subset, so that all engines compute the same bits.

Each is within one unit in the last place of CPython's. The methods are the usual ones: an argument is reduced with
constants in several parts, and a series of enough terms is summed. Callers have checked the domain.
"""

from __future__ import annotations

import math

from ..types import array, f64, i64, u64
from .library import bits, floor, of_bits

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
FRACTION = (1 << 52) - 1
ONE = 1023 << 52
HIGH_HALF = -(1 << 32)
# ln 2 in two parts; the first has 32 zero bits at its end, so that its products with exponents are exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# 1 / ln 2 and 1 / ln 10 in two parts, and log10 2.
TO_LOG2_HIGH, TO_LOG2_LOW = 1.44269504072144627571, 1.67517131648865118353e-10
TO_LOG10_HIGH, TO_LOG10_LOW = 4.34294481878168880939e-01, 2.50829467116452752298e-11
LOG10_2_HIGH, LOG10_2_LOW = 3.01029995663611771306e-01, 3.69423907715893078616e-13
# pi / 2 in parts of 33 bits, with the rest.
QUARTER_1, QUARTER_2, QUARTER_3 = 1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624871116645580e-21
QUARTER_REST = 8.47842766036889956997e-32
#: Beyond this, sines and cosines fail: the reduction is exact up to it.
TURNS_LIMIT = 823_549.0


def exp(x: f64) -> f64:
    """e to the power of x."""
    if math.isnan(x):
        return x
    if x > 709.782712893384:
        return math.inf
    if x < -745.2:
        return 0.0
    k = int(floor(x * 1.4426950408889634 + 0.5))
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    c = (high - r) - low
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 1 / 2
    y = 1.0 + (r + (r * r * p + (c + c * r)))
    if k > 1000:
        return y * of_bits((k + 23) << 52) * of_bits((1023 + 1000) << 52)
    if k < -1000:
        return y * of_bits((1023 + k + 1000) << 52) * of_bits(23 << 52)
    return y * of_bits((1023 + k) << 52)


def split(x: f64, parts: array(f64, 2)) -> i64:  # type: ignore[valid-type]
    """x = 2^k (1 + f), with the square root of 1/2 < 1 + f < that of 2. Stores f and log(1 + f) - f + f * f / 2."""
    b = bits(x)
    k = 0
    if b >> 52 == 0:
        b = bits(x * 18014398509481984.0)
        k = -54
    k = k + (b >> 52) - 1023
    m = of_bits((b & FRACTION) | ONE)
    if m > 1.4142135623730951:
        m = m * 0.5
        k = k + 1
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    r = 2 / 23
    r = r * z + 2 / 21
    r = r * z + 2 / 19
    r = r * z + 2 / 17
    r = r * z + 2 / 15
    r = r * z + 2 / 13
    r = r * z + 2 / 11
    r = r * z + 2 / 9
    r = r * z + 2 / 7
    r = r * z + 2 / 5
    r = r * z + 2 / 3
    r = r * z
    parts[0] = f
    parts[1] = s * (0.5 * f * f + r)
    return k


def log(x: f64) -> f64:
    """The natural logarithm of a positive number."""
    if not math.isfinite(x):
        return x
    parts = array(f64, 2)
    k = float(split(x, parts))
    f = parts[0]
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (parts[1] + k * LN2_LOW)) - f)


def log2(x: f64) -> f64:
    """The logarithm to base 2."""
    if not math.isfinite(x):
        return x
    parts = array(f64, 2)
    k = float(split(x, parts))
    f = parts[0]
    half = 0.5 * f * f
    high = of_bits(bits(f - half) & HIGH_HALF)
    low = (f - high) - half + parts[1]
    a = high * TO_LOG2_HIGH
    b = (low + high) * TO_LOG2_LOW + low * TO_LOG2_HIGH
    w = k + a
    return b + ((k - w) + a) + w


def log10(x: f64) -> f64:
    """The logarithm to base 10."""
    if not math.isfinite(x):
        return x
    parts = array(f64, 2)
    k = float(split(x, parts))
    f = parts[0]
    half = 0.5 * f * f
    high = of_bits(bits(f - half) & HIGH_HALF)
    low = (f - high) - half + parts[1]
    a = high * TO_LOG10_HIGH
    y = k * LOG10_2_HIGH
    b = k * LOG10_2_LOW + (low + high) * TO_LOG10_LOW + low * TO_LOG10_HIGH
    w = y + a
    return b + ((y - w) + a) + w


def reduced(x: f64, rest: array(f64, 2)) -> i64:  # type: ignore[valid-type]
    """x minus a multiple of pi / 2, in two parts, and which multiple."""
    n = int(floor(x * 0.6366197723675814 + 0.5))
    t = x - n * QUARTER_1
    w = n * QUARTER_2
    r = t - w
    e = (t - r) - w
    w2 = n * QUARTER_3
    r2 = r - w2
    e2 = ((r - r2) - w2) + e - n * QUARTER_REST
    rest[0] = r2 + e2
    rest[1] = (r2 - rest[0]) + e2
    return n


def sine(x: f64, low: f64) -> f64:
    """The sine of x + low, where |x| is at most pi / 4."""
    z = x * x
    p = 1 / 51090942171709440000.0
    p = p * z - 1 / 121645100408832000
    p = p * z + 1 / 355687428096000
    p = p * z - 1 / 1307674368000
    p = p * z + 1 / 6227020800
    p = p * z - 1 / 39916800
    p = p * z + 1 / 362880
    p = p * z - 1 / 5040
    p = p * z + 1 / 120
    v = z * x
    return x - ((z * (0.5 * low - v * p) - low) + v * (1 / 6))


def cosine(x: f64, low: f64) -> f64:
    """The cosine of x + low, where |x| is at most pi / 4."""
    z = x * x
    p = 1 / 2432902008176640000
    p = p * z - 1 / 6402373705728000
    p = p * z + 1 / 20922789888000
    p = p * z - 1 / 87178291200
    p = p * z + 1 / 479001600
    p = p * z - 1 / 3628800
    p = p * z + 1 / 40320
    p = p * z - 1 / 720
    p = p * z + 1 / 24
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + (z * z * p - x * low))


def sin(x: f64) -> f64:
    """The sine, of up to `TURNS_LIMIT`."""
    if math.fabs(x) < 1e-9 or math.isnan(x):
        return x
    rest = array(f64, 2)
    n = reduced(x, rest) & 3
    if n == 0:
        return sine(rest[0], rest[1])
    if n == 1:
        return cosine(rest[0], rest[1])
    if n == 2:
        return -sine(rest[0], rest[1])
    return -cosine(rest[0], rest[1])


def cos(x: f64) -> f64:
    """The cosine, of up to `TURNS_LIMIT`."""
    if math.isnan(x):
        return x
    rest = array(f64, 2)
    n = reduced(x, rest) & 3
    if n == 0:
        return cosine(rest[0], rest[1])
    if n == 1:
        return -sine(rest[0], rest[1])
    if n == 2:
        return -cosine(rest[0], rest[1])
    return sine(rest[0], rest[1])


def atan(x: f64) -> f64:
    """The arc tangent."""
    if math.isnan(x):
        return x
    a = math.fabs(x)
    t = a
    high = 0.0
    low = 0.0
    if a >= 2.4375:
        high = 1.57079632679489655800
        low = 6.12323399573676603587e-17
        t = -1.0 / a
    elif a >= 1.1875:
        high = 9.82793723247329054082e-01
        low = 1.39033110312309984516e-17
        t = (a - 1.5) / (1.0 + 1.5 * a)
    elif a >= 0.6875:
        high = 7.85398163397448278999e-01
        low = 3.06161699786838301793e-17
        t = (a - 1.0) / (a + 1.0)
    elif a >= 0.4375:
        high = 4.63647609000806093515e-01
        low = 2.26987774529616870924e-17
        t = (2.0 * a - 1.0) / (2.0 + a)
    z = t * t
    p = 0.0
    for n in range(47, 1, -2):
        p = (1.0 / n - p) * z
    y = high - ((t * p - low) - t)
    return math.copysign(y, x)


def atan2(y: f64, x: f64) -> f64:
    """The angle of the point (x, y)."""
    if math.isnan(x) or math.isnan(y):
        return math.nan
    left = math.copysign(1.0, x) < 0.0
    if y == 0.0:
        return math.copysign(math.pi, y) if left else y
    if math.isinf(x):
        if math.isinf(y):
            return math.copysign(2.356194490192345 if left else 0.7853981633974483, y)
        return math.copysign(math.pi if left else 0.0, y)
    if x == 0.0 or math.isinf(y):
        return math.copysign(1.5707963267948966, y)
    z = atan(math.fabs(y / x))
    if left:
        z = math.pi - (z - 1.2246467991473531772e-16)
    return math.copysign(z, y)


def mixed(z: u64) -> u64:
    """The finalizer of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def random_bits(key: u64, counter: u64) -> u64:
    """64 random bits, which depend on the key and the counter alone: SplitMix64 with a mixed key as its seed."""
    return mixed((mixed(key) + (counter + 1) * GOLDEN) & WORD)


def random_unit(key: u64, counter: u64) -> f64:
    """A random number from 0 up to 1, of 53 random bits."""
    return (random_bits(key, counter) >> 11) * 1.1102230246251565e-16
