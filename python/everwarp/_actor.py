"""`everwarp.actor`: classes whose objects are actors, a million at a time."""

from __future__ import annotations

import inspect
import itertools
import operator
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _native
from ._messages import Handle
from ._services import Monitor
from ._types import ActorType, raw_annotations, typed_class
from .errors import WrongEngine

if TYPE_CHECKING:
    from ._compile.actor import Message, Naming
    from ._compile.module import Signature
    from ._program import System

#: Numbers of classes, in the order of their definition.
_numbers = itertools.count()

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
        scope: dict[str, Any],
    ) -> None:
        from ._compile.actor import PLAIN, Limits, messages
        from ._compile.module import Names, parse
        from ._program import define

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
        annotations = raw_annotations(cls)
        # From Python 3.14 on, a class keeps its annotations in a function.
        own = {name: item for name, item in vars(cls).items() if not name.startswith("__annotate")}
        for name, item in own.items():
            if isinstance(item, (staticmethod, classmethod, property)):
                what = type(item).__name__
                raise TypeError(f"{cls.__name__}.{name}: every method handles a message, so it takes `self` and is no {what}")
            if name in annotations:
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
        self.name = cls.__name__
        self.__doc__ = cls.__doc__
        self.place = (cls.__module__, cls.__qualname__)
        self.number = next(_numbers)
        #: The type of ids of its actors.
        self.__everwarp_type__ = ActorType(cls.__name__, None, self)
        names = {**scope, cls.__name__: self}
        #: The class for CPython: its fields convert what is stored in them.
        self.python = typed_class(cls, fields_of(annotations, Names([*methods.values()], names)))
        self.handlers: list[Signature] = [
            parse(method, own=self.python, names=Names([method], names)) for method in methods.values()
        ]
        #: The messages, by name.
        self.messages: dict[str, Message] = messages(self.handlers)
        self.limits = Limits(mailbox, sends, often, seconds, retries, atomic, keep_latest)
        self._modules: dict[Any, bytes] = {}
        self._names: list[ActorClass] | None = None
        define(self)
        if all(other.names() is not None for other in [self, *(self.names() or ())]):
            self.compiled(PLAIN)

    def names(self) -> list[ActorClass] | None:
        """The classes that its fields and handlers name; `None` as long as one is not there."""
        if self._names is None:
            from ._compile.sending import declared, is_actor_class, outside, spawned

            found: list[ActorClass] = []
            types = list(vars(self.python)["__everwarp_fields__"].values())
            for handler in self.handlers:
                types += [kind for _, kind in handler.parameters[1:]] + [handler.result]
                items = [outside(handler.names, item) for item in spawned(handler)]
                items += [handler.names.get(name) for name in declared(handler)]
                if any(item is None for item in items[: len(spawned(handler))]):
                    return None
                found += [item for item in items if is_actor_class(item)]
            try:
                found += [kind.cls for kind in types if isinstance(kind, ActorType)]
            except (NameError, TypeError):
                return None
            self._names = list(dict.fromkeys(found))
        return self._names

    def check(self) -> None:
        """Raises the errors of the class and of those that it names, if it named one before there was one."""
        from ._program import named_by

        named_by(self)

    def resolve(self) -> None:
        """Finds the classes that it names. One that is not there is an error."""
        from ._program import connect

        if self.names() is None:
            for name, kind in vars(self.python)["__everwarp_fields__"].items():
                if isinstance(kind, ActorType):
                    try:
                        kind.cls
                    except (NameError, TypeError) as error:
                        raise TypeError(f"{self.name}.{name}: {error}") from None
            for handler in self.handlers:
                arguments = [*handler.tree.args.args[1:], handler.tree.returns or handler.tree]
                for argument, kind in zip(arguments, [*(kind for _, kind in handler.parameters[1:]), handler.result]):
                    if isinstance(kind, ActorType):
                        try:
                            kind.cls
                        except (NameError, TypeError) as error:
                            raise handler.source.error(argument, str(error)) from None
        connect(self)

    def compiled(self, naming: Naming) -> bytes:
        """The class as a WebAssembly module, in which messages and kinds have these names."""
        from ._compile.actor import compile_actor

        known = self.names() or []
        # Other classes' names are no part of this module.
        own = {key: name for key, name in naming.messages.items() if key[0] is self or key[0] in known}
        kinds = {cls: name for cls, name in naming.kinds.items() if cls is self or cls in known}
        key = (frozenset(own.items()), frozenset(kinds.items()))
        if key not in self._modules:
            self._modules[key] = compile_actor(self.python, self.handlers, self.limits, self, known, naming)
        return self._modules[key]

    def addressed(self, name: str) -> Message:
        """The message of this name that a handler sends to an id of any class: the class's own, or that of one that it
        names."""
        for cls in [self, *(self.names() or ())]:
            if name in cls.messages:
                return cls.messages[name]
        return self.message(name)

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


def fields_of(annotations: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """The types of fields, among the names that handlers see. A class of actors may come later."""
    from ._compile.module import is_name, later

    fields = {}
    for name, kind in annotations.items():
        text = kind
        try:
            # `from __future__ import annotations` quotes what is quoted already.
            for _ in range(2):
                if isinstance(kind, str):
                    text, kind = kind, eval(kind, {}, names)
        except NameError:
            if not is_name(text):
                raise
            kind = later(text, names)
        fields[name] = kind
    return fields


class Actors:
    """Actors of one class. Each message of the class is an attribute; an index is one actor, a slice several.

    `actors.message("deposit")` is the same as `actors.deposit`.
    """

    def __init__(self, cls: ActorClass, system: System, ids: memoryview, single: bool) -> None:
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
        """Why they run where they do: on a GPU, or on the CPU engine."""
        return self._system.why

    def register(self, name: str) -> None:
        """Gives a single actor a name, which it keeps until it ends. `Engine.lookup` finds it."""
        _native.register(self._system, self._system.title(self._class, name), self.id)

    def monitor(self) -> Monitor:
        """A monitor of a single actor."""
        return Monitor(_native.monitor(self._system, self.id))

    def link(self, other: Actors) -> None:
        """Links a single actor with another one of its program: when one of them fails or is killed, the other one is killed."""
        self._fellow(other)
        _native.link(self._system, self.id, other.id, True)

    def unlink(self, other: Actors) -> None:
        """Ends a link."""
        self._fellow(other)
        _native.link(self._system, self.id, other.id, False)

    def _same(self, other: Any) -> None:
        """Other actors must be those of the same class and engine."""
        if isinstance(other, Actors) and other._class is not self._class:
            raise ValueError(f"these are actors of {other._class.name}, and those of {self._class.name} are wanted")
        self._fellow(other)

    def _fellow(self, other: Any) -> None:
        """Other actors must be those of the same program and engine."""
        if not isinstance(other, Actors):
            raise TypeError(f"pass actors of {self._class.name}, and not {other!r}")
        if other._system is not self._system:
            raise WrongEngine(f"these are actors of {other._class.name} on another engine, or in another program")

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
        return f"<{number} of {self._class.name} on {self._system.on}: {self.why}>"


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

    A handler sends a message with `to.deposit.tell(amount)`, where `to` is an id: a field or a parameter of the type `Account`,
    also if that class comes later, or of the type `everwarp.actor_id`. For one message it sends up to `sends`. Up to `mailbox` messages wait for each actor. Handlers ask with
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

    def make(cls: Any, depth: int = 1) -> ActorClass:
        # What the function defines around the class is not among the names of its module.
        frame = sys._getframe(depth)
        scope = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
        return ActorClass(cls, mailbox, sends, restarts, retries, atomic, keep_latest, scope)

    return make if cls is None else make(cls, 2)


__all__ = ["ActorClass", "Actors", "actor"]
