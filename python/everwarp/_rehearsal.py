"""`everwarp.Rehearsal`: actors whose handlers CPython runs, one message at a time, to look at them with a debugger."""

from __future__ import annotations

import heapq
import itertools
import operator
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ._types import ActorNumber, TimerNumber
from .errors import ActorFailed, ActorGone

if TYPE_CHECKING:
    from ._actor import ActorClass
    from ._compile.actor import Message

#: Why an ask ends without a reply, as handlers get it.
GONE, ENDED, NO_REPLY, FAILED, _, LATE = range(6)
WHY = {
    GONE: "the actor does not live",
    ENDED: "the actor ended before it handled the message",
    NO_REPLY: "the actor handled the message without a reply",
    FAILED: "the actor failed while it handled the message",
    LATE: "there was no reply within the time",
}
#: The bits of an ask's note, the timers of an actor, the values that a timer's message has, and the asks that an actor keeps.
NOTE_BITS, TIMERS, WORDS, KEPT = 24, 64, 4, 1024
#: How long an ask of the program waits, in seconds of the rehearsal.
PATIENCE = 10.0


@dataclass
class Ask:
    """An ask that has no end yet: who asked, and the methods that take its end."""

    asker: int
    then: str = ""
    failed: str | None = None
    note: int = 0
    done: bool = False
    #: For an ask of the program: the reply, or the reason that there is none.
    reply: Any = None
    reason: int | None = None


@dataclass
class Envelope:
    """A message on its way."""

    to: int
    message: Message
    values: tuple[Any, ...]
    sender: int
    ask: Ask | None = None


@dataclass
class Actor:
    """An actor of the rehearsal."""

    number: int
    cls: ActorClass
    state: Any
    parent: int
    mailbox: deque[Envelope] = field(default_factory=deque)
    stopping: bool = False
    restarts: list[float] = field(default_factory=list)


@dataclass
class Kept:
    """An ask that an actor keeps."""

    owner: int
    ask: Ask
    message: Message


@dataclass
class Turn:
    """The handling of one message."""

    stage: Rehearsal
    actor: Actor
    envelope: Envelope
    left: int
    #: Of an atomic class: what is done when the handler has returned.
    held: list[Callable[[], None]] | None = None
    #: The ask has gone elsewhere: it was passed on.
    forwarded: bool = False
    #: The number under which this handling keeps its ask, and what it has replied to, as it was.
    keeps: int = 0
    replied: dict[int, Kept] = field(default_factory=dict)
    stopping: bool = False

    def spend(self) -> None:
        if self.left == 0:
            raise RuntimeError("it sends more messages for one message than its class declares: raise `sends`")
        self.left -= 1

    def send(self, envelope: Envelope) -> None:
        self.spend()
        self.let(lambda: self.stage._deliver(envelope))

    def let(self, call: Callable[[], None]) -> None:
        """Does what others notice, at once or when the handler of an atomic class has returned."""
        if self.held is None:
            call()
        else:
            self.held.append(call)


_turn: ContextVar[Turn | None] = ContextVar("everwarp.rehearsal", default=None)


def running() -> Turn | None:
    """The handling that runs, if one does."""
    return _turn.get()


def current(call: str) -> Turn:
    """The handling that runs; an error outside of one."""
    turn = running()
    if turn is None:
        refuse(call)
    return turn


def refuse(call: str) -> NoReturn:
    raise RuntimeError(
        f"{call} is for the handlers of an actor: spawn the class and send the actor a message, or use everwarp.Rehearsal"
    )


class Outgoing:
    """A message of an actor, in a handler: `to.deposit`, or `self.deposit`, which can also be called."""

    def __init__(self, to: int, message: Message, own: Any = None) -> None:
        self._to, self._message, self._own = to, message, own
        self._name = message.name

    def __call__(self, *values: Any) -> Any:
        if self._own is None:
            raise TypeError(f"`{self._name}` of another actor cannot be called: send it with tell")
        return run(current(self._name).actor.cls, self._own, self._name, converted(self._message, values))

    def tell(self, *values: Any) -> None:
        turn = current("tell")
        values = converted(self._message, values)
        turn.send(Envelope(self._to, self._message, values, turn.actor.number))

    def ask(
        self, *values: Any, then: Outgoing, failed: Outgoing | None = None, note: int = 0, timeout: float | None = None
    ) -> None:
        turn = current("ask")
        if not 0 <= operator.index(note) < 1 << NOTE_BITS:
            raise OverflowError("the value does not fit its type")
        name = None if failed is None else failed._name
        ask = Ask(turn.actor.number, then._name, name, int(note))
        values = converted(self._message, values)
        if timeout is not None:
            turn.stage._deadline(ask, checked(timeout, False))
        turn.send(Envelope(self._to, self._message, values, turn.actor.number, ask))

    def reply(self, kept: int, value: Any) -> bool:
        if self._message.result is None:
            raise TypeError(f"{self._name} returns nothing, so it has no reply")
        turn = current("reply")
        return turn.stage._reply(turn, int(kept), self._message, self._message.result(value))

    def after(self, seconds: float, *values: Any) -> TimerNumber:
        return self._timer(seconds, values, False)

    def every(self, seconds: float, *values: Any) -> TimerNumber:
        return self._timer(seconds, values, True)

    def _timer(self, seconds: float, values: tuple[Any, ...], repeats: bool) -> TimerNumber:
        turn = current("a timer")
        period = checked(seconds, repeats)
        values = converted(self._message, values)
        return turn.stage._timer(turn.actor.number, self._message, values, period, repeats)


def checked(seconds: float, repeats: bool) -> float:
    """A time that is one."""
    seconds = float(seconds)
    if not (seconds > 0 if repeats else seconds >= 0) or seconds > 9e9:
        raise ValueError("the argument is outside of what the operation is defined for")
    return seconds


def converted(message: Message, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values with the types of the message's fields."""
    if len(values) != len(message.fields):
        names = ", ".join(name for name, _ in message.fields) or "nothing"
        raise TypeError(f"{message.name} takes {names}, and there are {len(values)} values")
    return tuple(kind(value) for (_, kind), value in zip(message.fields, values))


def run(cls: ActorClass, state: Any, name: str, values: tuple[Any, ...]) -> Any:
    """Runs a method, and returns its result with its type."""
    result = vars(cls.python)[name](state, *values)
    kind = cls.message(name).result
    return None if kind is None else kind(result)


def handled(cls: ActorClass, envelope: Envelope) -> str:
    """The method that handles a message. Classes share a message if its types are the same."""
    sent, found = envelope.message, cls.messages.get(envelope.message.name)
    if found is None or found is not sent and found.shape != sent.shape:
        raise TypeError(f"it does not handle the message {sent.name}")
    return found.name


def fields_of(cls: ActorClass) -> Any:
    """The fields of the state, by name."""
    return vars(cls.python)["__everwarp_fields__"]


def stage_class(cls: ActorClass) -> type:
    """The class for CPython whose methods are messages, too."""

    def method(name: str) -> property:
        return property(lambda self: Outgoing(self._number, cls.message(name), self))

    def stop(self: Any) -> None:
        current("stop").stopping = True

    def kill(self: Any) -> None:
        turn = current("kill")
        turn.spend()
        turn.stage._kill(self._number)

    body: dict[str, Any] = {name: method(name) for name in cls.messages}
    body.update(stop=stop, kill=kill, _number=0)
    if "id" not in fields_of(cls):
        body["id"] = property(lambda self: cls.__everwarp_type__(self._number))
    return type(cls.name, (cls.python,), body)


class Rehearsal:
    """Runs handlers in CPython, so that a debugger and `print` work in them.

    It has what handlers use: messages, asks, `everwarp.spawn`, timers, and the ends of actors, with `restarts`, `retries` and
    `atomic` of their classes. Values are converted as in compiled handlers. One message is handled at a time; time stands
    still but for `advance`. Mailboxes have no limit here, and integers in variables have no size: what computes a result in
    both places computes the same.

    >>> stage = ew.Rehearsal()
    >>> accounts = stage.spawn(Account, 2)
    >>> accounts[0].deposit.tell(5)
    >>> accounts[0].read.ask()
    5

    Parameters
    ----------
    seed
        Which actor handles its next message is drawn with this seed. Without one it is the one whose message waits longest.
    capacity
        How many actors live at a time.
    """

    def __init__(self, seed: int | None = None, capacity: int = 1 << 16) -> None:
        self._random = None if seed is None else random.Random(seed)
        self._capacity = capacity
        self._actors: dict[int, Actor] = {}
        self._classes: dict[ActorClass, type] = {}
        self._ready: list[int] = []
        self._numbers = itertools.count(1)
        self._timers: list[tuple[float, int]] = []
        #: What timers and deadlines do: a period or none, the actor that has it, and the call.
        self._due: dict[int, tuple[float | None, int, Callable[[], None]]] = {}
        self._kept: dict[int, Kept] = {}
        self._failures: list[str] = []
        self.now = 0.0

    def spawn(self, cls: Any, count: int | None = None) -> Rehearsed:
        """Makes actors of a class, as `Engine.spawn` does."""
        from ._actor import ActorClass

        if not isinstance(cls, ActorClass):
            raise TypeError("spawn makes actors of a class that is decorated with @everwarp.actor")
        cls.check()
        return Rehearsed(self, cls, [self._spawn(cls, 0) for _ in range(1 if count is None else count)], count is None)

    def settle(self) -> None:
        """Handles messages until there are none. It does not return while handlers send messages without an end."""
        while self.step():
            pass

    def step(self) -> bool:
        """Handles one message. Returns whether there was one."""
        if not self._ready:
            return False
        at = 0 if self._random is None else self._random.randrange(len(self._ready))
        actor = self._actors[self._ready.pop(at)]
        self._handle(actor, actor.mailbox.popleft())
        return True

    def advance(self, seconds: float) -> None:
        """Lets time pass: what timers send meanwhile is handled, in its order."""
        self.settle()
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, number = heapq.heappop(self._timers)
            found = self._due.get(number)
            if found is None:
                continue
            period, _, call = found
            if period is None:
                del self._due[number]
            else:
                heapq.heappush(self._timers, (self.now + period, number))
            call()
            self.settle()
        self.now = end

    def failures(self) -> list[str]:
        """Why actors failed, the oldest first."""
        return list(self._failures)

    def alive(self, number: int) -> bool:
        """Whether the actor with this id lives."""
        return number in self._actors

    def _spawn(self, cls: ActorClass, parent: int) -> ActorNumber:
        if len(self._actors) >= self._capacity:
            raise MemoryError("there is no room for another actor: give the rehearsal a larger `capacity`")
        number = next(self._numbers)
        if cls not in self._classes:
            self._classes[cls] = stage_class(cls)
        state = self._classes[cls]()
        state._number = number
        self._actors[number] = Actor(number, cls, state, parent)
        made: ActorNumber = cls.__everwarp_type__(number)
        return made

    def _post(self, envelope: Envelope, first: bool = False) -> bool:
        actor = self._actors.get(envelope.to)
        if actor is None or actor.stopping and not first:
            return False
        self._ready.append(actor.number)
        if first:
            actor.mailbox.appendleft(envelope)
        else:
            actor.mailbox.append(envelope)
        return True

    def _deliver(self, envelope: Envelope) -> None:
        if not self._post(envelope) and envelope.ask is not None:
            self._end(envelope.ask, GONE)

    def _end(self, ask: Ask, reason: int | None, reply: Any = None) -> None:
        """Ends an ask once."""
        if ask.done:
            return
        ask.done = True
        if ask.asker == 0:
            ask.reply, ask.reason = reply, reason
        elif reason is None:
            self._answer(ask, ask.then, [reply, ask.note])
        elif ask.failed is None:
            actor = self._actors.get(ask.asker)
            if actor is not None:
                self._fail(actor, f"no reply, and the ask has no `failed`: {WHY[reason]}")
        else:
            self._answer(ask, ask.failed, [reason, ask.note])

    def _answer(self, ask: Ask, name: str, values: list[Any]) -> None:
        actor = self._actors.get(ask.asker)
        if actor is not None:
            message = actor.cls.message(name)
            values = values[: len(message.fields)]
            self._post(Envelope(actor.number, message, converted(message, tuple(values)), 0), first=False)

    def _handle(self, actor: Actor, envelope: Envelope) -> None:
        limits = actor.cls.limits
        for attempt in range(limits.retries + 1):
            before = {name: getattr(actor.state, name) for name in fields_of(actor.cls)}
            turn = Turn(self, actor, envelope, limits.sends, [] if limits.atomic else None)
            token = _turn.set(turn)
            try:
                result = run(actor.cls, actor.state, handled(actor.cls, envelope), envelope.values)
            except Exception as error:
                if limits.atomic:
                    for name, value in before.items():
                        setattr(actor.state, name, value)
                    self._kept.update(turn.replied)
                # What a failed handler keeps ends with it.
                self._kept.pop(turn.keeps, None)
                goes_on = self._fail(actor, f"{type(error).__name__}: {error}")
                if goes_on and attempt < limits.retries:
                    continue
                if envelope.ask is not None and not turn.forwarded:
                    self._end(envelope.ask, FAILED)
                return
            finally:
                _turn.reset(token)
            for held in turn.held or ():
                held()
            if envelope.ask is not None and not turn.forwarded and not turn.keeps:
                self._end(envelope.ask, NO_REPLY if envelope.message.result is None else None, result)
            if turn.stopping or actor.stopping and not actor.mailbox:
                self._kill(actor.number)
            return

    def _fail(self, actor: Actor, reason: str) -> bool:
        """An actor has failed. Returns whether it goes on."""
        self._failures.append(reason)
        limits = actor.cls.limits
        actor.restarts = [at for at in actor.restarts if at > self.now - limits.seconds]
        if len(actor.restarts) >= limits.restarts:
            self._kill(actor.number)
            return False
        actor.restarts.append(self.now)
        if not limits.atomic:
            actor.state.__init__()
            self._lose(actor.number, FAILED)
        return True

    def _keep(self, turn: Turn) -> int:
        ask = turn.envelope.ask
        if ask is None or turn.forwarded or turn.keeps:
            return 0
        if sum(1 for kept in self._kept.values() if kept.owner == turn.actor.number) >= KEPT:
            raise RuntimeError(f"it keeps {KEPT} asks, which is the limit: reply to some first")
        turn.keeps = next(self._numbers)
        self._kept[turn.keeps] = Kept(turn.actor.number, ask, turn.envelope.message)
        return turn.keeps

    def _reply(self, turn: Turn, number: int, message: Message, value: Any) -> bool:
        kept = self._kept.get(number)
        if kept is None or kept.owner != turn.actor.number:
            return False
        if kept.message.name != message.name:
            raise TypeError(f"it replies to `{message.name}`, and the ask that it has kept is another message")
        turn.spend()
        turn.replied[number] = self._kept.pop(number)
        ask = kept.ask
        turn.let(lambda: self._end(ask, None, value))
        return True

    def _lose(self, owner: int, reason: int) -> None:
        """An actor does not know the asks any more that it has kept."""
        for number in [number for number, kept in self._kept.items() if kept.owner == owner]:
            self._end(self._kept.pop(number).ask, reason)

    def _stop(self, number: int) -> None:
        actor = self._actors.get(number)
        if actor is not None:
            actor.stopping = True
            if not actor.mailbox and (turn := _turn.get()) is not None and turn.actor is not actor:
                self._kill(number)
            elif not actor.mailbox and _turn.get() is None:
                self._kill(number)

    def _kill(self, number: int) -> None:
        actor = self._actors.pop(number, None)
        if actor is None:
            return
        self._ready = [ready for ready in self._ready if ready != number]
        self._due = {timer: due for timer, due in self._due.items() if due[1] != number}
        for envelope in actor.mailbox:
            if envelope.ask is not None:
                self._end(envelope.ask, ENDED)
        self._lose(number, ENDED)

    def _timer(
        self, number: int, message: Message, values: tuple[Any, ...], seconds: float, repeats: bool
    ) -> TimerNumber:
        if sum(1 for _, owner, _ in self._due.values() if owner == number) >= TIMERS:
            raise RuntimeError(f"it has {TIMERS} timers that are still to come, which is the limit: cancel some first")
        envelope = Envelope(number, message, values, number)
        return self._at(seconds, seconds if repeats else None, number, lambda: void(self._post(envelope, first=True)))

    def _deadline(self, ask: Ask, seconds: float) -> None:
        self._at(seconds, None, 0, lambda: self._end(ask, LATE))

    def _at(self, seconds: float, period: float | None, owner: int, call: Callable[[], None]) -> TimerNumber:
        number = next(self._numbers)
        self._due[number] = (period, owner, call)
        heapq.heappush(self._timers, (self.now + seconds, number))
        return TimerNumber(number)

    def _cancel(self, timer: int, owner: int) -> bool:
        found = self._due.get(timer)
        if found is None or found[1] != owner:
            return False
        del self._due[timer]
        return True


def void(_: object) -> None:
    """Drops a value."""


class Rehearsed:
    """Actors of a rehearsal. Each message of their class is an attribute; an index is one actor, a slice several."""

    def __init__(self, stage: Rehearsal, cls: ActorClass, numbers: list[ActorNumber], single: bool) -> None:
        self._stage, self._class, self._numbers, self.single = stage, cls, numbers, single

    def __getattr__(self, name: str) -> RehearsedHandle:
        if name.startswith("__"):
            raise AttributeError(name)
        return RehearsedHandle(self, self._class.message(name))

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Rehearsed:
        if isinstance(index, slice):
            return Rehearsed(self._stage, self._class, self._numbers[index], False)
        return Rehearsed(self._stage, self._class, [self._numbers[index]], True)

    def __iter__(self) -> Iterator[Rehearsed]:
        return (self[index] for index in range(len(self)))

    @property
    def id(self) -> int:
        """The id of a single actor."""
        if len(self) != 1:
            raise ValueError(f"there are {len(self)} actors: choose one with an index")
        return self._numbers[0]

    @property
    def states(self) -> list[Any]:
        """The states of the actors, for a look; those of actors that have ended are missing."""
        found = (self._stage._actors.get(number) for number in self._numbers)
        return [actor.state for actor in found if actor is not None]

    def stop(self) -> None:
        """Ends the actors once they have handled what is in their mailboxes."""
        for number in self._numbers:
            self._stage._stop(number)

    def kill(self) -> None:
        """Ends the actors now."""
        for number in self._numbers:
            self._stage._kill(number)

    def __repr__(self) -> str:
        number = "1 actor" if len(self) == 1 else f"{len(self)} actors"
        return f"<{number} of {self._class.name} in a rehearsal>"


class RehearsedHandle:
    """A message of actors of a rehearsal."""

    def __init__(self, actors: Rehearsed, message: Message) -> None:
        self._actors, self._message = actors, message

    def _rows(self, values: tuple[Any, ...]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        count = len(self._actors)
        columns = []
        for value in values:
            value = value._numbers[0] if isinstance(value, Rehearsed) and value.single else value
            value = value._numbers if isinstance(value, Rehearsed) else value
            if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
                value = [value] * count
            if len(value) != count:
                raise ValueError(f"there are {len(value)} values and {count} actors: pass one for each, or one for all")
            columns.append(value)
        for at, number in enumerate(self._actors._numbers):
            yield number, converted(self._message, tuple(column[at] for column in columns))

    def tell(self, *values: Any) -> None:
        """Sends the message to each actor; `Rehearsal.settle` lets them be handled."""
        for number, row in list(self._rows(values)):
            if not self._actors._stage._post(Envelope(number, self._message, row, 0)):
                raise ActorGone(f"the actor {number} does not live")

    def ask(self, *values: Any) -> Any:
        """Sends the message, handles messages until there is a reply, and returns it; a list for several actors."""
        if self._message.result is None:
            raise TypeError(f"{self._message.name} returns nothing: send it with tell")
        stage, asks = self._actors._stage, []
        for number, row in list(self._rows(values)):
            ask = Ask(0)
            asks.append(ask)
            if not stage._post(Envelope(number, self._message, row, 0, ask)):
                raise ActorGone(f"the actor {number} does not live")
        end = stage.now + PATIENCE
        while not all(ask.done for ask in asks):
            if not stage.step():
                if not stage._timers or stage._timers[0][0] > end:
                    raise TimeoutError(f"no reply within {PATIENCE} s")
                stage.advance(stage._timers[0][0] - stage.now)
        for ask in asks:
            if ask.reason is not None:
                raise ActorFailed(f"the ask has no reply: {WHY[ask.reason]}")
        replies = [ask.reply for ask in asks]
        return replies[0] if self._actors.single else replies


__all__ = ["Rehearsal", "Rehearsed"]
