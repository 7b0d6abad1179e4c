"""Runs a function of Python for each element of an array, compiled."""

import everwarp as ew
import numpy as np


@ew.function
def collatz(n: ew.i64) -> ew.i64:
    """The number of steps to 1."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


with ew.engine() as engine:
    steps = engine.map(collatz, np.arange(1, 100_001))

print("the longest way begins at", steps.argmax() + 1, "and has", steps.max(), "steps; CPython says", collatz(77_031))
