//! How a waiter passes its time, and how it tells a slow engine from one where nothing moves any more.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use everwarp_contract::DevWorker;

use crate::core::EngineCore;
use crate::diagnose::diagnose;
use crate::error::Error;

/// How long a waiter does not sleep: a round trip to a GPU takes less, and a sleep would be the largest part of it.
const SPIN: Duration = Duration::from_micros(50);
/// How many turns it spins between two looks at the clock.
const SPIN_TURNS: u32 = 32;
/// How often a waiter looks at the workers' counters while nothing completes.
const INTERVAL: Duration = Duration::from_millis(250);

/// One wait, from its start.
#[derive(Debug, Default)]
pub(crate) struct WaitLoop {
    begin: Option<Instant>,
    /// Turns so far.
    turns: u32,
    /// Rounds of the engine's own waiting so far; 0 while the waiter spins.
    round: u32,
    /// When the counters were last looked at.
    looked: Option<Instant>,
    /// Since when nothing has moved, and the progress then.
    still: Option<(Instant, u64)>,
    /// The number of parks and resumes at the last look.
    parked: Option<u32>,
    /// Whether the wait lasts as long as the engine, so that it says nothing that nothing moves.
    lasts: bool,
}

impl WaitLoop {
    /// A wait that lasts as long as the engine: an engine without work, and a parked one, are nothing wrong.
    pub(crate) fn lasting() -> Self {
        Self {
            lasts: true,
            ..Self::default()
        }
    }
    /// Passes some time after a look that found nothing: spins at first, then lets the engine decide how to wait.
    ///
    /// # Errors
    /// [`Error::Timeout`], the error that ended the engine, and [`Error::Parked`] for a wait without a limit.
    pub(crate) fn pause(
        &mut self,
        core: &EngineCore,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        self.turns = self.turns.wrapping_add(1);
        let stepped = core.engine.is_stepped();
        if self.round == 0 && !stepped && !self.turns.is_multiple_of(SPIN_TURNS) {
            everwarp_engine::relax();
            return Ok(());
        }
        let now = Instant::now();
        let begin = *self.begin.get_or_insert(now);
        if let Some(after) = limit
            && now - begin >= after
        {
            return Err(Error::Timeout { after });
        }
        if self.round > 0 || stepped || now - begin >= SPIN {
            core.check()?;
            if let Some(error) = core.fault() {
                return Err(core.fail(error));
            }
            if !self.lasts {
                self.look(core, now, limit.is_some())?;
            }
            core.engine.idle_wait(self.round);
            self.round = self.round.saturating_add(1);
        }
        Ok(())
    }

    fn look(&mut self, core: &EngineCore, now: Instant, limited: bool) -> Result<(), Error> {
        let interval = INTERVAL.min(core.watchdog / 4);
        if now - *self.looked.get_or_insert(now) < interval {
            return Ok(());
        }
        self.looked = Some(now);
        // A parked engine is not stuck. Only an engine that stays parked for a whole interval is an error: other threads
        // may park and resume it during this wait.
        let epoch = core.parked.load(Ordering::Acquire);
        let before = self.parked.replace(epoch);
        if epoch % 2 == 1 {
            self.still = None;
            return if before == Some(epoch) && !limited {
                Err(Error::Parked)
            } else {
                Ok(())
            };
        }
        // The tasks wait for something outside, such as a disk: the engine is idle.
        if core.outside.load(Ordering::Acquire) > 0 {
            self.still = None;
            return Ok(());
        }
        let workers = core.engine.workers()?;
        let progress = workers.iter().map(progress).fold(0, u64::wrapping_add);
        match self.still {
            Some((since, before)) if before == progress => {
                // Another thread may have parked the engine just now.
                if now - since >= core.watchdog && core.parked.load(Ordering::Acquire) == epoch {
                    return Err(core.fail(diagnose(core, &workers)));
                }
            }
            _ => self.still = Some((now, progress)),
        }
        Ok(())
    }
}

/// A number that grows as long as the worker makes progress.
fn progress(worker: &DevWorker) -> u64 {
    [
        worker.executed,
        worker.batches,
        worker.received,
        worker.published,
        worker.fired,
    ]
    .into_iter()
    .fold(0, u64::wrapping_add)
}
