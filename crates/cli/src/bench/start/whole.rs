//! Whole commands in a service, next to the same command alone and on the CPU engine.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::documents;
use super::job::{Job, Lines, Where, add_lines};
use super::service::{BenchService, failed};
use crate::bench::experiment::Context;
use crate::bench::stats::{Role, Row, median};
use crate::error::CliError;

const HELLO: &[u8] = include_bytes!("../../../../../guests/built/hello.wasm");
const JSON: &[u8] = include_bytes!("../../../../../guests/built/json.wasm");
const HASHES: &[u8] = include_bytes!("../../../../../guests/built/hashes.wasm");

/// The most repetitions of a command, after one that is not counted, and the time after which there are no more.
pub(super) const REPEATS: usize = 10;
pub(super) const BUDGET_S: f64 = 12.0;
/// The memory of a process that needs one page.
pub(super) const SMALL: &str = "68K";

fn save(folder: &Path, name: &str, bytes: &[u8]) -> Result<std::path::PathBuf, CliError> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).map_err(failed)?;
    Ok(path)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What `hello` prints for the processes with these numbers.
fn hellos(processes: u32) -> Lines {
    let mut lines = Lines::new();
    add_lines(
        &mut lines,
        b"hello\nargument 0: hello.wasm\nstandard input: 0 bytes\n",
        processes.into(),
    );
    for number in 0..processes {
        add_lines(&mut lines, format!("argument 1: {number}\n").as_bytes(), 1);
    }
    lines
}

/// `hello`, each process with its number as argument.
pub(super) fn hello_job(folder: &Path, processes: u32) -> Result<Job, CliError> {
    let count = processes.to_string();
    Ok(Job {
        module: save(folder, "hello.wasm", HELLO)?,
        options: words(&["--memory", SMALL, "--instances", &count]),
        arguments: words(&["{instance}"]),
        processes,
        prints: hellos(processes),
    })
}

/// Repeats a run within the budget; the first one is not counted. Returns the whole times, those that the command reports,
/// and whether every run was right.
fn repeat(
    mut run: impl FnMut() -> Result<(super::job::Times, bool), CliError>,
) -> Result<(Vec<f64>, Vec<f64>, bool), CliError> {
    let (_, mut right) = run()?;
    let begin = Instant::now();
    let (mut whole, mut inside) = (Vec::new(), Vec::new());
    while whole.is_empty() || (whole.len() < REPEATS && begin.elapsed().as_secs_f64() < BUDGET_S) {
        let (times, good) = run()?;
        whole.push(times.whole);
        inside.extend(times.inside);
        right &= good;
    }
    Ok((whole, inside, right))
}

/// How a job is compared.
#[derive(Clone, Copy)]
struct Compared<'c> {
    case: &'c str,
    /// The time that the whole command is to take on the engine.
    goal_s: Option<f64>,
    /// Whether the command is measured without the service too.
    alone: bool,
}

/// Measures a job in the service, on the engine and on the CPU engine, and alone.
fn compare(
    cx: &Context<'_>,
    service: &BenchService,
    job: &Job,
    compared: Compared<'_>,
) -> Result<(), CliError> {
    let engine = cx.device.kind().to_string();
    let measure = |name: &str, role, place, engine: &str| -> Result<(), CliError> {
        let run = || job.run(service.command(), place, engine, service.folder());
        let (whole, inside, right) = repeat(run)?;
        let what = format!("a whole command with {} processes", job.processes);
        let mut row = Row::new(&what, "process", job.processes.into(), whole)
            .case(compared.case)
            .role(role)
            .against(&["alone", "service, CPU engine"])
            .verified(right);
        if !inside.is_empty() {
            row = row.raw("inside_s", median(inside));
        }
        if let Some(goal) = compared.goal_s.filter(|_| role == Role::Ours) {
            row = row.raw("goal_s", goal);
        }
        cx.emit_as(name, row)
    };
    measure("service", Role::Ours, Where::Service, &engine)?;
    if compared.alone {
        measure("alone", Role::Rival, Where::Alone, &engine)?;
    }
    if cx.is_cuda() {
        let name = "service, CPU engine";
        measure(name, Role::Rival, Where::Service, "cpu")?;
    }
    Ok(())
}

/// The time of a command of this program that does nothing: what starting it and reading the clock cost.
fn empty(cx: &Context<'_>, service: &BenchService, case: &str) -> Result<(), CliError> {
    let run = || -> Result<f64, CliError> {
        let mut command: Command = service.command();
        command.arg("--version").stdin(Stdio::null());
        command.stdout(Stdio::null());
        let begin = Instant::now();
        let status = command.status().map_err(failed)?;
        match status.success() {
            true => Ok(begin.elapsed().as_secs_f64()),
            false => Err(failed(status)),
        }
    };
    let times = (0..2 * REPEATS).map(|_| run());
    let times = times.collect::<Result<Vec<_>, _>>()?;
    let row = Row::new("a command that prints its version", "command", 1.0, times);
    cx.emit_as(
        "empty command",
        row.case(case).role(Role::Limit).verified(true),
    )
}

/// One `hello`, and many.
pub(super) fn hello(cx: &Context<'_>) -> Result<(), CliError> {
    let service = BenchService::start(cx.device.kind())?;
    for (processes, goal_s) in [(1, 5e-3), (cx.processes, 60e-3)] {
        let job = hello_job(service.folder(), processes)?;
        let case = format!("{processes} hello");
        if processes == 1 {
            empty(cx, &service, &case)?;
        }
        let compared = Compared {
            case: &case,
            goal_s: Some(goal_s),
            alone: true,
        };
        compare(cx, &service, &job, compared)?;
    }
    Ok(())
}

/// JSON documents, the lines of one file.
pub(super) fn documents(cx: &Context<'_>) -> Result<(), CliError> {
    let service = BenchService::start(cx.device.kind())?;
    let file = service.folder().join("documents");
    documents::write(&file, cx.processes).map_err(failed)?;
    let bytes = std::fs::metadata(&file).map_err(failed)?.len();
    let mut prints = Lines::new();
    add_lines(&mut prints, b"-: valid\n", cx.processes.into());
    let path = file.to_str().expect("the system's folder has a plain name");
    let job = Job {
        module: save(service.folder(), "json.wasm", JSON)?,
        options: words(&["--memory", "512K", "--stdin-lines", path]),
        arguments: Vec::new(),
        processes: cx.processes,
        prints,
    };
    let case = format!("{} documents, {} MB", cx.processes, bytes / 1_000_000);
    let compared = Compared {
        case: &case,
        goal_s: Some(120e-3),
        alone: true,
    };
    compare(cx, &service, &job, compared)
}

/// A loop that hashes.
pub(super) fn hashes(cx: &Context<'_>) -> Result<(), CliError> {
    let service = BenchService::start(cx.device.kind())?;
    let mut job = Job {
        module: save(service.folder(), "hashes.wasm", HASHES)?,
        options: words(&["--memory", SMALL]),
        arguments: words(&["mix", "100000"]),
        processes: 1,
        prints: Lines::new(),
    };
    // All processes compute the same; one of them runs alone on the CPU engine for comparison.
    let one = job.start(
        service.command(),
        Where::Alone,
        "cpu",
        service.folder(),
        "one",
    )?;
    one.wait()?;
    let printed = std::fs::read(service.folder().join("one.output")).map_err(failed)?;
    add_lines(&mut job.prints, &printed, cx.processes.into());
    if printed.is_empty() {
        return Err(failed("`hashes` printed nothing"));
    }
    job.processes = cx.processes;
    job.options
        .extend(words(&["--instances", &cx.processes.to_string()]));
    let case = format!("{} hashes", cx.processes);
    let compared = Compared {
        case: &case,
        goal_s: Some(60e-3),
        alone: false,
    };
    compare(cx, &service, &job, compared)
}
