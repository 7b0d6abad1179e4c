//! How long an engine pauses for a module that is loaded beside processes.

use std::time::{Duration, Instant};

use everwarp_process as gpu;
use everwarp_process::ProcessEngine;
use everwarp_process_cuda::{CudaProcesses, Streams};

use super::{NOTHING, host};
use crate::bench::experiment::Context;
use crate::bench::stats::Row;
use crate::error::CliError;

pub(super) const SPIN: &[u8] = include_bytes!("spin.wasm");
pub(super) const SLEEP: &[u8] = include_bytes!("sleep.wasm");
/// Processes that are there meanwhile.
const PROCESSES: usize = 1000;
/// Modules that are loaded, each of which is compiled with the whole image, which takes seconds.
const LOADS: usize = 3;
/// Pauses without a module.
const PAUSES: usize = 50;
/// Each loaded module has so many places.
const PLACES: u32 = 64;

/// Parks the engine and lets it go on, beside processes that sleep and beside some that never come to an end by
/// themselves; and loads modules beside the latter.
pub(super) fn pause(cx: &Context<'_>) -> Result<(), CliError> {
    if cx.device.cuda().is_none() {
        return Ok(());
    }
    let mut config = gpu::HostConfig::default();
    config.load.places = 4096;
    config.load.memory = Some(1 << 16);
    config.spare_places = LOADS as u32 * PLACES;
    let modules = [("spin", SPIN), ("sleep", SLEEP)];
    const LOOPING: u32 = 0;
    const SLEEPING: u32 = 1;
    let modules = modules
        .into_iter()
        .map(|(name, bytes)| gpu::Module::new(name, bytes.to_vec()))
        .collect::<Result<Vec<_>, _>>()?;
    let host = CudaProcesses::start(cx.device, &modules, &config, Streams::inherit())?;
    let grants = gpu::Grants::default();
    for (name, module, what) in [
        (
            "park_sleeping",
            SLEEPING,
            "parking and going on beside processes that sleep",
        ),
        (
            "park_looping",
            LOOPING,
            "parking and going on beside processes that loop for ever",
        ),
    ] {
        let pids = host::spawn_gpu(&host, gpu::ModuleId(module), &grants, &[], PROCESSES)?;
        let mut times = Vec::new();
        for _ in 0..PAUSES {
            let begin = Instant::now();
            host.engine().park()?;
            host.engine().resume()?;
            times.push(begin.elapsed().as_secs_f64());
        }
        let mut right = all_there(&host, &pids)?;
        if module == LOOPING {
            load(cx, &host, &pids)?;
        }
        right &= end(&host, pids)?;
        let row = Row::new(what, "pause", 1.0, times).size(PROCESSES as u64);
        cx.emit_as(name, row.verified(right))?;
    }
    Ok(())
}

/// Loads modules beside what runs, each of which must work.
fn load(cx: &Context<'_>, host: &CudaProcesses, looping: &[gpu::Pid]) -> Result<(), CliError> {
    let mut config = gpu::LoadConfig::default();
    config.places = PLACES;
    config.children = 0;
    config.threads = 0;
    config.memory = Some(1 << 16);
    config.memory_budget = Some(1 << 30);
    let grants = gpu::Grants::default();
    let (mut times, mut right) = (Vec::new(), true);
    for number in 0..LOADS {
        let module = gpu::Module::new(format!("nothing-{number}"), NOTHING.to_vec())?;
        let loaded = host.load(&module, &config)?;
        times.push(loaded.pause.as_secs_f64());
        for pid in host::spawn_gpu(host, loaded.id, &grants, &[], PLACES as usize)? {
            right &= host.wait(pid, None)?.success();
        }
    }
    right &= all_there(host, looping)?;
    let what = "a module loaded beside processes that loop for ever: how long the engine pauses";
    let row = Row::new(what, "pause", 1.0, times).size(PROCESSES as u64);
    cx.emit_as("load", row.verified(right))
}

/// Whether none of these processes has been waited for.
fn all_there(host: &CudaProcesses, pids: &[gpu::Pid]) -> Result<bool, gpu::HostError> {
    for pid in pids {
        if !host.knows(*pid)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Ends them, and returns whether each was killed.
fn end(host: &CudaProcesses, pids: Vec<gpu::Pid>) -> Result<bool, CliError> {
    host.kill_all()?;
    let mut all = true;
    for pid in pids {
        let exit = host.wait(pid, Some(Duration::from_secs(20)))?;
        all &= exit.status == gpu::ExitStatus::Killed;
    }
    Ok(all)
}
