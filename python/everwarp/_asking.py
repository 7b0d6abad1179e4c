"""Asks of actors from asyncio: one wake-up of the loop for all replies that have come, and no thread for an ask."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from . import _native

#: The most asks of one loop that wait at a time: half as many as a class of actors has room for.
MOST = 512


class Asking:
    """The asks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.asks = _native.Asks()
        self.waiting: dict[int, asyncio.Future[int | None]] = {}
        self.room = asyncio.Semaphore(MOST)
        loop.add_reader(self.asks.fileno(), self.ready)

    def ready(self) -> None:
        """Some asks have ended."""
        for number, word, error in self.asks.take():
            future = self.waiting.pop(number, None)
            if future is None or future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(word)

    async def ask(self, system: _native.ActorSystem, actor: int, message: str, columns: list[Any], timeout: float | None) -> int | None:
        """The word of a reply; `None` if the ask was not sent, because it would have had to wait."""
        async with self.room:
            number, word = self.asks.start(system, actor, message, columns)
            if number == 0:
                return word
            future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
            self.waiting[number] = future
            try:
                async with asyncio.timeout(timeout) as deadline:
                    return await future
            except TimeoutError:
                if not deadline.expired():
                    raise
                raise TimeoutError(f"no reply within {timeout} s; a later one is dropped") from None
            finally:
                if self.waiting.pop(number, None) is not None:
                    self.asks.forget(number)


_all: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Asking] = weakref.WeakKeyDictionary()


def asking() -> Asking | None:
    """That of the running loop; `None` where loops cannot watch a socket."""
    loop = asyncio.get_running_loop()
    found = _all.get(loop)
    if found is None:
        try:
            found = Asking(loop)
        except (NotImplementedError, OSError):
            return None
        _all[loop] = found
    return found
