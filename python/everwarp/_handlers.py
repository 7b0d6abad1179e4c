"""What handlers of actors use next to messages: `everwarp.actor` compiles these calls, and CPython runs them in a rehearsal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ._rehearsal import current
from ._types import ActorNumber


def sender() -> Any:
    """The sender of the message, as an `everwarp.actor_id`; 0 if it is the program."""
    return ActorNumber(current("everwarp.sender()").envelope.sender)


def parent() -> Any:
    """The actor that has spawned this one; 0 if the program has."""
    return ActorNumber(current("everwarp.parent()").actor.parent)


def spawn(cls: Any) -> Any:
    """Makes an actor of a class and returns its id, of the type of the class.

    Without room for another actor the handler fails; `Engine.spawn` takes the `capacity`.
    """
    turn = current("everwarp.spawn(...)")
    if not hasattr(cls, "__everwarp_type__"):
        raise TypeError("everwarp.spawn takes a class with @everwarp.actor")
    return turn.stage._spawn(cls, turn.actor.number)


def keep() -> Any:
    """Keeps the ask that is being handled, and returns an `everwarp.reply_id` for it, or 0 if the message is no ask.

    The handler's result is dropped then. A later handler replies with `self.read.reply(kept, value)`, where `read` is the
    message; that returns whether the ask was kept. It ends without a reply when the actor ends or begins anew.
    """
    turn = current("everwarp.keep()")
    return turn.stage._keep(turn)


def forward(to: Any) -> None:
    """Passes the message on to another actor with its sender, which gets the reply from there.

    The result of the handler itself is dropped.
    """
    turn = current("everwarp.forward(...)")
    envelope = turn.envelope
    turn.forwarded = True
    turn.send(replace(envelope, to=to._number if hasattr(to, "_number") else int(to)))


__all__ = ["forward", "keep", "parent", "sender", "spawn"]
