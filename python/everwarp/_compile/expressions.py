"""Compiles expressions."""

from __future__ import annotations

import ast
import builtins
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import _types as types
from .._types import Scalar
from . import sending, wasm
from .arithmetic import VALUE, ZERO, Arithmetic
from .._problem import Source, Unsupported
from .values import I64_HIGH, I64_LOW, U64_HIGH, ArrayType, StructType, Value, integer, number, scalar
from .wasm import OP, get, i64, if_, set_, tee

if TYPE_CHECKING:
    from .module import ModuleCompiler

MISSING = object()
ADVICE = {
    "ListComp": "write a loop over an `everwarp.array`",
    "GeneratorExp": "write a loop",
    "DictComp": "write a loop over an `everwarp.array`",
    "SetComp": "write a loop over an `everwarp.array`",
    "List": "make an `everwarp.array(everwarp.i64, [1, 2, 3])`",
    "Dict": "make an `everwarp.struct`, or an `everwarp.array` with the key as its index",
    "Set": "make an `everwarp.array` of truth values",
    "Tuple": "make an `everwarp.struct`",
    "Lambda": "write a function and decorate it with @everwarp.function",
    "JoinedStr": "there are no texts: return numbers",
    "Starred": "write the arguments one by one",
    "Await": "functions compute and do not wait",
    "Yield": "write the results to an array",
    "NamedExpr": "assign in a line of its own",
    "Slice": "write a loop over the indices",
}
COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
RING = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}


class Expressions:
    """The expressions of a function."""

    module: ModuleCompiler
    source: Source
    arithmetic: Arithmetic
    tree: ast.FunctionDef
    signature: Any
    variables: dict[str, Any]
    assigned: set[str]
    line: int

    def error(self, node: ast.AST, message: str) -> Unsupported:
        return self.source.error(node, message)

    def expression(self, node: ast.expr) -> Value:
        method = getattr(self, "ex_" + type(node).__name__.lower(), None)
        if method is None:
            advice = ADVICE.get(type(node).__name__, "write it with numbers, arrays and structs")
            raise self.error(node, f"this expression is not compiled: {advice}")
        return method(node)

    # Names and constants.

    def ex_constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, (bool, float)):
            return number(node.value)
        if isinstance(node.value, int):
            return self.whole(node, node.value)
        raise self.error(node, f"{node.value!r} is no number: functions compute with numbers")

    def whole(self, node: ast.AST, value: int) -> Value:
        if not I64_LOW <= value <= U64_HIGH:
            raise self.error(node, f"{value} does not fit 64 bits")
        return number(value)

    def ex_name(self, node: ast.Name) -> Value:
        if node.id in self.variables:
            if node.id not in self.assigned:
                raise self.error(node, f"`{node.id}` may have no value here: assign it before, on every way")
            v = self.variables[node.id]
            code = get(v.local)
            if v.kind not in "iu":
                return Value(code, v.kind, of=v.of)
            if v.low is not None:
                return Value(code, v.kind, v.low, v.high)
            if v.declared is not None:
                return scalar(code, v.declared)
            return replace(integer(code, I64_LOW, U64_HIGH, v.kind), of=v.of)
        return self.outer(node, self.evaluate(node))

    def ex_attribute(self, node: ast.Attribute) -> Value:
        found = self.resolve(node)
        if found is not MISSING:
            return self.outer(node, found)
        own = sending.own_id(self, node)
        if own is not None:
            return own
        address, kind = self.place(node)
        return scalar(self.load(address, kind), kind)

    def outer(self, node: ast.expr, value: Any) -> Value:
        """A constant from outside of the function."""
        if isinstance(value, (bool, int, float)):
            if not isinstance(node, ast.Attribute) or not isinstance(self.resolve(node.value), type(math)):
                self.module.capture(self.signature, ast.unparse(node), value)
            return self.whole(node, value) if type(value) is int else number(value)
        shown = type(value).__name__
        raise self.error(node, f"`{ast.unparse(node)}` is a {shown}: only numbers can be used from outside of a function")

    def resolve(self, node: ast.expr) -> Any:
        """The object that a name outside of the function stands for, or `MISSING`."""
        if isinstance(node, ast.Name):
            if node.id in self.variables:
                return MISSING
            return self.signature.names.get(node.id, getattr(builtins, node.id, MISSING))
        if isinstance(node, ast.Attribute):
            found = self.resolve(node.value)
            if isinstance(found, type(math)):
                return getattr(found, node.attr, MISSING)
        return MISSING

    def evaluate(self, node: ast.expr) -> Any:
        found = self.resolve(node)
        if found is MISSING:
            name = ast.unparse(node)
            if any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(self.tree)):
                raise self.error(node, f"`{name}` has no value here: assign it before")
            raise self.error(node, f"`{name}` is not known: define it before the function")
        return found

    # Elements.

    def ex_subscript(self, node: ast.Subscript) -> Value:
        address, kind = self.place(node)
        return scalar(self.load(address, kind), kind)

    # Operators.

    def ex_unaryop(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(self.truth(node.operand) + OP["i32.eqz"], "b")
        value = self.expression(node.operand)
        if value.kind == "b":
            value = self.widened(value)
        if value.constant is not None and value.integer:
            folded = {ast.USub: -value.constant, ast.UAdd: value.constant, ast.Invert: ~value.constant}
            return self.whole(node, folded[type(node.op)])
        if isinstance(node.op, ast.UAdd):
            return value
        if value.kind == "f":
            if isinstance(node.op, ast.USub):
                if value.constant is not None:
                    return number(-value.constant)
                return Value(value.code + OP["f64.neg"], "f")
            raise self.error(node, "`~` is for integers")
        if value.kind == "p":
            raise self.error(node, f"{value} is no number")
        if value.kind == "u":
            raise self.error(node, "the result of a u64 would be negative: write (0 - x) & 0xFFFF_FFFF_FFFF_FFFF, or x ^ mask")
        if isinstance(node.op, ast.Invert):
            return integer(value.code + i64(-1) + OP["i64.xor"], ~value.high, ~value.low)
        return self.arithmetic.negate(value)

    def ex_binop(self, node: ast.BinOp) -> Value:
        wrapped = self.wrapped(node)
        if wrapped is not None:
            return wrapped
        return self.binary(node, node.op, self.expression(node.left), self.expression(node.right))

    def widened(self, value: Value) -> Value:
        """A truth value as an integer."""
        if value.constant is not None:
            return number(int(value.constant))
        return integer(value.code + OP["i64.extend_u"], 0, 1)

    def binary(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        a = self.arithmetic
        both_truth = left.kind == right.kind == "b"
        if both_truth and isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            return Value(left.code + right.code + OP["i32." + RING[type(op)]], "b")
        left = self.widened(left) if left.kind == "b" else left
        right = self.widened(right) if right.kind == "b" else right
        if "p" in (left.kind, right.kind):
            raise self.error(node, "operators are for numbers: write a loop over the elements")
        if left.constant is not None and right.constant is not None and left.integer and right.integer:
            folded = self.folded(node, op, left.constant, right.constant)
            if folded is not None:
                return folded
        if isinstance(op, ast.Div):
            return self.divide(node, left, right)
        if "f" in (left.kind, right.kind):
            return self.binary_float(node, op, a.floating(left), a.floating(right))
        if isinstance(op, (ast.LShift, ast.RShift)):
            amount = self.signed(node, right)
            if amount.constant is not None and amount.constant < 0:
                raise self.error(node, "the number of bits is negative")
            return a.shift_left(left, amount) if isinstance(op, ast.LShift) else a.shift_right(left, amount)
        if isinstance(op, ast.Pow):
            return self.power(node, left, right)
        if isinstance(op, ast.MatMult):
            raise self.error(node, "`@` is not compiled: write the loops")
        left, right = self.alike(node, left, right)
        if isinstance(op, ast.Add):
            return a.add(left, right)
        if isinstance(op, ast.Sub):
            return a.subtract(left, right)
        if isinstance(op, ast.Mult):
            return a.multiply(left, right)
        if isinstance(op, ast.FloorDiv):
            return a.floor_divide(left, right)
        if isinstance(op, ast.Mod):
            return a.modulo(left, right)
        return a.bits(RING[type(op)], left, right)

    def folded(self, node: ast.AST, op: ast.operator, left: int, right: int) -> Value | None:
        """The value of an operation on constants, which CPython computes with integers of any size."""
        small = 0 <= right <= 128
        plain: dict[Any, Any] = {
            ast.Add: lambda: left + right,
            ast.Sub: lambda: left - right,
            ast.Mult: lambda: left * right,
            ast.LShift: (lambda: left << right) if small else None,
            ast.RShift: (lambda: left >> right) if small else None,
            ast.Pow: (lambda: left**right) if small and abs(left) < 2**64 else None,
            ast.FloorDiv: (lambda: left // right) if right else None,
            ast.Mod: (lambda: left % right) if right else None,
            ast.BitAnd: lambda: left & right,
            ast.BitOr: lambda: left | right,
            ast.BitXor: lambda: left ^ right,
        }
        compute = plain.get(type(op))
        return None if compute is None else self.whole(node, compute())

    def alike(self, node: ast.AST, left: Value, right: Value) -> tuple[Value, Value]:
        """Two integers of one kind. A constant or a small range takes the other's."""
        if left.kind == right.kind:
            return left, right
        signed, unsigned = (left, right) if left.kind == "i" else (right, left)
        if signed.low >= 0:
            signed = replace(signed, kind="u")
        elif unsigned.high <= I64_HIGH:
            unsigned = replace(unsigned, kind="i")
        else:
            raise self.error(
                node, "a u64 and a signed integer have no common type: write everwarp.u64(x) or everwarp.i64(x)"
            )
        return (signed, unsigned) if left.kind == "i" else (unsigned, signed)

    def whole_number(self, node: ast.AST, value: Value) -> Value:
        """A value that is used as an integer of any sign."""
        if value.kind == "b":
            return self.widened(value)
        if not value.integer:
            raise self.error(node, f"an integer is needed, and this is {value}: write int(x)")
        return value

    def signed(self, node: ast.AST, value: Value) -> Value:
        """A value that is used as a signed integer: an index, or the bound of a range."""
        if value.kind == "b":
            return self.widened(value)
        if value.kind == "u" and value.high <= I64_HIGH:
            return replace(value, kind="i")
        if value.kind == "u":
            raise self.error(node, "this is a u64: write everwarp.i64(x)")
        if value.kind != "i":
            raise self.error(node, f"an integer is needed, and this is {value}: write int(x)")
        return value

    def divide(self, node: ast.AST, left: Value, right: Value) -> Value:
        a = self.arithmetic
        if left.integer and right.integer:
            exact = 1 << 53
            if not all(-exact <= end <= exact for v in (left, right) for end in (v.low, v.high)):
                left, right = self.alike(node, left, right)
                return self.library("divide_" + left.kind, [left, self.not_zero(right)])
        return a.divide_floats(a.floating(left), a.floating(right))

    def not_zero(self, value: Value) -> Value:
        """The same value, which fails if it is 0."""
        if value.constant:
            return value
        with self.temporary(value.kind) as x:
            zero = OP["i64.eqz"] if value.integer else wasm.f64(0.0) + OP["f64.eq"]
            return replace(value, code=value.code + tee(x) + zero + if_(self.fail(ZERO)) + get(x))

    def binary_float(self, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
        simple = {ast.Add: "f64.add", ast.Sub: "f64.sub", ast.Mult: "f64.mul"}.get(type(op))
        if simple:
            return Value(left.code + right.code + OP[simple], "f")
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            name = "float_floor_divide" if isinstance(op, ast.FloorDiv) else "float_modulo"
            return self.library(name, [left, self.not_zero(right)])
        if isinstance(op, ast.Pow):
            raise self.error(node, "a power of floats is not compiled yet: multiply, or use math.exp and math.log")
        raise self.error(node, "this operator is for integers: write int(x)")

    def power(self, node: ast.AST, left: Value, right: Value) -> Value:
        right = self.signed(node, right)
        if right.high < 0:
            raise self.error(node, "a negative power of an integer is a float: write 1.0 / (x ** n)")
        if left.kind == "u":
            raise self.error(node, "powers are of signed integers: write everwarp.i64(x)")
        if right.low < 0:
            with self.temporary("i") as n:
                check = tee(n) + i64(0) + OP["i64.lt_s"] + if_(self.fail(VALUE)) + get(n)
                right = replace(right, code=right.code + check)
        return self.library("power_i", [left, right])

    # Arithmetic modulo a power of two: `(a * b + c) & mask` needs no more than 64 bits.

    def wrapped(self, node: ast.BinOp) -> Value | None:
        mask, inner = None, node.left
        if isinstance(node.op, ast.BitAnd):
            mask = self.constant(node.right)
            if mask is None:
                mask, inner = self.constant(node.left), node.right
        elif isinstance(node.op, ast.Mod):
            modulus = self.constant(node.right)
            mask = modulus - 1 if modulus is not None and modulus > 0 else None
        if mask is None or mask < 0 or mask & (mask + 1) or mask > U64_HIGH:
            return None
        if not isinstance(inner, (ast.BinOp, ast.UnaryOp)) or not self.is_ring(inner):
            return None
        code = self.ring(inner)
        if mask == U64_HIGH:
            return integer(code, 0, U64_HIGH, "u")
        kind = "i" if mask <= I64_HIGH else "u"
        return integer(code + i64(mask) + OP["i64.and"], 0, mask, kind)

    def constant(self, node: ast.expr) -> int | None:
        """The value of an integer constant of any size."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            value = self.resolve(node)
            if type(value) is int:
                self.module.capture(self.signature, ast.unparse(node), value)
                return value
            return None
        if isinstance(node, ast.BinOp):
            left, right = self.constant(node.left), self.constant(node.right)
            if left is None or right is None or not 0 <= right <= 256 or abs(left) > 2**65:
                return None
            if isinstance(node.op, ast.LShift):
                return left << right
            if isinstance(node.op, ast.Pow):
                return int(left**right)
            if isinstance(node.op, ast.Sub):
                return left - right
            if isinstance(node.op, ast.Add):
                return left + right
        return None

    def is_ring(self, node: ast.expr) -> bool:
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, (ast.USub, ast.Invert))
        if not isinstance(node, ast.BinOp):
            return False
        if isinstance(node.op, ast.LShift):
            bits = self.constant(node.right)
            return bits is not None and 0 <= bits < 64
        return type(node.op) in RING

    def ring(self, node: ast.expr) -> bytes:
        """The value modulo 2^64."""
        if self.constant(node) is not None:
            return i64((self.constant(node) or 0) & U64_HIGH)
        if self.is_ring(node) and not (isinstance(node, ast.BinOp) and self.wrapped_constant(node)):
            if isinstance(node, ast.UnaryOp):
                code = self.ring(node.operand)
                if isinstance(node.op, ast.Invert):
                    return code + i64(-1) + OP["i64.xor"]
                with self.temporary("i") as x:
                    return code + set_(x) + i64(0) + get(x) + OP["i64.sub"]
            assert isinstance(node, ast.BinOp)
            if isinstance(node.op, ast.LShift):
                return self.ring(node.left) + i64(self.constant(node.right) or 0) + OP["i64.shl"]
            return self.ring(node.left) + self.ring(node.right) + OP["i64." + RING[type(node.op)]]
        value = self.expression(node)
        if value.kind == "b":
            value = self.widened(value)
        if not value.integer:
            raise self.error(node, f"a mask is for integers, and this is {value}")
        return value.code

    def wrapped_constant(self, node: ast.BinOp) -> bool:
        return self.constant(node) is not None

    # Truth.

    def truth(self, node: ast.expr) -> bytes:
        """Whether a value counts as true."""
        if isinstance(node, ast.BoolOp):
            return self.both_or_either(node, [self.truth(part) for part in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.truth(node.operand) + OP["i32.eqz"]
        value = self.expression(node)
        return self.as_truth(node, value)

    def as_truth(self, node: ast.AST, value: Value) -> bytes:
        if value.kind == "b":
            return value.code
        if value.integer:
            return value.code + OP["i64.eqz"] + OP["i32.eqz"]
        if value.kind == "f":
            return value.code + wasm.f64(0.0) + OP["f64.ne"]
        raise self.error(node, f"{value} is no condition: compare its elements")

    @staticmethod
    def both_or_either(node: ast.BoolOp, parts: list[bytes]) -> bytes:
        code = parts[-1]
        for part in reversed(parts[:-1]):
            if isinstance(node.op, ast.And):
                code = part + if_(code, wasm.i32(0), wasm.I32)
            else:
                code = part + if_(wasm.i32(1), code, wasm.I32)
        return code

    def ex_boolop(self, node: ast.BoolOp) -> Value:
        values = [self.expression(part) for part in node.values]
        if any(value.kind != "b" for value in values):
            word = "and" if isinstance(node.op, ast.And) else "or"
            raise self.error(node, f"`{word}` of numbers is a number in Python: compare them, as in `x != 0`")
        return Value(self.both_or_either(node, [value.code for value in values]), "b")

    def ex_ifexp(self, node: ast.IfExp) -> Value:
        test = self.truth(node.test)
        then, otherwise = self.expression(node.body), self.expression(node.orelse)
        if {then.kind, otherwise.kind} == {"i", "u"}:
            then, otherwise = self.alike(node, then, otherwise)
        if then.kind != otherwise.kind or then.kind == "p":
            raise self.error(node, f"both sides need the same type, and they are {then} and {otherwise}")
        from .values import WASM

        code = test + if_(then.code, otherwise.code, WASM[then.kind])
        low, high = min(then.low, otherwise.low), max(then.high, otherwise.high)
        of = then.of if then.of == otherwise.of else None
        return replace(then, code=code, constant=None, low=low, high=high, of=of)

    def ex_compare(self, node: ast.Compare) -> Value:
        left = self.expression(node.left)
        if len(node.ops) == 1:
            return self.compare(node, node.ops[0], left, self.expression(node.comparators[0]))
        # Each operand is computed once, and only if the comparisons before it hold.
        parts, code = [], b""
        for op, item in zip(node.ops, node.comparators):
            right = self.expression(item)
            if right.kind == "p":
                raise self.error(item, f"{right} cannot be compared: compare its elements")
            local = self.new_local(right.kind)
            kept = replace(right, code=right.code + tee(local))
            parts.append(self.compare(node, op, left, kept).code)
            left = replace(right, code=get(local), constant=None)
        code = parts[-1]
        for part in reversed(parts[:-1]):
            code = part + if_(code, wasm.i32(0), wasm.I32)
        return Value(code, "b")

    def compare(self, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
        word = COMPARE.get(type(op))
        if word is None:
            raise self.error(node, "compare with ==, !=, <, <=, > and >=; `in` and `is` are not compiled")
        if "p" in (left.kind, right.kind):
            raise self.error(node, "arrays and structs cannot be compared: compare their elements")
        if left.kind == right.kind == "b":
            signs = {"eq": "i32.eq", "ne": "i32.ne", "lt": "i32.lt_u", "le": "i32.le_u", "gt": "i32.gt_u", "ge": "i32.ge_u"}
            return Value(left.code + right.code + OP[signs[word]], "b")
        left = self.widened(left) if left.kind == "b" else left
        right = self.widened(right) if right.kind == "b" else right
        if left.kind == right.kind == "f":
            return Value(left.code + right.code + OP["f64." + word], "b")
        if "f" in (left.kind, right.kind):
            return self.compare_mixed(word, left, right)
        if left.kind != right.kind:
            try:
                left, right = self.alike(node, left, right)
            except Unsupported:
                return self.compare_signs(word, left, right)
        sign = "" if word in ("eq", "ne") else "_s" if left.kind == "i" else "_u"
        return Value(left.code + right.code + OP[f"i64.{word}{sign}"], "b")

    def compare_signs(self, word: str, left: Value, right: Value) -> Value:
        """A u64 with a signed integer that may be negative."""

        def use(x: int, y: int) -> bytes:
            negative = get(x if left.kind == "i" else y) + i64(0) + OP["i64.lt_s"]
            less = word in ("lt", "le", "ne") if left.kind == "i" else word in ("gt", "ge", "ne")
            sign = "" if word in ("eq", "ne") else "_u"
            plain = get(x) + get(y) + OP[f"i64.{word}{sign}"]
            return negative + if_(wasm.i32(int(less)), plain, wasm.I32)

        return Value(self.arithmetic.pair(left, right, use), "b")

    def compare_mixed(self, word: str, left: Value, right: Value) -> Value:
        """An integer with a float, exactly and not after rounding."""
        whole, other = (left, right) if left.integer else (right, left)
        exact = 1 << 53
        if -exact <= whole.low and whole.high <= exact:
            f = self.arithmetic.floating
            return Value(f(left).code + f(right).code + OP["f64." + word], "b")
        if not left.integer:
            word = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(word, word)
        if left.integer:
            ordered = [left, right]
        else:
            with self.temporary("f") as x, self.temporary("i") as y:
                code = left.code + right.code + set_(y) + set_(x) + get(y) + get(x)
            ordered = [replace(right, code=code), Value(b"", "f")]
        order = self.library("order_" + whole.kind, ordered)
        with self.temporary("i") as r:
            test = {
                "eq": get(r) + OP["i64.eqz"],
                "ne": get(r) + i64(0) + OP["i64.ne"],
                "lt": get(r) + i64(-1) + OP["i64.eq"],
                "gt": get(r) + i64(1) + OP["i64.eq"],
                "le": get(r) + i64(0) + OP["i64.le_s"],
                "ge": get(r) + i64(1) + OP["i64.le_u"],
            }[word]
            return Value(order.code + set_(r) + test, "b")

    # Calls.

    def ex_call(self, node: ast.Call) -> Value:
        code, value = self.call(node)
        if value is None:
            raise self.error(node, f"`{ast.unparse(node.func)}` returns nothing")
        return value if not code else replace(value, code=code + value.code)

    def call_for_effect(self, node: ast.expr) -> tuple[bytes, bool]:
        if not isinstance(node, ast.Call):
            raise self.error(node, "this line does nothing: assign the value, or leave it out")
        code, value = self.call(node)
        return (code, False) if value is None else (code + value.code, True)

    def call(self, node: ast.Call) -> tuple[bytes, Value | None]:
        sent = sending.compile_send(self, node)
        if sent is not None:
            return sent
        if node.keywords:
            raise self.error(node, "write the arguments without names, in their order")
        if isinstance(node.func, ast.Attribute) and sending.is_self(self, node.func.value):
            return self.call_method(node, node.func)
        target: Any = MISSING
        if isinstance(node.func, ast.Name) and node.func.id == self.tree.name:
            target = self.signature
        if target is MISSING:
            target = self.resolve(node.func)
        if target is MISSING:
            raise self.error(node.func, f"`{ast.unparse(node.func)}` is not known: define it before the function")
        if self.constructs(node):
            raise self.error(node, "give a new array or struct a name first: `a = everwarp.array(...)`")
        signature = getattr(target, "__everwarp_signature__", target)
        if signature is self.signature or hasattr(signature, "parameters") and hasattr(signature, "result"):
            return self.call_function(node, signature)
        from .calls import BUILTINS

        if isinstance(target, Scalar):
            return b"", self.conversion(node, target, self.arguments(node, 1)[0])
        try:
            compile_ = BUILTINS.get(target)
        except TypeError:
            compile_ = None
        if compile_ is None:
            name = ast.unparse(node.func)
            raise self.error(node, f"`{name}` cannot be called here: decorate it with @everwarp.function, or see the list of "
                             "functions of `math`")  # fmt: skip
        return b"", compile_(self, node)

    def arguments(self, node: ast.Call, least: int, most: int | None = None) -> list[Value]:
        if not least <= len(node.args) <= (most or least):
            raise self.error(node, f"`{ast.unparse(node.func)}` takes {least} arguments, and there are {len(node.args)}")
        return [self.expression(arg) for arg in node.args]

    def call_function(self, node: ast.Call, signature: Any) -> tuple[bytes, Value | None]:
        if len(node.args) != len(signature.parameters):
            names = ", ".join(name for name, _ in signature.parameters)
            raise self.error(node, f"`{signature.name}` takes {len(signature.parameters)} arguments: {names}")
        code = b""
        for arg, (name, kind) in zip(node.args, signature.parameters):
            value = self.expression(arg)
            if isinstance(kind, Scalar):
                code += self.stored(arg, value, kind)
                if kind is types.f32:
                    code += OP["f32.demote"] + OP["f64.promote"]
            elif value.of == kind:
                code += value.code
            else:
                raise self.error(arg, f"`{name}` of `{signature.name}` is {kind}, and this is {value}")
        code += self.caller_line(signature) + wasm.call(self.module.function(signature))
        return (code, None) if signature.result is None else (b"", scalar(code, signature.result))

    def call_method(self, node: ast.Call, name: ast.Attribute) -> tuple[bytes, Value | None]:
        """`self.other(...)`: the handler runs at once, as part of this message."""
        methods: dict[str, Any] = getattr(self.module, "methods", {})
        if name.attr not in methods:
            raise self.error(node, f"the class has no method `{name.attr}`; there are {', '.join(methods)}")
        call = ast.Call(node.func, [name.value, *node.args], [])
        return self.call_function(ast.copy_location(call, node), methods[name.attr])

    def caller_line(self, signature: Any) -> bytes:
        """The further argument of a function of the library."""
        return self.line_code() if signature.library else b""

    def library(self, name: str, values: list[Value]) -> Value:
        """A call of a function of everwarp that is compiled like those of users."""
        signature = self.module.library(name)
        parts = []
        for value, (_, kind) in zip(values, signature.parameters):
            parts.append(self.arithmetic.floating(value).code if kind.kind == "f" else value.code)
        code = b"".join(parts) + self.line_code() + wasm.call(self.module.function(signature))
        assert signature.result is not None
        return scalar(code, signature.result)

    def conversion(self, node: ast.Call, kind: Scalar, value: Value) -> Value:
        """`everwarp.u8(x)`: fails if the value does not fit."""
        a = self.arithmetic
        if value.kind == "p":
            raise self.error(node, f"{value} is no number")
        if kind.kind == "f":
            value = a.floating(value)
            return Value(value.code + (OP["f32.demote"] + OP["f64.promote"] if kind is types.f32 else b""), "f")
        if kind.kind == "b":
            return Value(self.as_truth(node, value), "b")
        if value.kind == "f":
            value = a.truncate(value, kind.kind)
        value = self.widened(value) if value.kind == "b" else value
        return a.convert(value, kind.low, kind.high, kind.kind)

    # Arrays and structs.

    def constructs(self, node: ast.Call) -> bool:
        target = self.resolve(node.func)
        return target is types.array or (isinstance(target, type) and issubclass(target, types.Struct))

    def constructed(self, node: ast.Call) -> tuple[ArrayType | StructType, list[tuple[int, Scalar, Value]]] | None:
        """The type that a call makes, and the values that are stored in it, with their offsets."""
        if not self.constructs(node):
            return None
        target = self.resolve(node.func)
        if target is not types.array:
            of = StructType(target)
            if node.keywords or len(node.args) not in (0, len(of.fields)):
                raise self.error(node, f"`{of}` takes {len(of.fields)} values in their order: {', '.join(of.fields)}")
            places = zip(of.fields.values(), node.args)
            return of, [(offset, kind, self.expression(arg)) for (kind, offset), arg in places]
        if len(node.args) != 2 or node.keywords:
            raise self.error(node, "write `everwarp.array(everwarp.i64, 16)`")
        element = self.evaluate(node.args[0])
        if not isinstance(element, Scalar):
            raise self.error(node.args[0], "the elements have one of the types i8 to i64, u8 to u64, f32, f64, boolean")
        if isinstance(node.args[1], (ast.List, ast.Tuple)):
            items = node.args[1].elts
            if not items:
                raise self.error(node, "an array has at least one element")
            array = ArrayType(element, len(items))
            return array, [(n * element.size, element, self.expression(item)) for n, item in enumerate(items)]
        length = self.constant(node.args[1])
        if length is None or not 1 <= length <= 1 << 20:
            raise self.error(node.args[1], "the length of an array is a constant from 1 to 1,048,576")
        return ArrayType(element, length), []

    # Provided by the function compiler.

    if TYPE_CHECKING:

        def new_local(self, kind: str) -> int: ...
        def new_typed(self, kind: int) -> int: ...
        def temporary(self, kind: str) -> Any: ...
        def fail(self, reason: int) -> bytes: ...
        def line_code(self) -> bytes: ...
        def load(self, address: bytes, kind: Scalar, offset: int = 0) -> bytes: ...
        def stored(self, node: ast.AST, value: Value, kind: Scalar) -> bytes: ...
        def place(self, target: ast.expr) -> tuple[bytes, Scalar]: ...
