"""Parts of Python's arithmetic that are written in the compiled subset itself.

A function here gets the line of its caller, so that a failure names the line of the user's function.
"""

from __future__ import annotations

import math
import struct

from ..types import f64, i64, u64

FRACTION = (1 << 52) - 1
WORD = (1 << 64) - 1


def bits(x: float) -> int:
    """The bits of a float, as a signed integer."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def of_bits(n: int) -> float:
    """The float with these bits."""
    return float(struct.unpack("<d", struct.pack("<q", n))[0])


def floor(x: float) -> float:
    """The floor as a float."""
    return float(math.floor(x)) if math.isfinite(x) else x


def remainder(x: f64, y: f64) -> f64:
    """C's fmod: exact, with the sign of x. Long division of the fractions, some bits at a time."""
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0.0:
        return math.nan
    if math.isinf(y) or math.fabs(x) < math.fabs(y):
        return x
    a = bits(math.fabs(x))
    b = bits(math.fabs(y))
    ea = a >> 52
    eb = b >> 52
    a = a & FRACTION
    b = b & FRACTION
    if ea == 0:
        ea = 1
    else:
        a = a | (1 << 52)
    if eb == 0:
        eb = 1
    else:
        b = b | (1 << 52)
    a = a % b
    while ea > eb and a != 0:
        step = min(ea - eb, 10)
        a = (a << step) % b
        ea = ea - step
    if a == 0:
        return math.copysign(0.0, x)
    e = eb
    while a < (1 << 52) and e > 1:
        a = a << 1
        e = e - 1
    if a >= (1 << 52):
        a = (a & FRACTION) | (e << 52)
    return math.copysign(of_bits(a), x)


def float_modulo(x: f64, y: f64) -> f64:
    """`x % y` of floats, where y is not 0."""
    r = remainder(x, y)
    if math.isnan(r):
        return r
    if r == 0.0:
        return math.copysign(0.0, y)
    if (y < 0.0) != (r < 0.0):
        r = r + y
    return r


def float_floor_divide(x: f64, y: f64) -> f64:
    """`x // y` of floats, where y is not 0, with CPython's corrections."""
    r = remainder(x, y)
    q = (x - r) / y
    if r != 0.0 and (y < 0.0) != (r < 0.0):
        q = q - 1.0
    if q == 0.0:
        return math.copysign(0.0, x / y)
    down = floor(q)
    if q - down > 0.5:
        down = down + 1.0
    return down


def divide_u(a: u64, b: u64) -> f64:
    """The float nearest to a / b, where b is not 0: 55 bits of the quotient, and one that says whether more follow."""
    if a == 0:
        return 0.0
    q = a // b
    r = a % b
    e = 0
    while q < (1 << 54):
        h = b - r
        if r >= h:
            r = r - h
            q = (q << 1) | 1
        else:
            r = r + r
            q = q << 1
        e = e + 1
    if r != 0:
        q = q | 1
    return float(q) * of_bits((1023 - e) << 52)


def divide_i(a: i64, b: i64) -> f64:
    """The same for signed integers."""
    x = u64(0)
    y = u64(0)
    if a < 0:
        x = (0 - a) & WORD
    else:
        x = u64(a)
    if b < 0:
        y = (0 - b) & WORD
    else:
        y = u64(b)
    q = divide_u(x, y)
    if (a < 0) != (b < 0):
        return -q
    return q


def power_i(x: i64, n: i64) -> i64:
    """x to the power of n, where n is not negative. A square that does not fit is a factor of the result."""
    r = 1
    while True:
        if n & 1 == 1:
            r = r * x
        n = n >> 1
        if n == 0:
            return r
        x = x * x


def order_i(x: i64, y: f64) -> i64:
    """Compares an integer and a float exactly: -1, 0 or 1, and 2 for NaN."""
    if math.isnan(y):
        return 2
    if y >= 9223372036854775808.0:
        return -1
    if y < -9223372036854775808.0:
        return 1
    t = int(y)
    if x != t:
        return -1 if x < t else 1
    rest = y - float(t)
    if rest == 0.0:
        return 0
    return -1 if rest > 0.0 else 1


def order_u(x: u64, y: f64) -> i64:
    """The same for a u64."""
    if math.isnan(y):
        return 2
    if y >= 18446744073709551616.0:
        return -1
    if y < 0.0:
        return 1
    t = u64(y)
    if x != t:
        return -1 if x < t else 1
    rest = y - float(t)
    if rest == 0.0:
        return 0
    return -1
