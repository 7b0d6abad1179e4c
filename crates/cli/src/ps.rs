//! `everwarp ps` and `everwarp kill`.

use everwarp::process::{ParsePidError, Pid};
use everwarp_telemetry::control::{Answer, Request};
use everwarp_telemetry::registry::Order;
use everwarp_telemetry::view::{EngineView, HostView, ProgramView};
use serde::Serialize;

use crate::control::{ControlError, Folder, ServedClients, chosen, list, look, programs, request};
use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
pub(crate) struct PsArgs {
    /// Show only the engine with this number, which is the process id of its `everwarp run`, in the service or alone.
    #[arg(long, value_name = "N")]
    engine: Option<u32>,
    /// The largest number of processes to show of each engine: first those that run, then those that wait for a place,
    /// then those that have exited.
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "all")]
    most: u32,
    /// Show all processes.
    #[arg(long)]
    all: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KillArgs {
    /// The process: SLOT.GENERATION, as `everwarp ps` shows it.
    #[arg(value_name = "PID", value_parser = pid)]
    pid: String,
    /// The engine's number, needed if several run.
    #[arg(long, value_name = "N")]
    engine: Option<u32>,
}

fn pid(text: &str) -> Result<String, ParsePidError> {
    let pid: Pid = text.parse()?;
    Ok(pid.to_string())
}

/// The output of `ps --json`.
#[derive(Debug, Serialize)]
struct PsReport {
    engines: Vec<HostView>,
    /// Engines that run and did not describe themselves.
    silent: Vec<SilentEngine>,
}

#[derive(Debug, Serialize)]
struct SilentEngine {
    os_pid: u32,
    reason: String,
}

/// The numbers of the programs with engines, and of the clients of the service.
fn all_numbers(folder: &Folder, served: &ServedClients) -> Result<Vec<u32>, ControlError> {
    // The service answers for its clients, so its engines are not asked here.
    let of_service = |engine: &u32| {
        let looked = look(folder, *engine, 0);
        looked.is_ok_and(|program| program.is_some_and(|program| program.of_service))
    };
    let mut all = programs(folder)?;
    all.retain(|engine| !of_service(engine));
    all.extend(served.numbers());
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The hosts of a program; for one that has engines only, its engines without processes.
fn shown(program: ProgramView) -> Vec<HostView> {
    if !program.hosts.is_empty() {
        return program.hosts;
    }
    let os_pid = program.os_pid;
    let bare = |engine: EngineView| HostView {
        os_pid,
        number: engine.number,
        engine: engine.engine,
        module: program.program.clone(),
        age_s: engine.age_s,
        health: engine.health,
        ..HostView::default()
    };
    program.engines.into_iter().map(bare).collect()
}

/// `everwarp ps`: lists engines and their processes.
pub(crate) fn ps(args: &PsArgs) -> Result<(), CliError> {
    let folder = Folder::of_user();
    let most = if args.all { u32::MAX } else { args.most };
    let mut report = PsReport {
        engines: Vec::new(),
        silent: Vec::new(),
    };
    let served = ServedClients::list(&folder, most)?;
    for engine in chosen(all_numbers(&folder, &served)?, args.engine)? {
        let mut found = served.snapshots(engine).peekable();
        if found.peek().is_some() {
            report.engines.extend(found);
            continue;
        }
        match look(&folder, engine, most) {
            Ok(Some(program)) => report.engines.extend(shown(program)),
            // The engine has ended since.
            Ok(None) => {}
            Err(e) => report.silent.push(SilentEngine {
                os_pid: engine,
                reason: e.to_string(),
            }),
        }
    }
    match args.json {
        true => print_json(&report),
        false => print(describe(&report).trim_end()),
    }
}

/// A number of bytes in a short form.
fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count}"),
        1024..0x10_0000 => format!("{:.1}K", count as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1}M", count as f64 / 1_048_576.0),
        _ => format!("{:.1}G", count as f64 / 1_073_741_824.0),
    }
}

fn describe(report: &PsReport) -> String {
    if report.engines.is_empty() && report.silent.is_empty() {
        return "no engine runs".to_owned();
    }
    let mut text = String::new();
    for e in &report.engines {
        text += &format!(
            "engine {}: {} on {}, {:.1} s: {} running, {} waiting for a place, {} ended\n",
            e.os_pid, e.module, e.engine, e.age_s, e.running, e.waiting, e.ended
        );
        if let Some(c) = e.compiling.filter(|c| c.present < c.left_out) {
            text += &format!(
                "compiled {} of {} functions that the start left out, {} of them in use\n",
                c.assembled, c.left_out, c.present
            );
        }
        if !e.processes.is_empty() {
            let (pid, parent, instance) = ("PID", "PARENT", "INSTANCE");
            let (fuel, memory) = ("FUEL", "MEMORY");
            text +=
                &format!("{pid:>10} {parent:>10} {instance:>10} {fuel:>14} {memory:>8}  STATE\n");
        }
        let dash = || "-".to_owned();
        for p in &e.processes {
            text += &format!(
                "{:>10} {:>10} {:>10} {:>14} {:>8}  {}\n",
                p.pid,
                p.parent.clone().unwrap_or_else(dash),
                p.instance.map_or_else(dash, |n| n.to_string()),
                p.fuel_used.map_or_else(dash, |n| n.to_string()),
                p.memory_bytes.map_or_else(dash, bytes),
                p.state
            );
        }
        if e.left_out > 0 {
            text += &format!("{} more are not shown: --all shows them\n", e.left_out);
        }
    }
    for s in &report.silent {
        text += &format!("engine {}: {}\n", s.os_pid, s.reason);
    }
    text
}

/// `everwarp kill`: asks a process to end.
pub(crate) fn kill(args: &KillArgs) -> Result<(), CliError> {
    let folder = Folder::of_user();
    let mut served = ServedClients::list(&folder, 0)?;
    let engine = match chosen(all_numbers(&folder, &served)?, args.engine)?[..] {
        [] => return Err(ControlError::NoEngine.into()),
        [engine] => engine,
        ref several => {
            let known = list(several);
            return Err(ControlError::WhichEngine { known }.into());
        }
    };
    let pid = args.pid.clone();
    if served.has(engine) {
        return match served.kill(engine, &pid)? {
            true => Ok(()),
            false => Err(ControlError::NoProcess { engine, pid }.into()),
        };
    }
    let hosts = look(&folder, engine, 0)?.map_or_else(Vec::new, |program| program.hosts);
    for host in hosts {
        let order = Request::Order {
            source: Some(host.number),
            target: pid.clone(),
            order: Order::Kill,
        };
        match request(&folder, engine, &order)? {
            Some(Answer::Done) => return Ok(()),
            Some(Answer::NoTarget) | None => {}
            Some(_) => return Err(ControlError::OtherAnswer { engine }.into()),
        }
    }
    Err(ControlError::NoProcess { engine, pid }.into())
}
