"""Asks of actors from asyncio.

The asks of one round of the loop are sent together, and one wake-up of the loop brings all replies that have come. An ask
is a future, so that `asyncio.gather` makes no task for it; and it has the methods of a coroutine, for what takes coroutines
only. No thread waits for a reply.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any

from . import _native
from ._types import Scalar

#: How many seconds an ask waits for its reply, unless it says otherwise.
PATIENCE = 10.0
#: How many seconds later an ask is sent again for which there was no room.
AGAIN = 0.001


class Asked(asyncio.Future[Any]):
    """The reply to an ask."""

    # Without a dictionary for each, it is made in three quarters of the time.
    __slots__ = ("actor", "asking", "deadline", "decode", "message", "system", "timeout", "words")

    actor: int
    words: Sequence[int]
    system: _native.ActorSystem
    message: str
    decode: Callable[[int], Any]
    deadline: float
    timeout: float
    asking: Asking

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self.asking.sweep_soon(self.get_loop())
        return cancelled

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done():
            self.asking.send_alone(self)
            if not self.done():
                self._asyncio_future_blocking = True
                yield self
        return self.result()

    __iter__ = __await__

    def send(self, _: Any) -> Any:
        """The next step of a task that has been made of it."""
        if not self.done():
            self.asking.send_alone(self)
            if not self.done():
                self._asyncio_future_blocking = True
                return self
        raise StopIteration(self.result())

    def throw(self, error: Any, value: Any = None, trace: Any = None) -> Any:
        """Ends such a task."""
        self.cancel()
        if isinstance(error, type):
            error = error() if value is None else value
        raise error

    def close(self) -> None:
        """Ends such a task before its first step."""
        self.cancel()


class Asking:
    """The asks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.asks = _native.Asks()
        #: Asks that are not sent.
        self.queue: list[Asked] = []
        self.flushes = False
        self.sweeps = False
        #: When the timer is due.
        self.due = math.inf
        loop.add_reader(self.asks.fileno(), self.ready)

    def ask(
        self,
        loop: asyncio.AbstractEventLoop,
        system: _native.ActorSystem,
        message: str,
        decode: Callable[[int], Any],
        actor: int,
        words: Sequence[int],
        timeout: float | None,
    ) -> Asked:
        """Sends an ask with the other ones of this round."""
        if timeout is None:
            timeout = PATIENCE
        elif not timeout >= 0:
            raise ValueError("timeout must be a number of seconds from 0 up, or None")
        asked = Asked(loop=loop)
        asked.system, asked.message, asked.decode, asked.actor, asked.words = system, message, decode, actor, words
        asked.deadline, asked.timeout, asked.asking = loop.time() + timeout, timeout, self
        self.queue.append(asked)
        if not self.flushes:
            self.flushes = True
            loop.call_soon(self.flush)
        if asked.deadline < self.due:
            self.due = asked.deadline
            loop.call_at(self.due, self.expire)
        return asked

    def send_alone(self, asked: Asked) -> None:
        """Sends an ask at once, if it is the only one of its round: its reply may come before the loop would go on."""
        if len(self.queue) == 1 and self.queue[0] is asked:
            self.send()

    def flush(self) -> None:
        """The round is over."""
        self.flushes = False
        self.send()

    def send(self) -> None:
        """Sends what is queued, as far as there is room."""
        queue, self.queue = self.queue, []
        left: list[Asked] = []
        #: Systems without room: their later asks stay behind.
        full: set[int] = set()
        at = 0
        while at < len(queue):
            first, end = queue[at], at + 1
            system, message = first.system, first.message
            while end < len(queue) and queue[end].message is message and queue[end].system is system:
                end += 1
            some = [asked for asked in (queue[at:end] if at or end < len(queue) else queue) if not asked.done()]
            at = end
            if id(first.system) in full:
                left += some
            elif some:
                try:
                    taken, ended = self.asks.start(first.system, first.message, some)
                except Exception as error:
                    for asked in some:
                        asked.set_exception(error)
                    continue
                self.end(ended)
                if taken < len(some):
                    left += some[taken:]
                    full.add(id(first.system))
        self.queue = left + self.queue
        if self.queue and not self.flushes:
            self.flushes = True
            asyncio.get_running_loop().call_later(AGAIN, self.flush)

    def end(self, ended: list[tuple[Any, int | None, Exception | None]]) -> None:
        """Some asks have ended."""
        for asked, word, error in ended:
            if asked.done():
                continue
            if error is not None:
                asked.set_exception(error)
            elif word is None:
                # The mailbox was full.
                self.queue.append(asked)
            else:
                asked.set_result(asked.decode(word))

    def ready(self) -> None:
        """The loop was woken: some asks have ended."""
        self.end(self.asks.take())
        if self.queue:
            self.send()

    def expire(self) -> None:
        """The time of some asks may be over."""
        loop = asyncio.get_running_loop()
        now, self.due = loop.time(), math.inf
        for asked in [*self.queue, *self.asks.futures()]:
            if asked.done():
                continue
            if asked.deadline <= now:
                asked.set_exception(TimeoutError(f"no reply within {asked.timeout} s; a later one is dropped"))
                self.sweep_soon(loop)
            else:
                self.due = min(self.due, asked.deadline)
        if self.due < math.inf:
            loop.call_at(self.due, self.expire)

    def sweep_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forgets asks whose futures are done."""
        if not self.sweeps and not loop.is_closed():
            self.sweeps = True
            loop.call_soon(self.sweep)

    def sweep(self) -> None:
        self.sweeps = False
        self.asks.sweep()


def decoder(kind: Scalar) -> Callable[[int], Any]:
    """What makes the value of a word."""
    found = _decoders.get(kind.name)
    if found is None:
        from ._messages import value_of

        def decode(word: int) -> Any:
            return value_of(kind, word)

        found = _decoders[kind.name] = decode
    return found


_decoders: dict[str, Callable[[int], Any]] = {
    "i64": lambda word: word - (word >> 63 << 64),
    "u64": lambda word: word,
    "actor_id": lambda word: word,
    "timer_id": lambda word: word,
    "reply_id": lambda word: word,
}
_all: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Asking] = weakref.WeakKeyDictionary()


#: The loop that asked last, and its asks.
_last: tuple[weakref.ref[asyncio.AbstractEventLoop], weakref.ref[Asking]] | None = None


def asking() -> tuple[asyncio.AbstractEventLoop, Asking] | None:
    """The running loop and its asks; `None` without one, and where loops cannot watch a socket."""
    global _last
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    last = _last
    if last is not None and last[0]() is loop and (asks := last[1]()) is not None:
        return loop, asks
    found = _all.get(loop)
    if found is None:
        try:
            found = Asking(loop)
        except (NotImplementedError, OSError):
            return None
        _all[loop] = found
    _last = weakref.ref(loop), weakref.ref(found)
    return loop, found
