"""The programs: where their sources come from, how they are built, and what they are run with."""

import dataclasses

# Crates that contain the sources of programs in C, and the crate that the program in Rust uses. Exact versions, so that
# the outputs stay the same.
CRATES = {
    "bzip2-sys": "0.1.13",
    "json": "0.12.4",
    "libsqlite3-sys": "0.30.1",
    "lua-src": "547.0.0",
    "rquickjs-sys": "0.9.0",
    "zstd-sys": "2.1.3",
}

# What Debian calls the toolchains: a clang with the C library for WASI, and a rustc with the standard library for it.
DEBIAN_C = ["clang", "lld", "wasi-libc", "libclang-rt-dev-wasm32"]
DEBIAN_RUST = ["rustc", "libstd-rust-1.63", "libstd-rust-dev", "libstd-rust-dev-wasm32"]


@dataclasses.dataclass
class Program:
    """A program. Paths in `sources` and `include` are below the folder of crates, or of this script with `./`."""

    sources: list[str]
    stdin: str
    include: list[str] = dataclasses.field(default_factory=list)
    flags: list[str] = dataclasses.field(default_factory=list)
    # Needed for WASI alone.
    wasi_flags: list[str] = dataclasses.field(default_factory=list)
    # Small enough for CI.
    small: bool = False
    rust: bool = False


LUA = "lua-src/lua-5.4.7"
BZIP2 = "bzip2-sys/bzip2-1.0.8"
ZSTD = "zstd-sys/zstd/lib"
QUICKJS = "rquickjs-sys/quickjs"
SQLITE = "libsqlite3-sys/sqlite3"
EMULATED = [
    "-D_WASI_EMULATED_SIGNAL",
    "-D_WASI_EMULATED_PROCESS_CLOCKS",
    "-lwasi-emulated-signal",
    "-lwasi-emulated-process-clocks",
]

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
    "json": Program(sources=["./rust/json.rs", "json/src/lib.rs"], stdin="./inputs/json.json", rust=True),
}
