//! Where the time of a whole command goes: the spans that it writes about itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use everwarp::trace;
use serde::Deserialize;

use super::service::{BenchService, failed};
use super::whole::{BUDGET_S, REPEATS, SMALL, hello_job};
use crate::bench::experiment::Context;
use crate::bench::stats::{Role, Row};
use crate::error::CliError;

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
fn run_once(
    mut command: Command,
    arguments: &[&str],
    folder: &Path,
    processes: Option<u32>,
) -> Result<Spans, CliError> {
    let file = folder.join("trace");
    let (at, begin) = (trace::now(), Instant::now());
    let output = command
        .args(arguments)
        .env(trace::VARIABLE, &file)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(failed)?;
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
        let counted = counted.map_err(failed)?;
        if counted.succeeded != processes {
            return Err(failed(format!("{} processes succeeded", counted.succeeded)));
        }
    }
    let text = std::fs::read_to_string(&file).map_err(failed)?;
    let mut spans = Spans::new();
    let (mut first, mut last) = (u64::MAX, 0);
    for line in text.lines() {
        let line = serde_json::from_str::<Line>(line);
        let line = line.map_err(failed)?;
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
    service: &BenchService,
    name: &str,
    arguments: &[&str],
    processes: Option<u32>,
) -> Result<(), CliError> {
    let mut times = BTreeMap::<String, Vec<f64>>::new();
    let begin = Instant::now();
    for repetition in 0..=REPEATS {
        if repetition > 1 && begin.elapsed().as_secs_f64() > BUDGET_S {
            break;
        }
        let spans = run_once(service.command(), arguments, service.folder(), processes)?;
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

pub(super) fn commands(cx: &Context<'_>) -> Result<(), CliError> {
    let service = BenchService::start(cx.device.kind())?;
    let engine = cx.device.kind().to_string();
    let open = ["bench", "S", "--engine", &engine, "--row", "open"];
    command(cx, &service, "driver", &open, None)?;
    for count in [1, cx.processes] {
        let job = hello_job(service.folder(), count)?;
        let module = job.module.to_str();
        let module = module.expect("the system's folder has a plain name");
        let instances = count.to_string();
        let mut run = vec!["run", module, "--engine", &engine, "--memory", SMALL];
        run.extend(["--instances", &instances, "--json"]);
        for (place, option) in [(", alone", &["--alone"][..]), (", service", &[])] {
            let arguments = [&run[..], option, &["--", "{instance}"]].concat();
            let name = format!("{count} hello{place}");
            command(cx, &service, &name, &arguments, Some(count))?;
        }
    }
    Ok(())
}
