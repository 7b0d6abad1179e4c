"""Integer and floating-point operations that compute what CPython computes, or fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import wasm
from .values import I64_HIGH, I64_LOW, U64_HIGH, Value, integer
from .wasm import OP, get, i64, if_, set_, tee

if TYPE_CHECKING:
    from .function import FunctionCompiler

#: Why a function fails, with the exception that CPython would raise or the reason that it would not.
OVERFLOW, ZERO, INDEX, VALUE, ASSERTION, RANGE, DEPTH, ROOM = range(1, 9)
FAILURES = {
    OVERFLOW: "OverflowError: an integer does not fit 64 bits",
    ZERO: "ZeroDivisionError: division by zero",
    INDEX: "IndexError: the index is not in the array",
    VALUE: "ValueError: the argument is outside of what the operation is defined for",
    ASSERTION: "AssertionError: an assertion does not hold",
    RANGE: "OverflowError: the value does not fit its type",
    DEPTH: "RecursionError: calls are nested too deeply",
    ROOM: "MemoryError: there is no room for another actor: give the first `spawn` of the class a larger `capacity`",
}


def fits(low: int, high: int, kind: str) -> bool:
    least, most = (I64_LOW, I64_HIGH) if kind == "i" else (0, U64_HIGH)
    return least <= low and high <= most


class Arithmetic:
    """The operations of one function. Line numbers go into the code that reports a failure."""

    def __init__(self, function: FunctionCompiler) -> None:
        self.f = function

    def pair(self, left: Value, right: Value, use: Callable[[int, int], bytes]) -> bytes:
        """Code that has both values in locals: `use(x, y)` returns what follows."""
        kind_x, kind_y = left.kind, right.kind
        with self.f.temporary(kind_x) as x, self.f.temporary(kind_y) as y:
            return left.code + right.code + set_(y) + set_(x) + use(x, y)

    def add(self, left: Value, right: Value) -> Value:
        low, high, kind = left.low + right.low, left.high + right.high, left.kind
        plain = left.code + right.code + OP["i64.add"]
        if fits(low, high, kind):
            return integer(plain, low, high, kind)

        def checked(x: int, y: int) -> bytes:
            with self.f.temporary("i") as r:
                sum_ = get(x) + get(y) + OP["i64.add"] + set_(r)
                if kind == "u":
                    wrong = get(r) + get(x) + OP["i64.lt_u"]
                elif right.low >= 0:
                    wrong = get(r) + get(x) + OP["i64.lt_s"]
                else:
                    wrong = get(r) + get(x) + OP["i64.xor"] + get(r) + get(y) + OP["i64.xor"] + OP["i64.and"]
                    wrong += i64(0) + OP["i64.lt_s"]
                return sum_ + wrong + if_(self.f.fail(OVERFLOW)) + get(r)

        return integer(self.pair(left, right, checked), low, high, kind)

    def subtract(self, left: Value, right: Value) -> Value:
        low, high, kind = left.low - right.high, left.high - right.low, left.kind
        if fits(low, high, kind):
            return integer(left.code + right.code + OP["i64.sub"], low, high, kind)

        def checked(x: int, y: int) -> bytes:
            with self.f.temporary("i") as r:
                if kind == "u":
                    wrong = get(x) + get(y) + OP["i64.lt_u"]
                    return wrong + if_(self.f.fail(OVERFLOW)) + get(x) + get(y) + OP["i64.sub"]
                difference = get(x) + get(y) + OP["i64.sub"] + set_(r)
                wrong = get(x) + get(y) + OP["i64.xor"] + get(x) + get(r) + OP["i64.xor"] + OP["i64.and"]
                wrong += i64(0) + OP["i64.lt_s"]
                return difference + wrong + if_(self.f.fail(OVERFLOW)) + get(r)

        return integer(self.pair(left, right, checked), low, high, kind)

    def multiply(self, left: Value, right: Value) -> Value:
        ends = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high, kind = min(ends), max(ends), left.kind
        if fits(low, high, kind):
            return integer(left.code + right.code + OP["i64.mul"], low, high, kind)

        def checked(x: int, y: int) -> bytes:
            helper = self.f.helper("multiply_" + kind)
            slow = get(x) + get(y) + self.f.line_code() + wasm.call(helper)
            fast = get(x) + get(y) + OP["i64.mul"]
            if kind == "u":
                small = get(x) + get(y) + OP["i64.or"] + i64(32) + OP["i64.shr_u"] + OP["i64.eqz"]
            else:
                half = i64(1 << 31)
                small = get(x) + half + OP["i64.add"] + get(y) + half + OP["i64.add"] + OP["i64.or"]
                small += i64(32) + OP["i64.shr_u"] + OP["i64.eqz"]
            return small + if_(fast, slow, wasm.I64)

        return integer(self.pair(left, right, checked), low, high, kind)

    def _not_zero(self, value: Value, local: int) -> bytes:
        if value.low > 0 or value.high < 0:
            return b""
        return get(local) + OP["i64.eqz"] + if_(self.f.fail(ZERO))

    def floor_divide(self, left: Value, right: Value) -> Value:
        if left.kind == "u":
            code = self.pair(
                left, right, lambda x, y: self._not_zero(right, y) + get(x) + get(y) + OP["i64.div_u"]
            )
            return integer(code, 0, left.high // max(right.low, 1), "u")
        c = right.constant
        if c is not None and c > 0 and c & (c - 1) == 0:
            code = left.code + i64(c.bit_length() - 1) + OP["i64.shr_s"]
            return integer(code, left.low // c, left.high // c)

        def checked(x: int, y: int) -> bytes:
            code = self._not_zero(right, y)
            if left.low == I64_LOW and right.low <= -1 <= right.high:
                wrong = get(x) + i64(I64_LOW) + OP["i64.eq"] + get(y) + i64(-1) + OP["i64.eq"] + OP["i32.and"]
                code += wrong + if_(self.f.fail(OVERFLOW))
            quotient = get(x) + get(y) + OP["i64.div_s"]
            if left.low >= 0 and right.low >= 0:
                return code + quotient
            with self.f.temporary("i") as q:
                rest = get(x) + get(q) + get(y) + OP["i64.mul"] + OP["i64.sub"]
                inexact = rest + i64(0) + OP["i64.ne"]
                opposite = get(x) + get(y) + OP["i64.xor"] + i64(0) + OP["i64.lt_s"]
                less = inexact + opposite + OP["i32.and"] + OP["i64.extend_u"]
                return code + quotient + set_(q) + get(q) + less + OP["i64.sub"]

        code = self.pair(left, right, checked)
        if right.low > 0:
            ends = [a // b for a in (left.low, left.high) for b in (right.low, right.high)]
            return integer(code, min(ends), max(ends))
        return integer(code, I64_LOW, I64_HIGH)

    def modulo(self, left: Value, right: Value) -> Value:
        c = right.constant
        if c is not None and c > 0 and c & (c - 1) == 0:
            return integer(left.code + i64(c - 1) + OP["i64.and"], 0, c - 1, left.kind)
        low, high = min(right.low + 1, 0), max(right.high - 1, 0)

        def checked(x: int, y: int) -> bytes:
            code = self._not_zero(right, y)
            if left.kind == "u":
                return code + get(x) + get(y) + OP["i64.rem_u"]
            rest = get(x) + get(y) + OP["i64.rem_s"]
            if left.low >= 0 and right.low >= 0:
                return code + rest
            with self.f.temporary("i") as r:
                opposite = get(r) + get(y) + OP["i64.xor"] + i64(0) + OP["i64.lt_s"]
                inexact = get(r) + i64(0) + OP["i64.ne"]
                added = get(y) + i64(0) + opposite + inexact + OP["i32.and"] + wasm.SELECT
                return code + rest + set_(r) + get(r) + added + OP["i64.add"]

        return integer(self.pair(left, right, checked), low, high, left.kind)

    def shift_left(self, left: Value, right: Value) -> Value:
        kind, c = left.kind, right.constant
        if c is not None and 0 <= c < 64 and fits(left.low << c, left.high << c, kind):
            return integer(left.code + i64(c) + OP["i64.shl"], left.low << c, left.high << c, kind)
        back = OP["i64.shr_s"] if kind == "i" else OP["i64.shr_u"]

        def checked(x: int, y: int) -> bytes:
            code = b""
            if right.low < 0:
                code += get(y) + i64(0) + OP["i64.lt_s"] + if_(self.f.fail(VALUE))
            with self.f.temporary("i") as r:
                shifted = get(x) + get(y) + OP["i64.shl"] + set_(r)
                lost = get(r) + get(y) + back + get(x) + OP["i64.ne"]
                far = get(y) + i64(63) + OP["i64.gt_u"]
                some = get(x) + OP["i64.eqz"] + OP["i32.eqz"]
                wrong = lost + far + some + OP["i32.and"] + OP["i32.or"]
                # Zero stays zero however far it is shifted.
                return code + shifted + wrong + if_(self.f.fail(OVERFLOW)) + get(r)

        return integer(self.pair(left, right, checked), I64_LOW, U64_HIGH, kind)

    def shift_right(self, left: Value, right: Value) -> Value:
        kind, c = left.kind, right.constant
        op = OP["i64.shr_s"] if kind == "i" else OP["i64.shr_u"]
        if c is not None and 0 <= c < 64:
            return integer(left.code + i64(c) + op, left.low >> c, left.high >> c, kind)

        def checked(x: int, y: int) -> bytes:
            code = b""
            if right.low < 0:
                code += get(y) + i64(0) + OP["i64.lt_s"] + if_(self.f.fail(VALUE))
            far = get(y) + i64(63) + OP["i64.gt_u"]
            if kind == "i":
                return code + get(x) + i64(63) + get(y) + far + wasm.SELECT + op
            return code + i64(0) + get(x) + get(y) + op + far + wasm.SELECT

        return integer(self.pair(left, right, checked), min(left.low, 0), max(left.high, 0), kind)

    def bits(self, op: str, left: Value, right: Value) -> Value:
        code, kind = left.code + right.code + OP["i64." + op], left.kind
        if kind == "u":
            return integer(code, 0, U64_HIGH, "u")
        if left.low >= 0 and right.low >= 0:
            if op == "and":
                return integer(code, 0, min(left.high, right.high))
            return integer(code, 0, (1 << max(left.high, right.high).bit_length()) - 1)
        if op == "and" and (left.low >= 0 or right.low >= 0):
            return integer(code, 0, left.high if left.low >= 0 else right.high)
        return integer(code, I64_LOW, I64_HIGH)

    def negate(self, value: Value) -> Value:
        if value.low > I64_LOW:
            with self.f.temporary("i") as x:
                return integer(value.code + set_(x) + i64(0) + get(x) + OP["i64.sub"], -value.high, -value.low)
        with self.f.temporary("i") as x:
            wrong = get(x) + i64(I64_LOW) + OP["i64.eq"] + if_(self.f.fail(OVERFLOW))
            code = value.code + set_(x) + wrong + i64(0) + get(x) + OP["i64.sub"]
            return integer(code, -value.high, I64_HIGH)

    def absolute(self, value: Value) -> Value:
        if value.low >= 0:
            return value
        with self.f.temporary("i") as x:
            code = value.code + set_(x)
            if value.low == I64_LOW:
                code += get(x) + i64(I64_LOW) + OP["i64.eq"] + if_(self.f.fail(OVERFLOW))
            code += i64(0) + get(x) + OP["i64.sub"] + get(x) + get(x) + i64(0) + OP["i64.lt_s"] + wasm.SELECT
            return integer(code, 0, max(-value.low, value.high))

    def convert(self, value: Value, low: int, high: int, kind: str) -> Value:
        """An integer as one of another range, or a failure."""
        if low <= value.low and value.high <= high:
            return Value(value.code, kind, value.low, value.high, value.constant)
        with self.f.temporary("i") as x:
            tests = []
            signed = value.kind == "i"
            if value.low < low:
                tests.append(get(x) + i64(low) + OP["i64.lt_s" if signed else "i64.lt_u"])
            if value.high > high:
                tests.append(get(x) + i64(high) + OP["i64.gt_s" if signed else "i64.gt_u"])
            wrong = tests[0] + (tests[1] + OP["i32.or"] if len(tests) > 1 else b"")
            code = value.code + tee(x) + wasm.DROP + wrong + if_(self.f.fail(RANGE)) + get(x)
            return Value(code, kind, max(value.low, low), min(value.high, high))

    def truncate(self, value: Value, kind: str = "i") -> Value:
        """The whole part of a float as an integer, or a failure if it does not fit."""
        with self.f.temporary("f") as x:
            least, most = (-(2.0**63), 2.0**63) if kind == "i" else (-1.0, 2.0**64)
            above = get(x) + wasm.f64(least) + OP["f64.ge" if kind == "i" else "f64.gt"]
            inside = above + get(x) + wasm.f64(most) + OP["f64.lt"] + OP["i32.and"]
            code = value.code + set_(x) + inside + OP["i32.eqz"] + if_(self.f.fail(RANGE))
            code += get(x) + OP["i64.trunc_s" if kind == "i" else "i64.trunc_u"]
            return integer(code, I64_LOW, U64_HIGH, kind)

    def divide_floats(self, left: Value, right: Value) -> Value:
        if right.constant and left.constant is not None:
            from .values import number

            return number(left.constant / right.constant)
        if right.constant:
            return Value(left.code + right.code + OP["f64.div"], "f")

        def checked(x: int, y: int) -> bytes:
            zero = get(y) + wasm.f64(0.0) + OP["f64.eq"] + if_(self.f.fail(ZERO))
            return zero + get(x) + get(y) + OP["f64.div"]

        return Value(self.pair(left, right, checked), "f")

    def floating(self, value: Value) -> Value:
        """An integer or truth value as a float, rounded as by CPython."""
        if value.kind == "f":
            return value
        if isinstance(value.constant, int):
            return Value(wasm.f64(float(value.constant)), "f", constant=float(value.constant))
        if value.kind == "b":
            return Value(value.code + OP["i64.extend_u"] + OP["f64.convert_u"], "f")
        return Value(value.code + OP["f64.convert_s" if value.kind == "i" else "f64.convert_u"], "f")
