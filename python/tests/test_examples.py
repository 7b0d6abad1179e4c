"""The examples of the book run and print what the book says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import GUESTS, ROOT

EXAMPLES = {
    "processes": (
        [str(GUESTS / "hashes.wasm")],
        "10000 digests; the last is 9d895ffb5131726fbdfa91dc162fc6d44be6dc65007446bd4156f3499758ffe8",
    ),
    "search": ([], "the last vertex is 9999 edges away, and 10 vertices are nearer than 10"),
    "functions": ([], "the longest way begins at 77031 and has 350 steps; CPython says 350"),
    "actors": ([], "1000000 accounts; number 41 has 41"),
    "shop": ([], "the shop has 0 left, and its customers own 150"),
    "primes": ([], "there are 2262 primes below 20000"),
    "pipeline": ([], "200 chunks; NumPy gets the same energies: True"),
    "walkers": (["PLOT"], "the walkers stand on 394, 557, 642 places of 4096"),
}
#: What an example needs that the package does not.
NEEDS = {"search": "scipy", "walkers": "matplotlib"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_the_book_says(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"the example {name} needs {NEEDS[name]}, which is not installed")
    plot = tmp_path / "plot.png"
    arguments, expected = EXAMPLES[name]
    arguments = [str(plot) if argument == "PLOT" else argument for argument in arguments]
    command = [sys.executable, str(ROOT / "python" / "examples" / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected
    if str(plot) in arguments:
        assert plot.read_bytes().startswith(b"\x89PNG") and plot.stat().st_size > 5000


def test_every_example_has_a_test() -> None:
    files = {file.stem for file in (ROOT / "python" / "examples").glob("*.py")}
    assert files == set(EXAMPLES)
