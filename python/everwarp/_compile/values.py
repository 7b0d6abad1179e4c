"""What the compiler knows about an expression: its code, its type and its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._types import ActorType, Scalar, f32
from . import wasm

I64_LOW, I64_HIGH, U64_HIGH = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1

#: How values of a kind are held: `i` and `u` are 64-bit integers, `f` a double, `b` a truth value, and `p` the address of an
#: array or a struct.
WASM = {"i": wasm.I64, "u": wasm.I64, "f": wasm.F64, "b": wasm.I32, "p": wasm.I32}

LOAD = {
    "i8": 0x30, "u8": 0x31, "i16": 0x32, "u16": 0x33, "i32": 0x34, "u32": 0x35, "i64": 0x29, "u64": 0x29, "actor_id": 0x29,
    "timer_id": 0x29, "reply_id": 0x29, "f32": 0x2A, "f64": 0x2B, "boolean": 0x2D,
}  # fmt: skip
STORE = {
    "i8": 0x3C, "u8": 0x3C, "i16": 0x3D, "u16": 0x3D, "i32": 0x3E, "u32": 0x3E, "i64": 0x37, "u64": 0x37, "actor_id": 0x37,
    "timer_id": 0x37, "reply_id": 0x37, "f32": 0x38, "f64": 0x39, "boolean": 0x3A,
}  # fmt: skip


@dataclass(frozen=True)
class ArrayType:
    """An array of `length` elements."""

    element: Scalar
    length: int

    @property
    def size(self) -> int:
        return self.element.size * self.length

    def __str__(self) -> str:
        return f"array({self.element.name}, {self.length})"


@dataclass(frozen=True)
class StructType:
    """A struct: its class, and its fields with their offsets."""

    cls: Any

    @property
    def fields(self) -> dict[str, tuple[Scalar, int]]:
        return layout(self.cls.__everwarp_fields__)[0]

    @property
    def size(self) -> int:
        return layout(self.cls.__everwarp_fields__)[1]

    def __str__(self) -> str:
        return str(self.cls.__name__)


def layout(fields: dict[str, Scalar]) -> tuple[dict[str, tuple[Scalar, int]], int]:
    """Offsets as in C, and the size."""
    offset, most, placed = 0, 1, {}
    for name, kind in fields.items():
        offset = -(-offset // kind.size) * kind.size
        placed[name] = (kind, offset)
        offset += kind.size
        most = max(most, kind.size)
    return placed, -(-offset // most) * most


@dataclass(frozen=True)
class Value:
    """Code that leaves one value on the stack. `low` and `high` bound an integer; `of` is the type that `p` points to,
    or the class of the actor whose id a `u` is."""

    code: bytes
    kind: str
    low: int = 0
    high: int = 0
    constant: Any = None
    of: ArrayType | StructType | ActorType | None = None

    @property
    def integer(self) -> bool:
        return self.kind in "iu"

    def __str__(self) -> str:
        if isinstance(self.of, ActorType):
            return f"an id of {self.of}"
        words = {"i": "a signed integer", "u": "a u64", "f": "a float", "b": "a truth value"}
        return words.get(self.kind) or f"{self.of}"


def integer(code: bytes, low: int, high: int, kind: str = "i") -> Value:
    """An integer whose range is cut to that of its type."""
    least, most = (I64_LOW, I64_HIGH) if kind == "i" else (0, U64_HIGH)
    return Value(code, kind, max(low, least), min(high, most))


def number(constant: bool | int | float) -> Value:
    """A constant."""
    if isinstance(constant, bool):
        return Value(wasm.i32(int(constant)), "b", constant=constant)
    if isinstance(constant, float):
        return Value(wasm.f64(constant), "f", constant=constant)
    kind = "i" if constant <= I64_HIGH else "u"
    return Value(wasm.i64(constant), kind, constant, constant, constant)


def scalar(code: bytes, kind: Scalar) -> Value:
    """A value of a declared type."""
    if kind.kind in "iu":
        return Value(code, kind.kind, kind.low, kind.high, of=kind if isinstance(kind, ActorType) else None)
    return Value(code, kind.kind)


def wasm_type(kind: Scalar) -> int:
    """The type of a field of a message."""
    if kind.kind == "f":
        return wasm.F32 if kind is f32 else wasm.F64
    return wasm.I64 if kind.size == 8 else wasm.I32


def field_type(kind: Scalar) -> str:
    """The type of a field of a message, as the interface calls it."""
    others = {"actor_id": "actor", "boolean": "bool", "timer_id": "u64", "reply_id": "u64"}
    if kind.name in others:
        return others[kind.name]
    if kind.name in ("i8", "i16"):
        return "i32"
    return "u32" if kind.name in ("u8", "u16") else kind.name


def shape(fields: list[tuple[str, Scalar]], result: Scalar | None) -> tuple[tuple[str, ...], str | None]:
    """The types of a message, as the interface calls them: messages of one name and shape are the same message."""
    return tuple(field_type(kind) for _, kind in fields), None if result is None else field_type(result)
