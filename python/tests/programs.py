"""Generates functions of the compiled subset, from a seed. CPython runs the same text, with a check of every integer."""

from __future__ import annotations

import ast
import math
import random
from typing import Any

INTS = [0, 1, 2, 3, 5, 7, 10, 63, 64, 100, 255, 256, 1000, 65535, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1]
FLOATS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 0.1, 1e10, 1e300, 1e-300, 2.0**53, 2.0**63, 5e-324]
NARROW = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]


TOUCH = ["@ew.function", "def touch(point: Point, d: ew.i64) -> None:", "    point.n = d", "    point.x += point.n", ""]


class Generator:
    """One program: a helper function, a struct, and a function `f` of three parameters."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: dict[str, str] = {}
        self.fixed: set[str] = set()
        self.depth = 0
        self.count = 0
        self.loops = 0

    def pick(self, items: list[Any]) -> Any:
        return self.random.choice(items)

    def variables(self, kind: str) -> list[str]:
        return [name for name, of in self.names.items() if of == kind]

    def leaf(self, kind: str) -> str:
        named = self.variables(kind)
        if named and self.random.random() < 0.7:
            return str(self.pick(named))
        if kind == "int":
            value = self.pick(INTS) if self.random.random() < 0.25 else self.random.randrange(-50, 50)
            return str(value) if value >= 0 else f"({value})"
        if kind == "float":
            return repr(self.pick(FLOATS) * self.pick([1.0, 1.0, -1.0]))
        return str(self.pick(["True", "False"]))

    def integer(self, depth: int) -> str:
        if depth <= 0:
            return self.leaf("int")
        a = lambda: self.integer(depth - 1)  # noqa: E731
        kind = self.random.randrange(24)
        if kind < 4:
            return f"({a()} {self.pick(['+', '-', '*'])} {a()})"
        if kind < 6:
            return f"({a()} {self.pick(['//', '%'])} {a()})"
        if kind < 7:
            return f"({a()} {self.pick(['&', '|', '^'])} {a()})"
        if kind < 8:
            amount = self.pick(["1", "3", "31", "63", f"({self.leaf('int')} % 70 - 1)"])
            return f"({a()} {self.pick(['<<', '>>'])} {amount})"
        if kind < 9:
            return f"({self.pick(['-', '~', '+'])}{a()})"
        if kind < 11:
            return f"(({a()} {self.pick(['+', '-', '*'])} {a()}) & {self.pick(['0xFF', '0xFFFF_FFFF', '(1 << 62) - 1'])})"
        if kind < 12:
            return f"(({a()} * {a()} + {a()}) % {self.pick(['256', '1_000_003', '2 ** 40'])})"
        if kind < 13:
            return f"({a()} if {self.truth(depth - 1)} else {a()})"
        if kind < 14:
            return f"{self.pick(['min', 'max'])}({a()}, {a()})"
        if kind < 15:
            return f"abs({a()})"
        if kind < 16:
            return f"helper({a()}, {self.floating(depth - 1)})"
        if kind < 17:
            return f"int({self.floating(depth - 1)})"
        if kind < 18:
            return f"{self.pick(['math.floor', 'math.ceil', 'round', 'math.trunc'])}({self.floating(depth - 1)})"
        if kind < 19 and "items" in self.names:
            return f"items[{a()} % 6]"
        if kind < 20 and "point" in self.names:
            return "point.n"
        if kind < 21:
            power = f"({self.leaf('int')} % 5)"
            return f"({a()} ** {self.pick(['0', '1', '2', '3', power])})"
        if kind < 22:
            return f"({self.truth(depth - 1)} + {a()})"
        return self.leaf("int")

    def floating(self, depth: int) -> str:
        if depth <= 0:
            return self.leaf("float")
        a = lambda: self.floating(depth - 1)  # noqa: E731
        kind = self.random.randrange(16)
        if kind < 5:
            return f"({a()} {self.pick(['+', '-', '*', '/'])} {a()})"
        if kind < 7:
            return f"({a()} {self.pick(['//', '%'])} {a()})"
        if kind < 8:
            return f"(-{a()})"
        if kind < 9:
            return f"math.sqrt(abs({a()}))"
        if kind < 10:
            return f"math.copysign({a()}, {a()})"
        if kind < 11:
            return f"({self.integer(depth - 1)} / {self.integer(depth - 1)})"
        if kind < 12:
            return f"({a()} * {self.integer(depth - 1)})"
        if kind < 13:
            return f"float({self.integer(depth - 1)})"
        if kind < 14:
            return f"({a()} if {self.truth(depth - 1)} else {a()})"
        if kind < 15:
            return self.pick([f"math.fmod({a()}, {a()})", f"min({a()}, {a()})", f"max({a()}, {a()})", f"abs({a()})"])
        if "point" in self.names:
            return self.pick(["point.x", "point.y"])
        return self.leaf("float")

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return self.leaf("bool")
        sign = lambda: self.pick(["<", "<=", ">", ">=", "==", "!="])  # noqa: E731
        kind = self.random.randrange(10)
        if kind < 3:
            return f"({self.integer(depth - 1)} {sign()} {self.integer(depth - 1)})"
        if kind < 5:
            return f"({self.floating(depth - 1)} {sign()} {self.floating(depth - 1)})"
        if kind < 6:
            return f"({self.integer(depth - 1)} {sign()} {self.floating(depth - 1)})"
        if kind < 7:
            return f"({self.integer(0)} {sign()} {self.integer(0)} {sign()} {self.integer(0)})"
        if kind < 8:
            return f"(not {self.truth(depth - 1)})"
        if kind < 9:
            return f"({self.truth(depth - 1)} {self.pick(['and', 'or'])} {self.truth(depth - 1)})"
        return self.pick([f"math.isnan({self.floating(depth - 1)})", f"bool({self.integer(depth - 1)})"])

    def of(self, kind: str, depth: int) -> str:
        return {"int": self.integer, "float": self.floating, "bool": self.truth}[kind](depth)

    def block(self, indent: int, size: int) -> list[str]:
        lines: list[str] = []
        for _ in range(size):
            lines += self.statement(indent)
        return lines

    def inner(self, indent: int, size: int) -> list[str]:
        """A block whose new variables are gone after it."""
        before = dict(self.names)
        lines = self.block(indent, size)
        self.names = before
        return lines or [" " * indent + "pass"]

    def statement(self, indent: int) -> list[str]:
        space, kind = " " * indent, self.random.randrange(20)
        nested = indent < 16
        if kind < 6:
            of = self.pick(["int", "int", "float", "bool"])
            self.count += 1
            name = f"v{self.count}"
            line = f"{space}{name} = {self.of(of, 2)}"
            self.names[name] = of
            return [line]
        if kind < 9:
            of = self.pick(["int", "float"])
            named = [name for name in self.variables(of) if name not in self.fixed and name[0] != "n"]
            if named:
                name = self.pick(named)
                if self.random.random() < 0.5:
                    return [f"{space}{name} {self.pick(['+=', '-=', '*='])} {self.of(of, 1)}"]
                return [f"{space}{name} = {self.of(of, 2)}"]
            return []
        if kind < 10:
            self.count += 1
            type_, name = self.pick(NARROW[:7]), f"n{self.count}"
            self.names[name] = "int"
            return [f"{space}{name}: ew.{type_} = ({self.integer(1)}) & 0x7F"]
        if kind < 11 and "items" in self.names:
            return [f"{space}items[{self.integer(1)} % 6] {self.pick(['=', '+=', '='])} {self.integer(1)}"]
        if kind < 12 and "point" in self.names and self.random.random() < 0.6:
            return [f"{space}point.{self.pick(['x', 'y'])} = {self.floating(1)}", f"{space}point.n = {self.integer(1)}"]
        if kind < 12 and "point" in self.names:
            return [f"{space}touch(point, {self.integer(1)})"]
        if kind < 15 and nested:
            lines = [f"{space}if {self.truth(2)}:", *self.inner(indent + 4, self.random.randrange(1, 4))]
            if self.random.random() < 0.5:
                lines += [f"{space}else:", *self.inner(indent + 4, self.random.randrange(1, 3))]
            return lines
        if kind < 17 and nested and self.loops < 2:
            return self.loop(indent)
        if kind < 18 and nested and self.loops:
            return [f"{space}if {self.truth(1)}:", f"{space}    {self.pick(['break', 'continue'])}"]
        if kind < 19 and len(self.variables("int")) > 1:
            named = [name for name in self.variables("int") if name not in self.fixed and not name.startswith("n")]
            if len(named) > 1:
                a, b = self.random.sample(named, 2)
                return [f"{space}{a}, {b} = {b}, {a}"]
        if nested and self.random.random() < 0.3:
            return [f"{space}if {self.truth(1)}:", f"{space}    return {self.result()}"]
        return []

    def loop(self, indent: int) -> list[str]:
        space = " " * indent
        self.loops += 1
        self.count += 1
        name = f"i{self.count}"
        before = dict(self.names)
        if self.random.random() < 0.3:
            head = [f"{space}{name} = 0", f"{space}while {name} < {self.random.randrange(1, 9)}:", f"{space}    {name} += 1"]
        elif "items" in self.names and self.random.random() < 0.3:
            head = [f"{space}for {name} in items:"]
        else:
            bounds = self.pick(["7", "1, 6", "10, 0, -3", f"({self.integer(1)}) % 9", f"{self.leaf('int')}, {self.leaf('int')}, 2 ** 60"])
            head = [f"{space}for {name} in range({bounds}):"]
        self.names[name] = "int"
        self.fixed.add(name)
        body = self.block(indent + 4, self.random.randrange(1, 4)) or [f"{space}    pass"]
        self.names = before
        self.loops -= 1
        lines = head + body
        if self.random.random() < 0.2:
            lines += [f"{space}else:", *self.inner(indent + 4, 1)]
        return lines

    def result(self) -> str:
        return self.of(self.returns, 2)

    def program(self) -> str:
        self.returns = "int"
        self.names = {"a": "int", "x": "float"}
        text = self.integer(2)
        helper = ["@ew.function", "def helper(a: ew.i64, x: ew.f64) -> ew.i64:"]
        helper += [f"    return {text if 'helper(' not in text else 'a - int(x)'}", ""]
        types = [self.pick(["i64", "i32", "u8"]), self.pick(["f64", "f64", "f32"]), self.pick(["i64", "i16", "u32"])]
        self.returns = self.pick(["int", "int", "float", "bool"])
        self.names = {"a": "int", "x": "float", "b": "int"}
        declared = {"int": "i64", "float": "f64", "bool": "boolean"}[self.returns]
        head = f"def f(a: ew.{types[0]}, x: ew.{types[1]}, b: ew.{types[2]}) -> ew.{declared}:"
        lines = ["@ew.struct", "class Point:", "    x: ew.f64", "    y: ew.f32", "    n: ew.i64", "", *TOUCH, *helper, "@ew.function", head]
        if self.random.random() < 0.5:
            lines.append(f"    items = ew.array(ew.{self.pick(['i64', 'i64', 'i32', 'u8'])}, {self.pick(['6', '[1, 2, 3, 4, 5, 6]'])})")
            self.names["items"] = "array"
        if self.random.random() < 0.3:
            lines.append(f"    point = Point({self.floating(1)}, {self.floating(1)}, {self.integer(1)})")
            self.names["point"] = "struct"
        lines += self.block(4, self.random.randrange(3, 9))
        lines.append(f"    return {self.result()}")
        return "\n".join(lines) + "\n"


class Watched(ast.NodeTransformer):
    """Passes the result of every operation to `watch`, and something in every round of a loop."""

    def wrap(self, node: Any) -> ast.expr:
        self.generic_visit(node)
        return ast.copy_location(ast.Call(ast.Name("watch", ast.Load()), [node], []), node)

    visit_BinOp = visit_UnaryOp = wrap

    def visit_For(self, node: ast.For) -> ast.stmt:
        self.generic_visit(node)
        call = ast.Call(ast.Name("watch", ast.Load()), [ast.Constant(0)], [])
        node.body.insert(0, ast.copy_location(ast.Expr(call), node))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in ("range", "Point"):
            self.generic_visit(node)
            return node
        return self.wrap(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        load = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        watched = ast.copy_location(ast.Call(ast.Name("watch", ast.Load()), [value], []), node)
        return ast.copy_location(ast.Assign([node.target], watched), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.body = [self.visit(part) for part in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node


class Endless(Exception):
    """CPython would take too long."""


class Math:
    """`math` as it is compiled: the sign of a NaN depends on the machine, so that `copysign` from one fails."""

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)

    @staticmethod
    def copysign(x: float, y: float) -> float:
        if math.isnan(y) and not math.isnan(x):
            raise ValueError("the sign of a NaN")
        return math.copysign(x, y)


class Oracle:
    """The same program in CPython. `large` says whether an integer did not fit 64 bits on the way."""

    #: Values that a call computes at most, and rounds of its loops. Rare programs have ranges of so large integers that they do not end.
    MOST = 1_000_000

    def __init__(self, text: str) -> None:
        import everwarp as ew

        self.large, self.left = False, 0

        class Library:
            struct, array = staticmethod(ew.struct), staticmethod(ew.array)

            def __getattr__(self, name: str) -> Any:
                return getattr(ew, name)

            @staticmethod
            def function(python: Any) -> Any:
                kinds = dict(python.__annotations__)
                result = kinds.pop("return")

                def run(*values: Any) -> Any:
                    pairs = zip(kinds.values(), values)
                    found = python(*(value if isinstance(kind, type) else kind(value) for kind, value in pairs))
                    return None if result is None else result(found)

                return run

        tree = ast.fix_missing_locations(Watched().visit(ast.parse(text)))
        space = {"ew": Library(), "math": Math(), "watch": self.watch, "__name__": "oracle"}
        exec(compile(tree, "oracle", "exec", dont_inherit=True), space)
        self.f = space["f"]

    def watch(self, value: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Endless
        if type(value) is int and not -(2**63) <= value < 2**63:
            self.large = True
            if value.bit_length() > 4000:
                raise OverflowError("the program grows without end")
        return value

    def __call__(self, *values: Any) -> Any:
        """The result, or the exception's class."""
        self.large, self.left = False, self.MOST
        try:
            return self.f(*values)
        except (Endless, ArithmeticError, ValueError, IndexError, AssertionError) as error:
            return type(error)
