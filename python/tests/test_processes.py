"""Processes: what they get, what they return, and how they end."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import everwarp as ew
import numpy as np
import pytest

from conftest import GUESTS, greeting


def test_a_process_gets_its_arguments_and_environment(engine: ew.Engine, hello: ew.Module) -> None:
    exit = engine.run(hello, args=["one", "two"], env={"LANG": "C"}, stdin="four")
    assert exit.success and exit.code == 0 and exit.reason == "exited"
    assert exit.stdout == greeting("one", "two", variables="LANG=C", bytes_read=4)
    assert exit.stderr == b"" and not exit.output_refused and exit.elapsed > 0


def test_many_processes_return_their_outputs_in_order(engine: ew.Engine, hello: ew.Module) -> None:
    exits = engine.run(hello, args=["{instance}"], instances=2000)
    assert len(exits) == 2000 and exits.success and exits.failed == []
    assert exits.stdout == [greeting(n) for n in range(2000)]
    assert exits.joined() == b"".join(exits.stdout)
    assert exits.codes == [0] * 2000
    assert exits[-1].number == 1999 and exits[-1].stdout == greeting(1999)
    with pytest.raises(IndexError):
        exits[2000]
    assert sum(1 for _ in exits) == 2000


def test_without_instances_braces_stay(engine: ew.Engine, hello: ew.Module) -> None:
    assert engine.run(hello, args=["{instance}"]).stdout == greeting("{instance}")


def test_each_process_gets_its_own_input_and_arguments(engine: ew.Engine) -> None:
    texts = [f"text {n}" * n for n in range(300)]
    exits = engine.run(GUESTS / "hashes.wasm", args=["sha256"], each_stdin=texts, check=True)
    found = [line.split()[0].decode() for line in exits.stdout]
    assert found == [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    exits = engine.run(GUESTS / "hello.wasm", args=["a"], each_args=[["b"], ["c", "d"]])
    assert exits.stdout == [greeting("a", "b"), greeting("a", "c", "d")]
    with pytest.raises(ValueError, match="different numbers of processes: 3 and 2"):
        engine.run(GUESTS / "hello.wasm", instances=3, each_args=[["b"], ["c"]])


def test_arrays_are_inputs_and_outputs_become_arrays(engine: ew.Engine) -> None:
    rows = np.arange(40, dtype=np.int32).reshape(10, 4)
    exits = engine.run(GUESTS / "hashes.wasm", args=["sha256"], each_stdin=rows, check=True)
    assert exits.stdout[3].split()[0].decode() == hashlib.sha256(rows[3].tobytes()).hexdigest()
    assert len(np.frombuffer(exits.joined(), dtype=np.uint8)) == sum(map(len, exits.stdout))
    one = engine.run(GUESTS / "hashes.wasm", args=["sha256"], stdin=rows)
    assert one.stdout.split()[0].decode() == hashlib.sha256(rows.tobytes()).hexdigest()
    with pytest.raises(BufferError, match="ascontiguousarray"):
        engine.run(GUESTS / "hashes.wasm", args=["sha256"], stdin=rows[:, ::2])
    with pytest.raises(BufferError, match="two dimensions"):
        engine.run(GUESTS / "hashes.wasm", each_stdin=np.arange(3))
    with pytest.raises(TypeError, match="text, bytes or an array"):
        engine.run(GUESTS / "hashes.wasm", stdin=3)


def test_directories_are_granted_and_may_be_read_only(engine: ew.Engine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\nthree\n")
    words = GUESTS / "words.wasm"
    exit = engine.run(words, args=["/data"], dirs={"/data:ro": tmp_path})
    assert exit.success and b"2 3 14" in b" ".join(exit.stdout.split())
    assert not engine.run(words, args=["/data"]).success
    with pytest.raises(ew.SpawnFailed, match="cannot be opened"):
        engine.run(words, dirs={"/data": tmp_path / "missing"})
    with pytest.raises(TypeError, match="dirs maps names"):
        engine.run(words, dirs=str(tmp_path))


def test_a_trap_says_where_and_check_raises(engine: ew.Engine, traps: ew.Module) -> None:
    exit = engine.run(traps)
    assert not exit.success and exit.code is None and exit.reason == "trapped"
    assert exit.trap == ("unreachable", "function 0")
    with pytest.raises(ew.ProcessError, match="3 of 3 processes failed, first number 0: trap: unreachable") as caught:
        engine.run(traps, instances=3, check=True)
    assert caught.value.failed == [0, 1, 2] and caught.value.exit.reason == "trapped"


def test_fuel_and_memory_are_limits(engine: ew.Engine, endless: ew.Module, hello: ew.Module) -> None:
    exit = engine.run(endless, fuel=100_000)
    assert exit.reason == "out of fuel" and exit.fuel_used == 100_000
    with pytest.raises(ew.StartFailed, match="starts with"):
        engine.run(hello, memory=1000)
    assert engine.run(hello, memory=1 << 20, args=["x"]).stdout == greeting("x")
    with pytest.raises(ValueError, match="from 1 to"):
        engine.run(hello, fuel=0)


def test_output_beyond_the_limit_is_refused_and_reported(engine: ew.Engine, hello: ew.Module) -> None:
    exit = engine.run(hello, args=["x" * 100], output_limit=10)
    assert exit.output_refused and len(exit.stdout) <= 10


def test_a_timeout_ends_processes(engine: ew.Engine, endless: ew.Module) -> None:
    with pytest.raises(TimeoutError, match="were ended"):
        engine.run(endless, instances=3, timeout=0.1)
    deadline = time.monotonic() + 10
    while engine.ps():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_handle_waits_polls_and_kills(engine: ew.Engine, endless: ew.Module) -> None:
    processes = engine.start(endless, instances=2)
    assert len(processes) == 2 and processes.poll() is None
    with pytest.raises(TimeoutError, match="run on"):
        processes.wait(timeout=0.05)
    assert {row["pid"] for row in engine.ps()} >= set(processes.pids)
    processes.kill()
    exits = processes.wait(timeout=10)
    assert [exit.reason for exit in exits] == ["killed"] * 2
    again = processes.poll()
    assert again is not None and again.codes == [-1, -1]
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            processes.wait(timeout=wrong)


def test_bad_modules_are_refused_with_advice(engine: ew.Engine) -> None:
    with pytest.raises(ew.LoadFailed, match="no-such-file.wasm.*check the path"):
        ew.Module("no-such-file.wasm")
    with pytest.raises(ew.LoadFailed, match="no WebAssembly module"):
        ew.Module(b"#!/bin/sh")
    with pytest.raises(ew.LoadFailed, match="no function `_start`"):
        ew.Module(b"\0asm\x01\0\0\0")
    with pytest.raises(ew.LoadFailed, match="missing.wasm"):
        engine.run("missing.wasm")
    assert issubclass(ew.LoadFailed, ew.EverwarpError) and issubclass(ew.LoadFailed, ValueError)


def test_wrong_options_are_named(engine: ew.Engine, hello: ew.Module) -> None:
    with pytest.raises(TypeError, match="no option 'arguments'"):
        engine.run(hello, arguments=[])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="args is a list"):
        engine.run(hello, args="one")
    with pytest.raises(ValueError, match="instances must be"):
        engine.run(hello, instances=0)
    with pytest.raises(ValueError, match="capture"):
        engine.run(hello, stdout="file")  # type: ignore[call-overload]
    with pytest.raises(ew.SpawnFailed, match="zero byte"):
        engine.run(hello, args=["a\0b"])


def test_an_engine_ends_with_its_block(hello: ew.Module, endless: ew.Module) -> None:
    with ew.engine("cpu", size=1) as engine:
        processes = engine.start(endless)
        assert not engine.closed
    assert engine.closed
    assert processes.wait(timeout=10)[0].reason == "killed"
    with pytest.raises(ew.EngineClosed, match="with"):
        engine.run(hello)
    engine.close()


def test_unknown_engines_are_named() -> None:
    with pytest.raises(ValueError, match="cpu, cuda, wgpu or auto"):
        ew.engine("gpu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        ew.engine("cpu", size=0)
    with pytest.raises(ValueError, match="adapter"):
        ew.engine("cpu", adapter="llvmpipe")


def test_threads_share_an_engine_while_the_interpreter_runs_on(engine: ew.Engine, hello: ew.Module) -> None:
    found: dict[int, list[bytes]] = {}

    def work(number: int) -> None:
        found[number] = engine.run(hello, args=[str(number)], instances=50).stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [greeting(n)] * 50 for n in range(8)}


def test_the_interpreter_is_free_while_a_process_runs(engine: ew.Engine, endless: ew.Module) -> None:
    processes = engine.start(endless)
    ticks = 0

    def kill() -> None:
        nonlocal ticks
        for _ in range(20):
            ticks += 1
            time.sleep(0.001)
        processes.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    assert processes.wait(timeout=30)[0].reason == "killed"
    thread.join()
    assert ticks == 20


def test_a_fork_is_refused(engine: ew.Engine, hello: ew.Module) -> None:
    assert engine.run(hello).success
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            engine.run(hello)
            message = "no error"
        except ew.ForkedError as error:
            message = str(error)
        os.write(writer, message.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert 'get_context("spawn")' in pipe.read()
    assert os.waitpid(child, 0)[1] == 0


INTERRUPTED = """
import everwarp as ew, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
with ew.engine("cpu") as engine:
    processes = engine.start(bytes.fromhex(sys.argv[1]))
    try:
        print("started", flush=True)
        processes.wait() if sys.argv[2] == "wait" else engine.run(bytes.fromhex(sys.argv[1]))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("how", ["wait", "run"])
def test_control_c_ends_a_wait(how: str) -> None:
    from conftest import ENDLESS

    command = [sys.executable, "-c", INTERRUPTED, ENDLESS.hex(), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        watchdog = threading.Timer(60, child.kill)
        watchdog.start()
        try:
            assert child.stdout.readline() == "started\n"
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert child.wait() == 0
        finally:
            watchdog.cancel()
            child.kill()


def test_importing_is_quick_and_brings_no_numpy() -> None:
    code = "import sys, everwarp; print('numpy' in sys.modules, 'asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split()[0] == "False"
