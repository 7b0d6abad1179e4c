//! The epoch that makes running code look whether it was killed.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::engines;
use crate::lock::{lock, wait, wait_for};

/// Moves the epoch on while something waits for running code to look.
///
/// One step of the epoch for each kill would not suffice. Running code reads its kill switch and sets its next deadline
/// in two steps, and the step of a kill that falls between them is already past that deadline. So the epoch moves on
/// every millisecond while a kill is pending or a worker thread shares its time between processes. Otherwise it rests,
/// and running code does not have to look.
#[derive(Default)]
pub(crate) struct EpochClock {
    state: Mutex<ClockState>,
    changed: Condvar,
}

#[derive(Default)]
struct ClockState {
    /// Kills that are pending, and worker threads that run several processes.
    demands: usize,
    stopped: bool,
}

const STEP: Duration = Duration::from_millis(1);

impl EpochClock {
    fn change(&self, change: impl FnOnce(&mut ClockState)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// Keeps the epoch moving until the matching [`Self::release`].
    pub(crate) fn demand(&self) {
        self.change(|state| state.demands += 1);
    }

    /// Withdraws one [`Self::demand`].
    pub(crate) fn release(&self) {
        self.change(|state| state.demands -= 1);
    }

    /// Ends [`Self::run`].
    pub(crate) fn stop(&self) {
        self.change(|state| state.stopped = true);
    }

    /// Moves the epoch on while there is a demand.
    pub(crate) fn run(&self) {
        let mut state = lock(&self.state);
        while !state.stopped {
            if state.demands == 0 {
                state = wait(&self.changed, state);
                continue;
            }
            engines::increment_epoch();
            state = wait_for(&self.changed, state, STEP);
        }
    }
}
