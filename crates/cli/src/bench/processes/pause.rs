//! How long an engine pauses for a module that is loaded beside processes.

use std::time::{Duration, Instant};

use everwarp_process_cuda as gpu;

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
    let Some(of) = cx.device.cuda() else {
        return Ok(());
    };
    let (free, _) = of.memory()?;
    let config = gpu::HostConfig {
        memory: Some(1 << 16),
        spare_places: LOADS as u32 * PLACES,
        ..gpu::HostConfig::new(4096, free)
    };
    let modules = [("spin", SPIN), ("sleep", SLEEP)];
    const LOOPING: usize = 0;
    const SLEEPING: usize = 1;
    let modules = modules.map(|(name, bytes)| gpu::Module::new(name, bytes.to_vec()));
    let host = gpu::Host::start(cx.device, &modules, &config, gpu::Streams::inherit())?;
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
        let pids = host.spawn_many(module, &gpu::Config::default(), PROCESSES)?;
        let mut times = Vec::new();
        for _ in 0..PAUSES {
            let begin = Instant::now();
            host.engine().park()?;
            host.engine().resume()?;
            times.push(begin.elapsed().as_secs_f64());
        }
        let mut right = pids.iter().all(|&pid| host.knows(pid));
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
fn load(cx: &Context<'_>, host: &gpu::Host, looping: &[gpu::Pid]) -> Result<(), CliError> {
    let config = gpu::LoadConfig {
        places: PLACES,
        children: 0,
        threads: 0,
        memory: Some(1 << 16),
        memory_budget: 1 << 30,
    };
    let (mut times, mut right) = (Vec::new(), true);
    for number in 0..LOADS {
        let module = gpu::Module::new(format!("nothing-{number}"), NOTHING.to_vec());
        let loaded = host.load(&module, &config)?;
        times.push(loaded.exchanged.total().as_secs_f64());
        for pid in host.spawn_many(loaded.module, &gpu::Config::default(), PLACES as usize)? {
            let exit = host.wait(pid)?.expect("nobody else waits for it");
            right &= exit.reason == gpu::Reason::Normal(0);
        }
    }
    right &= looping.iter().all(|&pid| host.knows(pid));
    let what = "a module loaded beside processes that loop for ever: how long the engine pauses";
    let row = Row::new(what, "pause", 1.0, times).size(PROCESSES as u64);
    cx.emit_as("load", row.verified(right))
}

/// Ends them, and answers whether each was killed.
fn end(host: &gpu::Host, pids: Vec<gpu::Pid>) -> Result<bool, CliError> {
    host.kill_all()?;
    let mut all = true;
    for pid in pids {
        let exit = host.wait_timeout(pid, Duration::from_secs(20))?;
        let exit = exit.ok_or_else(|| host::failed(&pid, &"it has not ended"))?;
        all &= exit.reason == gpu::Reason::Killed;
    }
    Ok(all)
}
