"""Engines: a device, and what runs there for this program."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import os
import threading
import weakref
from array import array
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Union, Unpack, overload

from . import _native
from ._actor import ActorClass, Actors
from ._buffer import Strategy, UnifiedBuffer
from ._function import Function
from ._module import Module, ModuleCache, Source
from ._native import Exit, Exits, ProgramResult, Receiver, Sender
from ._ring import CAPACITY, RingKernel
from ._program import Program, System
from ._groups import Group, Policy, Strategy as Restarted, members_of
from ._services import DeadLetters
from ._streams import Inlet, Outlet, Topic, one
from .errors import FunctionError, ProcessError, StartFailed, WrongEngine

Kind = Literal["auto", "cpu", "cuda", "wgpu"]
Stream = Literal["capture", "inherit", "lines", "tagged"]
PathLike = Union[str, "os.PathLike[str]"]
#: Text, bytes, or an object with the buffer protocol, such as a contiguous array.
Input = Any

OUTPUT_LIMIT = 1 << 20
#: The exit code of a process whose function failed.
FAILED = 101
#: The most actors of one class, and the most messages that wait for them.
ACTORS, MESSAGES = 1 << 26, (1 << 28) - 1


class Options(TypedDict, total=False):
    """What `Engine.run` and `Engine.start` grant to all processes; `Engine.run` describes each."""

    args: Sequence[str]
    stdin: Input
    env: Mapping[str, str] | None
    dirs: Mapping[str, PathLike] | Sequence[str]
    fuel: int | None
    memory: int | None
    stdout: Stream
    stderr: Stream
    output_limit: int
    handles: int | None
    channels: Sequence[Sender | Receiver]


@dataclass(frozen=True)
class BfsResult:
    """The result of a breadth-first search, by vertex.

    `levels` is the distance from the source in edges, and `parents` the smallest neighbour in the level before; -1 means
    unreached. Both are memory views of int64: `numpy.asarray(result.levels)` is an array without a copy.
    """

    levels: memoryview
    parents: memoryview
    #: Seconds inside the engine.
    elapsed: float


class Processes:
    """Processes that were started together.

    `wait()` returns their exits; so does `await`. Dropping the handle ends no process: they run on until they exit or the
    engine is closed.
    """

    def __init__(self, inner: _native.Processes, single: bool) -> None:
        self._inner = inner
        self._single = single

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def pids(self) -> list[str]:
        """The pids, in the order of the processes' numbers."""
        return self._inner.pids

    def wait(self, timeout: float | None = None) -> Exits:
        """Waits until all processes have exited.

        Raises
        ------
        TimeoutError
            They have not exited after `timeout` seconds; they run on.
        """
        return self._inner.wait(timeout)

    def poll(self) -> Exits | None:
        """The exits if all processes have exited, otherwise `None`."""
        return self._inner.poll()

    def kill(self) -> None:
        """Asks all processes to end. Those that have exited keep their status."""
        self._inner.kill()

    async def _wait(self) -> Exits:
        loop = asyncio.get_running_loop()
        finished = loop.create_future()

        def finish() -> None:
            if not finished.done():
                finished.set_result(None)

        def wake() -> None:
            # A loop that was closed meanwhile has no waiter left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(finish)

        self._inner.add_done_callback(wake)
        await finished
        return self._inner.wait()

    def __await__(self) -> Generator[Any, None, Exits]:
        return self._wait().__await__()

    def __repr__(self) -> str:
        return repr(self._inner)


def _checked(exits: Exits) -> None:
    failed = exits.failed
    if not failed:
        return
    first = exits[failed[0]]
    stderr = first.stderr.decode(errors="replace").strip()
    more = f"; it wrote: {stderr[:500]}" if stderr else ""
    message = f"{len(failed)} of {len(exits)} processes failed, first number {failed[0]}: {first.status}{more}"
    raise ProcessError(message, first, failed)


def _directories(dirs: Any) -> list[tuple[str, str, bool]]:
    if isinstance(dirs, (str, os.PathLike)):
        raise TypeError('dirs maps names that processes see to directories of this machine: dirs={"/data": "./data"}')
    if not isinstance(dirs, Mapping):
        dirs = {path: path for path in dirs}
    named = []
    for guest, path in dirs.items():
        guest, read_only = os.fspath(guest), False
        if guest.endswith(":ro"):
            guest, read_only = guest[:-3], True
        named.append((os.fspath(path), guest, read_only))
    return named


def _limit_of(fuel: int | None) -> int | None:
    if fuel is not None and not 1 <= fuel < 2**63:
        raise ValueError(f"the fuel must be from 1 to 2^63 - 1, not {fuel}")
    return fuel


class Engine(_native.Engine):
    """A device, and what is resident there. Use it in a `with` block; `everwarp.engine` makes one.

    Threads may share an engine. A child of `fork` may not use it.
    """

    def __new__(cls, kind: Kind = "auto", *, size: int | None = None, adapter: str | None = None) -> Engine:
        made = super().__new__(cls, kind, size, adapter)
        made._modules = ModuleCache()
        made._systems = {}
        made._spawning = threading.Lock()
        made._rings = weakref.WeakSet()
        return made

    _modules: ModuleCache
    _systems: dict[ActorClass, System]
    _spawning: threading.Lock
    _rings: weakref.WeakSet[RingKernel]

    def close(self) -> None:
        """Ends all processes and actors, and frees the device. Closing an engine again does nothing."""
        with self._spawning:
            systems = self._programs()
            self._systems.clear()
            super().close()
        for ring in list(self._rings):
            if ring._inner is not None:
                ring._inner.close()
        for system in systems:
            system.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def load(self, module: Module | Source, *, memory: int | None = None, fuel: bool = False) -> Module:
        """Compiles a module now, so that its first process starts sooner. `fuel` says that its processes will be limited.

        Raises
        ------
        LoadFailed, StartFailed
            The module is refused, or there is no room for its processes.
        """
        found = self._modules.get(module)
        super()._load(found._inner, memory, fuel)
        return found

    def start(
        self,
        module: Module | Source,
        *,
        instances: int | None = None,
        each_args: Iterable[Sequence[str]] | None = None,
        each_stdin: Any = None,
        **options: Unpack[Options],
    ) -> Processes:
        """Starts processes and does not wait for them. The parameters are those of `run`, which waits."""
        if instances is not None and not 1 <= instances < 2**32:
            raise ValueError(f"instances must be from 1 to 2^32 - 1, not {instances}")
        args = options.get("args", ())
        if isinstance(args, (str, bytes)):
            raise TypeError(f"args is a list of texts, not one text: args=[{args!r}]")
        own_args = None if each_args is None else [[str(arg) for arg in own] for own in each_args]
        if isinstance(each_stdin, (str, bytes, bytearray)):
            raise TypeError("each_stdin is a list with an input for each process, or an array with a row for each")
        if each_stdin is not None and not hasattr(each_stdin, "__len__"):
            each_stdin = list(each_stdin)
        single = instances is None and own_args is None and each_stdin is None
        unknown = set(options) - set(Options.__annotations__)
        if unknown:
            names = ", ".join(Options.__annotations__)
            raise TypeError(f"there is no option {min(unknown)!r}: there are instances, each_args, each_stdin, {names}")
        started = super()._start(
            self._modules.get(module)._inner,
            instances,
            [str(arg) for arg in args],
            own_args,
            options.get("stdin"),
            each_stdin,
            [(str(name), str(value)) for name, value in (options.get("env") or {}).items()],
            _directories(options.get("dirs", ())),
            options.get("stdout", "capture"),
            options.get("stderr", "capture"),
            options.get("output_limit", OUTPUT_LIMIT),
            _limit_of(options.get("fuel")),
            options.get("memory"),
            options.get("handles"),
            list(options.get("channels", ())),
        )
        return Processes(started, single)

    @overload
    def run(
        self,
        module: Module | Source,
        *,
        instances: None = None,
        each_args: None = None,
        each_stdin: None = None,
        timeout: float | None = None,
        check: bool = False,
        **options: Unpack[Options],
    ) -> Exit: ...

    @overload
    def run(
        self,
        module: Module | Source,
        *,
        instances: int | None = None,
        each_args: Iterable[Sequence[str]] | None = None,
        each_stdin: Any = None,
        timeout: float | None = None,
        check: bool = False,
        **options: Unpack[Options],
    ) -> Exits: ...

    def run(
        self,
        module: Module | Source,
        *,
        instances: int | None = None,
        each_args: Iterable[Sequence[str]] | None = None,
        each_stdin: Any = None,
        timeout: float | None = None,
        check: bool = False,
        **options: Unpack[Options],
    ) -> Exit | Exits:
        """Runs a process to its end, or many.

        Parameters
        ----------
        module
            A `Module`, the path of a `.wasm` file (compiled once for each engine), or its bytes.
        instances
            How many processes to run. In `args` and the values of `env`, `{instance}` is then the number of the process.
        args
            The arguments of each process, after the module's name.
        each_args
            Further arguments for each process: one list for each.
        stdin
            The standard input of every process: text, bytes or an array. Without it the input is empty.
        each_stdin
            The standard input of each process: a list of texts, bytes or arrays, or an array whose rows are the inputs.
        env
            Environment variables. Nothing is inherited.
        dirs
            Directories that processes may use: `{"/data": "./data"}`. A name that ends with `:ro` may only be read.
        fuel
            Limits how much each process may execute.
        memory
            Limits the bytes of memory that each process may have.
        stdout, stderr
            `"capture"` keeps up to `output_limit` bytes (1 MiB) for the exit; `"inherit"` passes them to the file
            descriptors of this program, `"lines"` in whole lines, `"tagged"` with the pid before each line.
        handles
            Limits how many files each process may have open.
        channels
            Ends of channels, which become the process's handles from 0.
        timeout
            Ends the processes after this many seconds and raises `TimeoutError`.
        check
            Raises `ProcessError` if a process does not exit by itself with code 0.

        Returns
        -------
        Exit or Exits
            `Exit` for a single process. `Exits`, a sequence of them, with `instances`, `each_args` or `each_stdin`;
            its `stdout` is a list of bytes.

        Ctrl-C ends the processes and raises `KeyboardInterrupt`.
        """
        processes = self.start(
            module, instances=instances, each_args=each_args, each_stdin=each_stdin, **options
        )
        exits = super()._finish(processes._inner, timeout)
        if exits is None:
            raise TimeoutError(f"the processes had not ended after {timeout} s and were ended")
        return self._result(processes, exits, check)

    @staticmethod
    def _result(processes: Processes, exits: Exits, check: bool) -> Exit | Exits:
        if check:
            _checked(exits)
        return exits[0] if processes._single else exits

    async def run_async(
        self,
        module: Module | Source,
        *,
        instances: int | None = None,
        each_args: Iterable[Sequence[str]] | None = None,
        each_stdin: Any = None,
        timeout: float | None = None,
        check: bool = False,
        **options: Unpack[Options],
    ) -> Any:
        """The same as `run` for asyncio. Cancelling it ends the processes."""

        def start() -> Processes:
            return self.start(module, instances=instances, each_args=each_args, each_stdin=each_stdin, **options)

        processes = await asyncio.to_thread(start)
        try:
            exits = await asyncio.wait_for(processes._wait(), timeout)
        except BaseException:
            processes.kill()
            raise
        return self._result(processes, exits, check)

    def map(self, function: Function, *inputs: Any, chunk: int | None = None) -> Any:
        """Runs a compiled function for each element of its inputs, in processes.

        Parameters
        ----------
        function
            What `everwarp.function` has made.
        inputs
            One array or sequence for each parameter, all of the same length. A parameter that is an array takes rows.
        chunk
            How many elements a process computes; by default such that all cores, or enough lanes of a GPU, have work.

        Returns
        -------
        numpy.ndarray or memoryview
            The results, as an array if an input is one.

        Raises
        ------
        FunctionError
            An element failed; the first one is named, with the line.
        """
        from ._function import Function as Compiled

        if not isinstance(function, Compiled):
            raise TypeError("map runs functions that are decorated with @everwarp.function")
        module = function.module
        result = function._signature.result
        assert result is not None
        data, count, size = function._records(inputs)
        if chunk is None:
            # Some processes for each core, so that an uneven load evens out; on a GPU a process is one lane.
            chunk = -(-count // (8 * (os.cpu_count() or 1) if self.kind == "cpu" else 16_384)) or 1
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1, not {chunk}")
        view = memoryview(data)
        parts = [view[first * size : (first + chunk) * size] for first in range(0, count, chunk)]
        out = b""
        if parts:
            exits = self.run(module, each_stdin=parts, output_limit=max(chunk * result.size, 64))
            for number in exits.failed:
                exit = exits[number]
                if exit.code == FAILED:
                    raise function._failure(exit.stderr, number * chunk)
                raise FunctionError(f"elements {number * chunk} and later: {exit.status}", number * chunk)
            out = exits.joined()
        if any(hasattr(item, "__array__") for item in inputs):
            import numpy as np

            return np.frombuffer(bytearray(out), dtype="?" if result.kind == "b" else "<" + result.code)
        code: Any = result.code
        return memoryview(out).cast(code)

    def spawn(
        self, cls: Any, count: int | None = None, *, capacity: int | None = None, messages: int | None = None
    ) -> Actors:
        """Makes actors of a class that is decorated with `everwarp.actor`: one, or `count`.

        The first call for a class starts its program: the class with those that it names, those that name it, and so on. Their
        actors can send to each other.

        They run on the device of the engine if it can run all classes of the program. An engine that chose a GPU by itself
        runs others on the CPU; `Actors.why` says so.

        Parameters
        ----------
        cls
            The class.
        count
            How many actors; a single one without it.
        capacity
            How many actors of this class and its program live at a time. The first call for a class of them decides; by default it is twice as many
            as that call makes, and at least 65,536.
        messages
            How many messages to them wait at a time, by default four for each of `capacity`. If handlers
            send more, all these actors end. The program's own messages wait until there is room.

        Raises
        ------
        StartFailed
            There is no room for that many, or the engine was made for a GPU that cannot run a class of the program yet.
        """
        if not isinstance(cls, ActorClass):
            raise TypeError("spawn makes actors of a class that is decorated with @everwarp.actor")
        number = 1 if count is None else operator.index(count)
        if not 1 <= number <= ACTORS:
            raise ValueError(f"count must be from 1 to {ACTORS}, not {number}")
        system = self._system_for(cls, number, capacity, messages)
        ids = memoryview(system.launch(system.numbers[cls], number)).cast("Q")
        return Actors(cls, system, ids, count is None)

    def _system_for(
        self, cls: ActorClass, number: int, capacity: int | None, messages: int | None
    ) -> System:
        """The system of a class and its program, which the first call starts."""
        with self._spawning:
            self._check()
            system = self._systems.get(cls)
            if system is None:
                room = capacity if capacity is not None else min(max(2 * number, 1 << 16), ACTORS)
                if not number <= room <= ACTORS:
                    raise ValueError(f"capacity must be from {number}, which is `count`, to {ACTORS}, not {room}")
                waiting = messages if messages is not None else min(4 * room, MESSAGES)
                if not 1 <= waiting <= MESSAGES:
                    raise ValueError(f"messages must be from 1 to {MESSAGES}, not {waiting}")
                program = Program(cls)
                for other in program.classes:
                    if other in self._systems:
                        raise StartFailed(
                            f"{cls.name} belongs to one program with {other.name}, whose actors were spawned on this engine before "
                            f"{cls.name} was defined: define both classes before the first spawn, or use another engine"
                        )
                system = System(self, program, room, waiting)
                self._systems.update(dict.fromkeys(program.classes, system))
            elif capacity is not None or messages is not None:
                raise ValueError(
                    f"{cls.name} has its capacity already: pass it to the first spawn of the class, or of a class of its program"
                )
        return system

    def at(self, cls: Any, key: int, *, capacity: int | None = None, messages: int | None = None) -> Actors:
        """The actor of a class that has a key, from 0 to 2^64 - 1. The first use of a key makes it, and so does the first
        after its end.

        `capacity` and `messages` are those of `spawn`, for the first use of the class.
        """
        if not isinstance(cls, ActorClass):
            raise TypeError("at finds actors of a class that is decorated with @everwarp.actor")
        number = operator.index(key)
        if not 0 <= number < 2**64:
            raise ValueError(f"a key is from 0 to 2^64 - 1, not {number}")
        system = self._system_for(cls, 1, capacity, messages)
        return Actors(cls, system, one(system.at(system.numbers[cls], number)), True)

    def actors(self, cls: Any, ids: Any) -> Actors:
        """The actors of a class that have these ids, as handlers return them: one id, or a sequence or array of them."""
        system = self._system(cls)
        if not hasattr(ids, "__len__"):
            return Actors(cls, system, one(operator.index(ids)), True)
        words = array("Q", (operator.index(number) for number in ids))
        return Actors(cls, system, memoryview(words), False)

    def supervise(
        self,
        members: Any,
        *,
        strategy: Restarted = "one_for_one",
        policy: Policy = "permanent",
        restarts: int = 3,
        within: float = 5.0,
    ) -> Group:
        """Restarts actors that fail or end.

        Parameters
        ----------
        members
            Actors of one class, or a list of actors, of groups, and of pairs such as `(actor, "temporary")` with a policy of
            their own. A group that has used up its restarts is restarted as a whole.
        strategy
            Which members are restarted when one is: `"one_for_one"`, `"one_for_all"`, or `"rest_for_one"`, which is that one
            and those after it.
        policy
            When a member is restarted: `"permanent"` however it ends, `"transient"` when it fails or is killed,
            `"temporary"` never.
        restarts, within
            How often, within how many seconds. Once more ends the group, and kills its members.
        """
        system, parts = members_of(members, policy)
        if system not in self._systems.values():
            self._check()
            raise WrongEngine("these actors are on another engine")
        often = operator.index(restarts)
        if not 0 <= often < 2**32:
            raise ValueError(f"`restarts` is from 0 to 2^32 - 1, not {often}")
        return Group(_native.supervise(system, parts, strategy, often, within), system)

    def topic(self, cls: Any) -> Topic:
        """A topic: what is sent to it goes on to the actors of the class that subscribe."""
        system = self._system(cls)
        return Topic(cls, system, _native.topic(system))

    def outlet(self, cls: Any, credits: int = 1024) -> Outlet:
        """A stream from actors of a class to the program, in which up to `credits` messages wait."""
        system = self._system(cls)
        return Outlet(cls, system, _native.outlet(system, operator.index(credits)))

    def inlet(self, actor: Actors, credits: int = 1024) -> Inlet:
        """A stream from the program to an actor, in which up to `credits` messages wait."""
        if not isinstance(actor, Actors):
            raise TypeError(f"an inlet leads to a single actor, and not to {actor!r}")
        if self._system(actor._class) is not actor._system:
            raise WrongEngine("this actor is on another engine")
        return Inlet(actor._class, actor._system, _native.inlet(actor._system, actor.id, operator.index(credits)))

    def buffer(self, shape: Any, dtype: Any = "f64", *, strategy: Strategy = "pinned") -> UnifiedBuffer:
        """A `UnifiedBuffer` of zeros for this engine."""
        return UnifiedBuffer(shape, dtype, strategy=strategy, engine=self)

    def ring_kernel(
        self,
        handler: Any,
        *,
        input: Any = None,
        output: Any = None,
        capacity: int = CAPACITY,
        state: UnifiedBuffer | None = None,
    ) -> RingKernel:
        """Makes a ring kernel: a handler that is launched once, and handles messages one at a time and in order.

        An engine that was made with `"cuda"` runs it on the GPU. One that chose a GPU by itself does so if the handler has
        CUDA C++, and runs others on the CPU. `kind` and `why` of the kernel say where it runs.

        Parameters
        ----------
        handler
            A function with `@everwarp.function` that takes two arrays, the message and the result, and returns `None`. A third
            parameter, a struct, is its state. Or a function of ctypes, a Numba `cfunc`, an address, or what
            `everwarp.native` has made, whose C form is
            `int32_t f(const T *input, uint64_t inputs, U *output, uint64_t outputs, void *state)`; the numbers count
            elements, and a result other than 0 fails the message. On a GPU a handler is a compiled function, which one thread runs, or
            CUDA C++ of `everwarp.native`, which all threads of a block run.
        input, output
            The type and the shape of a message, and of a result: `(everwarp.f32, 1024)`. A compiled function knows them.
        capacity
            How many messages wait, and how many results. A sender waits when there is no room.
        state
            A buffer that a function of C or CUDA C++ has for itself as long as the kernel lives.
        """
        return RingKernel(self, handler, input, output, operator.index(capacity), state)

    @contextlib.contextmanager
    def parked(self) -> Generator[Engine, None, None]:
        """Parks what is resident on the device for a `with` block, so that other libraries can use it.

        Libraries such as CuPy and PyTorch wait for ever next to a resident kernel. On the CPU engine nothing is in their way,
        and native programs and ring kernels pause. An engine with processes on a GPU cannot be parked yet, and raises `EngineError`.
        """
        self._set_parked(True)
        try:
            yield self
        finally:
            if not self.closed:
                self._set_parked(False)

    def settle(self) -> None:
        """Waits until actors have handled all messages. It does not return while they send messages without an end."""
        self._check()
        for system in self._programs():
            system.settle()

    def _programs(self) -> list[System]:
        """The systems, each once."""
        return list(dict.fromkeys(self._systems.values()))

    def _system(self, cls: Any) -> System:
        if not isinstance(cls, ActorClass):
            raise TypeError("pass a class that is decorated with @everwarp.actor")
        self._check()
        system = self._systems.get(cls)
        if system is None:
            raise ValueError(f"{cls.name} has no actors on this engine: spawn some first")
        return system

    def lookup(self, cls: Any, name: str) -> Actors | None:
        """The actor of a class that has a name, which `Actors.register` gives; `None` if there is none."""
        system = self._system(cls)
        found = _native.lookup(system, system.title(cls, name))
        return None if found is None else Actors(cls, system, one(found), True)

    def unregister(self, cls: Any, name: str) -> bool:
        """Takes the name of an actor away. Returns whether there was one."""
        system = self._system(cls)
        return _native.unregister(system, system.title(cls, name))

    def dead_letters(self, cls: Any, most: int = 1024) -> DeadLetters:
        """Subscribes to the messages to actors of a class and its program that were not handled, and to asks without a reply.

        Up to `most` wait for the subscriber; those that come when it is full are lost, and counted.
        """
        system = self._system(cls)
        return DeadLetters(system, _native.dead_letters(system, operator.index(most)))

    def failures(self) -> list[str]:
        """Why actors failed: up to 64 reasons for each program, the oldest first."""
        self._check()
        return [reason for system in self._programs() for reason in system.failures()[0]]

    def ps(self, limit: int = 1000) -> list[dict[str, Any]]:
        """Up to `limit` of the processes that have not been waited for: those that run first."""
        rows, _ = super()._list(limit)
        return [dict(zip(("pid", "stage", "fuel_used", "memory_bytes"), row)) for row in rows]

    def run_program(self, name: str, *, verify: bool = False, **options: Any) -> ProgramResult:
        """Runs a native program of `everwarp.programs()`. Options are those of the command `everwarp run NAME`.

        `verify` compares the result with the plain reference.

        >>> engine.run_program("fib", n=20).result
        6765

        Raises
        ------
        ProgramError
            An option or the input is wrong, or the result is.
        """
        return _native.run_program(self, name, verify, options)

    def bfs(self, graph: Any, source: int = 0) -> BfsResult:
        """Searches a graph breadth first from a vertex.

        Parameters
        ----------
        graph
            A square SciPy sparse matrix or array, where an entry (v, w) is an edge from v to w; or a pair of the row
            offsets and the columns of its CSR form.
        source
            The vertex to start from.
        """
        offsets, columns = _csr(graph)
        if not 0 <= source < 2**32:
            raise ValueError(f"source {source} is no vertex: they are 0 to {len(offsets) - 2}")
        levels, parents, elapsed = _native.bfs(self, offsets, columns, source)
        return BfsResult(memoryview(levels).cast("q"), memoryview(parents).cast("q"), elapsed)


def _csr(graph: Any) -> tuple[Any, Any]:
    """The row offsets and columns of a graph, as buffers of 32-bit numbers."""
    if hasattr(graph, "tocsr"):
        rows, columns = graph.shape
        if rows != columns:
            raise ValueError(f"a graph is a square matrix, not {rows} by {columns}")
        graph = graph.tocsr()
        graph = (graph.indptr, graph.indices)
    try:
        offsets, columns = graph
    except (TypeError, ValueError):
        raise TypeError("a graph is a SciPy sparse matrix, or a pair of row offsets and columns") from None
    return _u32(offsets), _u32(columns)


def _u32(values: Any) -> Any:
    if hasattr(values, "astype"):
        if values.size and (values.min() < 0 or values.max() >= 2**32):
            raise ValueError("row offsets and columns must be from 0 to 2^32 - 1")
        return values.astype("uint32", order="C", copy=False)
    code = "I" if array("I").itemsize == 4 else "L"
    try:
        return array(code, values)
    except OverflowError:
        raise ValueError("row offsets and columns must be from 0 to 2^32 - 1") from None


def engine(kind: Kind = "auto", *, size: int | None = None, adapter: str | None = None) -> Engine:
    """Opens a device: a GPU if there is one, otherwise the host's cores.

    Parameters
    ----------
    kind
        `"auto"`, `"cpu"`, `"cuda"` or `"wgpu"`.
    size
        Threads on the CPU, blocks on a GPU; by default as many as the device holds.
    adapter
        With `"wgpu"`, a part of the adapter's name.

    Raises
    ------
    DeviceError
        There is no such device; the message says why.
    """
    return Engine(kind, size=size, adapter=adapter)
