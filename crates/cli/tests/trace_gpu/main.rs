//! `--trace` of native programs on a GPU: what each warp ran. Without a GPU every case is reported as ignored.

#![cfg(target_os = "linux")]

#[path = "../watch/perfetto.rs"]
#[allow(dead_code, reason = "the tests of the CPU engine use all of it")]
mod perfetto;
#[path = "../watch/sandbox.rs"]
#[allow(dead_code, reason = "the tests of the CPU engine use all of it")]
mod sandbox;

use everwarp::{Device, Select};
use everwarp_testkit::{cases, run_on_gpu};

use crate::perfetto::{Trace, read};
use crate::sandbox::{Sandbox, words};

const CASES: &[(&str, fn())] = cases![
    slices_have_all_tasks_of_warps,
    tasks_of_warps_and_blocks_are_slices,
    a_small_trace_keeps_the_last_slices_and_counts_the_others
];

/// Runs a program with a trace of this size. Returns the trace and what the command said about it.
fn traced(args: &[&str], limit: &str) -> (Trace, String) {
    let sandbox = Sandbox::new();
    let file = sandbox.path("gpu.pftrace");
    let path = file.to_str().expect("a plain path");
    let mut all = vec!["run"];
    all.extend(args);
    all.extend([
        "--engine",
        "cuda",
        "--verify",
        "--trace",
        path,
        "--trace-limit",
        limit,
    ]);
    let output = sandbox.run(&all);
    assert!(output.status.success(), "{output:?}");
    let bytes = std::fs::read(&file).expect("the trace is there");
    (read(&bytes), words(&output.stderr))
}

/// Tasks of a function, and slices.
fn tasks(trace: &Trace, name: &str) -> (u64, usize) {
    let slices = || trace.slices.iter().filter(|slice| slice.name == name);
    (slices().map(|slice| slice.number).sum(), slices().count())
}

fn slices_have_all_tasks_of_warps() {
    let (trace, said) = traced(&["fib", "--n", "20"], "2G");
    assert!(!trace.lossy && said.contains("none lost"), "{said}");
    // fib(20) is 21,891 calls; all that fork are followed by a sum.
    let (calls, slices) = tasks(&trace, "fib/call");
    assert_eq!((calls, tasks(&trace, "fib/sum").0), (21_891, 10_945));
    // Warps run up to 32 of them together, and more in a row.
    assert!(slices < 10_000, "{slices} slices");
    let tracks = trace.tracks.iter();
    let warps = tracks.filter(|track| track.starts_with("block ")).count();
    assert!(warps > 1, "{:?}", trace.tracks);
    // They are on the clock of the command, which waits for them.
    let of_warps = || trace.slices.iter().filter(|s| s.name.starts_with("fib/"));
    let (first, last) = (
        of_warps().map(|s| s.begin).min().expect("some"),
        of_warps().map(|s| s.end).max().expect("some"),
    );
    let engine = |name: &str| {
        let found = trace.slices.iter().find(|slice| slice.name.contains(name));
        found.unwrap_or_else(|| panic!("no slice is called {name}"))
    };
    const SLACK: u64 = 1_000_000;
    let (began, ended) = (
        engine("engine: first answer").begin,
        engine("engine: end").end,
    );
    assert!(
        began <= first + SLACK && last <= ended + SLACK,
        "the engine answered at {began} and ended at {ended}, and the tasks ran from {first} to {last}"
    );
}

fn tasks_of_warps_and_blocks_are_slices() {
    let (trace, said) = traced(&["bfs", "--generate", "grid:100x100"], "2G");
    assert!(!trace.lossy, "{said}");
    let found = trace
        .slices
        .iter()
        .any(|slice| slice.name.starts_with("bfs/"));
    assert!(found, "{said}");
}

fn a_small_trace_keeps_the_last_slices_and_counts_the_others() {
    let (trace, said) = traced(&["fib", "--n", "27"], "8M");
    assert!(trace.lossy && said.contains("older ones lost"), "{said}");
    assert!(tasks(&trace, "fib/sum").0 > 100, "{said}");
}

fn main() {
    run_on_gpu(&Device::open(Select::Cuda), CASES)
}
