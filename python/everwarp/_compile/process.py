"""A function as a process: it reads records from standard input and writes a result for each to standard output."""

from __future__ import annotations

from typing import Any

from . import wasm
from .module import STACK_HIGH, ModuleCompiler, Signature
from .values import ArrayType, StructType
from .wasm import OP, FunctionBody, get, if_, set_

WASI = "wasi_snapshot_preview1"
#: Addresses: the vector of a call, the number of bytes, and the report of a failure (reason, line, record).
VECTOR, COUNT, REPORT = 0, 8, 16
#: The code of a process whose function failed.
FAILED = 101
INPUT = STACK_HIGH
#: The bytes of input and of output that are buffered.
BUFFER = 16 << 10


def record(signature: Signature) -> tuple[list[int], int]:
    """Where each parameter is in a record, and the record's size."""
    offset, offsets = 0, []
    for _, kind in signature.parameters:
        step = kind.element.size if isinstance(kind, ArrayType) else 8 if isinstance(kind, StructType) else kind.size
        offset = -(-offset // step) * step
        offsets.append(offset)
        offset += kind.size
    return offsets, max(-(-offset // 8) * 8, 8)


def make_fail(exit_: int, write: int) -> FunctionBody:
    """(reason, line): writes the report to standard error and exits."""
    code = wasm.i32(REPORT) + get(0) + wasm.memory(0x36, 0)
    code += wasm.i32(REPORT) + get(1) + wasm.memory(0x36, 4)
    code += wasm.i32(REPORT) + wasm.global_get(1) + wasm.memory(0x37, 8)
    code += wasm.i32(VECTOR) + wasm.i32(REPORT) + wasm.memory(0x36, 0)
    code += wasm.i32(VECTOR) + wasm.i32(16) + wasm.memory(0x36, 4)
    code += wasm.i32(2) + wasm.i32(VECTOR) + wasm.i32(1) + wasm.i32(COUNT) + wasm.call(write) + wasm.DROP
    code += wasm.i32(FAILED) + wasm.call(exit_) + wasm.UNREACHABLE
    return FunctionBody("fail", [wasm.I32, wasm.I32], [], [], code)


def compile_process(signature: Signature) -> bytes:
    """The module of a function."""
    module = ModuleCompiler()
    writer = module.writer
    i32 = wasm.I32
    read = writer.import_function(WASI, "fd_read", [i32] * 4, [i32])
    write = writer.import_function(WASI, "fd_write", [i32] * 4, [i32])
    exit_ = writer.import_function(WASI, "proc_exit", [i32], [])
    writer.add_global(i32, wasm.i32(STACK_HIGH))
    writer.add_global(wasm.I64, wasm.i64(0))
    module.fail = module.add(make_fail(exit_, write))
    function = module.function(signature)
    offsets, size = record(signature)
    result = signature.result
    assert result is not None
    records = max(BUFFER // size, 1)
    output = INPUT + -(-records * size // 8) * 8
    writer.pages = -(-(output + records * result.size) // (64 << 10))

    at, out, filled, end = range(4)
    wrong = if_(wasm.i32(2) + wasm.call(exit_))

    def transfer(call: int, descriptor: int, address: bytes, length: bytes) -> bytes:
        code = wasm.i32(VECTOR) + address + wasm.memory(0x36, 0) + wasm.i32(VECTOR) + length + wasm.memory(0x36, 4)
        code += wasm.i32(descriptor) + wasm.i32(VECTOR) + wasm.i32(1) + wasm.i32(COUNT) + wasm.call(call)
        return code + wrong + wasm.i32(COUNT) + wasm.memory(0x28, 0)

    room = wasm.i32(records * size) + get(filled) + OP["i32.sub"]
    took = transfer(read, 0, wasm.i32(INPUT) + get(filled) + OP["i32.add"], room) + wasm.tee(end)
    fill = took + OP["i32.eqz"] + wasm.branch_if(1) + get(filled) + get(end) + OP["i32.add"] + wasm.tee(filled)
    fill = wasm.i32(0) + set_(filled) + wasm.block(
        wasm.loop(fill + wasm.i32(records * size) + OP["i32.lt_u"] + wasm.branch_if(0))
    )
    arguments = b"".join(load(kind, offset, at) for (_, kind), offset in zip(signature.parameters, offsets))
    one = get(at) + wasm.i32(size) + OP["i32.add"] + wasm.i32(INPUT) + get(filled) + OP["i32.add"]
    one += OP["i32.gt_u"] + wasm.branch_if(1) + get(out) + arguments + wasm.call(function) + store(result)
    one += get(at) + wasm.i32(size) + OP["i32.add"] + set_(at) + get(out) + wasm.i32(result.size) + OP["i32.add"]
    one += set_(out) + wasm.global_get(1) + wasm.i64(1) + OP["i64.add"] + wasm.global_set(1) + wasm.branch(0)
    work = wasm.i32(INPUT) + set_(at) + wasm.i32(output) + set_(out) + wasm.block(wasm.loop(one))
    left = get(out) + get(end) + OP["i32.sub"]
    put = left + OP["i32.eqz"] + wasm.branch_if(1) + get(end) + transfer(write, 1, get(end), left)
    flush = wasm.i32(output) + set_(end) + wasm.block(wasm.loop(put + OP["i32.add"] + set_(end) + wasm.branch(0)))
    again = get(filled) + wasm.i32(records * size) + OP["i32.eq"] + wasm.branch_if(0)
    start = FunctionBody("_start", [], [], [i32] * 4, wasm.loop(fill + work + flush + again))
    writer.export("_start", module.add(start))
    writer.export("memory", 0, 2)
    return writer.encode()


def load(kind: Any, offset: int, at: int) -> bytes:
    """A parameter from the record at the address in a local."""
    if isinstance(kind, (ArrayType, StructType)):
        return get(at) + wasm.i32(offset) + OP["i32.add"]
    from .values import LOAD

    code = get(at) + wasm.memory(LOAD[kind.name], offset)
    if kind.name == "boolean":
        return code + wasm.i32(0) + OP["i32.ne"]
    return code + OP["f64.promote"] if kind.name == "f32" else code


def store(kind: Any) -> bytes:
    from .values import STORE

    code = wasm.memory(STORE[kind.name], 0)
    return OP["f32.demote"] + code if kind.name == "f32" else code
