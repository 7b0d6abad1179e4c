from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any, Self

__version__: str

def programs() -> list[tuple[str, str]]:
    """The native programs: their names, and what each does."""

def run_program(engine: Engine, name: str, verify: bool, given: dict[str, Any] | None) -> ProgramResult: ...
def bfs(engine: Engine, rows: Any, columns: Any, source: int) -> tuple[bytearray, bytearray, float]: ...

class Module:
    @staticmethod
    def from_file(path: str | PathLike[str]) -> Module: ...
    @staticmethod
    def from_bytes(name: str, bytes: bytes) -> Module: ...
    @property
    def name(self) -> str: ...
    @property
    def start_bytes(self) -> int: ...
    @property
    def uses_channels(self) -> bool: ...

class Exit:
    """How a process ended, what it used and what it wrote."""

    @property
    def pid(self) -> str:
        """The pid that the process had."""
    @property
    def number(self) -> int:
        """The number of the process among those that were started together, from 0."""
    @property
    def success(self) -> bool:
        """Whether the process exited by itself with code 0."""
    @property
    def code(self) -> int | None:
        """The exit code; `None` if the process did not exit by itself."""
    @property
    def reason(self) -> str:
        """`exited`, `trapped`, `killed`, `out of fuel` or `out of memory`."""
    @property
    def status(self) -> str:
        """The same with all that is known, as the command prints it."""
    @property
    def trap(self) -> tuple[str, str | None] | None:
        """The kind of the trap and the function that trapped; `None` if the process did not trap."""
    @property
    def fuel_used(self) -> int | None:
        """The fuel that it used; `None` where fuel is not counted."""
    @property
    def elapsed(self) -> float:
        """Seconds from its start to its end."""
    @property
    def stdout(self) -> bytes:
        """What it wrote to standard output."""
    @property
    def stderr(self) -> bytes:
        """What it wrote to standard error."""
    @property
    def output_refused(self) -> bool:
        """Whether it tried to write more than was kept; such a write fails for the process with `ENOSPC`."""

class Exits:
    """How processes that were started together ended, in the order of their numbers."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Exit: ...
    def __iter__(self) -> Iterator[Exit]: ...
    @property
    def stdout(self) -> list[bytes]:
        """What each process wrote to standard output."""
    @property
    def stderr(self) -> list[bytes]:
        """What each process wrote to standard error."""
    @property
    def codes(self) -> list[int]:
        """The exit codes; -1 for a process that did not exit by itself."""
    @property
    def success(self) -> bool:
        """Whether all processes exited by themselves with code 0."""
    @property
    def failed(self) -> list[int]:
        """The numbers of the processes that did not exit by themselves with code 0."""
    def joined(self) -> bytes:
        """What all processes wrote to standard output, one after the other."""

class Processes:
    def __len__(self) -> int: ...
    @property
    def pids(self) -> list[str]: ...
    def wait(self, timeout: float | None = None) -> Exits: ...
    def poll(self) -> Exits | None: ...
    def kill(self) -> None: ...
    def add_done_callback(self, callback: Callable[[], object]) -> None: ...

class Sender:
    """The end of a channel that sends."""

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Sends a message. While the channel is full it waits for up to `timeout` seconds, then raises `TimeoutError`."""

class Receiver:
    """The end of a channel that receives."""

    def receive(self, timeout: float | None = None) -> bytes:
        """Receives a message. While the channel is empty it waits for up to `timeout` seconds, then raises
        `TimeoutError`; when no sender is left it raises `ChannelClosed`."""

class ProgramResult:
    """The result of a native program."""

    @property
    def program(self) -> str: ...
    @property
    def elapsed(self) -> float:
        """Seconds from submission to completion, without reading input and copying results."""
    @property
    def text(self) -> str:
        """The whole result as lines of text, for programs that have one."""
    @property
    def verified(self) -> bool | None:
        """Whether the result equals the plain reference; `None` unless `verify` was given."""
    @property
    def result(self) -> int | None: ...
    @property
    def vertices(self) -> int | None: ...
    @property
    def edges(self) -> int | None: ...
    @property
    def reached(self) -> int | None: ...
    @property
    def levels(self) -> int | None: ...

class Engine:
    def __new__(cls, kind: str = "auto", size: int | None = None, adapter: str | None = None) -> Self: ...
    @property
    def kind(self) -> str:
        """`cpu`, `cuda` or `wgpu`."""
    @property
    def device(self) -> str:
        """The name of the device."""
    @property
    def why(self) -> str:
        """Why this device was chosen."""
    @property
    def closed(self) -> bool:
        """Whether the engine can no longer be used."""
    def close(self) -> None:
        """Ends all processes and frees the device. Closing an engine again does nothing."""
    def channel(self, capacity: int, message_bytes: int) -> tuple[Sender, Receiver]:
        """Makes a channel for `capacity` messages of up to `message_bytes` bytes each. The engine must have a module that
        imports `everwarp:gpu`: call `load` first."""
    def _check(self) -> None: ...
    def _set_parked(self, parked: bool) -> None: ...
    def _load(self, module: Module, memory: int | None, fuel: bool) -> None: ...
    def _start(self, *arguments: Any) -> Processes: ...
    def _finish(self, processes: Processes, timeout: float | None) -> Exits | None: ...
    def _list(self, limit: int) -> tuple[list[tuple[str, str, int | None, int | None]], int]: ...

class ActorSystem:
    def __new__(cls, engine: Engine, name: str, wasm: bytes, capacity: int, messages: int) -> Self: ...
    @property
    def why(self) -> str: ...
    def launch(self, count: int) -> bytearray: ...
    def tell(self, ids: memoryview, message: str, columns: list[Any]) -> None: ...
    def ask(self, ids: memoryview, message: str, columns: list[Any]) -> list[int]: ...
    def settle(self) -> None: ...
    def stop(self, ids: memoryview) -> None: ...
    def kill(self, ids: memoryview) -> None: ...
    def failures(self) -> tuple[list[str], int]: ...
    def close(self) -> None: ...

class Buffer:
    def __new__(cls, engine: Engine | None, dtype_name: str, shape: list[int], place: str) -> Self: ...
    @staticmethod
    def of_object(engine: Engine | None, object: Any, place: str) -> Buffer: ...
    @staticmethod
    def of_dlpack(engine: Engine | None, capsule: Any, place: str) -> Buffer: ...
    @staticmethod
    def of_arrow(engine: Engine | None, schema: Any, array: Any, place: str) -> Buffer: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def strategy(self) -> str: ...
    @property
    def readonly(self) -> bool: ...
    def transfers(self) -> tuple[int, int, int, int]: ...
    def newer(self) -> tuple[int, int]: ...
    def holders(self) -> list[str]: ...
    def part(self, begin: int, end: int) -> Buffer: ...
    def reshaped(self, shape: list[int]) -> Buffer: ...

class View:
    def __new__(cls, buffer: Buffer, device: bool, writes: bool) -> Self: ...
    @property
    def readonly(self) -> bool:
        """Whether arrays of this view may only be read."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def dlpack(self, versioned: bool, copied: bool) -> Any: ...
    def arrow(self, device: bool) -> tuple[Any, Any]: ...

class RingKernel:
    def __new__(
        cls,
        engine: Engine,
        name: str,
        input: tuple[str, list[int]],
        output: tuple[str, list[int]],
        capacity: int,
        wasm: bytes | None,
        address: int,
        state: Buffer | None,
        keep: Any,
    ) -> Self: ...
    def activate(self) -> None: ...
    def deactivate(self) -> None: ...
    def terminate(self, timeout: float | None) -> None: ...
    def close(self) -> None: ...
    def send(self, message: Any, input: Buffer | None, output: Buffer | None, timeout: float | None) -> bool: ...
    def send_or_wake(
        self, message: Any, input: Buffer | None, output: Buffer | None, wake: Callable[[], None]
    ) -> bool: ...
    def receive(self, timeout: float | None) -> tuple[int, bytearray] | None: ...
    def receive_or_wake(self, wake: Callable[[], None]) -> tuple[int, bytearray] | None: ...
    def stats(self) -> tuple[int, int, int, int, int]: ...
