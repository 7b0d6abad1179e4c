//! S: where the time of a whole command goes, from the shell's start of it to its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use everwarp::trace;
use serde::Deserialize;

use super::experiment::{Context, Experiment, On, Part};
use super::stats::{Role, Row};
use crate::error::CliError;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "S",
    title: "where the time of a whole command goes",
    about: "The command is started again and again, as a shell starts it, with its output thrown away. `whole` is the time \
            from its start to its end on the clock of the program that started it; the other rows are the spans that the \
            command writes about itself (`EVERWARP_TRACE`), which nest and overlap, and what comes before the first of \
            them and after the last. `driver` is a command that only opens the device: it starts the driver, makes a \
            context and ends.",
    parts: &[
        Part::many("commands", On::Both, commands),
        Part::many("open", On::Both, |_| Ok(())),
    ],
};

const HELLO: &[u8] = include_bytes!("../../../../guests/built/hello.wasm");
/// The repetitions of each command, after one that is not counted.
const REPEATS: usize = 10;
/// The spans of a run by name, in seconds.
type Spans = BTreeMap<String, f64>;

/// A line of the trace.
#[derive(Deserialize)]
struct Line {
    span: String,
    begin_ns: u64,
    ns: u64,
}

/// The one field of a report that is checked.
#[derive(Deserialize)]
struct Counted {
    succeeded: u32,
}

/// Runs a command once. `processes` is how many must succeed, if it runs any.
fn run_once(arguments: &[&str], folder: &Path, processes: Option<u32>) -> Result<Spans, CliError> {
    let failed = |reason: String| CliError::Measurement { reason };
    let file = folder.join("trace");
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let (at, begin) = (trace::now(), Instant::now());
    let output = Command::new(program)
        .args(arguments)
        .env(trace::VARIABLE, &file)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    let whole = begin.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(failed(format!(
            "{arguments:?} ended with {}",
            output.status
        )));
    }
    if let Some(processes) = processes {
        // Standard output is the object that `--json` prints; the processes' output is on standard error.
        let counted = serde_json::from_slice::<Counted>(&output.stdout);
        let counted = counted.map_err(|e| failed(e.to_string()))?;
        if counted.succeeded != processes {
            return Err(failed(format!("{} processes succeeded", counted.succeeded)));
        }
    }
    let text = std::fs::read_to_string(&file).map_err(|e| failed(e.to_string()))?;
    let mut spans = Spans::new();
    let (mut first, mut last) = (u64::MAX, 0);
    for line in text.lines() {
        let line = serde_json::from_str::<Line>(line);
        let line = line.map_err(|e| failed(e.to_string()))?;
        first = first.min(line.begin_ns);
        last = last.max(line.begin_ns + line.ns);
        *spans.entry(line.span).or_default() += line.ns as f64 * 1e-9;
    }
    let before = first.saturating_sub(at) as f64 * 1e-9;
    let after = whole - last.saturating_sub(at) as f64 * 1e-9;
    spans.insert("before the first span".to_owned(), before);
    spans.insert("after the last span".to_owned(), after);
    spans.insert("whole".to_owned(), whole);
    Ok(spans)
}

/// Measures one command and hands over a row for each of its spans.
fn command(
    cx: &Context<'_>,
    name: &str,
    arguments: &[&str],
    folder: &Path,
    processes: Option<u32>,
) -> Result<(), CliError> {
    let mut times = BTreeMap::<String, Vec<f64>>::new();
    for repetition in 0..=REPEATS {
        let spans = run_once(arguments, folder, processes)?;
        if repetition > 0 {
            for (span, seconds) in spans {
                times.entry(span).or_default().push(seconds);
            }
        }
    }
    let mut rows: Vec<_> = times.into_iter().collect();
    rows.sort_by(|(_, a), (_, b)| b[0].total_cmp(&a[0]));
    for (span, times) in rows {
        let row = Row::new("one command", "command", 1.0, times);
        let role = match span.as_str() {
            "whole" if name != "driver" => Role::Ours,
            _ => Role::Limit,
        };
        cx.emit_as(&span, row.case(name).role(role).verified(true))?;
    }
    Ok(())
}

fn commands(cx: &Context<'_>) -> Result<(), CliError> {
    let folder = tempfile::tempdir().map_err(CliError::Folder)?;
    let module = folder.path().join("hello.wasm");
    std::fs::write(&module, HELLO).map_err(CliError::Folder)?;
    let module = module
        .to_str()
        .expect("the system's folder has a plain name");
    let engine = cx.device.kind().to_string();
    let open = ["bench", "S", "--engine", &engine, "--row", "open"];
    command(cx, "driver", &open, folder.path(), None)?;
    for (name, count) in [("1 hello", 1), ("100000 hello", 100_000)] {
        let instances = count.to_string();
        let run = [
            "run",
            module,
            "--engine",
            &engine,
            "--memory",
            "68K",
            "--instances",
            &instances,
            "--json",
            "--",
            "{instance}",
        ];
        command(cx, name, &run, folder.path(), Some(count))?;
    }
    Ok(())
}
