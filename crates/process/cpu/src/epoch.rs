//! The epoch that makes running code look whether it was killed.

use std::io;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::engines;
use crate::lock::{lock, wait, wait_for};

/// Moves the epoch on while something waits for running code to look. All hosts have one clock, because they have one
/// epoch.
///
/// One step of the epoch for each kill would not suffice. Running code reads its kill switch and sets its next deadline
/// in two steps, and the step of a kill that falls between them is already past that deadline. So the epoch moves on
/// every millisecond while a kill is pending or a worker thread shares its time between processes. Otherwise it rests,
/// and running code does not have to look.
struct EpochClock {
    state: Mutex<ClockState>,
    changed: Condvar,
}

struct ClockState {
    /// Kills that are pending, and worker threads that run several processes.
    demands: usize,
    started: bool,
}

const STEP: Duration = Duration::from_millis(1);

static CLOCK: EpochClock = EpochClock {
    state: Mutex::new(ClockState {
        demands: 0,
        started: false,
    }),
    changed: Condvar::new(),
};

/// Starts the clock's thread, unless it runs. It rests until there is a demand, and never ends.
pub(crate) fn start() -> io::Result<()> {
    let mut state = lock(&CLOCK.state);
    if !state.started {
        let builder = std::thread::Builder::new().name("epoch".to_owned());
        builder.spawn(|| CLOCK.run())?;
        state.started = true;
    }
    Ok(())
}

/// Keeps the epoch moving until the matching [`release`].
pub(crate) fn demand() {
    let mut state = lock(&CLOCK.state);
    state.demands += 1;
    if state.demands == 1 {
        CLOCK.changed.notify_all();
    }
}

/// Withdraws one [`demand`].
pub(crate) fn release() {
    lock(&CLOCK.state).demands -= 1;
}

impl EpochClock {
    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            if state.demands == 0 {
                state = wait(&self.changed, state);
                continue;
            }
            engines::increment_epoch();
            state = wait_for(&self.changed, state, STEP);
        }
    }
}
