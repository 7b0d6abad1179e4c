//! The counters of an engine.

use everwarp_contract::DevWorker;
use everwarp_engine::{DispatchTimes, PoolState};

use crate::engine::Engine;
use crate::error::Error;

/// The counters of an engine since its start.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Tasks run to completion, continuations included.
    pub executed: u64,
    /// Batches in which they ran.
    pub batches: u64,
    /// Continuations fired.
    pub fired: u64,
    /// Tasks that moved from one worker to another.
    pub received: u64,
    /// How often a worker could not run because a pool had no room.
    pub starved: u64,
    /// The limits of the pools, and how often they were reached.
    pub pools: PoolState,
    /// The times of dispatches, where an engine is a chain of them.
    pub dispatches: Option<DispatchTimes>,
    /// Every worker's counters.
    pub workers: Vec<DevWorker>,
}

impl Engine {
    /// The engine's counters; may be read while it runs.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        let workers = self.core.engine.workers()?;
        let sum = |field: fn(&DevWorker) -> u64| workers.iter().map(field).sum();
        Ok(Stats {
            executed: sum(|w| w.executed),
            batches: sum(|w| w.batches),
            fired: sum(|w| w.fired),
            received: sum(|w| w.received),
            starved: sum(|w| w.starved),
            pools: self.core.engine.pool_state()?,
            dispatches: self.core.engine.dispatch_times(),
            workers,
        })
    }
}
