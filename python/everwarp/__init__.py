"""Run WebAssembly processes and native programs on a GPU, or on the CPU.

>>> import everwarp as ew
>>> with ew.engine("cpu") as engine:
...     exits = engine.run("hello.wasm", args=["{instance}"], instances=1000)
>>> exits.stdout[999].splitlines()[2]
b'argument 1: 999'
"""

from __future__ import annotations

from . import errors
from ._engine import BfsResult, Engine, Processes, engine
from ._module import Module
from ._native import Exit, Exits, ProgramResult, Receiver, Sender, __version__, programs
from .errors import *  # noqa: F403

__all__ = [
    "BfsResult",
    "Engine",
    "Exit",
    "Exits",
    "Module",
    "Processes",
    "ProgramResult",
    "Receiver",
    "Sender",
    "__version__",
    "engine",
    "errors",
    "programs",
    *errors.__all__,
]
