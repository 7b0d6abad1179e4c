"""Run WebAssembly processes and native programs on a GPU, or on the CPU.

>>> import everwarp as ew
>>> with ew.engine("cpu") as engine:
...     exits = engine.run("hello.wasm", args=["{instance}"], instances=1000)
>>> exits.stdout[999].splitlines()[2]
b'argument 1: 999'
"""

from __future__ import annotations

from . import errors
from ._actor import ActorClass, Actors, actor
from ._buffer import Transfers, UnifiedBuffer, View
from ._compile.elementary import random_bits, random_unit
from ._engine import BfsResult, Engine, Processes, engine
from ._function import Function, function
from ._handlers import forward, keep, parent, sender, spawn
from ._module import Module
from ._native import Exit, Exits, ProgramResult, Receiver, Sender, __version__, programs
from ._rehearsal import Rehearsal, Rehearsed
from ._ring import AsyncRingKernel, Native, RingKernel, native
from ._groups import Group
from ._services import DeadLetter, DeadLetters, Monitor, Timer
from ._streams import Inlet, Outlet, Received, Topic
from .errors import *  # noqa: F403
from ._problem import Unsupported
from .types import actor_id, array, boolean, f32, f64, i8, i16, i32, i64, reply_id, struct, timer_id, u8, u16, u32, u64

__all__ = [
    "ActorClass",
    "Actors",
    "AsyncRingKernel",
    "BfsResult",
    "DeadLetter",
    "DeadLetters",
    "Engine",
    "Exit",
    "Exits",
    "Function",
    "Group",
    "Inlet",
    "Module",
    "Monitor",
    "Native",
    "Outlet",
    "Processes",
    "ProgramResult",
    "Received",
    "Receiver",
    "Rehearsal",
    "Rehearsed",
    "RingKernel",
    "Sender",
    "Timer",
    "Topic",
    "Transfers",
    "UnifiedBuffer",
    "Unsupported",
    "View",
    "__version__",
    "actor",
    "actor_id",
    "array",
    "boolean",
    "engine",
    "errors",
    "f32",
    "f64",
    "forward",
    "function",
    "i8",
    "i16",
    "i32",
    "i64",
    "keep",
    "native",
    "parent",
    "programs",
    "random_bits",
    "random_unit",
    "reply_id",
    "sender",
    "spawn",
    "struct",
    "timer_id",
    "u8",
    "u16",
    "u32",
    "u64",
    *errors.__all__,
]
