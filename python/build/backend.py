"""Builds the wheel: maturin's backend, with the command `everwarp` put into the wheel before.

The command is a program of its own and not a function of the extension, because the service starts it again for each
of its engines.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin

PYTHON = Path(__file__).resolve().parent.parent
ROOT = PYTHON.parent

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
build_sdist = maturin.build_sdist


#: What goes into the wheel as it is. maturin wants the folder to exist from the beginning.
SCRIPTS = PYTHON / "everwarp.data" / "scripts"


def prepare_metadata_for_build_wheel(directory: str, settings: Any = None) -> str:
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(directory, settings)


def build_wheel(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    # With the features of the whole workspace, so that what its tests have built is not built again.
    build = ["cargo", "build", "--release", "--locked", "--workspace", "--bin", "everwarp"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    command = SCRIPTS / "everwarp"
    shutil.copy2(target / "release" / "everwarp", command)
    subprocess.run(["strip", str(command)], check=True)
    return maturin.build_wheel(directory, settings, metadata)
