"""Compiles the body of one function: statements and expressions of a typed subset of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .._types import ActorType, Scalar, boolean, f32, f64
from .._types import i64 as int_type
from . import wasm
from .arithmetic import ASSERTION, INDEX, VALUE, Arithmetic
from .expressions import Expressions
from .._problem import Source
from .values import LOAD, STORE, WASM, ArrayType, StructType, Value, integer, number, scalar
from .wasm import OP, get, i64, if_, set_

if TYPE_CHECKING:
    from .module import ModuleCompiler


@dataclass
class Variable:
    """A variable of a function: the local that holds it, its kind, and its range if it was declared with a type."""

    local: int
    kind: str
    declared: Scalar | None = None
    of: ArrayType | StructType | ActorType | None = None
    low: int | None = None
    high: int | None = None


@dataclass
class Loop:
    """A loop: the depths of the blocks that `break` and `continue` leave, and what is assigned where it is left."""

    leave: int
    again: int
    left_with: list[set[str]]


class FunctionCompiler(Expressions):
    """One function."""

    def __init__(self, module: ModuleCompiler, signature: Any, tree: ast.FunctionDef, source: Source) -> None:
        self.module, self.signature, self.tree, self.source = module, signature, tree, source
        self.arithmetic = Arithmetic(self)
        self.variables: dict[str, Variable] = {}
        self.assigned: set[str] = set()
        self.locals: list[int] = []
        self.free: dict[int, list[int]] = {}
        self.frame = 0
        self.depth = 0
        self.loops: list[Loop] = []
        self.line = source.first_line
        self.first_local = len(signature.parameters) + signature.library
        self.stack: int | None = None
        nodes = signature.nodes
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for index, (name, kind) in enumerate(signature.parameters):
            of = kind if isinstance(kind, (ArrayType, StructType)) else None
            declared = kind if isinstance(kind, Scalar) else None
            # A parameter that is assigned again is a variable like others, as in CPython: its type was that of the call.
            limits = None if name in stored else declared
            self.variables[name] = Variable(index, declared.kind if declared else "p", limits, of)
            self.assigned.add(name)
        self.fixed = fixed_loop_variables(tree, nodes)
        # What the function constructs is in a frame of its own.
        if any(isinstance(node, ast.Call) and self.constructs(node) for node in nodes):
            self.stack = self.new_local("p")

    # Locals, and code around them.

    def new_local(self, kind: str) -> int:
        return self.new_typed(WASM[kind])

    def new_typed(self, kind: int) -> int:
        """A local of a type of WebAssembly."""
        self.locals.append(kind)
        return self.first_local + len(self.locals) - 1

    @contextmanager
    def temporary(self, kind: str) -> Iterator[int]:
        """A local for code in which no other expression is evaluated."""
        free = self.free.setdefault(WASM[kind], [])
        local = free.pop() if free else self.new_local(kind)
        yield local
        free.append(local)

    def fail(self, reason: int) -> bytes:
        """Code that reports a failure in the present line, and does not return."""
        return self.module.fail_code(reason, self.line_code(), None if self.signature.library else self.line)

    def line_code(self) -> bytes:
        """The present line; in the library that of the caller, which is the last argument."""
        if self.signature.library:
            return get(len(self.signature.parameters))
        self.module.lines.add(self.line)
        return wasm.i32(self.line)

    def helper(self, name: str) -> int:
        index: int = self.module.helper(name)
        return index

    def nested(self, depth: int = 1) -> Any:
        """Statements inside of `depth` more blocks."""

        @contextmanager
        def scope() -> Iterator[None]:
            self.depth += depth
            yield
            self.depth -= depth

        return scope()

    def reserve(self, size: int) -> int:
        """Bytes of the function's frame: the offset of the first."""
        offset = self.frame
        self.frame += -(-size // 8) * 8
        return offset

    def frame_address(self, offset: int) -> bytes:
        assert self.stack is not None
        return get(self.stack) + wasm.i32(offset) + OP["i32.add"]

    # The whole function.

    def compile(self) -> wasm.FunctionBody:
        body = self.tree.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]  # The description.
        code, falls = self.statements(body)
        result: Scalar | None = self.signature.result
        if falls and result is not None:
            raise self.error(self.tree, f"`{self.tree.name}` may end without a `return` of {result.name}")
        results = [] if result is None else [WASM[result.kind]]
        if self.stack is not None:
            # One place leaves the function, so that the frame is freed there.
            code = self.module.enter(self.frame, self.stack, self.line) + wasm.block(
                code + (wasm.UNREACHABLE if not falls else b""), results[0] if results else wasm.VOID
            )
            code += get(self.stack) + wasm.i32(self.frame) + OP["i32.add"] + wasm.global_set(0)
        elif not falls and code:
            code += wasm.UNREACHABLE
        kinds = [WASM[v.kind] for v in list(self.variables.values())[: len(self.signature.parameters)]]
        kinds += [wasm.I32] * self.signature.library
        return wasm.FunctionBody(self.tree.name, kinds, results, self.locals, code)

    def leave(self, value: bytes) -> bytes:
        """Returns, with the value on the stack."""
        if self.stack is not None:
            return value + wasm.branch(self.depth)
        return value + wasm.RETURN

    # Statements. Each returns its code, and whether the next statement can be reached.

    def statements(self, body: list[ast.stmt]) -> tuple[bytes, bool]:
        code, falls = b"", True
        for statement in body:
            if not falls:
                break
            self.line = self.source.line(statement)
            method = getattr(self, "do_" + type(statement).__name__.lower(), None)
            if method is None:
                raise self.error(statement, self.unknown_statement(statement))
            more, falls = method(statement)
            code += more
        return code, falls

    def unknown_statement(self, node: ast.stmt) -> str:
        advice = {
            "Try": "errors cannot be caught: test for the condition before",
            "With": "`with` is not compiled: call functions before and after",
            "Raise": "write `assert condition`, which fails when it does not hold",
            "FunctionDef": "write the function outside and decorate it with @everwarp.function",
            "ClassDef": "write the class outside and decorate it with @everwarp.struct",
            "Import": "import modules outside of the function",
            "ImportFrom": "import modules outside of the function",
            "Global": "pass the value as a parameter and return it",
            "Nonlocal": "pass the value as a parameter and return it",
            "Delete": "there is nothing to delete: leave it out",
            "Match": "write `if` and `elif`",
        }
        kind = type(node).__name__
        return f"`{kind.lower()}` is not compiled: {advice.get(kind, 'write it with if, while, for and assignments')}"

    def do_pass(self, _: ast.Pass) -> tuple[bytes, bool]:
        return b"", True

    def do_expr(self, node: ast.Expr) -> tuple[bytes, bool]:
        if isinstance(node.value, ast.Constant):
            return b"", True
        code, has_value = self.call_for_effect(node.value)
        return code + (wasm.DROP if has_value else b""), True

    def do_assert(self, node: ast.Assert) -> tuple[bytes, bool]:
        return self.truth(node.test) + OP["i32.eqz"] + if_(self.fail(ASSERTION)), True

    def do_return(self, node: ast.Return) -> tuple[bytes, bool]:
        result: Scalar | None = self.signature.result
        if result is None:
            if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
                raise self.error(node, "the function returns nothing: declare its result with `-> everwarp.i64`")
            return self.leave(b""), False
        if node.value is None:
            raise self.error(node, f"the function returns {result.name}: return a value")
        return self.leave(self.stored(node.value, self.expression(node.value), result)), False

    def do_if(self, node: ast.If) -> tuple[bytes, bool]:
        test = self.truth(node.test)
        before = set(self.assigned)
        with self.nested():
            then, then_falls = self.statements(node.body)
            after_then = self.assigned
            self.assigned = before
            otherwise, else_falls = self.statements(node.orelse)
        if then_falls and else_falls:
            self.assigned = after_then & self.assigned
        elif then_falls:
            self.assigned = after_then
        return test + if_(then, otherwise), then_falls or else_falls

    def do_while(self, node: ast.While) -> tuple[bytes, bool]:
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self.forget_ranges(node)
        # block { loop { unless test: leave; body; again } else }
        outer = self.depth
        inner = outer + (3 if node.orelse and not endless else 2)
        loop = Loop(outer + 1, inner, [])
        self.depth = inner
        test = b"" if endless else self.truth(node.test) + OP["i32.eqz"] + wasm.branch_if(1)
        before = set(self.assigned)
        self.loops.append(loop)
        body, _ = self.statements(node.body)
        self.loops.pop()
        code = wasm.loop(test + body + wasm.branch(0))
        if endless:
            self.depth = outer
            falls = bool(loop.left_with)
            self.assigned = set.intersection(*loop.left_with) if loop.left_with else before
            return wasm.block(code), falls
        self.assigned = before
        else_falls = True
        if node.orelse:
            self.depth = outer + 1
            more, else_falls = self.statements(node.orelse)
            code = wasm.block(code) + more
        self.depth = outer
        ways = loop.left_with + ([self.assigned] if else_falls else [])
        self.assigned = set.intersection(*ways) if ways else before
        return wasm.block(code), else_falls or bool(loop.left_with)

    def do_for(self, node: ast.For) -> tuple[bytes, bool]:
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "a loop has one variable: write `for i in range(n)`")
        items, target = node.iter, node.target
        if isinstance(items, ast.Call) and self.resolve(items.func) is range:
            return self.for_range(node, items, target)
        value = self.expression(items)
        if not isinstance(value.of, ArrayType):
            raise self.error(items, f"a loop runs over `range` or an array, not {value}")
        array, at = self.new_local("p"), self.new_local("i")
        self.forget_ranges(node)
        of = value.of
        address = get(array) + get(at) + OP["i32.wrap"] + wasm.i32(of.element.size) + OP["i32.mul"] + OP["i32.add"]
        item = scalar(self.load(address, of.element), of.element)
        head = value.code + set_(array) + i64(0) + set_(at)
        test = get(at) + i64(of.length) + OP["i64.ge_s"]
        step = get(at) + i64(1) + OP["i64.add"] + set_(at)
        return self.counted(node, head, test, lambda: self.bind(target, item), step)

    def for_range(self, node: ast.For, items: ast.Call, target: ast.Name) -> tuple[bytes, bool]:
        if items.keywords or not 1 <= len(items.args) <= 3:
            raise self.error(items, "write `range(stop)`, `range(start, stop)` or `range(start, stop, step)`")
        values = [self.signed(arg, self.expression(arg)) for arg in items.args]
        start, stop, step = number(0), values[0], number(1)
        if len(values) > 1:
            start, stop = values[0], values[1]
        if len(values) > 2:
            step = values[2]
        self.forget_ranges(node)
        at, end, by, count = (self.new_local("i") for _ in range(4))
        head = start.code + stop.code + step.code + set_(by) + set_(end) + set_(at)
        # How many turns there are, computed once: then nothing can overflow. The difference fits an unsigned number.
        difference = get(end) + get(at) + OP["i64.sub"]
        up = difference + i64(1) + OP["i64.sub"] + get(by) + OP["i64.div_u"] + i64(1) + OP["i64.add"]
        up = get(at) + get(end) + OP["i64.lt_s"] + if_(up, i64(0), wasm.I64)
        back = get(at) + get(end) + OP["i64.sub"]
        down = back + i64(1) + OP["i64.sub"] + i64(0) + get(by) + OP["i64.sub"] + OP["i64.div_u"] + i64(1) + OP["i64.add"]
        down = get(at) + get(end) + OP["i64.gt_s"] + if_(down, i64(0), wasm.I64)
        if step.low > 0:
            head += up
        elif step.high < 0:
            head += down
        else:
            if step.constant == 0:
                raise self.error(items.args[2], "the step of a range is not 0")
            head += get(by) + OP["i64.eqz"] + if_(self.fail(VALUE))
            head += get(by) + i64(0) + OP["i64.gt_s"] + if_(up, down, wasm.I64)
        head += set_(count)
        test = get(count) + OP["i64.eqz"]
        next_ = get(at) + get(by) + OP["i64.add"] + set_(at) + get(count) + i64(1) + OP["i64.sub"] + set_(count)
        if step.low > 0:
            low, high = start.low, max(stop.high - 1, start.low)
        elif step.high < 0:
            low, high = min(stop.low + 1, start.high), start.high
        else:
            low, high = integer(b"", -(1 << 63), 1 << 63).low, integer(b"", 0, 1 << 63).high
        item = integer(get(at), low, high)
        return self.counted(node, head, test, lambda: self.bind(target, item, fixed=True), next_)

    def counted(self, node: ast.For, head: bytes, test: bytes, bind: Any, step: bytes) -> tuple[bytes, bool]:
        """block { loop { if test: leave; bind; block { body }; step; again } else }"""
        outer = self.depth
        inner = outer + (3 if node.orelse else 2)
        loop = Loop(outer + 1, inner + 1, [])
        before = set(self.assigned)
        self.depth = inner + 1
        first = bind()
        self.loops.append(loop)
        body, _ = self.statements(node.body)
        self.loops.pop()
        code = wasm.loop(test + wasm.branch_if(1) + first + wasm.block(body) + step + wasm.branch(0))
        self.assigned = before
        else_falls = True
        if node.orelse:
            self.depth = outer + 1
            more, else_falls = self.statements(node.orelse)
            code = wasm.block(code) + more
        self.depth = outer
        ways = loop.left_with + ([self.assigned] if else_falls else [])
        self.assigned = set.intersection(*ways) if ways else before
        return head + wasm.block(code), else_falls or bool(loop.left_with)

    def do_break(self, node: ast.Break) -> tuple[bytes, bool]:
        loop = self.loops[-1]
        loop.left_with.append(set(self.assigned))
        return wasm.branch(self.depth - loop.leave), False

    def do_continue(self, _: ast.Continue) -> tuple[bytes, bool]:
        return wasm.branch(self.depth - self.loops[-1].again), False

    def do_assign(self, node: ast.Assign) -> tuple[bytes, bool]:
        if len(node.targets) != 1:
            raise self.error(node, "write one assignment in a line: `a = 1` and `b = 1`")
        target = node.targets[0]
        if isinstance(target, ast.Tuple):
            return self.assign_tuple(node, target), True
        made = self.construct(target, node.value)
        if made is not None:
            return made, True
        return self.assign(target, node.value, self.expression(node.value)), True

    def assign_tuple(self, node: ast.Assign, target: ast.Tuple) -> bytes:
        if not isinstance(node.value, ast.Tuple) or len(node.value.elts) != len(target.elts):
            raise self.error(node, "write as many values as targets: `a, b = b, a`")
        # Values that wait for others need locals that no expression uses.
        values = []
        code = b""
        for item in node.value.elts:
            value = self.expression(item)
            if value.kind == "p":
                raise self.error(item, "only numbers can be assigned together")
            local = self.new_local(value.kind)
            code += value.code + set_(local)
            values.append(replace(value, code=get(local), constant=None))
        for part, item, value in zip(target.elts, node.value.elts, values):
            code += self.assign(part, item, value)
        return code

    def do_annassign(self, node: ast.AnnAssign) -> tuple[bytes, bool]:
        if not isinstance(node.target, ast.Name):
            raise self.error(node, "only variables have annotations")
        kind = self.evaluate(node.annotation)
        kind = getattr(kind, "__everwarp_type__", kind)
        kind = {int: int_type, float: f64, bool: boolean}.get(kind, kind)
        if kind is f32:
            raise self.error(node, "a variable is a float of 64 bits: f32 is for parameters, results, fields and arrays")
        if not isinstance(kind, Scalar):
            raise self.error(node.annotation, "a variable has one of the types i8 to i64, u8 to u64, f64, boolean")
        name = node.target.id
        known = self.variables.get(name)
        if known is None:
            self.variables[name] = Variable(self.new_local(kind.kind), kind.kind, kind)
        elif known.declared is not kind:
            raise self.error(node, f"`{name}` is declared with another type before")
        if node.value is None:
            return b"", True
        value = self.expression(node.value)
        if kind.kind == "f" and value.kind != "f":
            # CPython would keep the integer.
            raise self.error(node.value, f"`{name}` is a float and this is {value}: write float(...) or 1.0")
        return self.assign(node.target, node.value, value), True

    def do_augassign(self, node: ast.AugAssign) -> tuple[bytes, bool]:
        target = node.target
        if isinstance(target, ast.Name):
            old = self.expression(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            right = self.expression(node.value)
            return self.assign(target, node, self.binary(node, node.op, old, right)), True
        address, kind = self.place(target)
        local = self.new_local("p")
        old = scalar(self.load(get(local), kind), kind)
        right = self.expression(node.value)
        value = self.stored(node, self.binary(node, node.op, old, right), kind)
        return address + set_(local) + get(local) + value + self.store(kind), True

    # Assignment.

    def assign(self, target: ast.expr, node: ast.AST, value: Value) -> bytes:
        if isinstance(target, ast.Name):
            return value.code + self.bind_checked(target, node, value)
        address, kind = self.place(target)
        stored = self.stored(node, value, kind)
        if any(isinstance(part, ast.Call) for part in ast.walk(target)):
            # A call in the index comes after the value, and may change what the value was computed from.
            local = self.new_local(kind.kind)
            return stored + set_(local) + address + get(local) + self.store(kind)
        return address + stored + self.store(kind)

    def bind(self, target: ast.Name, value: Value, fixed: bool = False) -> bytes:
        code = value.code + self.bind_checked(target, target, value)
        if fixed and target.id in self.fixed:
            variable = self.variables[target.id]
            variable.low, variable.high = value.low, value.high
        return code

    def bind_checked(self, target: ast.Name, node: ast.AST, value: Value) -> bytes:
        """Code that stores the value on the stack in a variable."""
        name = target.id
        if value.kind == "p":
            raise self.error(
                node, f"`{name}` would be a second name of {value}: use the first, or make a new one and copy the elements"
            )
        variable = self.variables.get(name)
        if variable is None:
            variable = self.variables[name] = Variable(self.new_local(value.kind), value.kind)
            variable.of = value.of
        elif isinstance(variable.of, ActorType) and isinstance(value.of, ActorType) and variable.of != value.of:
            raise self.error(node, f"`{name}` is an id of {variable.of} before, and this is {value}: use another name")
        self.assigned.add(name)
        variable.low = variable.high = None
        if variable.declared is not None and variable.declared.kind in "iu" and value.kind in "iub":
            checked = self.stored(node, replace(value, code=b""), variable.declared)
            return checked + set_(variable.local)
        if variable.kind == "u" and value.kind == "i" and value.low >= 0 and value.constant is not None:
            return set_(variable.local)
        if variable.kind != value.kind:
            words = str(Value(b"", variable.kind, of=variable.of))
            raise self.error(node, f"`{name}` is {words} before, and this is {value}: convert it, or use another name")
        return set_(variable.local)

    def forget_ranges(self, node: ast.AST) -> None:
        """What a loop assigns has any value at its start."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id in self.variables:
                variable = self.variables[inner.id]
                variable.low = variable.high = None

    def construct(self, target: ast.expr, node: ast.expr) -> bytes | None:
        """An array or a struct that is made and gets its only name."""
        if not isinstance(node, ast.Call):
            return None
        made = self.constructed(node)
        if made is None:
            return None
        if not isinstance(target, ast.Name):
            raise self.error(target, "an array or a struct is kept in a variable of its own")
        of, fill = made
        name = target.id
        variable = self.variables.get(name)
        if variable is None:
            variable = self.variables[name] = Variable(self.new_local("p"), "p", None, of)
        elif variable.of != of or variable.local < self.first_local:
            raise self.error(node, f"`{name}` is something else before: use another name")
        offset = self.reserve(of.size)
        self.assigned.add(name)
        # The values are computed before the old ones are overwritten.
        values, stores = b"", b""
        for at, kind, value in fill:
            local = self.new_local(value.kind)
            values += value.code + set_(local)
            stores += get(variable.local) + self.stored(node, replace(value, code=get(local)), kind)
            stores += wasm.memory(STORE[kind.name], at) if kind is not f32 else OP["f32.demote"] + wasm.memory(STORE["f32"], at)
        address = self.frame_address(offset) + set_(variable.local)
        clear = get(variable.local) + wasm.i32(0) + wasm.i32(of.size) + wasm.FILL
        return values + address + clear + stores

    # Memory.

    def load(self, address: bytes, kind: Scalar, offset: int = 0) -> bytes:
        code = address + wasm.memory(LOAD[kind.name], offset)
        return code + OP["f64.promote"] if kind is f32 else code

    def store(self, kind: Scalar, offset: int = 0) -> bytes:
        code = wasm.memory(STORE[kind.name], offset)
        return OP["f32.demote"] + code if kind is f32 else code

    def stored(self, node: ast.AST, value: Value, kind: Scalar) -> bytes:
        """Code that leaves the value converted to a declared type, as a store in CPython's classes does."""
        if kind.kind == "f":
            if value.kind == "p":
                raise self.error(node, f"{kind.name} is a number, and this is {value}")
            code = self.arithmetic.floating(value).code
            return code
        if kind.kind == "b":
            if value.kind != "b":
                raise self.error(node, f"boolean is a truth value, and this is {value}: write `x != 0`")
            return value.code
        if value.kind == "b":
            return value.code + OP["i64.extend_u"]
        if isinstance(kind, ActorType) and isinstance(value.of, ActorType) and value.of != kind:
            raise self.error(node, f"an id of {kind} is wanted, and this is {value}")
        if value.kind not in "iu":
            raise self.error(node, f"{kind.name} is an integer, and this is {value}: write int(x)")
        return self.arithmetic.convert(value, kind.low, kind.high, kind.kind).code

    def place(self, target: ast.expr) -> tuple[bytes, Scalar]:
        """The address of an element or a field, and its type."""
        if isinstance(target, ast.Subscript):
            array = self.expression(target.value)
            if not isinstance(array.of, ArrayType):
                raise self.error(target.value, f"only arrays have elements, and this is {array}")
            index = self.signed(target.slice, self.expression(target.slice))
            of = array.of
            if index.constant is not None and not 0 <= index.constant < of.length:
                raise self.error(target.slice, f"the index {index.constant} is not in 0 to {of.length - 1}")
            size = wasm.i32(of.element.size) + OP["i32.mul"] + OP["i32.add"]
            if 0 <= index.low and index.high < of.length:
                return array.code + index.code + OP["i32.wrap"] + size, of.element
            with self.temporary("i") as at:
                wrong = get(at) + i64(of.length) + OP["i64.ge_u"] + if_(self.fail(INDEX))
                return array.code + index.code + set_(at) + wrong + get(at) + OP["i32.wrap"] + size, of.element
        if isinstance(target, ast.Attribute):
            value = self.expression(target.value)
            if isinstance(value.of, StructType):
                if target.attr not in value.of.fields:
                    raise self.error(target, f"{value} has no field `{target.attr}`")
                kind, offset = value.of.fields[target.attr]
                return value.code + wasm.i32(offset) + OP["i32.add"], kind
            raise self.error(target, f"only structs have fields, and this is {value}")
        raise self.error(target, "a value is assigned to a variable, an element or a field")


def fixed_loop_variables(tree: ast.FunctionDef, nodes: list[ast.AST]) -> set[str]:
    """Variables that only one `for` assigns, so that their range is known in its body."""
    counts: dict[str, int] = {}
    loops: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts[node.id] = counts.get(node.id, 0) + 1
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            loops.add(node.target.id)
    return {name for name in loops if counts[name] == 1 and name not in {a.arg for a in tree.args.args}}
