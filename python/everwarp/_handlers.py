"""What handlers of actors use next to messages. `everwarp.actor` compiles these calls; CPython cannot run them."""

from __future__ import annotations

from typing import Any, NoReturn


def _only(call: str) -> NoReturn:
    raise RuntimeError(f"everwarp.{call} is for the handlers of an actor: spawn the class, and send the actor a message")


def sender() -> Any:
    """The sender of the message, as an `everwarp.actor_id`; 0 if it is the program."""
    _only("sender()")


def parent() -> Any:
    """The actor that has spawned this one; 0 if the program has."""
    _only("parent()")


def spawn(cls: Any) -> Any:
    """Makes an actor of the handler's own class and returns its `everwarp.actor_id`.

    Without room for another actor the handler fails; `Engine.spawn` takes the `capacity`.
    """
    _only("spawn(...)")


def forward(to: Any) -> None:
    """Passes the message on to another actor with its sender, which gets the reply from there.

    The result of the handler itself is dropped.
    """
    _only("forward(...)")


__all__ = ["forward", "parent", "sender", "spawn"]
