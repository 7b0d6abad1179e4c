"""`everwarp.actor`: classes whose objects are actors, a million at a time."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _native
from ._messages import Handle
from ._services import Monitor
from ._types import struct as make_struct
from .errors import WrongEngine

if TYPE_CHECKING:
    from ._compile.actor import Message

#: The most messages that wait for an actor, unless the class says otherwise.
MAILBOX = 64
#: Names that actors, topics and streams have.
RESERVED = frozenset(
    "activate close closed deactivate flush id ids kill link message monitor next next_async received register single stop "
    "subscribe subscribers unlink unsubscribe why".split()
)
#: The most messages that a handler sends for one message, if none is handled again.
SENDS = 123


class ActorClass:
    """A class whose objects are actors. `Engine.spawn` makes them; calling it makes a plain object for CPython."""

    def __init__(
        self,
        cls: type,
        mailbox: int,
        sends: int,
        restarts: tuple[int, float] | None,
        retries: int,
        atomic: bool,
        keep_latest: bool,
    ) -> None:
        from ._compile.actor import Limits, compile_actor, messages
        from ._compile.module import parse

        if not 1 <= mailbox <= 4095:
            raise ValueError(f"a mailbox holds 1 to 4095 messages, not {mailbox}")
        if not 0 <= sends <= SENDS:
            raise ValueError(f"a handler sends 0 to {SENDS} messages, not {sends}")
        if not 0 <= retries <= SENDS:
            raise ValueError(f"a message is handled again 0 to {SENDS} times, not {retries}")
        if (sends + 1) * (retries + 1) > SENDS + 1:
            most = (SENDS + 1) // (retries + 1) - 1
            raise ValueError(
                f"a message that is handled up to {retries + 1} times may send {most} messages each time, and `sends` is "
                f"{sends}: pass sends={most}, or lower `retries`"
            )
        often, seconds = restarts_of(restarts)
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
        taken = sorted(set(methods) & RESERVED)
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
        limits = Limits(mailbox, sends, often, seconds, retries, atomic, keep_latest)
        self.wasm = compile_actor(self.python, handlers, limits)
        self.limits = limits

    def message(self, name: str) -> Message:
        """The message with this name."""
        message = self.messages.get(name)
        if message is None:
            known = ", ".join(self.messages)
            raise AttributeError(f"{self.name} handles no message {name!r}: there are {known}")
        return message

    def __call__(self, *values: Any) -> Any:
        return self.python(*values)

    def __repr__(self) -> str:
        return f"<everwarp.actor {self.name} with {', '.join(self.messages)}>"


class Actors:
    """Actors of one class. Each message of the class is an attribute; an index is one actor, a slice several.

    `actors.message("deposit")` is the same as `actors.deposit`.
    """

    def __init__(self, cls: ActorClass, system: _native.ActorSystem, ids: memoryview, single: bool) -> None:
        self._class, self._system, self._ids, self.single = cls, system, ids, single

    def message(self, name: str) -> Handle:
        """The message with this name."""
        return Handle(self, self._class.message(name))

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

    def link(self, other: Actors) -> None:
        """Links a single actor with another one of its class: when one of them fails or is killed, the other one is killed."""
        self._same(other)
        _native.link(self._system, self.id, other.id, True)

    def unlink(self, other: Actors) -> None:
        """Ends a link."""
        self._same(other)
        _native.link(self._system, self.id, other.id, False)

    def _same(self, other: Any) -> None:
        """Other actors must be those of the same class and engine."""
        if not isinstance(other, Actors):
            raise TypeError(f"pass actors of {self._class.name}, and not {other!r}")
        if other._class is not self._class:
            raise ValueError(f"these are actors of {other._class.name}, and those of {self._class.name} are wanted")
        if other._system is not self._system:
            raise WrongEngine(f"these are actors of {self._class.name} on another engine")

    def deactivate(self) -> None:
        """The actors keep their messages and handle none, until `activate`. Senders wait when a mailbox is full."""
        self._system.set_active(self._ids, False)

    def activate(self) -> None:
        """The actors handle messages again."""
        self._system.set_active(self._ids, True)

    def stop(self) -> None:
        """Ends the actors once they have handled what is in their mailboxes."""
        self._system.stop(self._ids)

    def kill(self) -> None:
        """Ends the actors now; their messages become dead letters."""
        self._system.kill(self._ids)

    def __repr__(self) -> str:
        number = "1 actor" if len(self) == 1 else f"{len(self)} actors"
        return f"<{number} of {self._class.name} on the CPU engine: {self.why}>"


def restarts_of(restarts: Any) -> tuple[int, int]:
    """How often an actor is restarted, and within how many seconds."""
    if restarts is None:
        return 0, 1
    try:
        often, seconds = restarts
        often, seconds = operator.index(often), operator.index(seconds)
    except (TypeError, ValueError):
        raise TypeError(f"`restarts` is a number and seconds, such as (3, 60), not {restarts!r}") from None
    if not (0 <= often < 2**32 and 1 <= seconds <= 4_000_000):
        raise ValueError(f"`restarts` is a number from 0 and 1 to 4000000 seconds, not {restarts!r}")
    return often, seconds


def actor(
    cls: Any = None,
    /,
    *,
    mailbox: int = MAILBOX,
    sends: int = 8,
    restarts: tuple[int, int] | None = None,
    retries: int = 0,
    atomic: bool = False,
    keep_latest: bool = False,
) -> Any:
    """Makes a class whose objects are actors.

    Its annotated fields are the state, which begins with zeros, and each method handles the message of its name. Methods
    are compiled as by `everwarp.function`. When one fails, its actor ends and no other; what it had sent by then is sent.

    A handler sends a message of its class with `to.deposit.tell(amount)`, where `to` is an `everwarp.actor_id`; for one message
    it sends up to `sends`. Up to `mailbox` messages wait for each actor. Handlers ask with
    `to.read.ask(then=self.got)`, make actors with `everwarp.spawn(Account)`, and set timers with `self.tick.after(1.5)`.

    Parameters
    ----------
    mailbox, sends
        Messages that wait for an actor (1 to 4095), and messages that a handler sends for one message (0 to 123).
    restarts
        `(3, 60)`: an actor that fails goes on with its id and mailbox and a state of zeros, up to 3 times within 60 seconds.
    retries
        How often a message is handled again when its handler fails and the actor goes on.
    atomic
        A failed handler leaves neither changes of the state nor messages.
    keep_latest
        The mailbox keeps the latest messages and drops the oldest, so that senders do not wait.

    >>> @ew.actor
    ... class Account:
    ...     balance: ew.i64
    ...     def deposit(self, amount: ew.i64) -> None:
    ...         self.balance += amount
    ...     def read(self) -> ew.i64:
    ...         return self.balance
    """

    def make(cls: Any) -> ActorClass:
        return ActorClass(cls, mailbox, sends, restarts, retries, atomic, keep_latest)

    return make if cls is None else make(cls)


__all__ = ["ActorClass", "Actors", "actor"]
