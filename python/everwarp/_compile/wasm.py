"""Writes WebAssembly modules in their binary form."""

from __future__ import annotations

from dataclasses import dataclass, field

I32, I64, F32, F64 = 0x7F, 0x7E, 0x7D, 0x7C
VOID = 0x40


def unsigned(value: int) -> bytes:
    """A number in LEB128."""
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def signed(value: int) -> bytes:
    """A signed number in LEB128."""
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        done = (value == 0 and not low & 0x40) or (value == -1 and low & 0x40)
        out.append(low | (0 if done else 0x80))
        if done:
            return bytes(out)


def vector(items: list[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


def name(text: str) -> bytes:
    data = text.encode()
    return unsigned(len(data)) + data


def i32(value: int) -> bytes:
    return b"\x41" + signed(value)


def i64(value: int) -> bytes:
    return b"\x42" + signed(value if value < 1 << 63 else value - (1 << 64))


def f64(value: float) -> bytes:
    import struct

    return b"\x44" + struct.pack("<d", value)


def get(local: int) -> bytes:
    return b"\x20" + unsigned(local)


def set_(local: int) -> bytes:
    return b"\x21" + unsigned(local)


def tee(local: int) -> bytes:
    return b"\x22" + unsigned(local)


def global_get(index: int) -> bytes:
    return b"\x23" + unsigned(index)


def global_set(index: int) -> bytes:
    return b"\x24" + unsigned(index)


def call(function: int) -> bytes:
    return b"\x10" + unsigned(function)


def branch(depth: int) -> bytes:
    return b"\x0c" + unsigned(depth)


def branch_if(depth: int) -> bytes:
    return b"\x0d" + unsigned(depth)


def memory(opcode: int, offset: int, align: int = 0) -> bytes:
    return bytes([opcode]) + unsigned(align) + unsigned(offset)


END, ELSE, RETURN, DROP, SELECT, UNREACHABLE = b"\x0b", b"\x05", b"\x0f", b"\x1a", b"\x1b", b"\x00"
FILL = b"\xfc\x0b\x00"


def block(body: bytes, result: int = VOID) -> bytes:
    return b"\x02" + bytes([result]) + body + END


def loop(body: bytes) -> bytes:
    return b"\x03\x40" + body + END


def if_(then: bytes, otherwise: bytes = b"", result: int = VOID) -> bytes:
    middle = ELSE + otherwise if otherwise else b""
    return b"\x04" + bytes([result]) + then + middle + END


#: Opcodes by name; the names are those of the text format.
OP = {
    name_: bytes([code])
    for code, name_ in {
        0x45: "i32.eqz", 0x46: "i32.eq", 0x47: "i32.ne", 0x48: "i32.lt_s", 0x49: "i32.lt_u", 0x4B: "i32.gt_u",
        0x4D: "i32.le_u", 0x4E: "i32.ge_s", 0x4F: "i32.ge_u",
        0x50: "i64.eqz", 0x51: "i64.eq", 0x52: "i64.ne", 0x53: "i64.lt_s", 0x54: "i64.lt_u", 0x55: "i64.gt_s",
        0x56: "i64.gt_u", 0x57: "i64.le_s", 0x58: "i64.le_u", 0x59: "i64.ge_s", 0x5A: "i64.ge_u",
        0x61: "f64.eq", 0x62: "f64.ne", 0x63: "f64.lt", 0x64: "f64.gt", 0x65: "f64.le", 0x66: "f64.ge",
        0x6A: "i32.add", 0x6B: "i32.sub", 0x6C: "i32.mul", 0x6E: "i32.div_u", 0x71: "i32.and", 0x72: "i32.or",
        0x73: "i32.xor", 0x74: "i32.shl", 0x76: "i32.shr_u",
        0x79: "i64.clz", 0x7A: "i64.ctz", 0x7B: "i64.popcnt",
        0x7C: "i64.add", 0x7D: "i64.sub", 0x7E: "i64.mul", 0x7F: "i64.div_s", 0x80: "i64.div_u", 0x81: "i64.rem_s",
        0x82: "i64.rem_u", 0x83: "i64.and", 0x84: "i64.or", 0x85: "i64.xor", 0x86: "i64.shl", 0x87: "i64.shr_s",
        0x88: "i64.shr_u",
        0x99: "f64.abs", 0x9A: "f64.neg", 0x9B: "f64.ceil", 0x9C: "f64.floor", 0x9D: "f64.trunc", 0x9E: "f64.nearest",
        0x9F: "f64.sqrt", 0xA0: "f64.add", 0xA1: "f64.sub", 0xA2: "f64.mul", 0xA3: "f64.div", 0xA4: "f64.min",
        0xA5: "f64.max", 0xA6: "f64.copysign",
        0xA7: "i32.wrap", 0xAC: "i64.extend_s", 0xAD: "i64.extend_u", 0xB0: "i64.trunc_s", 0xB1: "i64.trunc_u",
        0xB6: "f32.demote", 0xB9: "f64.convert_s", 0xBA: "f64.convert_u", 0xBB: "f64.promote",
        0xBD: "i64.bits", 0xBF: "f64.of_bits",
    }.items()
}  # fmt: skip


@dataclass
class FunctionBody:
    """A function: its name, its type, its further locals and its code without the last `end`."""

    name: str
    parameters: list[int]
    results: list[int]
    locals: list[int] = field(default_factory=list)
    code: bytes = b""

    def encode(self) -> bytes:
        groups: list[list[int]] = []
        for kind in self.locals:
            if groups and groups[-1][1] == kind:
                groups[-1][0] += 1
            else:
                groups.append([1, kind])
        declared = vector([unsigned(count) + bytes([kind]) for count, kind in groups])
        body = declared + self.code + END
        return unsigned(len(body)) + body


class ModuleWriter:
    """A module. Imports must be added before functions."""

    def __init__(self) -> None:
        self.types: list[bytes] = []
        self.imports: list[bytes] = []
        self.import_names: list[str] = []
        self.functions: list[FunctionBody] = []
        self.exports: list[bytes] = []
        self.globals: list[bytes] = []
        self.pages = 1
        #: The size of the memory, if it has pages of one byte and does not grow.
        self.bytes: int | None = None
        #: Custom sections: names and contents.
        self.customs: list[tuple[str, bytes]] = []

    def type_of(self, parameters: list[int], results: list[int]) -> int:
        encoded = b"\x60" + vector([bytes([p]) for p in parameters]) + vector([bytes([r]) for r in results])
        if encoded not in self.types:
            self.types.append(encoded)
        return self.types.index(encoded)

    def import_function(self, module: str, item: str, parameters: list[int], results: list[int]) -> int:
        assert not self.functions
        kind = self.type_of(parameters, results)
        self.imports.append(name(module) + name(item) + b"\x00" + unsigned(kind))
        self.import_names.append(item)
        return len(self.imports) - 1

    def function(self, body: FunctionBody) -> int:
        self.functions.append(body)
        return len(self.imports) + len(self.functions) - 1

    def export(self, item: str, index: int, kind: int = 0) -> None:
        self.exports.append(name(item) + bytes([kind]) + unsigned(index))

    def add_global(self, kind: int, start: bytes) -> int:
        self.globals.append(bytes([kind, 1]) + start + END)
        return len(self.globals) - 1

    def encode(self) -> bytes:
        kinds = [unsigned(self.type_of(f.parameters, f.results)) for f in self.functions]
        limits = b"\x00" + unsigned(self.pages)
        if self.bytes is not None:
            limits = b"\x09" + unsigned(self.bytes) + unsigned(self.bytes) + b"\x00"
        named = [(i, n) for i, n in enumerate(self.import_names)]
        named += [(len(self.imports) + i, f.name) for i, f in enumerate(self.functions)]
        functions = vector([unsigned(i) + name(n) for i, n in named])
        names = name("name") + b"\x01" + unsigned(len(functions)) + functions
        sections = [
            (1, vector(self.types)),
            (2, vector(self.imports)),
            (3, vector(kinds)),
            (5, vector([limits])),
            (6, vector(self.globals)),
            (7, vector(self.exports)),
            (10, vector([f.encode() for f in self.functions])),
            (0, names),
            *((0, name(title) + content) for title, content in self.customs),
        ]
        parts = [bytes([number]) + unsigned(len(data)) + data for number, data in sections if data != b"\x00"]
        return b"\x00asm\x01\x00\x00\x00" + b"".join(parts)
