"""Messages, asks and timers in handlers, and what else handlers do with actors."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _handlers
from .._types import ActorType, Scalar, f32
from . import wasm
from .arithmetic import ROOM, VALUE
from .values import StructType, Value, wasm_type
from .wasm import OP, get, if_, set_, tee

if TYPE_CHECKING:
    from .actor import ActorCompiler, Message
    from .expressions import Expressions
    from .module import Signature

#: What follows the name of a message: `to.deposit.tell(3)`.
VERBS = ("tell", "ask", "after", "every", "reply")
#: Those whose message is one of the class itself.
OWN_VERBS = ("after", "every", "reply")
#: What an actor or a timer is ordered to do, and the imports.
ORDERS = {"stop": "stop_actor", "kill": "kill", "cancel": "cancel"}
#: The keywords of an ask.
KEYWORDS = ("then", "failed", "note", "timeout")
#: The number of an ask holds its place in the class, and a note of this many bits.
NOTE_BITS = 24
#: The most fields of a message that is asked, or that a timer sends, and the most asks of one message in a class.
WORDS, SITES = 4, 128
#: The longest time of a timer or a deadline in seconds.
LONGEST = 9e9
#: Why an ask ends without a reply, in the order of the numbers.
REASONS = (
    "the actor does not live",
    "the actor ended before it handled the message",
    "the actor handled the message without a reply",
    "the actor failed while it handled the message",
    "the actor keeps its latest messages only, and later ones came",
    "there was no reply within the time",
)


@dataclass(frozen=True)
class Site:
    """One place in a class that asks: the methods that take the reply, or learn that there is none, and the line."""

    then: Signature
    failed: Signature | None
    line: int


def actor_of(f: Expressions, node: ast.AST, what: str) -> ActorCompiler:
    """The module, which must be that of an actor."""
    if f.module.own is None:
        raise f.error(
            node, f"{what}, which only the handlers of an actor do: write it in a method of a class with @everwarp.actor"
        )
    module: Any = f.module
    return module


def message_call(node: ast.Call) -> tuple[ast.expr, str, str] | None:
    """The receiver, the message and the verb of `to.deposit.tell(3)`."""
    call = node.func
    if isinstance(call, ast.Attribute) and call.attr in VERBS and isinstance(call.value, ast.Attribute):
        return call.value.value, call.value.attr, call.attr
    return None


def compile_send(f: Expressions, node: ast.Call) -> tuple[bytes, Value | None] | None:
    """A call that sends, asks, sets a timer or gives an order; `None` for other calls."""
    sent = message_call(node)
    if sent is not None:
        to, name, verb = sent
        module = actor_of(f, node, f"`{ast.unparse(node.func)}` sends a message")
        if not reachable(module, name):
            raise unknown(f, module, node, name)
        if verb in ("after", "every"):
            return b"", timer(f, module, node, to, name, verb)
        if verb == "reply":
            return b"", late_reply(f, module, node, to, name)
        value = receiver(f, module, to)
        message, wire = addressed(f, module, node, value, name)
        if verb == "ask":
            return ask(f, module, node, value.code, message, wire), None
        if node.keywords:
            raise f.error(node, "write the arguments without names, in their order")
        code = value.code
        for part in fields(f, node, message, node.args):
            code += part
        return code + wasm.call(module.imports["everwarp:tell", wire]), None
    call = node.func
    if f.resolve(call) is _handlers.forward:
        return compile_forward(f, node), None
    if isinstance(call, ast.Attribute) and call.attr in ORDERS and f.resolve(call) is f.resolve(call.value):
        # Neither is known outside of the function.
        return order(f, node, call)
    return None


def is_self(f: Expressions, node: ast.expr) -> bool:
    """Whether this is the handler's own actor."""
    methods: dict[str, Any] = getattr(f.module, "methods", {})
    if not isinstance(node, ast.Name) or methods.get(f.tree.name) is not f.signature:
        return False
    return node.id == f.tree.args.args[0].arg


def receiver(f: Expressions, module: ActorCompiler, to: ast.expr) -> Value:
    """The id that a message goes to."""
    if is_self(f, to):
        return own_number(module)
    value = f.expression(to)
    if value.kind != "u":
        raise f.error(to, f"a message goes to an everwarp.actor_id, and this is {value}")
    return value


def own_number(module: ActorCompiler) -> Value:
    """The actor's own id."""
    of = None if module.cls is None else module.cls.__everwarp_type__
    return Value(wasm.call(module.imports["everwarp:actor", "self"]), "u", 0, (1 << 64) - 1, of=of)


def reachable(module: ActorCompiler, name: str) -> list[tuple[Any, Message, str]]:
    """The messages of this name that handlers can send: those of the class itself, and of the classes that it names. With the
    class, and with what modules call the message."""
    found = []
    if name in module.messages:
        found.append((module.cls, module.messages[name], module.naming.message(module.cls, name)))
    for cls in module.known:
        if cls is not module.cls and name in cls.messages:
            found.append((cls, cls.messages[name], module.naming.message(cls, name)))
    return found


def unknown(f: Expressions, module: ActorCompiler, node: ast.AST, name: str) -> Exception:
    others = "".join(f"; of {cls.name}: {', '.join(cls.messages)}" for cls in module.known if cls is not module.cls)
    known = ", ".join(module.messages)
    return f.error(node, f"the message `{name}` is not known here; the messages of this class are: {known}{others}")


def addressed(f: Expressions, module: ActorCompiler, node: ast.AST, to: Value, name: str) -> tuple[Message, str]:
    """The message that is sent to an id. One whose class is not known gets the message of the sender's own class if there is
    one, and otherwise that of the classes that it names."""
    found = reachable(module, name)
    if isinstance(to.of, ActorType):
        cls = to.of.cls
        for own, message, wire in found:
            if own is cls:
                return message, wire
        raise f.error(node, f"{cls.name} handles no message `{name}`; it handles {', '.join(cls.messages)}")
    if found[0][0] is not module.cls and len({message.shape for _, message, _ in found}) > 1:
        owners = " and ".join(cls.name for cls, _, _ in found)
        raise f.error(
            node,
            f"`{name}` is another message in each of {owners}: give the id the type of its class, as in "
            f"`to: {found[0][0].name}`, instead of everwarp.actor_id",
        )
    return found[0][1], found[0][2]


def fields(f: Expressions, node: ast.AST, message: Message, values: list[ast.expr]) -> list[bytes]:
    """The values of a message, as its import takes them."""
    if len(values) != len(message.fields):
        names = ", ".join(name for name, _ in message.fields) or "nothing"
        raise f.error(node, f"`{message.name}` takes {len(message.fields)} values: {names}")
    return [field(f, value, kind) for value, (_, kind) in zip(values, message.fields)]


def field(f: Expressions, value: ast.expr, kind: Scalar) -> bytes:
    code = f.stored(value, f.expression(value), kind)
    if kind is f32:
        return code + OP["f32.demote"]
    return code + OP["i32.wrap"] if kind.kind in "iu" and kind.size < 8 else code


def kept(f: Expressions, code: bytes, kind: Scalar | None = None) -> tuple[bytes, bytes]:
    """Code that keeps a value in a local, and code that takes it from there: so values are computed in Python's order."""
    local = f.new_typed(wasm.I64 if kind is None else wasm_type(kind))
    return code + set_(local), get(local)


def ask(f: Expressions, module: ActorCompiler, node: ast.Call, to: bytes, message: Message, wire: str) -> bytes:
    """`to.read.ask(values, then=self.got, failed=self.lost, note=n, timeout=1.5)`."""
    if message.result is None:
        raise f.error(node, f"`{message.name}` returns nothing: send it with tell")
    given: dict[str | None, ast.expr] = {word.arg: word.value for word in node.keywords}
    wrong = next((str(word) for word in given if word not in KEYWORDS), None)
    if wrong is not None:
        raise f.error(node, f"`ask` takes `{'`, `'.join(KEYWORDS)}` by name, and not `{wrong}`")
    if "then" not in given:
        raise f.error(
            node,
            f"a handler does not wait: name the method that takes the reply, as in `{message.name}.ask(then=self.got)`, and "
            f"write `def got(self, result: {typed(message.result)})`",
        )
    then = method(f, module, given["then"], "then")
    failed = method(f, module, given["failed"], "failed") if "failed" in given else None
    takes_reply(f, given["then"], then, message)
    if failed is not None:
        takes_reason(f, given["failed"], failed)
    sites = module.asks.setdefault(wire, [])
    site = Site(then, failed, f.line)
    if site not in sites:
        sites.append(site)
    if len(sites) > SITES:
        raise f.error(node, f"a class asks `{message.name}` in up to {SITES} places")
    # Python computes the receiver, the values, and then what has a name, in the order of the text.
    code, take_to = kept(f, to)
    taken = []
    for part, (_, kind) in zip(fields(f, node, message, node.args), message.fields):
        more, take = kept(f, part, kind)
        code += more
        taken.append(take)
    number, time = wasm.i32(sites.index(site) << NOTE_BITS), b""
    for word, value in given.items():
        if word == "note":
            note = f.whole_number(value, f.expression(value))
            more, take = kept(f, f.arithmetic.convert(note, 0, (1 << NOTE_BITS) - 1, "u").code)
            code += more
            number += take + OP["i32.wrap"] + OP["i32.or"]
        elif word == "timeout":
            more, time = kept(f, nanoseconds(f, value, False))
            code += more
    service = "everwarp:ask_within" if time else "everwarp:ask"
    return code + take_to + number + time + b"".join(taken) + wasm.call(module.imports[service, wire])


def typed(kind: Scalar) -> str:
    """How a type is written."""
    return kind.text if isinstance(kind, ActorType) else f"everwarp.{kind.name}"


def method(f: Expressions, module: ActorCompiler, node: ast.expr, word: str) -> Signature:
    """The method of the class that `self.got` names."""
    if isinstance(node, ast.Attribute) and is_self(f, node.value) and node.attr in module.methods:
        return module.methods[node.attr]
    raise f.error(node, f"`{word}` is a method of this class: write `{word}=self.NAME`; there are {', '.join(module.methods)}")


def takes_reply(f: Expressions, node: ast.expr, then: Signature, message: Message) -> None:
    kinds = [kind for _, kind in then.parameters[1:]]
    assert message.result is not None
    fits = kinds[:1] == [message.result] and (len(kinds) == 1 or len(kinds) == 2 and is_wide(kinds[1]))
    if not fits or then.result is not None:
        raise f.error(
            node,
            f"`{then.name}` takes the reply of `{message.name}`: write `def {then.name}(self, result: "
            f"{typed(message.result)})`, or with a second parameter `note: everwarp.u32`; it returns nothing",
        )


def takes_reason(f: Expressions, node: ast.expr, failed: Signature) -> None:
    kinds = [kind for _, kind in failed.parameters[1:]]
    if len(kinds) > 2 or not all(is_wide(kind) for kind in kinds) or failed.result is not None:
        raise f.error(
            node,
            f"`{failed.name}` learns that there is no reply: write `def {failed.name}(self)`, or with the parameters "
            "`reason: everwarp.u32` and `note: everwarp.u32`; it returns nothing",
        )


def is_wide(kind: Any) -> bool:
    """Whether a parameter takes every number of 32 bits without a sign."""
    return isinstance(kind, Scalar) and kind.kind in "iu" and kind.low <= 0 and kind.high >= 0xFFFF_FFFF


def nanoseconds(f: Expressions, node: ast.expr, repeats: bool) -> bytes:
    """Seconds as nanoseconds. Less than nothing, or nothing for a period, is a failure."""
    value = f.expression(node)
    if value.kind == "p":
        raise f.error(node, f"seconds are a number, and this is {value}")
    low = "f64.gt" if repeats else "f64.ge"
    with f.temporary("f") as x:
        fits = get(x) + wasm.f64(0.0) + OP[low] + get(x) + wasm.f64(LONGEST) + OP["f64.le"] + OP["i32.and"]
        check = fits + OP["i32.eqz"] + if_(f.fail(VALUE))
        # A period that is shorter than a nanosecond is one.
        least = get(x) + wasm.f64(1e9) + OP["f64.mul"] + OP["f64.ceil"] + OP["i64.trunc_s"]
        return f.arithmetic.floating(value).code + set_(x) + check + least


def timer(
    f: Expressions, module: ActorCompiler, node: ast.Call, to: ast.expr, name: str, verb: str
) -> Value:
    """`self.tick.after(1.5, values)` and `every`, which return a timer."""
    if not is_self(f, to):
        own = f.tree.args.args[0].arg
        raise f.error(
            to, f"a timer sends to the actor that sets it: write `{own}.{name}.{verb}(...)`, and tell the other actor then"
        )
    message = module.messages.get(name)
    if message is None:
        raise unknown(f, module, node, name)
    if node.keywords:
        raise f.error(node, "write the arguments without names, in their order")
    if len(message.fields) > WORDS:
        raise f.error(node, f"the message of a timer has up to {WORDS} fields, and `{message.name}` has {len(message.fields)}")
    if not node.args:
        raise f.error(node, f"`{verb}` takes the seconds first: `{ast.unparse(node.func)}(1.5, ...)`")
    code = nanoseconds(f, node.args[0], verb == "every")
    code += b"".join(fields(f, node, message, node.args[1:]))
    code += wasm.call(module.imports[f"everwarp:{verb}", module.naming.message(module.cls, name)])
    return Value(code, "u", 0, (1 << 64) - 1)


def late_reply(f: Expressions, module: ActorCompiler, node: ast.Call, to: ast.expr, name: str) -> Value:
    """`self.read.reply(kept, value)`, which returns whether the ask was kept."""
    own = f.tree.args.args[0].arg
    if not is_self(f, to):
        raise f.error(to, f"an actor replies to the asks that it keeps itself: write `{own}.{name}.reply(...)`")
    message = module.messages.get(name)
    if message is None:
        raise unknown(f, module, node, name)
    if message.result is None:
        raise f.error(node, f"`{name}` returns nothing, so it has no reply")
    if len(node.args) != 2 or node.keywords:
        raise f.error(node, f"`reply` takes what everwarp.keep() has returned, and the reply: `{own}.{name}.reply(kept, value)`")
    kept = f.expression(node.args[0])
    if kept.kind != "u" or isinstance(kept.of, ActorType):
        raise f.error(node.args[0], f"what everwarp.keep() returns is an everwarp.reply_id, and this is {kept}")
    code = kept.code + field(f, node.args[1], message.result)
    return Value(code + wasm.call(module.imports["everwarp:reply", module.naming.message(module.cls, name)]), "b")


def order(f: Expressions, node: ast.Call, call: ast.Attribute) -> tuple[bytes, Value | None]:
    """`to.stop()`, `to.kill()` and `timer.cancel()`."""
    module = actor_of(f, node, f"`{call.attr}` is for actors and timers")
    if node.args or node.keywords:
        raise f.error(node, f"`{call.attr}` takes no arguments")
    word = ORDERS[call.attr]
    if is_self(f, call.value):
        if call.attr == "cancel":
            raise f.error(node, "an actor is no timer: keep what `after` or `every` returns in a field, and cancel that")
        if call.attr == "stop":
            return wasm.call(module.imports["everwarp:actor", "stop"]), None
        to = wasm.call(module.imports["everwarp:actor", "self"])
    else:
        value = f.expression(call.value)
        if value.kind != "u":
            wanted = "an everwarp.timer_id" if call.attr == "cancel" else "an everwarp.actor_id"
            raise f.error(call.value, f"`{call.attr}` is for {wanted}, and this is {value}")
        to = value.code
    code = to + wasm.call(module.imports["everwarp:actor", word])
    return (b"", Value(code, "b")) if call.attr == "cancel" else (code, None)


# Functions of everwarp that handlers call.


def own_id(f: Expressions, node: ast.Attribute) -> Value | None:
    """`self.id`, unless the class has a field of this name."""
    if node.attr != "id" or not is_self(f, node.value):
        return None
    if "id" in StructType(f.module.own).fields:
        return None
    return own_number(actor_of(f, node, "`self.id` is the id of an actor"))


def plain_call(f: Expressions, node: ast.Call, word: str) -> bytes:
    module = actor_of(f, node, f"`{ast.unparse(node.func)}` is about a message")
    return wasm.call(module.imports["everwarp:actor", word])


def compile_sender(f: Expressions, node: ast.Call) -> Value:
    f.arguments(node, 0)
    return Value(plain_call(f, node, "sender"), "u", 0, (1 << 64) - 1)


def compile_parent(f: Expressions, node: ast.Call) -> Value:
    f.arguments(node, 0)
    return Value(plain_call(f, node, "parent"), "u", 0, (1 << 64) - 1)


def compile_keep(f: Expressions, node: ast.Call) -> Value:
    f.arguments(node, 0)
    return Value(plain_call(f, node, "keep"), "u", 0, (1 << 64) - 1)


def compile_spawn(f: Expressions, node: ast.Call) -> Value:
    module = actor_of(f, node, f"`{ast.unparse(node.func)}` makes an actor")
    cls: Any = outside(f.signature.names, node.args[0]) if len(node.args) == 1 else None
    if not is_actor_class(cls):
        named = ast.unparse(node.func)
        raise f.error(node, f"`{named}` takes a class with @everwarp.actor: write `{named}({module.own.__name__})`")
    code = wasm.call(module.imports["everwarp:spawn", module.naming.kind(cls)])
    with f.temporary("u") as x:
        code += tee(x) + OP["i64.eqz"] + if_(f.fail(ROOM)) + get(x)
    return Value(code, "u", 0, (1 << 64) - 1, of=cls.__everwarp_type__)


def is_actor_class(found: Any) -> bool:
    """Whether this is a class with `everwarp.actor`."""
    return isinstance(getattr(found, "__everwarp_type__", None), ActorType)


def spawned(handler: Signature) -> list[ast.expr]:
    """What a handler spawns, as its text names it."""
    calls = [node for node in handler.nodes if isinstance(node, ast.Call) and len(node.args) == 1]
    items = [node.args[0] for node in calls if outside(handler.names, node.func) is _handlers.spawn]
    return [item for item in items if isinstance(item, (ast.Name, ast.Attribute))]


def declared(handler: Signature) -> list[str]:
    """The types that variables of a handler are declared with."""
    return [ast.unparse(node.annotation) for node in handler.nodes if isinstance(node, ast.AnnAssign)]


def compile_forward(f: Expressions, node: ast.Call) -> bytes:
    module = actor_of(f, node, f"`{ast.unparse(node.func)}` passes a message on")
    if len(node.args) != 1:
        raise f.error(node, f"`{ast.unparse(node.func)}` takes the actor that the message goes to")
    to = receiver(f, module, node.args[0])
    name = f.tree.name
    if isinstance(to.of, ActorType) and not any(calls(handler, name) for handler in module.methods.values()):
        # Otherwise it is part of another handler, whose message is passed on.
        there = to.of.cls.messages.get(name)
        if there is None or there.shape != module.messages[name].shape:
            raise f.error(
                node, f"{to.of} does not handle the message that is passed on: write `def {name}` there, with the same types"
            )
    return to.code + plain_call(f, node, "forward")


def calls(handler: Signature, name: str) -> bool:
    """Whether a handler calls `self.name(...)`."""
    own = handler.tree.args.args[0].arg
    called = (node.func for node in handler.nodes if isinstance(node, ast.Call))
    return any(
        isinstance(c, ast.Attribute) and c.attr == name and isinstance(c.value, ast.Name) and c.value.id == own for c in called
    )


# The imports and exports of a class.


def imports_of(module: ActorCompiler, handlers: list[Signature]) -> list[tuple[str, str]]:
    """The imports that handlers may need, by what their text names."""
    assert module.own is not None
    found: set[tuple[str, str]] = set()
    plain = {_handlers.keep: "keep", _handlers.sender: "sender", _handlers.parent: "parent", _handlers.forward: "forward"}
    for handler in handlers:
        if uses_id(handler):
            found.add(("everwarp:actor", "self"))
        for item in spawned(handler):
            if is_actor_class(cls := outside(handler.names, item)):
                found.add(("everwarp:spawn", module.naming.kind(cls)))
        for node in handler.nodes:
            if not isinstance(node, ast.Call):
                continue
            sent = message_call(node)
            if sent is not None and (messages := reachable(module, sent[1])):
                verb = sent[2]
                limited = any(word.arg == "timeout" for word in node.keywords)
                for cls, message, wire in messages:
                    if cls is not module.cls and (verb in OWN_VERBS or is_own(handler, sent[0])):
                        continue
                    if (verb not in ("ask", "reply") or message.result is not None) and (verb == "tell" or len(message.fields) <= WORDS):
                        module.wires[wire] = message
                        found.add((f"everwarp:{verb}_within" if limited and verb == "ask" else f"everwarp:{verb}", wire))
            elif isinstance(node.func, ast.Attribute) and node.func.attr in ORDERS:
                found.add(("everwarp:actor", ORDERS[node.func.attr]))
                if node.func.attr == "stop":
                    found.add(("everwarp:actor", "stop"))
            target = outside(handler.names, node.func)
            for function, word in plain.items():
                if target is function:
                    found.add(("everwarp:actor", word))
    return sorted(found)


def uses_id(handler: Signature) -> bool:
    """Whether a handler sends to its own actor, or names its id."""
    for node in handler.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("id", "kill") and is_own(handler, node.value):
            return True
        if isinstance(node, ast.Call):
            sent = message_call(node)
            if sent is not None and is_own(handler, sent[0]) or any(is_own(handler, arg) for arg in node.args):
                return True
    return False


def is_own(handler: Signature, node: ast.expr) -> bool:
    """Whether this is the `self` of a handler."""
    return isinstance(node, ast.Name) and node.id == handler.tree.args.args[0].arg


def outside(names: Mapping[str, Any], node: ast.expr) -> Any:
    """What a name outside of the handlers stands for, if it is a module's or a global one."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        found = outside(names, node.value)
        return getattr(found, node.attr, None) if isinstance(found, type(ast)) else None
    return None


def signature_of(service: str, name: str, module: ActorCompiler) -> tuple[list[int], list[int]]:
    """The parameters and the results of an import."""
    if service == "everwarp:spawn":
        return [], [wasm.I64]
    if service == "everwarp:actor":
        one = {"stop_actor": [], "kill": [], "forward": [], "cancel": [wasm.I32]}
        if name in one:
            return [wasm.I64], one[name]
        return [], [] if name == "stop" else [wasm.I64]
    if service == "everwarp:reply":
        result = module.wires[name].result
        assert result is not None
        return [wasm.I64, wasm_type(result)], [wasm.I32]
    first = {
        "everwarp:tell": [wasm.I64],
        "everwarp:ask": [wasm.I64, wasm.I32],
        "everwarp:ask_within": [wasm.I64, wasm.I32, wasm.I64],
    }.get(service, [wasm.I64])
    kinds = [wasm_type(kind) for _, kind in module.wires[name].fields]
    return first + kinds, [wasm.I64] if service in ("everwarp:after", "everwarp:every") else []


__all__ = ["NOTE_BITS", "REASONS", "Site", "compile_send", "imports_of", "is_self", "own_id", "signature_of"]
