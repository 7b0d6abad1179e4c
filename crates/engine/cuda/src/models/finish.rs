//! Twin of the counting in `device/warp/finish.cuh` (`finish`, `settle`) and of `group_open` in
//! `device/grid/group.cuh`, with `report_add` of `device/lane/lane.cuh`.
//!
//! A batch whose net change is positive adds relaxed and does not ask for the result; one that changes
//! nothing does nothing; any other adds with release, and only the one that brings the count to zero fences before it
//! reads. That is enough because a task that leaves children hands them on after its reports: its reports happen before
//! their end. Here each child goes to another warp through its inbox.
//!
//! Debts are not modelled. A warp that owes has only put off a change that takes from the count, or set it
//! off against what it spawned: the count is never smaller than the tasks that remain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as StdU32, Ordering as StdOrdering};

use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{self, Acquire, Relaxed, Release},
    fence,
};
use loom::thread;

use super::explore;

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
struct Rules {
    /// Order of a batch that takes from the count.
    take: Ordering,
    /// Whether the warp that fires the continuation fences first.
    fences: bool,
    /// Whether children are counted before they are handed on.
    counts_first: bool,
}

const AS_WRITTEN: Rules = Rules {
    take: Release,
    fences: true,
    counts_first: true,
};

const THEN: u32 = 77;

/// A group; `fired` is outside of loom and orders nothing.
struct Group {
    pending: AtomicU32,
    value: AtomicU64,
    then: AtomicU32,
    fired: StdU32,
    expected: u64,
    rules: Rules,
}

impl Group {
    /// A record with the contents of an earlier use of the id.
    fn new(expected: u64, rules: Rules) -> Self {
        Self {
            pending: AtomicU32::new(0),
            value: AtomicU64::new(99),
            then: AtomicU32::new(0),
            fired: StdU32::new(0),
            expected,
            rules,
        }
    }

    fn open(&self, pending: u32) {
        self.pending.store(pending, Relaxed);
        self.value.store(0, Relaxed);
        self.then.store(THEN, Relaxed);
    }

    fn report_add(&self, value: u64) {
        self.value.fetch_add(value, Relaxed);
    }

    /// The end of a batch with this net change.
    fn finish(&self, change: i32) {
        if change > 0 {
            self.pending.fetch_add(change as u32, Relaxed);
        } else if change < 0 {
            let old = self.pending.fetch_add(change as u32, self.rules.take);
            if old.wrapping_add(change as u32) == 0 {
                if self.rules.fences {
                    fence(Acquire);
                }
                self.fire();
            }
        }
    }

    fn fire(&self) {
        let then = self.then.load(Relaxed);
        let value = self.value.load(Relaxed);
        self.fired.fetch_add(1, StdOrdering::Relaxed);
        assert_eq!(then, THEN, "the record is not seen");
        assert_eq!(value, self.expected, "a report is not seen");
    }

    fn assert_fired_once(&self) {
        let fired = self.fired.load(StdOrdering::Relaxed);
        assert_eq!(fired, 1, "fired {fired} times");
    }
}

/// An inbox as `give` fills it and `check_inbox` empties it.
#[derive(Default)]
struct Inbox(AtomicU32);

impl Inbox {
    fn give(&self) {
        self.0.store(1, Release);
    }

    fn wait(&self) {
        while self.0.load(Acquire) == 0 {
            thread::yield_now();
        }
    }
}

fn finishers(rules: Rules) {
    explore(move || {
        let group = Arc::new(Group::new(1 + 2 + 4, rules));
        group.open(3);
        let others: Vec<_> = [2, 4]
            .map(|report| {
                let group = group.clone();
                thread::spawn(move || {
                    group.report_add(report);
                    group.finish(-1);
                })
            })
            .into();
        group.report_add(1);
        group.finish(-1);
        for other in others {
            other.join().unwrap();
        }
        group.assert_fired_once();
    });
}

/// A task reports and spawns `delta` children into its own group: the last goes to another warp, the
/// others run here. With `elsewhere`, one more task is in the group and ends elsewhere, reporting 8.
fn children(delta: u32, elsewhere: bool, rules: Rules) {
    explore(move || {
        let expected = 1 + 2 * u64::from(delta) + if elsewhere { 8 } else { 0 };
        let shared = Arc::new((Group::new(expected, rules), Inbox::default()));
        let (group, inbox) = &*shared;
        group.open(1 + u32::from(elsewhere));
        let mut others = Vec::new();
        others.push(thread::spawn({
            let shared = shared.clone();
            move || {
                let (group, inbox) = &*shared;
                inbox.wait();
                group.report_add(2);
                group.finish(-1);
            }
        }));
        if elsewhere {
            let shared = shared.clone();
            others.push(thread::spawn(move || {
                shared.0.report_add(8);
                shared.0.finish(-1);
            }));
        }
        group.report_add(1);
        let change = delta as i32 - 1;
        if rules.counts_first {
            group.finish(change);
            inbox.give();
        } else {
            inbox.give();
            group.finish(change);
        }
        // The children that stayed, in one batch.
        if delta > 1 {
            group.report_add(2 * u64::from(delta - 1));
            group.finish(-(delta as i32 - 1));
        }
        for other in others {
            other.join().unwrap();
        }
        group.assert_fired_once();
    });
}

/// A task forks a group with two children and hands one of them on.
fn fork(rules: Rules) {
    explore(move || {
        let shared = Arc::new((Group::new(1 + 2, rules), Inbox::default()));
        let (group, inbox) = &*shared;
        let other = thread::spawn({
            let shared = shared.clone();
            move || {
                let (group, inbox) = &*shared;
                inbox.wait();
                group.report_add(2);
                group.finish(-1);
            }
        });
        group.open(2);
        inbox.give();
        group.report_add(1);
        group.finish(-1);
        other.join().unwrap();
        group.assert_fired_once();
    });
}

#[test]
fn one_of_several_finishers_fires_and_sees_all_reports() {
    finishers(AS_WRITTEN);
}

#[test]
fn children_are_counted_before_they_end_elsewhere() {
    children(2, false, AS_WRITTEN);
    children(2, true, AS_WRITTEN);
}

#[test]
fn a_task_replaced_by_its_child_is_seen_through_it() {
    children(1, false, AS_WRITTEN);
    children(1, true, AS_WRITTEN);
}

#[test]
fn who_fires_sees_the_record_of_a_fork() {
    fork(AS_WRITTEN);
}

#[test]
#[should_panic(expected = "a report is not seen")]
fn mutant_a_relaxed_take_hides_a_report() {
    finishers(Rules {
        take: Relaxed,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "a report is not seen")]
fn mutant_without_the_fence_a_report_is_hidden() {
    finishers(Rules {
        fences: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "a report is not seen")]
fn mutant_children_that_are_counted_late_let_the_group_fire_early() {
    children(
        2,
        false,
        Rules {
            counts_first: false,
            ..AS_WRITTEN
        },
    );
}
