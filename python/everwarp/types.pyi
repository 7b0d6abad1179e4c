from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, dataclass_transform

from ._types import Scalar as Scalar
from ._types import Struct as Struct

# For a type checker these are Python's own numbers; when a function runs they are the types of its values.
i8: TypeAlias = int
i16: TypeAlias = int
i32: TypeAlias = int
i64: TypeAlias = int
u8: TypeAlias = int
u16: TypeAlias = int
u32: TypeAlias = int
u64: TypeAlias = int
f32: TypeAlias = float
f64: TypeAlias = float
boolean: TypeAlias = bool

class actor_id(int):
    """The id of an actor of any class: `to.deposit.tell(3)`. A class with `everwarp.actor` is the type of the ids of its actors."""

    def stop(self) -> None:
        """Ends the actor once it has handled what is in its mailbox."""

    def kill(self) -> None:
        """Ends the actor now."""

    def __getattr__(self, name: str) -> Any: ...

class timer_id(int):
    """A timer that a handler has set with `self.tick.after(1.5)` or `self.tick.every(1.5)`."""

    def cancel(self) -> bool:
        """Cancels the timer. Returns whether a message was still to come."""

reply_id: TypeAlias = int

class FixedArray:
    """An array of a fixed number of elements, each converted when it is stored. Indices are from 0 up."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Any: ...
    def __setitem__(self, index: int, value: Any) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...

def array(element: Any, items: int | Sequence[Any]) -> FixedArray:
    """An array of this many zeros, or of these items. In compiled functions the number must be a constant."""

T = TypeVar("T")

@dataclass_transform()
def struct(cls: type[T]) -> type[T]:
    """Makes a class of typed fields: each value is converted when it is stored."""
