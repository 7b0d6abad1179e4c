//! `everwarp bench`: measures each part in a child process with a watchdog, checks every result, and compares it with
//! its rivals.

mod actors;
mod child;
mod columns;
mod core;
mod experiment;
mod heap;
mod io;
mod operators;
mod pairs;
mod processes;
mod report;
mod rings;
mod search;
mod start;
mod stats;
mod table;
mod tiny;
mod work;

use std::path::PathBuf;

use everwarp::files::{BACKEND_SETTING, Backend};
use everwarp::{Device, Select};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::CliError;
use crate::output::{print, print_json};
use child::Inputs;
use experiment::{Context, Experiment, Part};
use report::Report;
pub(crate) use report::today;
pub(crate) use stats::Outcome;

/// Every experiment, in the order of `bench all`.
const ALL: [&Experiment; 10] = [
    &core::EXPERIMENT,
    &pairs::EXPERIMENT,
    &tiny::EXPERIMENT,
    &search::EXPERIMENT,
    &heap::EXPERIMENT,
    &operators::EXPERIMENT,
    &processes::EXPERIMENT,
    &actors::EXPERIMENT,
    &io::EXPERIMENT,
    &start::EXPERIMENT,
];

/// The processes of the commands of `S`, unless the command line says otherwise.
const PROCESSES: u32 = 100_000;
/// The connections and the timers of `io`, unless the command line says otherwise.
const CONNECTIONS: u32 = 1000;
const TIMERS: u32 = 1_000_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The benchmark to run: core, A (dependent pairs), B (tiny tasks), C (breadth-first search), D (device heap), E
    /// (operators), P (processes), actors, io (servers), S (whole commands, with a service and without one), or all.
    #[arg(default_value = "core")]
    name: String,
    /// Where to run it: cpu, cuda, wgpu (core, A, B, C and actors), or auto.
    #[arg(long, default_value = "auto")]
    engine: String,
    /// A road network. Without it the parts that need one are left out; the table names them.
    #[arg(long)]
    roads: Option<PathBuf>,
    /// How many processes the commands of S start.
    #[arg(long, value_name = "N", default_value_t = PROCESSES, value_parser = clap::value_parser!(u32).range(1..))]
    processes: u32,
    /// How many connections `native_echo_many` of io has.
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// How many timers io sets.
    #[arg(long, value_name = "N", default_value_t = TIMERS, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    timers: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Write JSON, CSV, plots and a report to this folder.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Measure only this part, in this process, and print a line of JSON for each row.
    #[arg(long, conflicts_with_all = ["json", "out"])]
    row: Option<String>,
}

/// How files are read, for a child process, if the command line says that.
fn backend_setting() -> Option<(&'static str, &'static str)> {
    let asked = Backend::asked().ok()??;
    Some((BACKEND_SETTING, asked.name()))
}

/// The experiments with this name: one, or all of them.
fn chosen(name: &str) -> Result<Vec<&'static Experiment>, CliError> {
    if name == "all" {
        return Ok(ALL.to_vec());
    }
    let found = ALL
        .into_iter()
        .find(|e| e.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| CliError::UnknownBench {
            name: name.to_owned(),
            known: ALL.map(|e| e.name).join(", ") + " or all",
        })?;
    Ok(vec![found])
}

pub(crate) fn main(args: &Args) -> Result<(), CliError> {
    let experiments = chosen(&args.name)?;
    if let Some(protocol) = args
        .row
        .as_deref()
        .and_then(|row| row.strip_prefix("server:"))
    {
        return io::serve(protocol, &args.engine);
    }
    let device = Device::open(args.engine.parse::<Select>()?)?;
    if let Some(name) = &args.row {
        return measure_here(args, &device, &experiments, name);
    }
    let mut report = Report::begin(&args.name, &device);
    let kind = device.kind();
    // A GPU context in this process would take memory and time from the child processes.
    drop(device);
    let parts: Vec<(&Experiment, &Part)> = experiments
        .iter()
        .flat_map(|e| e.parts.iter().map(move |p| (*e, p)))
        .filter(|(_, part)| part.runs_on(kind))
        .collect();
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    let bar = ProgressBar::new(parts.len() as u64).with_style(style.expect("a valid template"));
    bar.enable_steady_tick(std::time::Duration::from_millis(250));
    for (experiment, part) in parts {
        bar.set_message(format!("{} {}", experiment.name, part.name));
        if part.roads && args.roads.is_none() {
            report.rows.push(Outcome::Skipped {
                bench: experiment.name.to_owned(),
                row: part.name.to_owned(),
                case: String::new(),
                skipped: "give the road network with --roads FILE".to_owned(),
            });
        } else {
            let inputs = Inputs {
                roads: args.roads.as_deref(),
                processes: args.processes,
                connections: args.connections,
                timers: args.timers,
            };
            let rows = child::run(&report.engine, experiment.name, part.name, inputs);
            report.rows.extend(rows);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    stats::compare(&mut report.rows);
    if let Some(folder) = &args.out {
        report.write(folder, &experiments)?;
    }
    if args.json {
        print_json(&report)?;
    } else {
        show(&report, &experiments)?;
    }
    match report.rows.iter().filter(|o| o.is_bad()).count() {
        0 => Ok(()),
        failed => Err(CliError::BenchFailed {
            failed,
            rows: report.rows.len(),
        }),
    }
}

/// Measures one part, with the usual inputs, in a child process.
pub(crate) fn measure_part(engine: &str, bench: &str, part: &str) -> Vec<Outcome> {
    let inputs = Inputs {
        roads: None,
        processes: PROCESSES,
        connections: CONNECTIONS,
        timers: TIMERS,
    };
    child::run(engine, bench, part, inputs)
}

/// Measures one part in this process.
fn measure_here(
    args: &Args,
    device: &Device,
    experiments: &[&'static Experiment],
    name: &str,
) -> Result<(), CliError> {
    let parts = || {
        experiments
            .iter()
            .flat_map(|e| e.parts.iter().map(move |p| (e, p)))
    };
    let there = || parts().filter(|(_, p)| p.runs_on(device.kind()));
    let found = there().find(|(_, p)| p.name == name);
    let (experiment, part) = found.ok_or_else(|| CliError::UnknownBench {
        name: name.to_owned(),
        known: there().map(|(_, p)| p.name).collect::<Vec<_>>().join(", "),
    })?;
    if part.roads && args.roads.is_none() {
        return Err(CliError::NeedsRoads { row: part.name });
    }
    let cx = Context {
        device,
        roads: args.roads.as_deref(),
        processes: args.processes,
        connections: args.connections,
        timers: args.timers,
        bench: experiment.name,
        part: part.name,
    };
    cx.measure(part)
}

/// Prints a table for each experiment.
fn show(report: &Report, experiments: &[&Experiment]) -> Result<(), CliError> {
    for experiment in experiments {
        let mine = |o: &&Outcome| o.bench() == experiment.name;
        let rows: Vec<Outcome> = report.rows.iter().filter(mine).cloned().collect();
        print(&format!(
            "{}: {}, on {} ({})\n{}\n",
            experiment.name,
            experiment.title,
            report.engine,
            report.device,
            table::table(&rows)
        ))?;
    }
    print("* marks the engine's rows. Each of them is compared with the fastest of its rivals.")
}
