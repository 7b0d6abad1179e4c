//! The watchdog of a wait: tells a slow engine from one where nothing moves any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use everwarp_contract::fault;
use everwarp_contract::telemetry::{WORKER_AWAY, WORKER_IDLE, WORKER_INGRESS, WORKER_RUNNING, WORKER_STARVED};

use crate::core::{Core, lock};
use crate::error::Error;

/// How often the workers' counters are looked at while nothing completes.
const INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(crate) struct Watch {
    looked: Option<Instant>,
    moved: Option<(Instant, u64)>,
}

impl Watch {
    /// To be called each round of a wait; cheap but for one call every [`INTERVAL`].
    pub(crate) fn look(&mut self, core: &Core, round: u32) -> Result<(), Error> {
        if !round.is_multiple_of(64) && round < 4096 {
            return Ok(());
        }
        if let Some(error) = core.fault() {
            return Err(core.fail(error));
        }
        core.check()?;
        let now = Instant::now();
        if now - *self.looked.get_or_insert(now) < INTERVAL {
            return Ok(());
        }
        self.looked = Some(now);
        if core.parked.load(Ordering::Acquire) {
            return Err(Error::Parked);
        }
        let workers = core.backend.workers()?;
        let executed = workers.iter().map(|w| w.executed.wrapping_add(w.received)).fold(0, u64::wrapping_add);
        match self.moved {
            Some((since, before)) if before == executed => {
                if now - since >= core.watchdog {
                    return Err(core.fail(diagnose(core, &workers)));
                }
            }
            _ => self.moved = Some((now, executed)),
        }
        Ok(())
    }
}

fn diagnose(core: &Core, workers: &[everwarp_contract::DevWorker]) -> Error {
    let running = workers.iter().any(|w| w.state == WORKER_RUNNING);
    if workers.iter().any(|w| w.state == WORKER_STARVED) && !running {
        let pools = core.backend.pool_state().unwrap_or_default();
        let _ = core.backend.park(Duration::from_secs(2));
        return Error::PoolExhausted {
            tasks: pools.task_limit,
            task_refusals: pools.task_refusals,
            groups: pools.group_limit,
            group_refusals: pools.group_refusals,
        };
    }
    let report = report(core, workers);
    // The attempt to park decides whether the device comes back at all.
    let _ = core.backend.park(Duration::from_millis(500));
    Error::Stuck { after: core.watchdog, report }
}

fn report(core: &Core, workers: &[everwarp_contract::DevWorker]) -> String {
    let image = lock(&core.image);
    let mut lines = std::collections::BTreeMap::<(&str, String), (u32, usize, u32)>::new();
    for (i, w) in workers.iter().enumerate().filter(|(_, w)| w.state != WORKER_AWAY || w.queued != 0) {
        let state = match w.state {
            WORKER_AWAY => "away",
            WORKER_IDLE => "idle",
            WORKER_RUNNING => "running",
            WORKER_STARVED => "starved in",
            WORKER_INGRESS => "polling the submission ring",
            _ => "in an unknown state",
        };
        let function = if matches!(w.state, WORKER_RUNNING | WORKER_STARVED) { image.name(w.function) } else { String::new() };
        let entry = lines.entry((state, function)).or_insert((0, i, 0));
        entry.0 += 1;
        entry.2 += w.queued;
    }
    let text = lines.into_iter().map(|((state, function), (count, first, queued))| {
        format!("  {count} {state} {function} (first: worker {first}; {queued} tasks queued)")
    });
    text.collect::<Vec<_>>().join("\n")
}

impl Core {
    /// The engine's fault, if it ended with one.
    pub(crate) fn fault(&self) -> Option<Error> {
        let words = self.words();
        // SAFETY: the words outlive the core; `code` is aligned and read atomically; the rest was written
        // before it.
        let (code, function, detail) = unsafe {
            let code = AtomicU32::from_ptr((&raw const (*words).fault.code).cast_mut()).load(Ordering::Acquire);
            (code, (&raw const (*words).fault.function).read(), (&raw const (*words).fault.detail).read())
        };
        let (what, fix) = match code {
            fault::FAULT_NONE => return None,
            fault::FAULT_SPAWN_LIMIT => {
                ("a task spawned more than its function declares", "raise the function's max_spawn, or spawn less")
            }
            fault::FAULT_UNKNOWN_FUNCTION => ("a task named an unknown function", "check the function numbers"),
            fault::FAULT_NOT_COUNTED => {
                ("a task spawned into its own group, which its function does not declare", "declare `spawns`, or fork")
            }
            fault::FAULT_FORK => {
                ("a task forked twice, or its function does not declare that it forks", "fork once, and declare `forks`")
            }
            fault::FAULT_PROGRAM => ("the program reported a fault", "see the program's documentation for the detail"),
            fault::FAULT_BAD_SUBMISSION => ("an invalid task was submitted", "build tasks with Instance::task"),
            _ => ("an invariant of the engine broke", "this is a bug in everwarp: please report it"),
        };
        Some(Error::Fault { what, function: lock(&self.image).name(function), detail, fix })
    }
}
