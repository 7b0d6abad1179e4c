//! Why an engine has ended: its fault, or the states of its workers when nothing moved any more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use everwarp_contract::{DevWorker, FunctionId, WorkerState, fault};

use crate::core::EngineCore;
use crate::error::{Error, StuckReason};
use crate::sync::lock;

/// Ends an engine in which nothing has moved for as long as the watchdog waits, and says why.
pub(crate) fn diagnose(core: &EngineCore, workers: &[DevWorker]) -> Error {
    let running = workers.iter().any(|w| w.activity() == WorkerState::Running);
    if workers.iter().any(|w| w.activity() == WorkerState::Starved) && !running {
        let pools = core.engine.pool_state().unwrap_or_default();
        let _ = core.engine.park(Duration::from_secs(2));
        return Error::PoolExhausted {
            tasks: pools.task_limit,
            task_refusals: pools.task_refusals,
            groups: pools.group_limit,
            group_refusals: pools.group_refusals,
        };
    }
    let report = report(core, workers);
    let reason = if running {
        StuckReason::Running
    } else {
        StuckReason::Deadlock
    };
    // The attempt to park decides whether the device comes back at all.
    let _ = core.engine.park(Duration::from_millis(500));
    Error::Stuck {
        after: core.watchdog,
        reason,
        report,
    }
}

/// The workers, grouped by state and function.
fn report(core: &EngineCore, workers: &[DevWorker]) -> String {
    let image = lock(&core.image);
    let mut lines = BTreeMap::<(WorkerState, String), (u32, usize, u32)>::new();
    for (i, w) in workers
        .iter()
        .enumerate()
        .filter(|(_, w)| w.activity() != WorkerState::Away || w.queued != 0)
    {
        let state = w.activity();
        let function = if state.is_in_function() {
            image.name(FunctionId(w.function))
        } else {
            String::new()
        };
        let entry = lines.entry((state, function)).or_insert((0, i, 0));
        entry.0 += 1;
        entry.2 += w.queued;
    }
    let text = lines
        .into_iter()
        .map(|((state, function), (count, first, queued))| {
            format!("  {count} {state} {function} (first: worker {first}; {queued} tasks queued)")
        });
    text.collect::<Vec<_>>().join("\n")
}

impl EngineCore {
    /// The engine's fault, if it ended with one.
    pub(crate) fn fault(&self) -> Option<Error> {
        let words = self.words();
        // SAFETY: the words live as long as the core; `code` is aligned and accessed atomically.
        let code = unsafe { AtomicU32::from_ptr((&raw const (*words).fault.code).cast_mut()) }
            .load(Ordering::Acquire);
        let (what, fix) = match code {
            fault::FAULT_NONE => return None,
            fault::FAULT_SPAWN_LIMIT => (
                "a task spawned more than its function declares",
                "raise the function's max_spawn, or spawn less",
            ),
            fault::FAULT_UNKNOWN_FUNCTION => (
                "a task named an unknown function",
                "check the function numbers",
            ),
            fault::FAULT_NOT_COUNTED => (
                "a task spawned into its own group, which its function does not declare",
                "declare `spawns`, or fork",
            ),
            fault::FAULT_FORK => (
                "a task forked twice, or its function does not declare that it forks",
                "fork once, and declare `forks`",
            ),
            fault::FAULT_PROGRAM => (
                "the program reported a fault",
                "see the program's documentation for the detail",
            ),
            fault::FAULT_BAD_SUBMISSION => (
                "an invalid task was submitted",
                "build tasks with Instance::task",
            ),
            fault::FAULT_DEVICE_LOST => {
                let reason = self.engine.loss();
                return Some(Error::DeviceLost {
                    reason: reason.unwrap_or_else(|| "it gave no reason".to_owned()),
                });
            }
            _ => (
                "an invariant of the engine broke",
                "this is a bug in everwarp: please report it",
            ),
        };
        // SAFETY: as above; the acquire of `code`, which the engine writes last, has made them visible.
        let (function, detail) = unsafe {
            (
                AtomicU32::from_ptr((&raw const (*words).fault.function).cast_mut())
                    .load(Ordering::Relaxed),
                AtomicU64::from_ptr((&raw const (*words).fault.detail).cast_mut())
                    .load(Ordering::Relaxed),
            )
        };
        let image = lock(&self.image).clone();
        Some(Error::Fault {
            what,
            function: image.name(FunctionId(function)),
            detail,
            fix,
            report: self.last_tasks(&image),
        })
    }
}
