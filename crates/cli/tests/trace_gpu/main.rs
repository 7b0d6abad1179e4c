//! `--trace` on a GPU: what each warp ran of native programs, handlers of actors and their messages, and the processes of modules,
//! whose times are measured, too. Without a GPU every case is reported as ignored.

#![cfg(target_os = "linux")]

#[path = "../watch/handlers.rs"]
mod handlers;
#[path = "../watch/perfetto.rs"]
#[allow(dead_code, reason = "the tests of the CPU engine use all of it")]
mod perfetto;
#[path = "../watch/sandbox.rs"]
#[allow(dead_code, reason = "the tests of the CPU engine use all of it")]
mod sandbox;

use everwarp::process::{Command, Host, Module, Output};
use everwarp::{Device, Select, telemetry};
use everwarp_testkit::{cases, run_on_gpu};

use crate::handlers::{ASKS, RING, check_asks, check_calls, check_ring, check_timers, trace_calls};
use crate::perfetto::{Slice, Trace, read};
use crate::sandbox::{Sandbox, words};

const CASES: &[(&str, fn())] = cases![
    slices_have_all_tasks_of_warps,
    tasks_of_warps_and_blocks_are_slices,
    a_small_trace_keeps_the_last_slices_and_counts_the_others,
    handlers_of_lanes_lie_within_turns_and_messages_have_flows_to_them,
    a_small_trace_of_actors_has_no_flow_without_an_end,
    processes_and_their_host_calls_are_slices,
    times_of_processes_are_those_of_their_host,
    // The last one: this program is traced from then on.
    calls_of_warps_and_blocks_are_slices_of_handlers
];

/// What delivers messages of the host.
const TELLS: &str = "host_tells";

const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/hello.wasm");

/// Runs a native program with a trace of this size. Returns the trace and what the command said about it.
fn traced(args: &[&str], limit: &str) -> (Trace, String) {
    run_traced(&[args, &["--verify"]].concat(), limit)
}

/// The same for any program.
fn run_traced(args: &[&str], limit: &str) -> (Trace, String) {
    let sandbox = Sandbox::new();
    let file = sandbox.path("gpu.pftrace");
    let path = file.to_str().expect("a plain path");
    let mut all = vec!["run"];
    all.extend(args);
    all.extend(["--engine", "cuda", "--trace", path, "--trace-limit", limit]);
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

fn handlers_of_lanes_lie_within_turns_and_messages_have_flows_to_them() {
    // Lanes of a warp handle a message each in one slice, which says how many.
    let (trace, said) = traced(RING, "2G");
    assert!(!trace.lossy && said.contains("none lost"), "{said}");
    check_ring(&trace, |handler| handler.number, TELLS);
    let handlers = trace.slices.iter().filter(|slice| slice.name == "member");
    assert!(handlers.clone().all(|handler| handler.number <= 32));
    assert!(handlers.count() < 1250, "lanes handle messages together");
    let (trace, said) = traced(ASKS, "2G");
    assert!(!trace.lossy && said.contains("none lost"), "{said}");
    check_asks(&trace, |handler| handler.number, TELLS);
}

fn a_small_trace_of_actors_has_no_flow_without_an_end() {
    let many = ["ring", "--n", "1000", "--tokens", "500", "--hops", "500"];
    let (trace, said) = traced(&many, "8M");
    assert!(trace.lossy && said.contains("older ones lost"), "{said}");
    assert!(tasks(&trace, "member").0 > 0, "{said}");
    assert!(trace.flows.values().all(|ends| *ends == (1, 1)));
    for handler in trace.slices.iter().filter(|slice| slice.name == "member") {
        let flows = handler.flows.len() as u64;
        assert!(flows <= handler.number, "{flows} of {}", handler.number);
    }
}

fn calls_of_warps_and_blocks_are_slices_of_handlers() {
    let trace = trace_calls(Select::Cuda);
    let calls = check_calls(&trace, |call| call.number, TELLS);
    let number = |handler: &Slice| handler.number;
    check_timers(&trace, number, TELLS, "actor_services/host_news");
    assert!(calls.iter().all(|c| c.number == c.flows.len() as u64));
}

fn processes_and_their_host_calls_are_slices() {
    let (trace, said) = run_traced(&[HELLO, "--instances", "40"], "64M");
    assert!(!trace.lossy && said.contains("none lost"), "{said}");
    let of_name = |name: &str| {
        let slices = trace.slices.iter().filter(|slice| slice.name == name);
        slices.collect::<Vec<_>>()
    };
    let processes = of_name("process");
    assert_eq!((processes.len(), of_name("exit").len()), (40, 40), "{said}");
    let tracks = trace.tracks.iter();
    let places = tracks.filter(|track| track.starts_with("place ")).count();
    assert!((1..=40).contains(&places), "{:?}", trace.tracks);
    for exit in of_name("exit") {
        // Its process was in the same place, and had not ended when the host took the call.
        let caller = processes.iter().find(|process| {
            process.number == exit.number
                && process.begin <= exit.begin
                && exit.begin <= process.end
        });
        assert!(
            caller.is_some(),
            "no process has made the call at {}",
            exit.begin
        );
    }
}

fn times_of_processes_are_those_of_their_host() {
    telemetry::measure();
    let device = Device::open(Select::Cuda).expect("a GPU");
    let hello = Module::from_file(HELLO).expect("it is built");
    let start = || Host::builder(&device).module(&hello).start();
    let host = start().expect("it starts");
    let mut command = Command::new(&host, &hello);
    command.stdout(Output::Capture { limit: 1 << 10 });
    let exits = command.spawn_many(50).expect("they start").wait_all();
    let exits = exits.expect("the engine runs");
    assert!(exits.iter().all(everwarp::process::Exit::success));
    let longest = exits.iter().map(|exit| exit.elapsed).max().expect("some");
    let totals = host.totals().expect("it was asked for");
    assert_eq!(
        (totals.started, totals.succeeded, totals.failed),
        (50, 50, 0)
    );
    assert_eq!((totals.wait.count, totals.run.count), (50, 50));
    assert_eq!(u128::from(totals.run.most), longest.as_nanos());
    let kinds: u64 = totals.by_kind.iter().map(|kind| kind.times.count).sum();
    assert_eq!(totals.calls, kinds);
    let exit = totals.by_kind.iter().find(|kind| kind.call == "exit");
    assert_eq!(exit.map(|kind| kind.times.count), Some(50));
    drop((command, host));
    let next = start().expect("it starts");
    let totals = next.totals().expect("it was asked for");
    assert_eq!(
        (totals.started, totals.calls),
        (0, 0),
        "another host has its own"
    );
}

fn main() {
    run_on_gpu(&Device::open(Select::Cuda), CASES)
}
