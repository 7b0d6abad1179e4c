//! `everwarp bench`: each row in a child process with a watchdog, checked, beside its raw limit.

mod core;
mod stats;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use everwarp::{Device, Select};
use indicatif::ProgressBar;
use serde_json::Value;

use crate::error::CliError;
use crate::output::{print, print_json};

/// A row that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which benchmark: core.
    #[arg(default_value = "core")]
    name: String,
    /// Where to run it: cpu, cuda, or auto.
    #[arg(long, default_value = "auto")]
    engine: String,
    /// A road network for the row `bfs_roads`; without it the row is left out, and that is said.
    #[arg(long)]
    roads: Option<std::path::PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Measure only this row, in this process.
    #[arg(long)]
    row: Option<String>,
}

pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    if args.name != "core" {
        return Err(CliError::UnknownBench {
            name: args.name.clone(),
            known: "core".to_owned(),
        });
    }
    let device = Device::open(args.engine.parse::<Select>()?)?;
    if let Some(row) = &args.row {
        let measure = core::ROWS.iter().find(|r| r.0 == row);
        let known = || core::ROWS.map(|r| r.0).join(", ");
        let (name, measure) = *measure.ok_or_else(|| CliError::UnknownBench {
            name: row.clone(),
            known: known(),
        })?;
        let row = measure(&device, args.roads.as_deref())?;
        return print_json(&row.named(name));
    }
    let kind = device.kind().to_string();
    let (name, why) = (device.name(), device.why().to_owned());
    drop(device);
    let bar = ProgressBar::new(core::ROWS.len() as u64);
    let mut rows = Vec::new();
    let mut failed = 0;
    for (row, _) in core::ROWS {
        bar.set_message(row);
        if row == "bfs_roads" && args.roads.is_none() {
            eprintln!("bfs_roads is left out: give the road network with --roads FILE");
            continue;
        }
        match child(args, &kind, row) {
            Ok(value) => rows.push(value),
            Err(reason) => {
                failed += 1;
                rows.push(serde_json::json!({ "row": row, "error": reason }));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let total = rows.len();
    if args.json {
        let report = serde_json::json!({ "bench": "core", "engine": kind, "device": name, "why": why, "rows": rows });
        print_json(&report)?;
    } else {
        print(&format!("core on {kind} ({name})\n{}", stats::table(&rows)))?;
    }
    match failed {
        0 => Ok(()),
        _ => Err(CliError::BenchFailed {
            failed,
            rows: total,
        }),
    }
}

/// Runs one row in a process of its own; answers its JSON, or why there is none.
fn child(args: &Args, engine: &str, row: &str) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.args(["bench", "core", "--engine", engine, "--row", row, "--json"]);
    if let Some(roads) = &args.roads {
        command.arg("--roads").arg(roads);
    }
    let spawned = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|e| e.to_string())?;
    let begin = Instant::now();
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        if begin.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("still running after {LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
}
