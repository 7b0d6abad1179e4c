//! The table of the compiler's code next to CUDA C++, from what `crates/process/compiler/examples/throughput/run` printed.

use std::fmt::Write;

use super::top;

const FILE: &str = "bench/results/h200-2026-11-22/wasm-throughput-3.txt";

/// What each program of the example is.
const PROGRAMS: [(&str, &str); 9] = [
    ("sort", "heapsort"),
    ("bfs", "breadth-first search"),
    ("table", "a hash table"),
    ("sha256", "SHA-256"),
    ("vm", "an interpreter"),
    ("parse", "a recursive parser"),
    ("mix", "integer hashing in registers"),
    ("nbody", "n-body"),
    ("collatz", "Collatz's rule"),
];

/// A line of the example's first table: program, build, the time of CUDA C++, and those of a guest and of a process.
struct Line<'l> {
    program: &'l str,
    build: &'l str,
    native_ms: f64,
    guest_ms: f64,
    process_ms: f64,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let table = text.lines().skip_while(|l| !l.starts_with("program "));
    let rows = table.skip(1).take_while(|l| !l.trim().is_empty());
    rows.map(|line| {
        let fields: Vec<&str> = line.split('|').flat_map(str::split_whitespace).collect();
        let number = |i: usize| fields[i].parse().expect("a time in milliseconds");
        // program, work, build, native, no fma, in memory, guest, three factors, five times without a part of the
        // semantics, interleaved, a process.
        Line {
            program: fields[0],
            build: fields[2],
            native_ms: number(3),
            guest_ms: number(6),
            process_ms: number(16),
        }
    })
    .collect()
}

/// The time of one side as a share of the other's; more than 1 is slower.
fn share(ours: f64, native: f64) -> String {
    match ours / native {
        s if s > 1.005 => format!("**{s:.2}**"),
        s => format!("{s:.2}"),
    }
}

fn raw_output() -> String {
    std::fs::read_to_string(top().join(FILE)).expect("the raw output is committed")
}

/// Of each program, the time of a process in its best build as a share of CUDA C++'s.
pub(super) fn best_shares() -> Vec<(&'static str, f64)> {
    let text = raw_output();
    let lines = lines(&text);
    let best = |name: &str| {
        let found = lines.iter().filter(|l| l.program == name);
        let shares = found.map(|l| l.process_ms / l.native_ms);
        shares.fold(f64::MAX, f64::min)
    };
    PROGRAMS
        .iter()
        .map(|(name, what)| (*what, best(name)))
        .collect()
}

pub(super) fn write(out: &mut String) {
    let text = raw_output();
    let _ = write!(
        out,
        "\n## Compiled WebAssembly and CUDA C++\n\n\
         The same algorithms, once in Rust as WebAssembly and once in CUDA C++ compiled by nvcc, one instance in each of \
         135,168 threads. The figures are time divided by the time of CUDA C++: below 1 the guest is faster, and above 1, \
         in bold, it **loses**. *Process* is the code as processes have it: it can be stopped in every loop and is linked to \
         the engine. *Unrolled* guests are built with `-C llvm-args=-unroll-threshold=5000`, which turns small arrays into \
         variables. `crates/process/compiler/examples/throughput/run` measures it (`{FILE}`).\n\n\
         | program | build | CUDA C++ | guest, plain | guest, process |\n|---|---|---|---|---|\n"
    );
    let lines = lines(&text);
    for (name, what) in PROGRAMS {
        let mut found = lines.iter().filter(|l| l.program == name).peekable();
        assert!(found.peek().is_some(), "the raw output lacks {name}");
        for line in found {
            let _ = writeln!(
                out,
                "| `{name}`: {what} | {} | {:.2} ms | {} | {} |",
                line.build,
                line.native_ms,
                share(line.guest_ms, line.native_ms),
                share(line.process_ms, line.native_ms),
            );
        }
    }
}
