"""A class as a WebAssembly module whose exports handle messages. The interface is that of modules as actors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._types import Scalar, f32
from . import sending, wasm
from .arithmetic import FAILURES, RANGE
from .module import ModuleCompiler, Signature
from .values import StructType, field_type, shape, wasm_type
from .wasm import OP, FunctionBody, get, if_

#: The bytes for arrays and structs of handlers, if there are any. They belong to no actor.
SCRATCH = 4096
#: The most fields of a message, and of one that has a reply.
FIELDS, ASK_FIELDS = 5, 4


@dataclass(frozen=True)
class Message:
    """A message that a class handles: its fields and its result."""

    name: str
    fields: list[tuple[str, Scalar]]
    result: Scalar | None

    @functools.cached_property
    def shape(self) -> tuple[tuple[str, ...], str | None]:
        """Its types: messages of one name and shape are the same message in all classes."""
        return shape(self.fields, self.result)

    @functools.cached_property
    def decode(self) -> Callable[[int], Any] | None:
        """What makes the result of a word."""
        from .._asking import decoder

        return None if self.result is None else decoder(self.result)


@dataclass(frozen=True)
class Limits:
    """The limits of a class, and what follows when a handler fails."""

    mailbox: int
    sends: int
    restarts: int
    seconds: int
    retries: int
    atomic: bool
    latest: bool

    def lines(self) -> list[str]:
        """The lines of the module's description."""
        lines = [f"mailbox {self.mailbox}", f"sends {self.sends}"]
        lines += [f"restarts {self.restarts} {self.seconds}"] * bool(self.restarts)
        lines += [f"retries {self.retries}"] * bool(self.retries)
        return lines + ["atomic"] * self.atomic + ["latest"] * self.latest


@dataclass(frozen=True)
class Naming:
    """What the modules of a program call messages and kinds, where that is not their own name.

    A message has one meaning in all modules. Where classes handle different messages of one name, they get other names.
    """

    messages: Mapping[tuple[Any, str], str]
    kinds: Mapping[Any, str]

    def message(self, cls: Any, name: str) -> str:
        return self.messages.get((cls, name), name)

    def kind(self, cls: Any) -> str:
        found: str = self.kinds.get(cls, cls.name)
        return found


PLAIN = Naming({}, {})


class ActorCompiler(ModuleCompiler):
    """The module of a class. A failure is a trap in a function whose name says what happened and where."""

    stack_low = 0

    def __init__(self) -> None:
        super().__init__()
        self.sites: dict[str, int] = {}
        self.failures: dict[int, tuple[int, FunctionBody]] = {}
        #: Of a class: its messages and methods, what it imports, and the places that ask.
        self.messages: dict[str, Message] = {}
        self.methods: dict[str, Signature] = {}
        #: The class itself, the classes that its handlers name, and what modules call messages and kinds.
        self.cls: Any = None
        self.known: list[Any] = []
        self.naming = PLAIN
        #: The messages that handlers may send, by what modules call them.
        self.wires: dict[str, Message] = {}
        self.imports: dict[tuple[str, str], int] = {}
        self.asks: dict[str, list[sending.Site]] = {}

    def fail_code(self, reason: int, line: bytes, known: int | None) -> bytes:
        if known is None and line:
            return line + wasm.call(self.failure(reason)) + wasm.UNREACHABLE
        return self.trap(reason, known)

    def trap(self, reason: int, line: int | None) -> bytes:
        """Code that traps in a function with this name."""
        return self.named_trap(FAILURES[reason] + (f", line {line}" if line else ""))

    def named_trap(self, name: str) -> bytes:
        if name not in self.sites:
            self.sites[name] = self.add(FunctionBody(name, [], [], [], wasm.UNREACHABLE))
        return wasm.call(self.sites[name]) + wasm.UNREACHABLE

    def failure(self, reason: int) -> int:
        """The function that fails in the line that it is given; `finish` writes it, when all lines are known."""
        if reason not in self.failures:
            body = FunctionBody(FAILURES[reason], [wasm.I32], [])
            self.failures[reason] = (self.add(body), body)
        return self.failures[reason][0]

    def finish(self) -> None:
        """Writes the functions that fail in a line that they are given."""
        for reason, (_, body) in self.failures.items():
            for line in sorted(self.lines):
                body.code += get(0) + wasm.i32(line) + OP["i32.eq"] + if_(self.trap(reason, line))
            body.code += wasm.UNREACHABLE


def messages(signatures: list[Signature]) -> dict[str, Message]:
    """The messages of a class: its methods, except for those whose names begin with `_`."""
    found = {}
    for signature in signatures:
        fields = signature.parameters[1:]
        for argument, (name, kind) in zip(signature.tree.args.args[1:], fields):
            if not isinstance(kind, Scalar):
                raise signature.source.error(argument, f"`{name}` is sent in a message, so it is a number")
        most = FIELDS if signature.result is None else ASK_FIELDS
        if len(fields) > most:
            raise signature.source.error(
                signature.tree, f"a message has up to {FIELDS} fields, and one with a result up to {ASK_FIELDS}"
            )
        found[signature.name] = Message(signature.name, fields, signature.result)
    return found


def compile_actor(
    cls: Any, handlers: list[Signature], limits: Limits, actor: Any = None, known: list[Any] | None = None, naming: Naming = PLAIN
) -> bytes:
    """The module of a class with these handlers. `actor` is the class as actors have it, and `known` are those that it names."""
    module = ActorCompiler()
    writer = module.writer
    module.own, module.messages = cls, messages(handlers)
    module.cls, module.known, module.naming = actor, known or [], naming
    module.methods = {handler.name: handler for handler in handlers}
    for service, name in sending.imports_of(module, handlers):
        parameters, results = sending.signature_of(service, name, module)
        module.imports[service, name] = writer.import_function(service, name, parameters, results)
    writer.add_global(wasm.I32, wasm.i32(SCRATCH))
    state = StructType(cls)
    indices = [module.function(signature) for signature in handlers]
    base = SCRATCH if module.uses_stack else 0
    lines = limits.lines() + ([f"scratch {SCRATCH}"] if base else [])
    for handler, message, index in zip(handlers, module.messages.values(), indices):
        code = wasm.i32(base)
        first = handler.source.line(handler.tree)
        for local, (_, kind) in enumerate(message.fields):
            code += received(module, kind, local, first)
        code += wasm.call(index)
        if message.result is not None:
            code += replied(message.result)
        results = [] if message.result is None else [wasm_type(message.result)]
        parameters = [wasm_type(kind) for _, kind in message.fields]
        wire = naming.message(actor, message.name)
        body = FunctionBody(f"on.{wire}", parameters, results, [], code)
        writer.export(f"on.{wire}", module.add(body))
        fields = " ".join(f"{name}:{field_type(kind)}" for name, kind in message.fields)
        line = f"message {wire} {fields}".strip()
        lines.append(line + (f" -> result:{field_type(message.result)}" if message.result else ""))
    replies(module, base)
    module.finish()
    writer.export("memory", 0, 2)
    writer.bytes = base + max(state.size, 8)
    writer.customs.append(("everwarp.actor", "\n".join(lines).encode()))
    return writer.encode()


def received(module: ActorCompiler, kind: Scalar, local: int, line: int) -> bytes:
    """A field of a message, as the function takes it."""
    code = get(local)
    if kind.kind == "f":
        return code + (OP["f64.promote"] if kind is f32 else b"")
    if kind.kind == "b":
        return code + OP["i32.eqz"] + OP["i32.eqz"]
    if kind.size == 8:
        return code
    code += OP["i64.extend_s" if kind.low < 0 else "i64.extend_u"]
    if kind.size == 4:
        return code
    low = code + wasm.i64(kind.low) + OP["i64.lt_s"]
    high = code + wasm.i64(kind.high) + OP["i64.gt_s"]
    return low + high + OP["i32.or"] + if_(module.trap(RANGE, line)) + code


def replied(kind: Scalar) -> bytes:
    """The result of the function, as the reply takes it."""
    if kind is f32:
        return OP["f32.demote"]
    return OP["i32.wrap"] if kind.kind in "iu" and kind.size < 8 else b""


def replies(module: ActorCompiler, base: int) -> None:
    """Exports what takes the replies to asks, and what learns that there is none."""
    names = {name for service, name in module.imports if service in ("everwarp:ask", "everwarp:ask_within")}
    for name in sorted(names):
        result = module.wires[name].result
        assert result is not None
        taken = missing = b""
        for number, site in enumerate(module.asks.get(name, [])):
            here = get(0) + wasm.i32(sending.NOTE_BITS) + OP["i32.shr_u"] + wasm.i32(number) + OP["i32.eq"]
            note = get(0) + wasm.i32((1 << sending.NOTE_BITS) - 1) + OP["i32.and"] + OP["i64.extend_u"]
            call = wasm.i32(base) + received(module, result, 1, site.line)
            call += note * (len(site.then.parameters) - 2)
            taken += here + if_(call + wasm.call(module.function(site.then)) + wasm.RETURN)
            if site.failed is not None:
                call = wasm.i32(base)
                parts = [get(1) + OP["i64.extend_u"], note]
                call += b"".join(parts[: len(site.failed.parameters) - 1])
                missing += here + if_(call + wasm.call(module.function(site.failed)) + wasm.RETURN)
                continue
            for reason, text in enumerate(sending.REASONS):
                what = f"no reply to `{module.wires[name].name}`, and the ask has no `failed`: {text}, line {site.line}"
                missing += here + get(1) + wasm.i32(reason) + OP["i32.eq"] + OP["i32.and"] + if_(module.named_trap(what))
        index = module.add(FunctionBody(f"reply.{name}", [wasm.I32, wasm_type(result)], [], [], taken + wasm.UNREACHABLE))
        module.writer.export(f"reply.{name}", index)
        index = module.add(FunctionBody(f"failed.{name}", [wasm.I32, wasm.I32], [], [], missing + wasm.UNREACHABLE))
        module.writer.export(f"failed.{name}", index)
