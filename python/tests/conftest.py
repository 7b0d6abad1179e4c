"""What all tests share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import everwarp as ew
import pytest

ROOT = Path(__file__).resolve().parents[2]
GUESTS = ROOT / "guests" / "built"

#: (module (memory 1) (func (export "_start") (loop $forever (br $forever))))
ENDLESS = (
    b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x05\x03\x01\0\x01\x07\x0a\x01\x06_start\0\0\x0a\x09\x01\x07\0\x03\x40"
    b"\x0c\0\x0b\x0b"
)
#: (module (memory 1) (func $f (export "_start") unreachable))
TRAPS = (
    b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x05\x03\x01\0\x01\x07\x0a\x01\x06_start\0\0\x0a\x05\x01\x03\0\0\x0b"
)


def greeting(*args: object, variables: str = "", bytes_read: int = 0) -> bytes:
    """What `hello` prints."""
    lines = ["hello", "argument 0: hello.wasm", *(f"argument {n}: {arg}" for n, arg in enumerate(args, 1))]
    lines += [f"variable {variables}"] * bool(variables) + [f"standard input: {bytes_read} bytes", ""]
    return "\n".join(lines).encode()


def until(holds: Callable[[], object], seconds: float = 60.0) -> bool:
    """Waits until a function returns something true; false if it has not within the time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture(scope="session")
def engine() -> Iterator[ew.Engine]:
    with ew.engine("cpu") as engine:
        yield engine


@pytest.fixture
def cuda() -> None:
    """For tests that need a GPU with CUDA."""
    try:
        ew.engine("cuda").close()
    except ew.DeviceError as error:
        pytest.skip(f"no GPU: {error}")


@pytest.fixture(scope="session")
def hello() -> ew.Module:
    return ew.Module(GUESTS / "hello.wasm")


@pytest.fixture(scope="session")
def endless() -> ew.Module:
    return ew.Module(ENDLESS, name="endless")


@pytest.fixture(scope="session")
def traps() -> ew.Module:
    return ew.Module(TRAPS, name="traps")
