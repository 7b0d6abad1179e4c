"""What actors have around their messages: timers, monitors and dead letters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _native

if TYPE_CHECKING:
    from ._program import System

Ending = Literal["stopped", "failed", "killed", "unknown"]


class Timer:
    """A message that an actor gets later, or again and again."""

    def __init__(self, native: _native.ActorTimer) -> None:
        self._native = native

    def cancel(self) -> bool:
        """Cancels the timer. Returns whether a message was still to come; it does not come any more."""
        return self._native.cancel()


class Monitor:
    """Notices the end of one actor. A restart is no end."""

    def __init__(self, native: _native.ActorMonitor) -> None:
        self._native = native

    def wait(self, timeout: float | None = None) -> Ending | None:
        """Waits until the actor has ended, and returns how; `None` if it lives after `timeout` seconds.

        `"unknown"` means that the actor did not live when the monitor was made.
        """
        ending: Any = self._native.wait(timeout)
        return ending

    async def wait_async(self, timeout: float | None = None) -> Ending | None:
        """The same as `wait` for asyncio."""
        return await asyncio.to_thread(self.wait, timeout)


@dataclass(frozen=True)
class DeadLetter:
    """A message that was not handled, or an ask that ended without a reply."""

    #: Why.
    reason: str
    #: The id of the actor that it was sent to.
    to: int
    #: The id of its sender; 0 for the program.
    sender: int
    #: The message's name.
    message: str
    #: Its values.
    values: tuple[Any, ...]


class DeadLetters:
    """A subscription to the dead letters of a class and its program."""

    def __init__(self, system: System, native: _native.DeadLetters) -> None:
        self._system, self._native = system, native

    def next(self, timeout: float | None = None) -> DeadLetter | None:
        """The next dead letter; `None` if there is none within `timeout` seconds."""
        from ._messages import values_of

        found = self._native.next(timeout)
        if found is None:
            return None
        reason, to, sender, name, words = found
        message = self._system.message(name)
        if message is None:
            return DeadLetter(reason, to, sender, name or "", tuple(words))
        return DeadLetter(reason, to, sender, message.name, values_of(message, words))

    async def next_async(self, timeout: float | None = None) -> DeadLetter | None:
        """The same as `next` for asyncio."""
        return await asyncio.to_thread(self.next, timeout)

    @property
    def lost(self) -> int:
        """How many were lost because the subscription was full."""
        return self._native.lost


__all__ = ["DeadLetter", "DeadLetters", "Ending", "Monitor", "Timer"]
