//! Freed buffers, kept until no task in flight can reach them.
//!
//! Submissions count as in flight in one of two phases, the current one. A buffer that is dropped is
//! *fresh*; when the other phase is empty, the fresh ones become *waiting* and the phases change places;
//! when the phase that was current then is empty, everything that was submitted before is done, and the
//! waiting ones are freed. So an engine that is never idle frees memory too.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::core::Core;
use crate::sync::{Mutex, lock};

/// Addresses and bytes.
type Graves = Vec<(u64, u64)>;

#[derive(Debug)]
pub(crate) struct Graveyard {
    /// Submissions in flight by phase.
    in_flight: [AtomicUsize; 2],
    /// The current phase; changed and read under the producer's lock.
    phase: AtomicBool,
    /// Whether there are graves at all, so that reaping need not take the lock.
    any: AtomicBool,
    /// Fresh and waiting ones.
    graves: Mutex<(Graves, Graves)>,
}

impl Graveyard {
    pub(crate) fn new() -> Self {
        Self {
            in_flight: [AtomicUsize::new(0), AtomicUsize::new(0)],
            phase: AtomicBool::new(false),
            any: AtomicBool::new(false),
            graves: Mutex::new((Vec::new(), Vec::new())),
        }
    }
    /// A submission begins, under the producer's lock; answers its phase.
    pub(crate) fn begin(&self) -> bool {
        let phase = self.phase.load(Ordering::Relaxed);
        self.in_flight[usize::from(phase)].fetch_add(1, Ordering::Relaxed);
        phase
    }
    /// A submission has ended.
    pub(crate) fn end(&self, phase: bool) {
        self.in_flight[usize::from(phase)].fetch_sub(1, Ordering::Release);
    }
}

impl Core {
    /// Frees a buffer, at once or when nothing that was submitted before is in flight.
    pub(crate) fn bury(&self, address: u64, bytes: u64) {
        lock(&self.graveyard.graves).0.push((address, bytes));
        self.graveyard.any.store(true, Ordering::Release);
        self.dig();
    }

    /// Frees what nothing in flight can reach.
    pub(crate) fn dig(&self) {
        let yard = &self.graveyard;
        // A lost engine may still be running tasks; its memory goes with the backend.
        if !yard.any.load(Ordering::Acquire) || self.failure.get().is_some() {
            return;
        }
        let mut graves = lock(&yard.graves);
        // Twice: after the phases have changed places, the other one may be empty as well.
        for _ in 0..2 {
            let current = yard.phase.load(Ordering::Relaxed);
            if yard.in_flight[usize::from(!current)].load(Ordering::Acquire) != 0 {
                return;
            }
            for (address, bytes) in graves.1.drain(..) {
                // SAFETY: allocated by this backend and buried once; every submission that began before
                // the phases changed places has ended, and the buffer was dropped before that.
                unsafe { self.backend.free(address, bytes) };
            }
            if graves.0.is_empty() {
                yard.any.store(false, Ordering::Release);
                return;
            }
            let producer = lock(&self.producer);
            yard.phase.store(!current, Ordering::Relaxed);
            drop(producer);
            let (fresh, waiting) = &mut *graves;
            std::mem::swap(fresh, waiting);
        }
    }
}
