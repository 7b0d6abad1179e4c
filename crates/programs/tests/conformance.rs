//! The conformance suite: the same tests for every engine, each in a process of its own with a watchdog.
//!
//! `cargo test -p everwarp-programs --test conformance -- cuda` runs one engine's; where there is no GPU,
//! the GPU's tests are listed as ignored.

#[path = "conformance/bench_programs.rs"]
mod bench_programs;
#[path = "conformance/cases.rs"]
mod cases;
#[path = "conformance/heap.rs"]
mod heap;
#[path = "conformance/heap_tasks.rs"]
mod heap_tasks;

use std::process::Command;
use std::time::Duration;

use everwarp::Select;
use everwarp_testkit::needs_gpu;
use libtest_mimic::{Arguments, Failed, Trial};

/// What makes a child of this process run one case.
const CHILD: &str = "EVERWARP_CONFORMANCE_CASE";
/// A case that takes longer has hung; `EVERWARP_CASE_LIMIT_S` sets another limit.
fn limit() -> Duration {
    let Ok(text) = std::env::var("EVERWARP_CASE_LIMIT_S") else {
        return Duration::from_secs(120);
    };
    let seconds = text.parse().unwrap_or_else(|_| {
        eprintln!("EVERWARP_CASE_LIMIT_S is `{text}`: give whole seconds, or unset it");
        std::process::exit(2)
    });
    Duration::from_secs(seconds)
}

fn all() -> impl Iterator<Item = &'static cases::Case> {
    cases::ALL
        .iter()
        .chain(bench_programs::ALL)
        .chain(heap::ALL)
        .chain(heap_tasks::ALL)
}

/// Whether a case is one of this engine's: what tests the heap's kernels is a GPU's.
fn concerns(engine: &str, case: &str) -> bool {
    engine == "cuda" || heap::ALL.iter().all(|c| c.0 != case)
}

fn main() {
    if let Ok(name) = std::env::var(CHILD) {
        let (engine, case) = name.split_once("::").expect("engine::case");
        let select = engine.parse().expect("an engine");
        let case = all().find(|c| c.0 == case).expect("a case");
        case.1(select);
        return;
    }
    // Once before all cases, so that a wrong limit is said at once.
    limit();
    let gpu = needs_gpu(&everwarp::Device::open(Select::Cuda));
    let mut trials = Vec::new();
    for engine in ["cpu", "cuda"] {
        for (case, _) in all().filter(|c| concerns(engine, c.0)) {
            let name = format!("{engine}::{case}");
            let child = name.clone();
            let trial = Trial::test(name, move || run_child(&child));
            trials.push(match engine {
                "cuda" => gpu.trial(trial),
                _ => trial,
            });
        }
    }
    let mut args = Arguments::from_args();
    // One at a time: a GPU holds one resident engine, and the CPU's use all cores.
    args.test_threads = Some(1);
    libtest_mimic::run(&args, trials).exit();
}

fn run_child(name: &str) -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    let finished = everwarp_testkit::run(command.env(CHILD, name), limit())?;
    Ok(finished.success().map(drop)?)
}
