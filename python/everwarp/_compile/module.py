"""Puts functions into a WebAssembly module, with what they call."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._types import ActorType, FixedArray, Scalar, Struct, boolean, f64, raw_annotations
from .._types import i64 as int_type
from . import elementary, library, wasm
from .arithmetic import DEPTH, OVERFLOW
from .function import FunctionCompiler
from .._problem import Source, Unsupported
from .values import ArrayType, StructType
from .wasm import OP, FunctionBody, ModuleWriter, get, i64, if_, tee

#: What the compiler replaces by instructions.
PRIMITIVES = ("bits", "of_bits", "floor")
#: Addresses: a few words for calls of the host, then the stack of arrays and structs, which grows down.
STACK_LOW, STACK_HIGH = 1024, 64 << 10


class Names(Mapping[str, Any]):
    """The names that functions find outside of them, as they are when they are looked up."""

    def __init__(self, functions: Sequence[Any], more: dict[str, Any]) -> None:
        self.globals: dict[str, Any] = functions[0].__globals__
        self.cells: dict[str, Any] = {}
        for function in functions:
            self.cells.update(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self.more = more

    def __getitem__(self, name: str) -> Any:
        if name in self.cells:
            try:
                return self.cells[name].cell_contents
            except ValueError:
                # It has no value yet.
                pass
        return self.more[name] if name in self.more else self.globals[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.globals, **self.more, **self.cells})

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(eq=False)
class Signature:
    """A function: its parameters, its result, its text, and the names that it finds outside."""

    name: str
    parameters: list[tuple[str, Any]]
    result: Scalar | None
    tree: ast.FunctionDef
    source: Source
    names: Mapping[str, Any]
    library: bool = False
    #: Numbers from outside that the code contains, by the expression that named them.
    captured: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes of its text."""
        return list(ast.walk(self.tree))


def parse(
    function: Any, library: bool = False, names: Mapping[str, Any] | None = None, own: type | None = None
) -> Signature:
    """Reads a function's text and types. `own` is the type of a method's first parameter: then annotations can name classes of
    actors, also those that come later."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise Unsupported(
            f"the text of `{function.__name__}` cannot be read: write the function in a file or a notebook's cell"
        ) from None
    text = "".join(lines)
    plain = textwrap.dedent(text)
    indent = len(lines[0]) - len(lines[0].lstrip())
    file = inspect.getsourcefile(function) or "?"
    source = Source(file, first, text.splitlines(), indent)
    tree = ast.parse(plain).body[0]
    if isinstance(tree, ast.AsyncFunctionDef):
        raise source.error(tree, "functions compute and do not wait: leave out `async`")
    assert isinstance(tree, ast.FunctionDef)
    args = tree.args
    if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs or args.defaults:
        raise source.error(tree, "parameters have a name and a type: no defaults, no `*` and no `/`")
    if names is None:
        names = Names([function], {})
    annotations = raw_annotations(function)
    parameters: list[tuple[str, Any]] = []
    if own is not None and not args.args:
        raise source.error(tree, "a method has the parameter `self`")
    for number, arg in enumerate(args.args):
        if number == 0 and own is not None:
            parameters.append((arg.arg, StructType(own)))
            continue
        if arg.arg not in annotations:
            raise source.error(arg, f"`{arg.arg}` has no type: write `{arg.arg}: everwarp.i64`")
        parameters.append((arg.arg, type_of(source, arg, annotations[arg.arg], names, own is not None)))
    if "return" not in annotations and own is not None:
        annotations["return"] = None
    if "return" not in annotations:
        raise source.error(tree, "the result has no type: write `-> everwarp.i64`, or `-> None`")
    result = annotations["return"]
    result = None if result in (None, "None") else type_of(source, tree.returns or tree, result, names, own is not None)
    if result is not None and not isinstance(result, Scalar):
        raise source.error(tree.returns or tree, "the result is a number: pass an array or a struct to write to")
    return Signature(tree.name, parameters, result, tree, source, names, library)


def later(text: str, names: Mapping[str, Any]) -> ActorType:
    """The type that a class of actors will be, which is not there yet."""

    def find() -> Any:
        try:
            return eval(text, {}, names)
        except (NameError, AttributeError):
            raise NameError(f"`{text}` is not known: define a class of this name, with @everwarp.actor") from None

    return ActorType(text, find)


def is_name(annotation: str) -> bool:
    """Whether an annotation is the name of something, maybe of a module's."""
    return re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", annotation) is not None


def type_of(source: Source, node: ast.AST, annotation: Any, names: Mapping[str, Any], actors: bool = False) -> Any:
    """The type that an annotation names; with `actors` also a class of actors."""
    if isinstance(annotation, str):
        text = annotation
        try:
            annotation = eval(annotation, {}, names)
            # `from __future__ import annotations` quotes what is quoted already.
            if isinstance(annotation, str):
                text = annotation
                annotation = eval(annotation, {}, names)
        except Exception as error:
            if actors and isinstance(error, NameError) and is_name(text):
                return later(text, names)
            raise source.error(node, f"the type `{annotation}` is not known: {error}") from None
    kind = {int: int_type, float: f64, bool: boolean}.get(annotation) if isinstance(annotation, type) else None
    if kind is not None:
        return kind
    if actors:
        annotation = getattr(annotation, "__everwarp_type__", annotation)
    if isinstance(annotation, Scalar):
        return annotation
    if isinstance(annotation, FixedArray):
        return ArrayType(annotation.element, len(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return StructType(annotation)
    raise source.error(
        node, "a type is one of i8 to i64, u8 to u64, f32, f64 and boolean, everwarp.array(everwarp.f64, 8), or a struct"
        + ", or a class with @everwarp.actor" * actors,
    )


class ModuleCompiler:
    """A module that is being made. `fail` is the function that reports a failure."""

    #: The lowest address of the stack of arrays and structs.
    stack_low = STACK_LOW
    #: The class whose handlers are compiled, if it is one's.
    own: Any = None

    def __init__(self) -> None:
        self.uses_stack = False
        self.writer = ModuleWriter()
        self.fail = -1
        self.indices: dict[Any, int] = {}
        self.bodies: dict[Any, FunctionBody] = {}
        self.libraries: dict[str, Signature] = {}
        self.signatures: list[Signature] = []
        self.frames: list[int] = []
        #: The lines that failures may name.
        self.lines: set[int] = set()

    def add(self, body: FunctionBody) -> int:
        """Adds a function whose code is there or comes later."""
        return self.writer.function(body)

    def function(self, signature: Signature) -> int:
        """The index of a function, which is compiled if it has not been yet."""
        if signature not in self.indices:
            body = FunctionBody(signature.name, [], [])
            self.indices[signature] = self.add(body)
            self.signatures.append(signature)
            done = FunctionCompiler(self, signature, signature.tree, signature.source).compile()
            body.parameters, body.results, body.locals, body.code = done.parameters, done.results, done.locals, done.code
        return self.indices[signature]

    def library(self, name: str) -> Signature:
        if name not in self.libraries:
            function = getattr(library, name, None) or getattr(elementary, name)
            self.libraries[name] = parse(function, library=True, names=LibraryNames(self, vars(inspect.getmodule(function))))
        return self.libraries[name]

    def capture(self, signature: Signature, name: str, value: Any) -> None:
        signature.captured[name] = value

    def enter(self, frame: int, local: int, _: int) -> bytes:
        """Takes the frame of a function from the stack."""
        self.uses_stack = True
        taken = wasm.global_get(0) + wasm.i32(frame) + OP["i32.sub"] + tee(local)
        short = wasm.i32(self.stack_low) + OP["i32.lt_s"]
        return taken + short + if_(self.fail_code(DEPTH, wasm.i32(0), None)) + get(local) + wasm.global_set(0)

    def fail_code(self, reason: int, line: bytes, known: int | None) -> bytes:
        """Code that reports a failure and does not return: the line as code, and as a number if it is known."""
        return wasm.i32(reason) + line + wasm.call(self.fail) + wasm.UNREACHABLE

    def helper(self, name: str) -> int:
        """The index of a function that is written in WebAssembly."""
        if name not in self.indices:
            self.indices[name] = self.add(getattr(self, "make_" + name)(name))
        return self.indices[name]

    def overflow(self) -> bytes:
        return if_(self.fail_code(OVERFLOW, get(2), None))

    def make_multiply_i(self, name: str) -> FunctionBody:
        """(x, y, line) -> x * y, checked by dividing again."""
        product = get(0) + get(1) + OP["i64.mul"]
        least = get(1) + i64(-(1 << 63)) + OP["i64.eq"]
        minus = get(0) + i64(-1) + OP["i64.eq"] + if_(least + self.overflow() + product + wasm.RETURN)
        zero = get(0) + OP["i64.eqz"] + if_(i64(0) + wasm.RETURN)
        wrong = product + tee(3) + get(0) + OP["i64.div_s"] + get(1) + OP["i64.ne"]
        code = minus + zero + wrong + self.overflow() + get(3)
        return FunctionBody(name, [wasm.I64, wasm.I64, wasm.I32], [wasm.I64], [wasm.I64], code)

    def make_multiply_u(self, name: str) -> FunctionBody:
        """The same for u64."""
        zero = get(0) + OP["i64.eqz"] + if_(i64(0) + wasm.RETURN)
        product = get(0) + get(1) + OP["i64.mul"] + tee(3)
        wrong = product + get(0) + OP["i64.div_u"] + get(1) + OP["i64.ne"]
        code = zero + wrong + self.overflow() + get(3)
        return FunctionBody(name, [wasm.I64, wasm.I64, wasm.I32], [wasm.I64], [wasm.I64], code)


class LibraryNames(dict[str, Any]):
    """The names that functions of the library see: each other, as functions to compile."""

    def __init__(self, module: ModuleCompiler, names: dict[str, Any]) -> None:
        super().__init__(names)
        self.module = module

    def get(self, name: str, default: Any = None) -> Any:
        found = super().get(name, default)
        if inspect.isfunction(found) and found.__module__.startswith(__package__) and name not in PRIMITIVES:
            return self.module.library(name)
        return found


__all__ = ["STACK_HIGH", "ModuleCompiler", "Signature", "parse"]
