"""The messages of actors: `tell`, `ask` and what their values become on the way."""

from __future__ import annotations

import asyncio
import operator
import struct
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._arrays import dtype_of, fitting, ordered
from ._asking import asking, decoder
from ._services import Timer
from ._types import ActorType, Scalar
from .errors import WrongEngine

if TYPE_CHECKING:
    from ._actor import Actors
    from ._compile.actor import Message
    from ._program import System


def id_of(name: str, kind: Scalar, value: Actors, system: System) -> int:
    """The id of an actor that is a value of a message, whose receiver belongs to `system`."""
    check_actors(name, kind, value, system)
    return value.id


def check_actors(name: str, kind: Scalar, value: Actors, system: System) -> None:
    """Actors can be values if the receiver can send to them: they are of its program and engine."""
    if kind.name != "actor_id":
        raise TypeError(f"`{name}` is {kind.name}, and not an actor")
    if value._system is not system:
        raise WrongEngine(
            f"`{name}` is an actor of {value._class.name} on another engine, or of another program, which the receiver cannot "
            "send to: pass an actor of its engine, and of a class that it names"
        )
    if isinstance(kind, ActorType) and kind.cls is not value._class:
        raise TypeError(f"`{name}` is an actor of {kind.cls.name}, and this is one of {value._class.name}")


def word_of(name: str, kind: Scalar, value: Any, system: System) -> int:
    """The 64-bit word that carries a value of a field. What is no number, or does not fit, is an error."""
    from ._actor import Actors

    if isinstance(value, Actors):
        return id_of(name, kind, value, system)
    if kind.kind == "f":
        if type(value) is not float:
            ordered(name, value)
        if isinstance(value, (str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
            raise TypeError(f"`{name}` is {kind.name}, and {value!r} is no number")
        return int.from_bytes(struct.pack("<" + kind.code, kind(value)), "little")
    if kind.kind == "b":
        if value not in (0, 1):
            raise TypeError(f"`{name}` is {kind.name}, and {value!r} is neither True nor False")
        return int(value)
    try:
        value = kind(operator.index(value))
    except TypeError:
        what = "a float" if isinstance(value, float) else f"a value of the type {type(value).__name__}"
        raise TypeError(f"`{name}` is {kind.name}, and {value!r} is {what}: convert it with int()") from None
    return int(value) & (0xFFFF_FFFF if kind.size < 8 else 0xFFFF_FFFF_FFFF_FFFF)


def value_of(kind: Scalar, word: int) -> Any:
    """The value that a word carries."""
    if kind.kind == "f":
        return struct.unpack("<" + kind.code, word.to_bytes(8, "little")[: kind.size])[0]
    if kind.kind == "b":
        return bool(word)
    if kind.low < 0:
        bits = 64 if kind.size == 8 else 32
        word &= (1 << bits) - 1
        return word - (1 << bits) if word >> (bits - 1) else word
    return word


def values_of(message: Message, words: list[int]) -> tuple[Any, ...]:
    """The values of a message."""
    return tuple(value_of(kind, word) for (_, kind), word in zip(message.fields, words))


def _packed(kind: Scalar, values: Any) -> memoryview | None:
    """The words of 64-bit integers, all at once. None if that is not possible, perhaps because one of them is something else."""
    if kind.kind != "i" or kind.size != 8:
        return None
    try:
        view = memoryview(values)
    except TypeError:
        view = None
    formats = ("q", "l") if kind.low < 0 else ("Q", "L")
    if view is not None and view.ndim == 1 and view.c_contiguous and view.itemsize == 8 and view.format in formats:
        return view.cast("B").cast("Q")
    try:
        return memoryview(struct.pack(f"={len(values)}{kind.code}", *values)).cast("Q")
    except struct.error:
        return None


def words_of(name: str, kind: Scalar, values: Any, system: System) -> Any:
    """The words of a sequence or an array, as a buffer of 64-bit numbers."""
    if not hasattr(values, "__array__"):
        packed = _packed(kind, values)
        if packed is not None:
            return packed
        words = (word_of(name, kind, value, system) for value in values)
        return memoryview(struct.pack(f"={len(values)}Q", *words)).cast("Q")
    import numpy as np

    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"`{name}` needs one value for each actor, and the array has {array.ndim} dimensions")
    array = fitting(name, kind, array)
    if kind.kind == "i" and kind.size < 4:
        array = array.astype(np.int32)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    return np.ascontiguousarray(array).view(unsigned[array.itemsize]).astype(np.uint64, copy=False)


def columns_of(message: Message, values: tuple[Any, ...], count: int | None, system: System) -> list[Any]:
    """The words of each field: one for all messages, or one for each. Without `count` the values say how many there are.

    The receivers belong to `system`.
    """
    from ._actor import Actors

    if len(values) != len(message.fields):
        names = ", ".join(name for name, _ in message.fields) or "nothing"
        raise TypeError(f"{message.name} takes {names}, and there are {len(values)} values")
    columns: list[Any] = []
    for (name, kind), value in zip(message.fields, values):
        if isinstance(value, Actors):
            check_actors(name, kind, value, system)
            value = value.id if value.single else value.ids
        shape = getattr(value, "shape", None)
        if isinstance(value, (str, bytes)) or shape == () or not hasattr(value, "__len__"):
            columns.append(memoryview(struct.pack("=Q", word_of(name, kind, value, system))).cast("Q"))
            continue
        ordered(name, value)
        if count is None:
            count = len(value)
        if len(value) != count:
            wanted = "the message goes to one actor" if count == 1 else f"there are {count} actors"
            raise ValueError(f"`{name}` has {len(value)} values, and {wanted}: pass one for each, or one for all")
        if count:
            columns.append(words_of(name, kind, value, system))
    return columns


class Handle:
    """A message of an actor, or of several: `tell` sends it, and `ask` waits for its result."""

    def __init__(self, actors: Actors, message: Message) -> None:
        self._actors, self._message = actors, message
        #: What the engine calls the message.
        self._wire = actors._system.program.wires[actors._class, message.name]

    def _columns(self, values: tuple[Any, ...]) -> list[Any]:
        return columns_of(self._message, values, len(self._actors), self._actors._system)

    def tell(self, *values: Any) -> None:
        """Sends the message to each actor. A value is one for all actors, or a sequence or array with one for each.

        It returns when all messages are in mailboxes; `Engine.settle` waits until they have been handled.
        """
        self._actors._system.tell(self._actors._ids, self._wire, self._columns(values))

    def _result(self) -> Scalar:
        result = self._message.result
        if result is None:
            raise TypeError(f"{self._message.name} returns nothing: send it with tell")
        return result

    def ask(self, *values: Any, timeout: float | None = None) -> Any:
        """Sends the message and returns its result; a list of results for several actors.

        Without a reply within `timeout` seconds (10 unless given) it raises `TimeoutError`, and a later reply is dropped.
        Several actors are asked together, up to 512 at a time, and these have that time. If asks fail, the exception is
        that of the first.
        """
        result, actors = self._result(), self._actors
        if actors.single:
            columns = self._columns(values)
            return value_of(result, actors._system.ask(actors.id, self._wire, columns, timeout))
        words = self._ask_all(values, timeout)
        if result.kind in "iu" and result.size == 8:
            # A word is the value.
            return words.cast("B").cast("q" if result.low < 0 else "Q").tolist()
        return [value_of(result, word) for word in words]

    def _ask_all(self, values: tuple[Any, ...], timeout: float | None) -> memoryview:
        actors = self._actors
        words = actors._system.ask_all(actors._ids, self._wire, self._columns(values), timeout)
        return memoryview(words).cast("Q")

    def ask_array(self, *values: Any, timeout: float | None = None) -> Any:
        """The same as `ask` with a result for each actor, as a NumPy array whose dtype is that of the message's result."""
        import numpy as np

        result = self._result()
        words = np.frombuffer(self._ask_all(values, timeout), np.uint64)
        if result.kind == "b":
            return words != 0
        unsigned = {4: np.uint32, 8: np.uint64}
        narrow = words.astype(unsigned[max(result.size, 4)], copy=False)
        if result.kind == "f":
            return narrow.view(dtype_of(result))
        return narrow.astype(dtype_of(result), copy=False) if result.size < 4 else narrow.view(dtype_of(result))

    def ask_async(self, *values: Any, timeout: float | None = None) -> Coroutine[Any, Any, Any]:
        """The same as `ask` for asyncio: await it, or pass it to `gather`, `create_task` and the like.

        A task that is cancelled drops the reply. Asks of one round of the loop are sent together, in their order.
        """
        actors = self._actors
        if not actors.single or (found := asking()) is None:
            return asyncio.to_thread(self.ask, *values, timeout=timeout)
        message = self._message
        fields = message.fields
        if len(values) != len(fields):
            self._columns(values)
        words: Sequence[int] = ()
        if fields and any(hasattr(value, "__len__") for value in values):
            words = [int(column[0]) for column in self._columns(values)]
        elif fields:
            words = [word_of(name, kind, value, actors._system) for (name, kind), value in zip(fields, values)]
        loop, asks = found
        decode = message.decode or decoder(self._result())
        return asks.ask(loop, actors._system, self._wire, decode, actors._ids[0], words, timeout)

    def ask_array_async(self, *values: Any, timeout: float | None = None) -> Coroutine[Any, Any, Any]:
        """The same as `ask_array` for asyncio."""
        return asyncio.to_thread(self.ask_array, *values, timeout=timeout)

    def after(self, seconds: float, *values: Any) -> Timer:
        """Sends the message after some seconds, never before. It overtakes messages in the mailbox."""
        return self._timer(seconds, values, False)

    def every(self, seconds: float, *values: Any) -> Timer:
        """Sends the message each time that some seconds have passed, until the timer is cancelled or the actor ends.

        A message that would come while the last one is not handled yet is left out.
        """
        return self._timer(seconds, values, True)

    def _timer(self, seconds: float, values: tuple[Any, ...], repeats: bool) -> Timer:
        actors, name = self._actors, self._wire
        return Timer(_native.timer(actors._system, actors.id, name, self._columns(values), seconds, repeats))

    def __repr__(self) -> str:
        return f"<message {self._message.name} to {self._actors!r}>"
