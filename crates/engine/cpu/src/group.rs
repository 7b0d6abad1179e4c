//! Groups: the count of unfinished tasks.
//!
//! Rules:
//! 1. A group is opened with its count before any of its tasks can be seen by another worker.
//! 2. A task that is counted adds what it spawned, less itself, in one step, before its children can be seen. A task that
//!    holds its group for another one adds that at once, since the other one may end first.
//! 3. The worker that brings the count to zero owns the group from then on: it reads the value, fires the continuation
//!    and recycles the id. Acquire and release on the count order every report before that.
//! 4. A worker that runs many tasks of one group holds credit: it has added more to the count than there are tasks,
//!    spends the difference on the tasks that its next ones spawn, and earns credit back with each that ends. The count is
//!    therefore never smaller than the number of tasks that remain, and all tasks stay visible to thieves. A worker
//!    returns its credit before it runs a task of another group, finds nothing to run, sleeps or leaves: a group with
//!    credit outside a running worker would never fire.

use everwarp_contract::GroupId;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The result of a change of the count.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Tasks remain.
    Open,
    /// The caller took the last one, and now owns the group.
    Fired,
}

/// The count and the value of a group; its continuation is stored next to it.
#[derive(Debug, Default)]
pub(crate) struct GroupCount {
    pending: AtomicU32,
    value: AtomicU64,
}

impl GroupCount {
    /// Opens the group. Only for its owner, before any other worker can know the group.
    pub(crate) fn open(&self, pending: u32) {
        self.value.store(0, Ordering::Relaxed);
        self.pending.store(pending, Ordering::Relaxed);
    }
    /// Adds `change` (two's complement) to the count.
    pub(crate) fn change(&self, change: u32) -> Counted {
        // Release: this worker's reports happen before the continuation. Acquire: so do all others'.
        let old = self.pending.fetch_add(change, Ordering::AcqRel);
        if old.wrapping_add(change) == 0 {
            Counted::Fired
        } else {
            Counted::Open
        }
    }
    /// Adds to the value. Only for a task of the group.
    pub(crate) fn add(&self, value: u64) {
        self.value.fetch_add(value, Ordering::Relaxed);
    }
    /// Writes one half of the value. Each half has one writer in a group, but the two writers race for the word.
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
    /// The value. Only for the owner of a fired group.
    pub(crate) fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// How much credit a worker takes at its first, second, third and later requests: a search stays in one group for long,
/// divide-and-conquer hardly for two tasks.
const CREDIT: [u32; 4] = [0, 8, 64, 512];

/// The credit that one worker holds in one group.
#[derive(Debug, Default)]
pub(crate) struct GroupCredit {
    group: Option<GroupId>,
    credit: u32,
    asked: usize,
}

impl GroupCredit {
    /// The group to which credit must be returned before the worker does anything but run its tasks.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn owes(&self) -> Option<GroupId> {
        self.group.filter(|_| self.credit != 0)
    }
    /// Whether this is the credit of `group`.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn is_for(&self, group: GroupId) -> bool {
        self.group == Some(group)
    }
    /// Starts with a group. No credit of another group may be left.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn open(&mut self, group: GroupId) {
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
    /// Counts `spawned` tasks that a task of this group has spawned into it. The task goes on, and no other worker can
    /// see the new tasks yet.
    pub(crate) fn spawned(&mut self, count: &GroupCount, spawned: u32) {
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
    /// Counts the end of a task of this group.
    pub(crate) fn ended(&mut self, count: &GroupCount) -> Counted {
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
    pub(crate) fn settle(&mut self, count: &GroupCount) -> Counted {
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

    /// Runs a tree of tasks on one worker and checks that the group fires once, at the end, however much credit was
    /// taken on the way.
    #[test]
    fn group_with_credit_fires_once_at_its_end() {
        for width in [0u32, 1, 2, 3, 9, 100] {
            for tasks in [1u32, 2, 5, 1000, 20_000] {
                let (count, mut credit) = (GroupCount::default(), GroupCredit::default());
                count.open(1);
                credit.open(GroupId(7));
                let (mut waiting, mut ended, mut fired) = (1u32, 0u32, 0);
                while waiting > 0 {
                    let spawns = width.min(tasks.saturating_sub(ended + waiting));
                    if spawns > 0 {
                        credit.spawned(&count, spawns);
                    }
                    fired += u32::from(credit.ended(&count) == Counted::Fired);
                    (waiting, ended) = (waiting - 1 + spawns, ended + 1);
                    assert!(fired == 0 || waiting == 0, "fired early");
                }
                fired += u32::from(credit.settle(&count) == Counted::Fired);
                assert_eq!(fired, 1, "width {width}, {tasks} tasks");
                assert_eq!(credit.owes(), None);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Two tasks finish while one of them spawns a third that the other worker finishes: exactly one change fires, and
    /// the value that it sees holds every report.
    #[test]
    fn loom_group_fires_once_after_all() {
        loom::model(|| {
            let group = Arc::new(GroupCount::default());
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

    /// A task holds its group for another task, which another worker runs and ends first: only the end of both fires.
    #[test]
    fn loom_held_group_fires_once_after_both() {
        loom::model(|| {
            let group = Arc::new(GroupCount::default());
            group.open(1);
            assert_eq!(group.change(1), Counted::Open, "the group is held");
            let other = group.clone();
            let thread = loom::thread::spawn(move || {
                other.add(7);
                let fired = other.change(u32::MAX);
                if fired == Counted::Fired {
                    assert_eq!(other.value(), 12);
                }
                fired
            });
            group.add(5);
            let mine = group.change(u32::MAX);
            if mine == Counted::Fired {
                assert_eq!(group.value(), 12);
            }
            let theirs = thread.join().expect("the model's thread ends");
            assert!((mine == Counted::Fired) != (theirs == Counted::Fired));
        });
    }

    /// One worker holds credit while another worker ends the task that it has spawned: exactly one change fires, after
    /// both, and it sees every report.
    #[test]
    fn loom_credit_fires_once_after_all() {
        loom::model(|| {
            let group = Arc::new(GroupCount::default());
            group.open(1);
            let mut credit = GroupCredit {
                group: Some(GroupId(0)),
                credit: 0,
                asked: 1,
            };
            // The root spawns two, and has taken credit by then.
            credit.spawned(&group, 2);
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
            let mut fired = credit.ended(&group) == Counted::Fired;
            group.add(100);
            fired |= credit.ended(&group) == Counted::Fired;
            assert!(!fired, "fired while credit was out");
            let mine = credit.settle(&group);
            if mine == Counted::Fired {
                assert_eq!(group.value(), 111);
            }
            let theirs = thread.join().expect("the model's thread ends");
            assert!((mine == Counted::Fired) != (theirs == Counted::Fired));
        });
    }
}
