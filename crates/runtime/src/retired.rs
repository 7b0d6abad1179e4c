//! Freed buffers, kept until no task in flight can reach them.
//!
//! A submission counts as in flight in one of two phases, the one that is current when it begins. A buffer that is dropped
//! is *fresh*. When the other phase is empty, the fresh buffers become *waiting* and the phases change places. When the
//! phase that was current then is empty, everything that was submitted before is done, and the waiting buffers are freed.
//! So an engine that is never idle frees memory too. A submission that lasts as long as the engine counts in neither phase.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::core::EngineCore;
use crate::sync::{Mutex, lock};

/// How long an engine that ends waits for the tasks that may still reach its buffers.
const GRACE: Duration = Duration::from_secs(2);

/// Addresses and sizes.
type Allocations = Vec<(u64, u64)>;

/// The buffers that were dropped and not freed yet, and the submissions that may still reach them.
#[derive(Debug)]
pub(crate) struct RetiredBuffers {
    /// Submissions in flight by phase.
    in_flight: [AtomicUsize; 2],
    /// The current phase; changed and read under the producer's lock.
    phase: AtomicBool,
    /// Whether there are any buffers, so that reaping need not take the lock.
    any: AtomicBool,
    /// Fresh and waiting buffers.
    buffers: Mutex<(Allocations, Allocations)>,
}

impl RetiredBuffers {
    pub(crate) fn new() -> Self {
        Self {
            in_flight: [AtomicUsize::new(0), AtomicUsize::new(0)],
            phase: AtomicBool::new(false),
            any: AtomicBool::new(false),
            buffers: Mutex::new((Vec::new(), Vec::new())),
        }
    }
    /// Counts the begin of a submission, under the producer's lock. Returns its phase.
    pub(crate) fn begin(&self) -> bool {
        let phase = self.phase.load(Ordering::Relaxed);
        self.in_flight[usize::from(phase)].fetch_add(1, Ordering::Relaxed);
        phase
    }
    /// Counts the end of a submission.
    pub(crate) fn end(&self, phase: bool) {
        self.in_flight[usize::from(phase)].fetch_sub(1, Ordering::Release);
    }
}

impl EngineCore {
    /// Frees a buffer as soon as nothing that was submitted before is in flight.
    pub(crate) fn retire(&self, address: u64, bytes: u64) {
        lock(&self.retired.buffers).0.push((address, bytes));
        self.retired.any.store(true, Ordering::Release);
        self.free_retired();
    }

    /// Frees the buffers that nothing in flight can reach.
    pub(crate) fn free_retired(&self) {
        let retired = &self.retired;
        // A lost engine may still be running tasks; its memory goes with the engine.
        if !retired.any.load(Ordering::Acquire) || self.failure.get().is_some() {
            return;
        }
        let mut buffers = lock(&retired.buffers);
        // Twice: after the phases have changed places, the other one may be empty as well.
        for _ in 0..2 {
            let current = retired.phase.load(Ordering::Relaxed);
            if retired.in_flight[usize::from(!current)].load(Ordering::Acquire) != 0 {
                return;
            }
            for (address, bytes) in buffers.1.drain(..) {
                // SAFETY: allocated by this engine and retired once; every submission that began before the phases
                // changed places has ended, and the buffer was dropped before that.
                unsafe { self.engine.free(address, bytes) };
            }
            if buffers.0.is_empty() {
                retired.any.store(false, Ordering::Release);
                return;
            }
            let producer = lock(&self.producer);
            retired.phase.store(!current, Ordering::Relaxed);
            drop(producer);
            let (fresh, waiting) = &mut *buffers;
            std::mem::swap(fresh, waiting);
        }
    }
}

impl Drop for EngineCore {
    /// Frees the buffers that were still waiting for a submission when the last handle went.
    fn drop(&mut self) {
        let buffers = std::mem::take(&mut *lock(&self.retired.buffers));
        if buffers.0.is_empty() && buffers.1.is_empty() {
            return;
        }
        // A task that does not end may still reach them, so they stay until the program ends.
        if self.engine.park(GRACE).is_ok() {
            for (address, bytes) in buffers.0.into_iter().chain(buffers.1) {
                // SAFETY: allocated by this engine and retired once; no task runs any more.
                unsafe { self.engine.free(address, bytes) };
            }
        }
    }
}
