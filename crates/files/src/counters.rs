//! Counters that tell where the time goes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often something happened, or of how many things.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The time that threads have spent on something, added up.
#[derive(Debug, Default)]
pub(crate) struct TimeSum(Count);

impl TimeSum {
    pub(crate) fn add_since(&self, begin: Instant) {
        let nanos = begin.elapsed().as_nanos();
        self.0.add(u64::try_from(nanos).unwrap_or(u64::MAX));
    }
    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.get())
    }
}

/// Those of a server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// How often requests were taken, some at a time.
    pub(crate) takes: Count,
    /// Reads that the thread that takes requests has done itself.
    pub(crate) lone_reads: Count,
    /// How often events were taken to the pager, some at a time.
    pub(crate) page_turns: Count,
    /// Records of copies that were submitted, and batches of them.
    pub(crate) copies: Count,
    pub(crate) copy_batches: Count,
    /// Waits for copies.
    pub(crate) copy_wait: TimeSum,
    /// Waits for the answers of orders.
    pub(crate) order_wait: TimeSum,
}
