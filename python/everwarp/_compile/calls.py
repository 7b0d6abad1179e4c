"""The functions of Python and of `math` that compiled functions may call."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import _handlers
from . import elementary, library, sending, wasm
from .arithmetic import OVERFLOW, VALUE
from .expressions import Expressions
from .values import ArrayType, Value, integer, number
from .wasm import OP, get, if_, set_

Compile = Callable[[Expressions, ast.Call], Value]
BUILTINS: dict[Any, Compile] = {}


def compiles(target: Any) -> Callable[[Compile], Compile]:
    def keep(function: Compile) -> Compile:
        BUILTINS[target] = function
        return function

    return keep


@compiles(builtins.len)
def length(f: Expressions, node: ast.Call) -> Value:
    (value,) = f.arguments(node, 1)
    if not isinstance(value.of, ArrayType):
        raise f.error(node, f"only arrays have a length, and this is {value}")
    return number(value.of.length)


@compiles(builtins.abs)
def absolute(f: Expressions, node: ast.Call) -> Value:
    (value,) = f.arguments(node, 1)
    if value.kind == "f":
        return Value(value.code + OP["f64.abs"], "f")
    return value if value.kind == "u" else f.arithmetic.absolute(f.signed(node, value))


@compiles(builtins.int)
def to_int(f: Expressions, node: ast.Call) -> Value:
    (value,) = f.arguments(node, 1)
    if value.kind == "f":
        return f.arithmetic.truncate(value)
    if value.kind == "p":
        raise f.error(node, f"{value} is no number")
    return f.widened(value) if value.kind == "b" else value


@compiles(builtins.float)
def to_float(f: Expressions, node: ast.Call) -> Value:
    if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
        try:
            return number(float(node.args[0].value))
        except ValueError:
            raise f.error(node, f"{node.args[0].value!r} is no number") from None
    (value,) = f.arguments(node, 1)
    if value.kind == "p":
        raise f.error(node, f"{value} is no number")
    return f.arithmetic.floating(value)


@compiles(builtins.bool)
def to_bool(f: Expressions, node: ast.Call) -> Value:
    if len(node.args) != 1:
        raise f.error(node, "`bool` takes one argument")
    return Value(f.truth(node.args[0]), "b")


@compiles(builtins.round)
def rounded(f: Expressions, node: ast.Call) -> Value:
    (value,) = f.arguments(node, 1)
    if value.kind != "f":
        return f.signed(node, value)
    return f.arithmetic.truncate(Value(value.code + OP["f64.nearest"], "f"))


@compiles(builtins.pow)
def power(f: Expressions, node: ast.Call) -> Value:
    left, right = f.arguments(node, 2)
    return f.binary(node, ast.Pow(), left, right)


def extreme(word: str) -> Compile:
    def compile_(f: Expressions, node: ast.Call) -> Value:
        values = f.arguments(node, 2, 16)
        best = values[0]
        for value in values[1:]:
            if {best.kind, value.kind} == {"i", "u"}:
                best, value = f.alike(node, best, value)
            if best.kind != value.kind or best.kind not in "iuf":
                raise f.error(node, f"all arguments need the same type, and there are {best} and {value}")
            sign = "" if best.kind == "f" else "_s" if best.kind == "i" else "_u"
            kind = "f64" if best.kind == "f" else "i64"
            # As in CPython, the first of equal values, and of values that cannot be compared, is kept.
            better = OP[f"{kind}.{'gt' if word == 'max' else 'lt'}{sign}"]

            def use(x: int, y: int, better: bytes = better) -> bytes:
                return get(y) + get(x) + get(y) + get(x) + better + wasm.SELECT

            code = f.arithmetic.pair(best, value, use)
            pick = max if word == "max" else min
            best = replace(
                best, code=code, constant=None, low=pick(best.low, value.low), high=pick(best.high, value.high)
            )
        return best

    return compile_


BUILTINS[builtins.min] = extreme("min")
BUILTINS[builtins.max] = extreme("max")


# The functions of `math` whose results have only one right value.


def floats(f: Expressions, node: ast.Call, count: int) -> list[Value]:
    values = f.arguments(node, count)
    for value in values:
        if value.kind == "p":
            raise f.error(node, f"{value} is no number")
    return [f.arithmetic.floating(value) for value in values]


@compiles(math.sqrt)
def square_root(f: Expressions, node: ast.Call) -> Value:
    (value,) = floats(f, node, 1)
    with f.temporary("f") as x:
        negative = get(x) + wasm.f64(0.0) + OP["f64.lt"] + if_(f.fail(VALUE))
        return Value(value.code + set_(x) + negative + get(x) + OP["f64.sqrt"], "f")


@compiles(math.fabs)
def float_absolute(f: Expressions, node: ast.Call) -> Value:
    return Value(floats(f, node, 1)[0].code + OP["f64.abs"], "f")


@compiles(math.copysign)
def copy_sign(f: Expressions, node: ast.Call) -> Value:
    left, right = floats(f, node, 2)

    def use(x: int, y: int) -> bytes:
        # The sign of a NaN depends on the machine, in CPython as well.
        unknown = get(y) + get(y) + OP["f64.ne"] + get(x) + get(x) + OP["f64.eq"] + OP["i32.and"]
        return unknown + if_(f.fail(VALUE)) + get(x) + get(y) + OP["f64.copysign"]

    return Value(f.arithmetic.pair(left, right, use), "f")


def whole(op: str) -> Compile:
    def compile_(f: Expressions, node: ast.Call) -> Value:
        (value,) = f.arguments(node, 1)
        if value.kind != "f":
            return f.signed(node, value)
        return f.arithmetic.truncate(Value(value.code + OP[op], "f"))

    return compile_


BUILTINS[math.floor] = whole("f64.floor")
BUILTINS[math.ceil] = whole("f64.ceil")
BUILTINS[math.trunc] = whole("f64.trunc")


@compiles(math.isnan)
def is_nan(f: Expressions, node: ast.Call) -> Value:
    (value,) = floats(f, node, 1)
    with f.temporary("f") as x:
        return Value(value.code + set_(x) + get(x) + get(x) + OP["f64.ne"], "b")


@compiles(math.isinf)
def is_infinite(f: Expressions, node: ast.Call) -> Value:
    (value,) = floats(f, node, 1)
    return Value(value.code + OP["f64.abs"] + wasm.f64(math.inf) + OP["f64.eq"], "b")


@compiles(math.isfinite)
def is_finite(f: Expressions, node: ast.Call) -> Value:
    (value,) = floats(f, node, 1)
    return Value(value.code + OP["f64.abs"] + wasm.f64(math.inf) + OP["f64.lt"], "b")


@compiles(math.fmod)
def fmod(f: Expressions, node: ast.Call) -> Value:
    left, right = floats(f, node, 2)

    def use(x: int, y: int) -> bytes:
        infinite = get(x) + OP["f64.abs"] + wasm.f64(math.inf) + OP["f64.eq"]
        # NaN as the other argument is a result, not a failure.
        wrong = infinite + get(y) + get(y) + OP["f64.eq"] + OP["i32.and"]
        zero = get(y) + wasm.f64(0.0) + OP["f64.eq"] + get(x) + get(x) + OP["f64.eq"] + OP["i32.and"]
        return wrong + zero + OP["i32.or"] + if_(f.fail(VALUE)) + get(x) + get(y)

    code = f.arithmetic.pair(left, right, use)
    return f.library("remainder", [Value(code, "f"), Value(b"", "f")])


def bits_of(f: Expressions, node: ast.Call) -> Value:
    (value,) = floats(f, node, 1)
    return integer(value.code + OP["i64.bits"], -(1 << 63), 1 << 63)


def float_of(f: Expressions, node: ast.Call) -> Value:
    (value,) = f.arguments(node, 1)
    return Value(value.code + OP["f64.of_bits"], "f")


def float_floor(f: Expressions, node: ast.Call) -> Value:
    return Value(floats(f, node, 1)[0].code + OP["f64.floor"], "f")


BUILTINS[library.bits] = bits_of
BUILTINS[library.of_bits] = float_of
BUILTINS[library.floor] = float_floor


# Elementary functions: one implementation for all engines.


def elementary_function(name: str, wrong: Callable[[int], bytes]) -> Compile:
    """A function of one float that fails where `wrong` holds for its argument in a local."""

    def compile_(f: Expressions, node: ast.Call) -> Value:
        (value,) = floats(f, node, 1)
        with f.temporary("f") as x:
            code = value.code + set_(x) + wrong(x) + if_(f.fail(VALUE)) + get(x)
        return f.library(name, [Value(code, "f")])

    return compile_


def never(_: int) -> bytes:
    return wasm.i32(0)


def not_positive(x: int) -> bytes:
    return get(x) + wasm.f64(0.0) + OP["f64.le"]


def too_far(x: int) -> bytes:
    return get(x) + OP["f64.abs"] + wasm.f64(elementary.TURNS_LIMIT) + OP["f64.gt"]


BUILTINS[math.log] = elementary_function("log", not_positive)
BUILTINS[math.log2] = elementary_function("log2", not_positive)
BUILTINS[math.log10] = elementary_function("log10", not_positive)
BUILTINS[math.sin] = elementary_function("sin", too_far)
BUILTINS[math.cos] = elementary_function("cos", too_far)
BUILTINS[math.atan] = elementary_function("atan", never)


@compiles(math.exp)
def exponential(f: Expressions, node: ast.Call) -> Value:
    (value,) = floats(f, node, 1)
    with f.temporary("f") as x:
        large = get(x) + wasm.f64(709.782712893384) + OP["f64.gt"] + get(x) + wasm.f64(math.inf) + OP["f64.lt"]
        code = value.code + set_(x) + large + OP["i32.and"] + if_(f.fail(OVERFLOW)) + get(x)
    return f.library("exp", [Value(code, "f")])


@compiles(math.atan2)
def angle(f: Expressions, node: ast.Call) -> Value:
    return f.library("atan2", floats(f, node, 2))


def scaled(factor: float) -> Compile:
    def compile_(f: Expressions, node: ast.Call) -> Value:
        (value,) = floats(f, node, 1)
        return Value(value.code + wasm.f64(factor) + OP["f64.mul"], "f")

    return compile_


BUILTINS[math.radians] = scaled(math.pi / 180.0)
BUILTINS[math.degrees] = scaled(180.0 / math.pi)


def random(name: str) -> Compile:
    def compile_(f: Expressions, node: ast.Call) -> Value:
        values = [f.arithmetic.convert(f.whole_number(part, value), 0, (1 << 64) - 1, "u")
                  for part, value in zip(node.args, f.arguments(node, 2))]  # fmt: skip
        return f.library(name, values)

    return compile_


BUILTINS[elementary.random_bits] = random("random_bits")
BUILTINS[elementary.random_unit] = random("random_unit")


# What handlers of actors call.

BUILTINS[_handlers.sender] = sending.compile_sender
BUILTINS[_handlers.parent] = sending.compile_parent
BUILTINS[_handlers.keep] = sending.compile_keep
BUILTINS[_handlers.spawn] = sending.compile_spawn
