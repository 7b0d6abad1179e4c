//! The conformance suite: the same cases for every engine, each in a child process with a time limit.
//!
//! `cargo test -p everwarp-programs --test conformance -- cuda` runs the cases on one engine. Without a GPU, its cases
//! are reported as ignored.

#[path = "conformance/actor_faults.rs"]
mod actor_faults;
#[path = "conformance/actors.rs"]
mod actors;
#[path = "conformance/epochs.rs"]
mod epochs;
#[path = "conformance/errors.rs"]
mod errors;
#[path = "conformance/handles.rs"]
mod handles;
#[path = "conformance/heap.rs"]
mod heap;
#[path = "conformance/heap_tasks.rs"]
mod heap_tasks;
#[path = "conformance/programs.rs"]
mod programs;
#[path = "conformance/submissions.rs"]
mod submissions;
#[path = "conformance/support.rs"]
mod support;
#[path = "conformance/tasks.rs"]
mod tasks;

use std::process::Command;
use std::time::Duration;

use everwarp::Select;
use everwarp_testkit::{Needed, needs_gpu};
use libtest_mimic::{Arguments, Failed, Trial};
use support::Case;

/// The variable that makes a child run one case.
const CHILD: &str = "EVERWARP_CONFORMANCE_CASE";

/// The time after which a case has hung; `EVERWARP_CASE_LIMIT_S` sets another.
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

fn all() -> impl Iterator<Item = &'static Case> {
    let files = [
        programs::ALL,
        actors::ALL,
        actor_faults::ALL,
        tasks::ALL,
        submissions::ALL,
        epochs::ALL,
        errors::ALL,
        handles::ALL,
        heap::ALL,
        heap_tasks::ALL,
    ];
    files.into_iter().flatten()
}

/// Whether a case concerns this engine: the cases of the heap's kernels are for CUDA, actors do not run on wgpu, and kinds
/// with restarts run on the CPU engine alone so far.
fn concerns(engine: &str, case: &str) -> bool {
    let is_of = |cases: &[Case]| cases.iter().any(|c| c.0 == case);
    match engine {
        "cuda" => !is_of(actor_faults::ALL),
        "wgpu" => ![actors::ALL, actor_faults::ALL, heap::ALL]
            .into_iter()
            .any(is_of),
        _ => !is_of(heap::ALL),
    }
}

fn main() {
    if let Ok(name) = std::env::var(CHILD) {
        let (engine, case) = name.split_once("::").expect("engine::case");
        let select = engine.parse().expect("an engine");
        let case = all().find(|c| c.0 == case).expect("a case");
        case.1(select);
        return;
    }
    // A wrong limit is reported before all cases.
    limit();
    let gpu = needs_gpu(&everwarp::Device::open(Select::Cuda));
    let adapter = Needed::look("an adapter of wgpu", &everwarp::Device::open(Select::Wgpu));
    if std::env::var_os("EVERWARP_NEEDS_ADAPTER").is_some() && !adapter.is_present() {
        eprintln!("EVERWARP_NEEDS_ADAPTER is set, but the cases of wgpu would be ignored");
        std::process::exit(1);
    }
    let mut trials = Vec::new();
    for engine in ["cpu", "cuda", "wgpu"] {
        for (case, _) in all().filter(|c| concerns(engine, c.0)) {
            let name = format!("{engine}::{case}");
            let child = name.clone();
            let trial = Trial::test(name, move || run_child(&child));
            trials.push(match engine {
                "cuda" => gpu.trial(trial),
                // The engine has no heap for tasks yet, and refuses to start with one.
                "wgpu" if heap_tasks::ALL.iter().any(|c| c.0 == *case) => {
                    trial.with_ignored_flag(true)
                }
                "wgpu" => adapter.trial(trial),
                _ => trial,
            });
        }
    }
    let mut args = Arguments::from_args();
    // One at a time: a GPU holds one resident engine, and an engine on the CPU uses all cores.
    args.test_threads = Some(1);
    libtest_mimic::run(&args, trials).exit();
}

fn run_child(name: &str) -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    let finished = everwarp_testkit::run(command.env(CHILD, name), limit())?;
    Ok(finished.success().map(drop)?)
}
