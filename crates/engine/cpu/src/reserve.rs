//! A part of the pools that one worker at a time may use, so that small pools suffice for any number of workers.
//!
//! Every worker that runs a tree of tasks needs room for a path of it: a group for each fork, and the tasks that wait next
//! to the path. One worker needs the longest path once; sixteen workers need it sixteen times, and if the pools hold less,
//! all of them would wait for room that only another one could make. So a part of both pools is a reserve. A worker that
//! has waited for a while without any room claims it, if no other worker has it. As long as it has it,
//! * it takes tasks in the order of one thread: its newest ones, and from others only when it has none left;
//! * the other workers run what they have and take nothing from each other, so that the path of the one worker stays with
//!   it, and what it has opened from the reserve is free again when its own queue is empty.
//!
//! It gives the reserve back when the reserve is whole and its own tasks fit without it, when it finds nothing to run, or
//! when it cannot go on even so.

use std::sync::atomic::{AtomicU32, Ordering};

/// The largest reserve. A part of small pools that matters is a trifle of large ones.
const RESERVE_MOST: u32 = 1 << 16;
/// Starved rounds in a row after which a worker claims the reserve. Until then another worker may make room, or take tasks.
pub(crate) const PATIENCE: u32 = 16;
/// Starved rounds in a row after which a worker gives the reserve up.
pub(crate) const PERSEVERANCE: u32 = 64;

/// How much of a pool is the reserve: none for a single worker, which has all of it.
pub(crate) fn reserve_of(pool: u32, workers: u32) -> u32 {
    match workers {
        0 | 1 => 0,
        _ => (pool / 2).min(RESERVE_MOST),
    }
}

/// Which worker has the reserve. It outlives epochs, because the tasks and groups that it has led to do.
#[derive(Debug, Default)]
pub(crate) struct ReserveOwner(
    /// The worker's number plus one, or zero.
    AtomicU32,
);

impl ReserveOwner {
    /// Whether a worker has the reserve.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether this worker has the reserve.
    pub(crate) fn is(&self, worker: usize) -> bool {
        self.0.load(Ordering::Relaxed) == worker as u32 + 1
    }

    /// Takes the reserve for a worker, unless another one has it.
    #[must_use]
    pub(crate) fn claim(&self, worker: usize) -> bool {
        // The pools have locks of their own; this word only says who may go on.
        self.0
            .compare_exchange(0, worker as u32 + 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives the reserve back.
    pub(crate) fn release(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Gives the reserve back if its worker is not among the first `workers`.
    pub(crate) fn release_absent(&self, workers: u32) {
        if self.0.load(Ordering::Relaxed) > workers {
            self.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_has_the_reserve() {
        let owner = ReserveOwner::default();
        assert!(!owner.is_taken() && !owner.is(0));
        assert!(owner.claim(3));
        assert!(!owner.claim(0) && owner.is(3) && owner.is_taken());
        owner.release_absent(4);
        assert!(owner.is(3), "worker 3 is one of four");
        owner.release_absent(3);
        assert!(!owner.is_taken());
        assert!(owner.claim(0));
        owner.release();
        assert!(!owner.is_taken());
    }

    #[test]
    fn reserve_is_half_of_a_small_pool_and_little_of_a_large_one() {
        assert_eq!(reserve_of(128, 1), 0);
        assert_eq!(reserve_of(128, 16), 64);
        assert_eq!(reserve_of(4 << 20, 16), 1 << 16);
    }
}
