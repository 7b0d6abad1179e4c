"""Supervised groups of actors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from . import _native
from ._actor import Actors
from ._program import System
from .errors import WrongEngine

Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
Policy = Literal["permanent", "transient", "temporary"]


class Group:
    """Actors that are restarted when they fail or end. `Engine.supervise` makes one.

    A restarted actor keeps its id, its mailbox, its name, its links and its monitors, and begins with a state of zeros.
    """

    def __init__(self, native: _native.ActorGroup, system: System) -> None:
        self._native, self._system = native, system

    @property
    def restarts(self) -> int:
        """How often a member failed or ended and was restarted; those that were restarted with it do not count."""
        return self._native.stats()[0]

    @property
    def members(self) -> int:
        """How many members live."""
        return self._native.stats()[1]

    @property
    def ended(self) -> bool:
        """Whether the group has used up its restarts, or `end` was called: then its members were killed."""
        return self._native.stats()[2]

    def end(self) -> None:
        """Kills the members, the last one first. None of them is restarted."""
        self._native.end()

    def __repr__(self) -> str:
        restarts, members, ended = self._native.stats()
        return f"<group with {members} members and {restarts} restarts{', ended' * ended}>"


def members_of(members: Any, policy: str) -> tuple[System, list[Any]]:
    """The members as the native code takes them, and their system."""
    if isinstance(members, (Actors, Group)):
        members = [members]
    if not isinstance(members, Iterable):
        raise TypeError(f"members are actors and groups, and not {members!r}")
    system: System | None = None
    parts: list[Any] = []
    for member in members:
        own = policy
        if isinstance(member, tuple):
            if len(member) != 2:
                raise TypeError('a member is an actor, a group, or a pair such as (actor, "temporary")')
            member, own = member
        if isinstance(member, Group):
            if own != policy:
                raise TypeError("a group has no policy: it is restarted when its own restarts are used up")
            parts.append(member._native)
        elif isinstance(member, Actors):
            parts += [(int(number), own) for number in member.ids]
        else:
            raise TypeError(f'a member is an actor, a group, or a pair such as (actor, "temporary"), and not {member!r}')
        if system is not None and member._system is not system:
            raise WrongEngine("the members of a group are actors of one program on one engine")
        system = member._system
    if system is None:
        raise ValueError("a group has one member at least")
    return system, parts


__all__ = ["Group", "Policy", "Strategy"]
