"""The types of compiled functions. The stub next to this file says what they are for a type checker."""

from ._types import (
    FixedArray, Scalar, Struct, actor_id, array, boolean, f32, f64, i8, i16, i32, i64, reply_id, struct, timer_id, u8, u16, u32,
    u64,
)  # fmt: skip

__all__ = [
    "FixedArray", "Scalar", "Struct", "actor_id", "array", "boolean", "f32", "f64", "i8", "i16", "i32", "i64", "reply_id", "struct",
    "timer_id", "u8", "u16", "u32", "u64",
]  # fmt: skip
