"""`everwarp.actor`: classes whose objects are actors, a million at a time."""

from __future__ import annotations

import asyncio
import inspect
import operator
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _native
from ._asking import asking
from ._services import Monitor, Timer
from ._types import Scalar, actor_id
from ._types import struct as make_struct

if TYPE_CHECKING:
    from ._compile.actor import Message

#: The most messages that wait for an actor, unless the class says otherwise.
MAILBOX = 64
#: How many seconds an ask waits for its reply, unless it says otherwise.
PATIENCE = 10.0


class ActorClass:
    """A class whose objects are actors. `Engine.spawn` makes them; calling it makes a plain object for CPython."""

    def __init__(self, cls: type, mailbox: int, sends: int) -> None:
        from ._compile.actor import compile_actor, messages
        from ._compile.module import parse

        if not 1 <= mailbox <= 4095:
            raise ValueError(f"a mailbox holds 1 to 4095 messages, not {mailbox}")
        if not 0 <= sends <= 124:
            raise ValueError(f"a handler sends 0 to 124 messages, not {sends}")
        if not inspect.isclass(cls):
            raise TypeError(f"everwarp.actor decorates a class, and {cls!r} is none")
        if cls.__bases__ != (object,):
            raise TypeError(f"{cls.__name__} has a base class: write its fields and methods here instead")
        # From Python 3.14 on, a class keeps its annotations in a function.
        own = {name: item for name, item in vars(cls).items() if not name.startswith("__annotate")}
        for name, item in own.items():
            if isinstance(item, (staticmethod, classmethod, property)):
                what = type(item).__name__
                raise TypeError(f"{cls.__name__}.{name}: every method handles a message, so it takes `self` and is no {what}")
            if name in cls.__annotations__:
                raise TypeError(f"{cls.__name__}.{name}: a field begins with zero: send a message that sets it")
        methods = {name: item for name, item in own.items() if inspect.isfunction(item)}
        hidden = sorted(name for name in methods if name.startswith("_"))
        if hidden:
            raise TypeError(f"{cls.__name__}.{hidden[0]}: every method handles a message, so its name has no `_` at its start")
        if not methods:
            raise TypeError(f"{cls.__name__} handles no message: write a method for each")
        taken = sorted(set(methods) & {name for name in dir(Actors) if not name.startswith("_")})
        if taken:
            raise TypeError(f"{cls.__name__}.{taken[0]}: `everwarp.Actors` has this name; call the message something else")
        #: The class for CPython: its fields convert what is stored in them.
        self.python = make_struct(cls)
        self.name = cls.__name__
        self.__doc__ = cls.__doc__
        handlers = [parse(method, own=self.python) for method in methods.values()]
        #: The messages, by name.
        self.messages: dict[str, Message] = messages(handlers)
        #: The class as a WebAssembly module.
        self.wasm = compile_actor(self.python, handlers, mailbox, sends)

    def __call__(self, *values: Any) -> Any:
        return self.python(*values)

    def __repr__(self) -> str:
        return f"<everwarp.actor {self.name} with {', '.join(self.messages)}>"


def word_of(name: str, kind: Scalar, value: Any) -> int:
    """The 64-bit word that carries a value of a field. What is no number, or does not fit, is an error."""
    if isinstance(value, Actors):
        if kind is not actor_id:
            raise TypeError(f"`{name}` is {kind.name}, and not an actor")
        value = value.id
    if kind.kind == "f":
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


class Handle:
    """A message of an actor, or of several: `tell` sends it, and `ask` waits for its result."""

    def __init__(self, actors: Actors, message: Message) -> None:
        self._actors, self._message = actors, message

    def _columns(self, values: tuple[Any, ...]) -> list[Any]:
        """The words of each field: one for all actors, or one for each."""
        message, count = self._message, len(self._actors)
        if len(values) != len(message.fields):
            names = ", ".join(name for name, _ in message.fields) or "nothing"
            raise TypeError(f"{message.name} takes {names}, and there are {len(values)} values")
        columns: list[Any] = []
        for (name, kind), value in zip(message.fields, values):
            if isinstance(value, Actors) and kind is actor_id:
                value = value.id if value.single else value.ids
            if isinstance(value, Actors):
                raise TypeError(f"`{name}` is {kind.name}, and not an actor")
            shape = getattr(value, "shape", None)
            if isinstance(value, (str, bytes)) or shape == () or not hasattr(value, "__len__"):
                columns.append(memoryview(struct.pack("=Q", word_of(name, kind, value))).cast("Q"))
                continue
            if len(value) != count:
                wanted = "the message goes to one actor" if count == 1 else f"there are {count} actors"
                raise ValueError(f"`{name}` has {len(value)} values, and {wanted}: pass one for each, or one for all")
            if count:
                columns.append(words_of(name, kind, value))
        return columns

    def tell(self, *values: Any) -> None:
        """Sends the message to each actor. A value is one for all actors, or a sequence or array with one for each.

        It returns when all messages are in mailboxes; `Engine.settle` waits until they have been handled.
        """
        self._actors._system.tell(self._actors._ids, self._message.name, self._columns(values))

    def _result(self) -> Scalar:
        result = self._message.result
        if result is None:
            raise TypeError(f"{self._message.name} returns nothing: send it with tell")
        return result

    def ask(self, *values: Any, timeout: float | None = None) -> Any:
        """Sends the message and returns its result; a list of results for several actors.

        Without a reply within `timeout` seconds (10 unless given) it raises `TimeoutError`, and a later reply is dropped.
        Several actors are asked one after the other, and each has that time.
        """
        result = self._result()
        words = self._actors._system.ask(self._actors._ids, self._message.name, self._columns(values), timeout)
        found = [value_of(result, word) for word in words]
        return found[0] if self._actors.single else found

    async def ask_async(self, *values: Any, timeout: float | None = None) -> Any:
        """The same as `ask` for asyncio. A task that is cancelled drops the reply."""
        actors, result = self._actors, self._result()
        if actors.single and (loop := asking()) is not None:
            columns = self._columns(values)
            within = PATIENCE if timeout is None else timeout
            word = await loop.ask(actors._system, actors.id, self._message.name, columns, within)
            if word is not None:
                return value_of(result, word)
        return await asyncio.to_thread(self.ask, *values, timeout=timeout)

    def after(self, seconds: float, *values: Any) -> Timer:
        """Sends the message after some seconds, never before. It overtakes messages in the mailbox."""
        return self._timer(seconds, values, False)

    def every(self, seconds: float, *values: Any) -> Timer:
        """Sends the message each time that some seconds have passed, until the timer is cancelled or the actor ends.

        A message that would come while the last one is not handled yet is left out.
        """
        return self._timer(seconds, values, True)

    def _timer(self, seconds: float, values: tuple[Any, ...], repeats: bool) -> Timer:
        actors, name = self._actors, self._message.name
        return Timer(_native.timer(actors._system, actors.id, name, self._columns(values), seconds, repeats))

    def __repr__(self) -> str:
        return f"<message {self._message.name} to {self._actors!r}>"


def words_of(name: str, kind: Scalar, values: Any) -> Any:
    """The words of a sequence or an array, as a buffer of 64-bit numbers."""
    if not hasattr(values, "__array__"):
        return memoryview(struct.pack(f"={len(values)}Q", *(word_of(name, kind, value) for value in values))).cast("Q")
    import numpy as np

    from ._function import fitting

    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"`{name}` needs one value for each actor, and the array has {array.ndim} dimensions")
    array = fitting(name, kind, array)
    if kind.kind == "i" and kind.size < 4:
        array = array.astype(np.int32)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    return np.ascontiguousarray(array).view(unsigned[array.itemsize]).astype(np.uint64, copy=False)


class Actors:
    """Actors of one class. Each message of the class is an attribute; an index is one actor, a slice several.

    `actors.message("deposit")` is the same as `actors.deposit`.
    """

    def __init__(self, cls: ActorClass, system: _native.ActorSystem, ids: memoryview, single: bool) -> None:
        self._class, self._system, self._ids, self.single = cls, system, ids, single

    def message(self, name: str) -> Handle:
        """The message with this name."""
        message = self._class.messages.get(name)
        if message is None:
            known = ", ".join(self._class.messages)
            raise AttributeError(f"{self._class.name} handles no message {name!r}: there are {known}")
        return Handle(self, message)

    def __getattr__(self, name: str) -> Handle:
        # Copying and pickling look for special methods, also before there is a class.
        if name.startswith("__"):
            raise AttributeError(name)
        return self.message(name)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: Any) -> Actors:
        if isinstance(index, slice):
            return Actors(self._class, self._system, self._ids[index], False)
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} actors, and none has the number {number}")
        at = number % len(self)
        return Actors(self._class, self._system, self._ids[at : at + 1], True)

    def __iter__(self) -> Iterator[Actors]:
        return (self[index] for index in range(len(self)))

    @property
    def ids(self) -> memoryview:
        """The ids, as numbers of 64 bits: what a field of the type `everwarp.actor_id` takes."""
        return self._ids

    @property
    def id(self) -> int:
        """The id of a single actor."""
        if len(self) != 1:
            raise ValueError(f"there are {len(self)} actors: choose one with an index")
        return int(self._ids[0])

    @property
    def why(self) -> str:
        """Why they run on the CPU engine."""
        return self._system.why

    def register(self, name: str) -> None:
        """Gives a single actor a name, which it keeps until it ends. `Engine.lookup` finds it."""
        _native.register(self._system, name, self.id)

    def monitor(self) -> Monitor:
        """A monitor of a single actor."""
        return Monitor(_native.monitor(self._system, self.id))

    def stop(self) -> None:
        """Ends the actors once they have handled what is in their mailboxes."""
        self._system.stop(self._ids)

    def kill(self) -> None:
        """Ends the actors now; their messages become dead letters."""
        self._system.kill(self._ids)

    def __repr__(self) -> str:
        number = "1 actor" if len(self) == 1 else f"{len(self)} actors"
        return f"<{number} of {self._class.name} on the CPU engine: {self.why}>"


def actor(cls: Any = None, /, *, mailbox: int = MAILBOX, sends: int = 8) -> Any:
    """Makes a class whose objects are actors.

    Its annotated fields are the state, which begins with zeros, and each method handles the message of its name. Methods
    are compiled as by `everwarp.function`. When one fails, its actor ends and no other; what it had sent by then is sent.

    A handler sends a message of its class with `to.deposit.tell(amount)`, where `to` is an `everwarp.actor_id`; for one message
    it sends up to `sends`. Up to `mailbox` messages wait for each actor.

    >>> @ew.actor
    ... class Account:
    ...     balance: ew.i64
    ...     def deposit(self, amount: ew.i64) -> None:
    ...         self.balance += amount
    ...     def read(self) -> ew.i64:
    ...         return self.balance
    """
    if cls is None:
        return lambda cls: ActorClass(cls, mailbox, sends)
    return ActorClass(cls, mailbox, sends)


__all__ = ["ActorClass", "Actors", "actor"]
