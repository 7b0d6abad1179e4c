"""The types of functions that everwarp compiles, and what they are when CPython runs the same code."""

from __future__ import annotations

import struct as _struct
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = [
    "FixedArray", "Scalar", "Struct", "actor_id", "array", "boolean", "f32", "f64", "i8", "i16", "i32", "i64", "reply_id", "struct",
    "timer_id", "u8", "u16", "u32", "u64",
]  # fmt: skip


class ActorNumber(int):
    """An id in a handler that CPython runs, in a rehearsal: its attributes are the messages of its actor."""

    #: The class of the actor, if the type of the id says so.
    _of: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        from ._rehearsal import Outgoing, running

        turn = running()
        if turn is None:
            raise AttributeError(f"an actor's id has messages such as `{name}` in handlers only: see everwarp.Rehearsal")
        cls = turn.actor.cls if self._of is None else self._of
        return Outgoing(self, cls.addressed(name) if self._of is None else cls.message(name))

    def stop(self) -> None:
        from ._rehearsal import current

        turn = current("stop")
        turn.spend()
        turn.stage._stop(self)

    def kill(self) -> None:
        from ._rehearsal import current

        turn = current("kill")
        turn.spend()
        turn.stage._kill(self)


class TimerNumber(int):
    """A timer in a handler that CPython runs."""

    __slots__ = ()

    def cancel(self) -> bool:
        from ._rehearsal import current

        turn = current("cancel")
        return turn.stage._cancel(self, turn.actor.number)


class Scalar:
    """A type of numbers. Calling it converts a number, or raises `OverflowError` if it does not fit.

    A floating-point number becomes an integer by dropping its fraction, as with `int`.
    """

    __slots__ = ("code", "high", "kind", "low", "name", "number", "size")

    def __init__(self, name: str, kind: str, size: int, code: str, number: type[int] = int) -> None:
        self.number = number
        self.name, self.kind, self.size, self.code = name, kind, size, code
        bits = 8 * size
        self.low = -(1 << (bits - 1)) if kind == "i" and name[0] == "i" else 0
        self.high = (1 << (bits - 1)) - 1 if name[0] == "i" else (1 << bits) - 1

    def __call__(self, value: Any) -> Any:
        if self.kind == "f":
            value = float(value)
            return value if self.size == 8 else round_f32(value)
        if self.kind == "b":
            return bool(value)
        value = int(value)
        if not self.low <= value <= self.high:
            raise OverflowError(f"{value} does not fit {self.name}, which holds {self.low} to {self.high}")
        return value if self.number is int else self.number(value)

    def __repr__(self) -> str:
        return f"everwarp.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class ActorType(Scalar):
    """The type of ids of actors of one class: what the class is as the type of a field, a parameter or a result.

    The class can be named before there is one. `find` looks for it; until then the type is that of any id.
    """

    __slots__ = ("_cls", "find", "text")

    def __init__(self, text: str, find: Any, cls: Any = None) -> None:
        super().__init__("actor_id", "u", 8, "Q", ActorNumber)
        self.text, self.find, self._cls = text, find, cls

    @property
    def cls(self) -> Any:
        """The class, which is decorated with `everwarp.actor`."""
        if self._cls is None:
            found = self.find()
            if not hasattr(found, "__everwarp_type__"):
                raise TypeError(f"`{self.text}` is no type, and no class with @everwarp.actor")
            self._cls = found
        return self._cls

    def __call__(self, value: Any) -> Any:
        number = super().__call__(value)
        number._of = self.cls
        return number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorType) and self.cls is other.cls

    def __hash__(self) -> int:
        return hash("actor_id")

    def __repr__(self) -> str:
        return self.text


def round_f32(value: float) -> float:
    """The nearest 32-bit floating-point number."""
    try:
        return float(_struct.unpack("<f", _struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


i8, i16, i32, i64 = (Scalar(f"i{8 * s}", "i", s, c) for s, c in ((1, "b"), (2, "h"), (4, "i"), (8, "q")))
u8, u16, u32 = (Scalar(f"u{8 * s}", "i", s, c) for s, c in ((1, "B"), (2, "H"), (4, "I")))
u64 = Scalar("u64", "u", 8, "Q")
#: The id of an actor.
actor_id = Scalar("actor_id", "u", 8, "Q", ActorNumber)
#: A timer of an actor, which its handler has set.
timer_id = Scalar("timer_id", "u", 8, "Q", TimerNumber)
#: An ask that an actor keeps, to reply to it later.
reply_id = Scalar("reply_id", "u", 8, "Q")
f32, f64 = Scalar("f32", "f", 4, "f"), Scalar("f64", "f", 8, "d")
boolean = Scalar("boolean", "b", 1, "?")


class FixedArray:
    """An array of a fixed number of elements, each converted when it is stored. Indices are from 0 up."""

    __slots__ = ("_items", "element")

    def __init__(self, element: Scalar, items: list[Any]) -> None:
        self.element, self._items = element, items

    def __len__(self) -> int:
        return len(self._items)

    def _check(self, index: int) -> int:
        if not 0 <= index < len(self._items):
            raise IndexError(f"the index {index} is not in 0 to {len(self._items) - 1}")
        return index

    def __getitem__(self, index: int) -> Any:
        return self._items[self._check(index)]

    def __setitem__(self, index: int, value: Any) -> None:
        self._items[self._check(index)] = self.element(value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FixedArray) and self._items == other._items

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"everwarp.array({self.element.name}, {self._items})"


def array(element: Scalar, items: int | Sequence[Any]) -> FixedArray:
    """An array of this many zeros, or of these items. In compiled functions the number must be a constant."""
    if isinstance(items, int):
        return FixedArray(element, [element(0)] * items)
    return FixedArray(element, [element(item) for item in items])


class Struct:
    """The base of classes that `everwarp.struct` has made."""

    __everwarp_fields__: dict[str, Scalar]


def struct(cls: type) -> type:
    """Makes a class of typed fields: each value is converted when it is stored.

    >>> @ew.struct
    ... class Point:
    ...     x: ew.f64
    ...     y: ew.f64
    """
    return typed_class(cls, _annotations(cls))


def typed_class(cls: type, annotations: dict[str, Any]) -> type:
    """A class whose fields have the types of these annotations."""
    fields: dict[str, Scalar] = {}
    for name, kind in annotations.items():
        kind = getattr(kind, "__everwarp_type__", kind)
        if not isinstance(kind, Scalar):
            raise TypeError(
                f"{cls.__name__}.{name}: a field has one of the types i8 to i64, u8 to u64, f32, f64, boolean, actor_id, "
                "timer_id, reply_id, or a class with @everwarp.actor"
            )
        fields[name] = kind
    if not fields:
        raise TypeError(f"{cls.__name__} has no fields: write them as `name: ew.i64`")

    def make(name: str, kind: Scalar) -> property:
        slot = f"_{name}"

        def read(self: Any) -> Any:
            return getattr(self, slot)

        def write(self: Any, value: Any) -> None:
            object.__setattr__(self, slot, kind(value))

        return property(read, write)

    def init(self: Any, *values: Any) -> None:
        if len(values) not in (0, len(fields)):
            raise TypeError(f"{cls.__name__} takes {len(fields)} values: {', '.join(fields)}")
        for name, value in zip(fields, values or [0] * len(fields)):
            setattr(self, name, value)

    def show(self: Any) -> str:
        return f"{cls.__name__}({', '.join(repr(getattr(self, name)) for name in fields)})"

    body = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__", "__annotations__", *fields)}
    body.update({name: make(name, kind) for name, kind in fields.items()})
    body.update(__slots__=tuple(f"_{name}" for name in fields), __init__=init, __repr__=show)
    body["__everwarp_fields__"] = fields
    return type(cls.__name__, (Struct,), body)


def raw_annotations(item: Any) -> dict[str, Any]:
    """The annotations of a class or function, as text where they name what is not there yet."""
    import importlib
    import inspect

    try:
        return dict(inspect.get_annotations(item))
    except NameError:
        # From Python 3.14 on, annotations are computed when they are asked for.
        library = importlib.import_module("annotationlib")
        found = library.get_annotations(item, format=library.Format.FORWARDREF)
        return {name: getattr(kind, "__forward_arg__", kind) for name, kind in found.items()}


def _annotations(item: Any) -> dict[str, Any]:
    """The annotations of a class or function, evaluated where they are text."""
    import inspect

    return inspect.get_annotations(item, eval_str=True)
