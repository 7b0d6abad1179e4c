//! Listing the processes of a host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp_process::{Listing, ProcessSnapshot, Stage};

use crate::engines;
use crate::process::{Lifecycle, Process};
use crate::scheduler::Scheduler;

/// How long running processes have to bring their numbers up to date.
const PATIENCE: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_micros(100);

/// Makes running processes bring their numbers up to date, and waits until they have. It waits for a limited time,
/// because a process that copies a large memory does not look at the epoch.
fn refresh<'p>(running: impl Iterator<Item = &'p Arc<Process>>) {
    let before: Vec<_> = running.map(|p| (&p.usage, p.usage.updates())).collect();
    if before.is_empty() {
        return;
    }
    let begin = Instant::now();
    engines::increment_epoch();
    let stale = || {
        let mut pending = before.iter();
        pending.any(|(usage, updates)| !usage.in_host_call() && usage.updates() == *updates)
    };
    while stale() && begin.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
    }
}

/// The row of a process in this state; `None` if it has been waited for.
fn row(process: &Process, lifecycle: &Lifecycle) -> Option<ProcessSnapshot> {
    let live = process.usage.read();
    let live_fuel = live.and_then(|live| live.fuel_used);
    let live_memory = live.map(|live| live.memory_bytes);
    let (stage, fuel_used, memory_bytes) = match lifecycle {
        Lifecycle::Queued(_) => (Stage::Waiting, None, None),
        Lifecycle::Running if process.usage.in_host_call() => {
            (Stage::Calling, live_fuel, live_memory)
        }
        Lifecycle::Running => (Stage::Running, live_fuel, live_memory),
        Lifecycle::Exited(exit) => {
            let stage = Stage::Ended(exit.status.to_string());
            (stage, exit.fuel_used, None)
        }
        Lifecycle::Reaped => return None,
    };
    Some(ProcessSnapshot {
        pid: process.pid,
        parent: process.parent,
        stage,
        fuel_used,
        memory_bytes,
    })
}

/// The processes that have not been waited for, with details of up to `most`.
pub(crate) fn list(scheduler: &Scheduler, most: usize) -> Listing {
    let all = scheduler.all();
    let runs = |p: &&Arc<Process>| matches!(p.record().lifecycle, Lifecycle::Running);
    refresh(all.iter().filter(runs).take(most));
    let mut listing = Listing::default();
    let (mut running, mut waiting, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for process in &all {
        // One look under the lock, so that the count and the row agree.
        let record = process.record();
        let (count, rows) = match record.lifecycle {
            Lifecycle::Queued(_) => (&mut listing.waiting, &mut waiting),
            Lifecycle::Running => (&mut listing.running, &mut running),
            Lifecycle::Exited(_) => (&mut listing.ended, &mut ended),
            Lifecycle::Reaped => continue,
        };
        *count += 1;
        if rows.len() < most {
            rows.extend(row(process, &record.lifecycle));
        }
    }
    let rows = running.into_iter().chain(waiting).chain(ended);
    listing.rows = rows.take(most).collect();
    listing
}
