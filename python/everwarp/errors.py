"""The exceptions of everwarp. Each message says what happened, where, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import Exit

__all__ = [
    "ActorError",
    "ActorFailed",
    "ActorGone",
    "BufferInUse",
    "ChannelClosed",
    "ChannelError",
    "ChannelRefused",
    "DeviceError",
    "EngineClosed",
    "EngineError",
    "EngineLost",
    "EverwarpError",
    "ForkedError",
    "FunctionError",
    "LoadFailed",
    "ProcessError",
    "ProgramError",
    "RingEnded",
    "RingError",
    "RingFailed",
    "RingFull",
    "SpawnFailed",
    "StartFailed",
    "WrongEngine",
]


class EverwarpError(Exception):
    """Any error of this package, except for wrong arguments (`TypeError`, `ValueError`) and `TimeoutError`."""


class DeviceError(EverwarpError):
    """The device cannot be opened."""


class LoadFailed(EverwarpError, ValueError):
    """A WebAssembly module is refused: it cannot be read, is not valid, or needs what no engine provides."""


class StartFailed(EverwarpError):
    """An engine did not start, or has no room for a module."""


class SpawnFailed(EverwarpError):
    """Processes were not started: a directory cannot be opened, or an argument cannot be passed."""


class ActorError(EverwarpError):
    """A message to an actor was not handled."""


class ActorGone(ActorError):
    """The actor has ended, or belongs to another engine."""


class ActorFailed(ActorError):
    """The actor failed while it handled the message; the message names the reason and the line."""


class BufferInUse(EverwarpError, BufferError):
    """Elements of a buffer are used on one side, and were to be used on the other; the message names the holder's line."""


class RingError(EverwarpError):
    """A message to a ring kernel was not sent, or its result not received."""


class RingFull(RingError):
    """As many messages wait as the kernel takes."""


class RingFailed(RingError):
    """The handler failed for a message; others are handled all the same."""


class RingEnded(RingError):
    """The kernel was terminated, and its results were received."""


class ProgramError(EverwarpError):
    """A native program has wrong input, failed, or computed a wrong result."""


class EngineError(EverwarpError):
    """The engine cannot be used."""


class EngineClosed(EngineError):
    """The engine was closed before."""


class EngineLost(EngineError):
    """The engine has failed and ended."""


class ForkedError(EngineError):
    """The engine was made before a fork and is used in the child."""


class WrongEngine(EngineError):
    """Objects of two engines are used together."""


class ChannelError(EverwarpError):
    """A message was not sent or received, or a channel was not made."""


class ChannelClosed(ChannelError):
    """The other side has no ends left."""


class ChannelRefused(ChannelError):
    """The message is too long, or there is no room for the channel."""


class FunctionError(EverwarpError):
    """A compiled function failed: what CPython would raise, or an integer that does not fit 64 bits.

    `element` is the number of the element, from 0, and `line` the line of the file.
    """

    def __init__(self, message: str, element: int | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.element = element
        self.line = line


class ProcessError(EverwarpError):
    """A process failed, and `check=True` was given.

    `exit` is the first such process, and `failed` lists the numbers of all of them.
    """

    def __init__(self, message: str, exit: Exit, failed: list[int]) -> None:
        super().__init__(message)
        self.exit = exit
        self.failed = failed
