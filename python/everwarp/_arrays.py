"""Arrays and sequences of values on their way to functions and actors."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ._types import Scalar


def dtype_of(kind: Scalar) -> Any:
    """NumPy's name of a type."""
    if kind.kind == "b":
        return "bool"
    letter = "u" if kind.kind == "i" and kind.low == 0 else kind.kind
    return f"<{letter}{kind.size}"


def ordered(name: str, values: Any) -> Any:
    """The values, which must have an order and no gaps."""
    if isinstance(values, (Set, Mapping)):
        what = "a dictionary" if isinstance(values, Mapping) else "a set, whose values have no order"
        raise TypeError(f"`{name}` is {what}: pass a list or an array")
    # A masked array is an array whose masked values would be used as if they were there.
    if hasattr(values, "mask") and hasattr(values, "filled"):
        raise TypeError(f"`{name}` is a masked array: pass array.filled(...) with a value for what is masked")
    return values


def fitting(name: str, kind: Scalar, array: Any) -> Any:
    """An array with the type of a parameter. Values that do not fit are an error."""
    import numpy as np

    wanted = np.dtype(dtype_of(kind))
    if array.dtype == wanted:
        return array
    if kind.kind == "f":
        if array.dtype.kind not in "fiub":
            raise TypeError(f"`{name}` is {kind.name}, and the array is {array.dtype}")
        return array.astype(wanted)
    if kind.kind == "b" or array.dtype.kind not in "iub":
        raise TypeError(f"`{name}` is {kind.name}, and the array is {array.dtype}: convert it with array.astype")
    if array.size and (int(array.min()) < kind.low or int(array.max()) > kind.high):
        raise OverflowError(f"`{name}` is {kind.name}, which holds {kind.low} to {kind.high}, and the array has other values")
    return array.astype(wanted)
