"""Programs of actors: classes whose handlers name each other, and what runs them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from ._actor import ActorClass
    from ._compile.actor import Message

#: The classes that name a class.
_users: weakref.WeakKeyDictionary[ActorClass, weakref.WeakSet[ActorClass]] = weakref.WeakKeyDictionary()
#: Classes that name a class which was not there yet.
_waiting: weakref.WeakSet[ActorClass] = weakref.WeakSet()
#: The class that was defined last under a name, so that one that was defined again is out of use.
_latest: weakref.WeakValueDictionary[tuple[str, str], ActorClass] = weakref.WeakValueDictionary()


def define(cls: ActorClass) -> None:
    """A class was defined, and names others."""
    _latest[cls.place] = cls
    if not connect(cls):
        _waiting.add(cls)


def connect(cls: ActorClass) -> bool:
    """Lets the classes that a class names know. Returns whether all of them are there."""
    names = cls.names()
    if names is None:
        return False
    for other in names:
        _users.setdefault(other, weakref.WeakSet()).add(cls)
    _waiting.discard(cls)
    return True


def named_by(cls: ActorClass) -> list[ActorClass]:
    """A class, and those that it and they name. One that is not there is an error."""
    from ._compile.actor import PLAIN

    found = [cls]
    for one in found:
        one.resolve()
        found += [other for other in one.names() or () if other not in found]
    for one in found:
        one.compiled(PLAIN)
    return found


def users_of(cls: ActorClass) -> list[ActorClass]:
    """The classes that name a class and are complete, in the order of their definition."""
    users = (user for user in _users.get(cls, ()) if _latest.get(user.place) is user)
    return sorted(users, key=lambda user: user.number)


class Program:
    """The classes of a program: those that a class names, those that name it, and so on."""

    def __init__(self, first: ActorClass) -> None:
        for cls in list(_waiting):
            connect(cls)
        classes = named_by(first)
        for cls in classes:
            for user in users_of(cls):
                if user in classes:
                    continue
                try:
                    more = named_by(user)
                except Exception:
                    # It was never complete, and nothing in `first` needs it. Its own spawn says what is wrong.
                    continue
                classes += [other for other in more if other not in classes]
        self.classes = sorted(classes, key=lambda cls: cls.number)
        self.kinds = kinds_of(self.classes)
        self.wires = wires_of(self.classes, self.kinds)
        #: The messages by what the engine calls them.
        self.messages = {wire: cls.messages[name] for (cls, name), wire in reversed(self.wires.items())}
        self.name = first.name

    def modules(self) -> list[tuple[str, bytes]]:
        """The names of kinds and their modules."""
        from ._compile.actor import Naming

        odd = {key: wire for key, wire in self.wires.items() if wire != key[1]}
        kinds = {cls: name for cls, name in self.kinds.items() if name != cls.name}
        naming = Naming(odd, kinds)
        return [(self.kinds[cls], cls.compiled(naming)) for cls in self.classes]


def kinds_of(classes: Iterable[ActorClass]) -> dict[ActorClass, str]:
    """The names of kinds: those of the classes, and longer ones for classes of the same name."""
    kinds: dict[ActorClass, str] = {}
    for cls in classes:
        name, number = cls.name, 1
        while name in kinds.values():
            number += 1
            name = f"{cls.name} {number}"
        kinds[cls] = name
    return kinds


def wires_of(classes: list[ActorClass], kinds: dict[ActorClass, str]) -> dict[tuple[ActorClass, str], str]:
    """What modules call messages. Messages of one name are the same if they have the same types; others get the name of their
    class, too."""
    shapes: dict[str, dict[Any, ActorClass]] = {}
    for cls in classes:
        for message in cls.messages.values():
            shapes.setdefault(message.name, {}).setdefault(message.shape, cls)
    wires = {}
    for cls in classes:
        for message in cls.messages.values():
            found = shapes[message.name]
            plain = len(found) == 1 or message.name == "missed" and message.shape == (("u64",), None)
            wires[cls, message.name] = message.name if plain else f"{kinds[found[message.shape]]}.{message.name}"
    return wires


class System(_native.ActorSystem):
    """What runs the actors of a program on an engine."""

    program: Program
    numbers: dict[ActorClass, int]

    def __new__(cls, engine: Any, program: Program, capacity: int, messages: int) -> System:
        made = super().__new__(cls, engine, program.name, program.modules(), capacity, messages)
        made.program = program
        #: The numbers of kinds.
        made.numbers = {own: number for number, own in enumerate(program.classes)}
        return made

    def wire(self, cls: ActorClass, name: str) -> str:
        """What the engine calls a message."""
        return self.program.wires[cls, name]

    def message(self, wire: str | None) -> Message | None:
        """The message that the engine calls so."""
        return self.program.messages.get(wire or "")

    def title(self, cls: ActorClass, name: str) -> str:
        """The name of an actor as the engine knows it: each class has names of its own."""
        return name if len(self.numbers) == 1 else f"{self.program.kinds[cls]}: {name}"


__all__ = ["Program", "System", "define"]
