"""What is in the package."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import everwarp as ew
import pytest


def installed() -> bool:
    """Whether the package was installed from a wheel, which also carries the command."""
    try:
        files = metadata.distribution("everwarp").files or []
    except metadata.PackageNotFoundError:
        return False
    return any(file.name == "everwarp" for file in files)


@pytest.mark.skipif(not installed(), reason="the package was not installed from a wheel")
def test_the_command_comes_with_the_package(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("everwarp")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"everwarp {ew.__version__}\n"
    run = [str(command), "run", "fib", "--n", "10", "--engine", "cpu", "--alone", "--json"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0 and '"result": 55' in done.stdout, done.stdout + done.stderr


def test_types_are_published() -> None:
    files = resources.files("everwarp")
    assert (files / "py.typed").is_file() and (files / "_native.pyi").is_file()


def test_every_public_name_exists_and_is_documented() -> None:
    for name in ew.__all__:
        item = getattr(ew, name)
        if not name.startswith("__") and callable(item):
            assert item.__doc__, name
