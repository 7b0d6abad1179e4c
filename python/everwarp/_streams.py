"""Topics, and streams between actors and the program."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _native
from ._actor import ActorClass, Actors
from ._messages import columns_of, values_of

if TYPE_CHECKING:
    from ._compile.actor import Message
    from ._program import System

Slow = Literal["waits", "misses"]


def one(number: int) -> memoryview:
    """The ids of a single actor."""
    import struct

    return memoryview(struct.pack("=Q", number)).cast("Q")


class Topic(Actors):
    """What is sent to a topic goes on to all actors that subscribe, with its sender. `Engine.topic` makes one.

    A topic is a single actor: `topic.deposit.tell(5)` publishes, and handlers publish to its `id`. It replies to no ask.
    """

    def __init__(self, cls: ActorClass, system: System, native: _native.ActorTopic) -> None:
        super().__init__(cls, system, one(native.id), True)
        self._topic = native

    def subscribe(self, actors: Actors, slow: Slow = "waits") -> None:
        """Subscribes actors, or changes how they subscribe. Those that end leave the topic.

        Parameters
        ----------
        actors
            Actors of the topic's class.
        slow
            What happens when a mailbox is full. With `"waits"` the topic waits, and so do publishers when its own mailbox
            is full. With `"misses"` the actor misses the message; before the next one that it does not miss it gets the
            message `missed` with their number, if its class has a method `missed(self, count: everwarp.u64)`.
        """
        self._same(actors)
        if slow not in ("waits", "misses"):
            raise ValueError(f'`slow` is "waits" or "misses", not {slow!r}')
        self._topic.subscribe(actors.ids, slow == "misses")

    def unsubscribe(self, actors: Actors) -> int:
        """Ends subscriptions. Returns how many there were."""
        self._same(actors)
        return self._topic.unsubscribe(actors.ids)

    @property
    def subscribers(self) -> int:
        """How many actors subscribe."""
        return self._topic.subscribers

    def __repr__(self) -> str:
        return f"<topic of {self._class.name} with {self.subscribers} subscribers>"


@dataclass(frozen=True)
class Received:
    """A message that came out of a stream."""

    #: The id of its sender; 0 for the program.
    sender: int
    #: The message's name.
    message: str
    #: Its values.
    values: tuple[Any, ...]


class Outlet(Actors):
    """A stream from actors to the program. `Engine.outlet` makes one.

    It is an actor: handlers send to its `id`, and `next` takes what they sent. When as many messages wait as it has
    credits, its senders wait. Use it in a `with` block, or call `close`.
    """

    def __init__(self, cls: ActorClass, system: System, native: _native.ActorOutlet) -> None:
        super().__init__(cls, system, one(native.id), True)
        self._outlet = native

    def next(self, timeout: float | None = None) -> Received | None:
        """The next message; `None` if there is none within `timeout` seconds, or no more will come (`closed`)."""
        found = self._outlet.next(timeout)
        if found is None:
            return None
        sender, name, words = found
        message = self._system.message(name)
        if message is None:
            return Received(sender, name or "", tuple(words))
        return Received(sender, message.name, values_of(message, words))

    async def next_async(self, timeout: float | None = None) -> Received | None:
        """The same as `next` for asyncio."""
        return await asyncio.to_thread(self.next, timeout)

    def received(self) -> Iterator[Received]:
        """The messages, until no more will come."""
        while (found := self.next()) is not None:
            yield found

    @property
    def closed(self) -> bool:
        """Whether no more messages will come: its actor has ended, and all that came was taken."""
        return self._outlet.closed

    def close(self) -> None:
        """Ends the actor of the stream. Messages that were not taken are gone."""
        self._outlet.close()

    def __enter__(self) -> Outlet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<outlet of {self._class.name}{', closed' * self.closed}>"


class Inlet:
    """A stream from the program to an actor. `Engine.inlet` makes one.

    As many messages wait for the actor as the stream has credits; then `send` waits. Use it in a `with` block, or call
    `close`: what was sent still arrives.
    """

    def __init__(self, cls: ActorClass, system: System, native: _native.ActorInlet) -> None:
        self._class, self._system, self._inlet = cls, system, native

    def message(self, name: str) -> Sending:
        """The message with this name: `inlet.message("deposit")` is the same as `inlet.deposit`."""
        message = self._class.message(name)
        return Sending(self._system, self._inlet, message, self._system.wire(self._class, message.name))

    def __getattr__(self, name: str) -> Sending:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.message(name)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all messages are in the actor's mailbox or on their way there. Returns whether they are."""
        return self._inlet.flush(timeout)

    def close(self) -> None:
        """Ends the stream. What was sent still arrives."""
        self._inlet.close()

    def __enter__(self) -> Inlet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<inlet of {self._class.name}>"


class Sending:
    """A message of an inlet."""

    def __init__(self, system: System, native: _native.ActorInlet, message: Message, wire: str) -> None:
        self._system, self._inlet, self._message, self._wire = system, native, message, wire

    def send(self, *values: Any, timeout: float | None = 10.0) -> None:
        """Sends the message; or messages in the order of a sequence or an array, whose other values are for all of them.

        Raises
        ------
        TimeoutError
            There was no credit for some of them within `timeout` seconds; the exception says how many were sent.
        ActorGone
            The actor has ended, or the stream was closed.
        """
        several = [len(v) for v in values if hasattr(v, "__len__") and not isinstance(v, (Actors, str, bytes)) and shape(v) != ()]
        count = several[0] if several else 1
        columns = columns_of(self._message, values, count, self._system)
        sent = self._inlet.send(self._wire, columns, count, timeout)
        if sent < count:
            raise TimeoutError(f"{sent} of {count} messages were sent within {timeout} s: the actor takes no more")

    async def send_async(self, *values: Any, timeout: float | None = 10.0) -> None:
        """The same as `send` for asyncio."""

        def send() -> None:
            self.send(*values, timeout=timeout)

        await asyncio.to_thread(send)


def shape(value: Any) -> Any:
    return getattr(value, "shape", None)


__all__ = ["Inlet", "Outlet", "Received", "Sending", "Slow", "Topic"]
