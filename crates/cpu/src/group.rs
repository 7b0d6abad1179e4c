//! Groups: the count of unfinished tasks.
//!
//! Rules:
//! 1. A group is opened with its count before any of its tasks can be seen by another worker.
//! 2. A task that is counted adds what it spawned, less itself, in one step, before its children can be seen.
//! 3. Whoever brings the count to zero owns the group from then on: it reads the value, fires the
//!    continuation and recycles the id. Acquire and release on the count order every report before that.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What a change of the count led to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Tasks remain.
    Open,
    /// The caller took the last one, and now owns the group.
    Fired,
}

/// The count and the value; the continuation lies beside it.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pending: AtomicU32,
    value: AtomicU64,
}

impl Count {
    /// The owner, before anybody else can know the group.
    pub(crate) fn open(&self, pending: u32) {
        self.value.store(0, Ordering::Relaxed);
        self.pending.store(pending, Ordering::Relaxed);
    }
    /// Adds `change` (two's complement) to the count.
    pub(crate) fn change(&self, change: u32) -> Counted {
        // Release: our reports happen before the continuation. Acquire: so do everybody else's.
        let old = self.pending.fetch_add(change, Ordering::AcqRel);
        if old.wrapping_add(change) == 0 {
            Counted::Fired
        } else {
            Counted::Open
        }
    }
    /// Adds to the value; a task of the group.
    pub(crate) fn add(&self, value: u64) {
        self.value.fetch_add(value, Ordering::Relaxed);
    }
    /// Writes one half of the value; each half has one writer in a group, but they race for the word.
    pub(crate) fn slot(&self, slot: u32, value: u32) {
        let shift = 32 * (slot & 1);
        let mut seen = self.value.load(Ordering::Relaxed);
        loop {
            let next = seen & !(0xffff_ffff << shift) | u64::from(value) << shift;
            match self
                .value
                .compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
    /// The value; the owner of a fired group.
    pub(crate) fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Two tasks finish while one of them spawns a third that the other worker finishes: exactly one
    /// change fires, and what it sees holds every report.
    #[test]
    fn loom_group_fires_once_after_all() {
        loom::model(|| {
            let group = Arc::new(Count::default());
            group.open(2);
            let other = group.clone();
            let thread = loom::thread::spawn(move || {
                other.slot(1, 7);
                let fired = other.change(u32::MAX);
                if fired == Counted::Fired {
                    assert_eq!(other.value(), 7 << 32 | 5);
                }
                fired
            });
            group.slot(0, 5);
            // Spawns one and finishes: the count stays; then the spawned one finishes.
            let _ = group.change(0);
            let mine = group.change(u32::MAX);
            if mine == Counted::Fired {
                assert_eq!(group.value(), 7 << 32 | 5);
            }
            let theirs = thread.join().expect("the model's thread ends");
            assert!((mine == Counted::Fired) != (theirs == Counted::Fired));
        });
    }
}
