//! Telling of all processes, and ending them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp_process::{Listing, ProcessSnapshot, Stage};

use crate::engines::Engines;
use crate::host::Host;
use crate::live::Live;
use crate::process::{Process, State};

/// How long running processes have to say how far they are.
const PATIENCE: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_micros(100);

/// Has running processes look, and waits until they have; for a while at most, since one that copies a large memory
/// does not look.
fn refresh<'p>(running: impl Iterator<Item = &'p Arc<Process>>) {
    let Ok(engines) = Engines::get() else { return };
    let before: Vec<(&Live, u64)> = running.map(|p| (&*p.live, p.live.looks())).collect();
    if before.is_empty() {
        return;
    }
    let begin = Instant::now();
    engines.increment_epoch();
    let stale = |(live, looks): &(&Live, u64)| !live.calling() && live.looks() == *looks;
    while before.iter().any(stale) && begin.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
    }
}

/// A row for a process that is in this state.
fn row(process: &Process, state: &State) -> ProcessSnapshot {
    let (stage, numbers) = match state {
        State::Queued(_) => (Stage::Waiting, None),
        State::Running if process.live.calling() => (Stage::Calling, process.live.numbers()),
        State::Running => (Stage::Running, process.live.numbers()),
        State::Exited(exit) => {
            let stage = Stage::Ended(exit.reason.to_string());
            (stage, Some((exit.fuel_used, None)))
        }
        State::Reaped => unreachable!("nobody is told of it"),
    };
    ProcessSnapshot {
        pid: process.pid,
        parent: process.parent,
        stage,
        fuel_used: numbers.map(|n| n.0),
        memory_bytes: numbers.and_then(|n| n.1),
    }
}

impl Host {
    /// The processes that have not been waited for, of which `most` at most are described.
    pub fn processes(&self, most: usize) -> Listing {
        let all = self.all();
        let runs = |process: &&Arc<Process>| matches!(*process.state(), State::Running);
        refresh(all.iter().filter(runs).take(most));
        let mut listing = Listing::default();
        let (mut running, mut waiting, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for process in &all {
            // One look says what is counted and what is told.
            let state = process.state();
            let (count, rows) = match *state {
                State::Queued(_) => (&mut listing.waiting, &mut waiting),
                State::Running => (&mut listing.running, &mut running),
                State::Exited(_) => (&mut listing.ended, &mut ended),
                State::Reaped => continue,
            };
            *count += 1;
            if rows.len() < most {
                rows.push(row(process, &state));
            }
        }
        let rows = running.into_iter().chain(waiting).chain(ended);
        listing.rows = rows.take(most).collect();
        listing
    }

    /// Ends all processes; those that wait before those that run, lest they begin meanwhile.
    pub fn kill_all(&self) {
        let all = self.all();
        let (waiting, others): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|p| matches!(*p.state(), State::Queued(_)));
        for process in waiting.into_iter().chain(others) {
            self.end(process);
        }
    }
}
