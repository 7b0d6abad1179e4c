//! The epoch that lets running code notice a kill.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::engines::Engines;

/// How many kills have not been noticed yet.
///
/// One step of the epoch per kill would not do: running code reads its kill flag and sets its next deadline in
/// two steps, and a kill that falls between them is behind that deadline. So the epoch moves on while a kill is
/// pending, and rests otherwise, when nobody has to look.
#[derive(Default)]
pub(crate) struct Kills {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pending: usize,
    stop: bool,
}

const STEP: Duration = Duration::from_millis(1);

impl Kills {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// A running process has been told to end.
    pub(crate) fn begin(&self) {
        self.change(|s| s.pending += 1);
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        self.change(|s| s.pending -= 1);
    }

    /// Ends [`Self::drive`].
    pub(crate) fn stop(&self) {
        self.change(|s| s.stop = true);
    }

    /// Moves the epoch on while a kill is pending.
    pub(crate) fn drive(&self, engines: &Engines) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.stop {
            if state.pending == 0 {
                state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            engines.increment_epoch();
            let waited = self.changed.wait_timeout(state, STEP);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
