//! Groups: the count of unfinished tasks.
//!
//! Rules:
//! 1. A group is opened with its count before any of its tasks can be seen by another worker.
//! 2. A task that is counted adds what it spawned, less itself, in one step, before its children can be seen.
//! 3. Whoever brings the count to zero owns the group from then on: it reads the value, fires the
//!    continuation and recycles the id. Acquire and release on the count order every report before that.
//! 4. A worker that runs many tasks of one group holds credit: it has added more to the count than there are
//!    tasks, spends the difference on what its next tasks spawn, and earns it back with each that ends. The
//!    count is therefore never smaller than the tasks that remain, and all tasks stay visible to thieves.
//!    Credit is returned before its holder runs a task of another group, finds nothing to run, sleeps or
//!    leaves: a group with credit outside a running worker would never fire.

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

/// How much credit a worker takes at once after it has asked so often, in powers of two: a search keeps
/// the same group for long, divide-and-conquer hardly for two tasks.
const CREDIT: [u32; 4] = [0, 8, 64, 512];

/// The credit that one worker holds, of one group.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    group: Option<u32>,
    credit: u32,
    asked: usize,
}

impl Ledger {
    /// The group whose credit has to be returned before anything else than its tasks is done.
    #[cfg_attr(loom, allow(dead_code, reason = "no model comes by here"))]
    pub(crate) fn owes(&self) -> Option<u32> {
        self.group.filter(|_| self.credit != 0)
    }
    /// Whether `group` is the one that the ledger is open for.
    #[cfg_attr(loom, allow(dead_code, reason = "no model comes by here"))]
    pub(crate) fn is_for(&self, group: u32) -> bool {
        self.group == Some(group)
    }
    /// Opens the ledger for a group; nothing may be owed to another.
    #[cfg_attr(loom, allow(dead_code, reason = "no model comes by here"))]
    pub(crate) fn open(&mut self, group: u32) {
        debug_assert!(
            self.owes().is_none(),
            "credit of another group would be lost"
        );
        *self = Self {
            group: Some(group),
            credit: 0,
            asked: 0,
        };
    }
    /// A task of the ledger's group has spawned `spawned` into it and goes on: none of these can be seen yet.
    pub(crate) fn spawned(&mut self, count: &Count, spawned: u32) {
        if let Some(left) = self.credit.checked_sub(spawned) {
            self.credit = left;
            return;
        }
        let take = CREDIT[self.asked];
        self.asked = (self.asked + 1).min(CREDIT.len() - 1);
        let change = count.change(spawned - self.credit + take);
        debug_assert_eq!(change, Counted::Open, "the task that spawned is counted");
        self.credit = take;
    }
    /// A task of the ledger's group has ended.
    pub(crate) fn ended(&mut self, count: &Count) -> Counted {
        if self.asked < 2 {
            return count.change(u32::MAX);
        }
        self.credit += 1;
        let most = 2 * CREDIT[CREDIT.len() - 1];
        if self.credit > most {
            self.credit = most / 2;
            return count.change((most / 2 + 1).wrapping_neg());
        }
        Counted::Open
    }
    /// Returns all credit.
    pub(crate) fn settle(&mut self, count: &Count) -> Counted {
        let credit = std::mem::take(&mut self.credit);
        self.group = None;
        if credit == 0 {
            return Counted::Open;
        }
        count.change(credit.wrapping_neg())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Runs a tree of tasks on one worker and checks that the group fires at its end, neither before nor
    /// twice, however much credit was taken on the way.
    #[test]
    fn a_ledger_neither_loses_nor_invents_a_task() {
        for width in [0u32, 1, 2, 3, 9, 100] {
            for tasks in [1u32, 2, 5, 1000, 20_000] {
                let (count, mut ledger) = (Count::default(), Ledger::default());
                count.open(1);
                ledger.open(7);
                let (mut waiting, mut ended, mut fired) = (1u32, 0u32, 0);
                while waiting > 0 {
                    let spawns = width.min(tasks.saturating_sub(ended + waiting));
                    if spawns > 0 {
                        ledger.spawned(&count, spawns);
                    }
                    fired += u32::from(ledger.ended(&count) == Counted::Fired);
                    (waiting, ended) = (waiting - 1 + spawns, ended + 1);
                    assert!(fired == 0 || waiting == 0, "fired early");
                }
                fired += u32::from(ledger.settle(&count) == Counted::Fired);
                assert_eq!(fired, 1, "width {width}, {tasks} tasks");
                assert_eq!(ledger.owes(), None);
            }
        }
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

    /// One worker holds credit while another ends what it has spawned: exactly one change fires, after
    /// both, and it sees every report.
    #[test]
    fn loom_credit_fires_once_after_all() {
        loom::model(|| {
            let group = Arc::new(Count::default());
            group.open(1);
            let mut ledger = Ledger {
                group: Some(0),
                credit: 0,
                asked: 1,
            };
            // The root spawns two, and has taken credit by then.
            ledger.spawned(&group, 2);
            group.add(1);
            let other = group.clone();
            let thread = loom::thread::spawn(move || {
                other.add(10);
                let fired = other.change(u32::MAX);
                if fired == Counted::Fired {
                    assert_eq!(other.value(), 111);
                }
                fired
            });
            let mut fired = ledger.ended(&group) == Counted::Fired;
            group.add(100);
            fired |= ledger.ended(&group) == Counted::Fired;
            assert!(!fired, "fired while credit was out");
            let mine = ledger.settle(&group);
            if mine == Counted::Fired {
                assert_eq!(group.value(), 111);
            }
            let theirs = thread.join().expect("the model's thread ends");
            assert!((mine == Counted::Fired) != (theirs == Counted::Fired));
        });
    }
}
