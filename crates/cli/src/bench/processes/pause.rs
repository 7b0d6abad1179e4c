//! How long a GPU's engine pauses for a module that is loaded while processes run.

use std::time::Duration;

use everwarp::process::{Children, Command, ExitStatus, Host, LoadConfig};

use super::NOTHING;
use super::run::module;
use crate::bench::experiment::Context;
use crate::bench::stats::Row;
use crate::error::CliError;

pub(super) const SPIN: &[u8] = include_bytes!("spin.wasm");
pub(super) const SLEEP: &[u8] = include_bytes!("sleep.wasm");
/// The processes that exist during the pauses.
const PROCESSES: u32 = 1000;
/// The modules that are loaded. Each is compiled with the whole image, which takes seconds.
const LOADS: usize = 3;
/// The pauses without a module.
const PAUSES: usize = 50;
/// The places of each loaded module.
const PLACES: u32 = 64;

/// Pauses and resumes the engine while processes sleep and while processes loop forever; and loads modules during the
/// latter.
pub(super) fn pause(cx: &Context<'_>) -> Result<(), CliError> {
    if !cx.is_cuda() {
        return Ok(());
    }
    let (spin, sleep) = (module("spin", SPIN)?, module("sleep", SLEEP)?);
    let host = Host::builder(cx.device)
        .module(&spin)
        .module(&sleep)
        .places(4096)
        .memory(1 << 16)
        .spare_places(LOADS as u32 * PLACES)
        .start()?;
    for (name, module, what) in [
        (
            "park_sleeping",
            &sleep,
            "parking and resuming while processes sleep",
        ),
        (
            "park_looping",
            &spin,
            "parking and resuming while processes loop for ever",
        ),
    ] {
        let children = Command::new(&host, module).spawn_many(PROCESSES)?;
        let mut times = Vec::new();
        for _ in 0..PAUSES {
            times.push(host.pause()?.as_secs_f64());
        }
        let mut right = all_exist(&host)?;
        if name == "park_looping" {
            load(cx, &host)?;
        }
        right &= all_are_killed(&host, children)?;
        let row = Row::new(what, "pause", 1.0, times).size(PROCESSES.into());
        cx.emit_as(name, row.verified(right))?;
    }
    Ok(())
}

/// Loads modules while processes run, and checks that each works.
fn load(cx: &Context<'_>, host: &Host) -> Result<(), CliError> {
    let config = LoadConfig {
        places: PLACES,
        children: 0,
        threads: 0,
        memory: Some(1 << 16),
        memory_budget: Some(1 << 30),
        ..LoadConfig::default()
    };
    let (mut times, mut right) = (Vec::new(), true);
    for number in 0..LOADS {
        let module = module(&format!("nothing-{number}"), NOTHING)?;
        let loaded = host.load(&module, &config)?;
        times.push(loaded.pause.as_secs_f64());
        let exits = Command::new(host, &module).spawn_many(PLACES)?.wait_all()?;
        right &= exits.iter().all(|exit| exit.success());
    }
    right &= all_exist(host)?;
    let what = "a module loaded while processes loop for ever: how long the engine pauses";
    let row = Row::new(what, "pause", 1.0, times).size(PROCESSES.into());
    cx.emit_as("load", row.verified(right))
}

/// Whether none of the processes has exited.
fn all_exist(host: &Host) -> Result<bool, CliError> {
    let listing = host.list(0)?;
    Ok(listing.waiting + listing.running == PROCESSES as usize)
}

/// Kills the processes, and returns whether each was killed and nothing else.
fn all_are_killed(host: &Host, children: Children) -> Result<bool, CliError> {
    host.kill_all()?;
    let mut all = true;
    for mut child in children {
        let exit = child.wait_timeout(Duration::from_secs(20))?;
        let exit = exit.ok_or_else(|| CliError::Process {
            pid: child.pid().to_string(),
            reason: "it has not ended".to_owned(),
        })?;
        all &= exit.status == ExitStatus::Killed;
    }
    Ok(all)
}
