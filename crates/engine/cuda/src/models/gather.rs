//! Twin of `expect_wake`, `expect_none` and `gather` of `crates/process/cuda/device/gather.cuh`, of `run` and `process_wake` of
//! `process.cuh` there and of `wake` of `gpu/wake.cuh` (`turn.rs` has `turn.cuh`): two processes of a group that wait
//! for the host, and perhaps another process that wakes one of them. A process that would continue by a task of its own
//! continues at once in the thread that would submit the task.

use std::sync::Arc;
use std::sync::atomic::AtomicU32 as StdU32;

use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{self, AcqRel, Acquire, Relaxed, Release},
};
use loom::thread;

use super::turn::{self, Turn};
use super::{Tally, explore};

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
struct Rules {
    /// The memory order with which the waker of processes changes the word.
    gather: Ordering,
    turn: turn::Rules,
    /// Whether a process says that it is about to park before it does.
    says_first: bool,
    /// Whether a process that could not park wakes the processes that wait for it.
    looks_after: bool,
    /// Whether another process that wakes one does so, too.
    others_look_after: bool,
}

const AS_WRITTEN: Rules = Rules {
    gather: AcqRel,
    turn: turn::AS_WRITTEN,
    says_first: true,
    looks_after: true,
    others_look_after: true,
};

struct Process {
    turn: Turn,
    /// The host has answered.
    answered: AtomicU32,
    /// The frames that it saved when it last waited. The thread that continues it must see them.
    saved: AtomicU32,
    /// The same, for the model to compare with.
    truth: StdU32,
}

struct Group {
    word: AtomicU64,
    processes: [Process; 2],
    /// The processes that have taken their replies.
    done: Tally,
    /// Whether a process that could not park was the only one in its warp.
    alone: bool,
    rules: Rules,
}

fn waiting_bit(who: usize) -> u64 {
    1 << (32 + who)
}

impl Group {
    fn new(alone: bool, rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU64::new(0),
            processes: std::array::from_fn(|_| Process {
                turn: Turn::new(rules.turn),
                answered: AtomicU32::new(0),
                saved: AtomicU32::new(0),
                truth: StdU32::new(0),
            }),
            done: Tally::new(2),
            alone,
            rules,
        })
    }

    fn expect_wake(&self, who: usize) {
        self.word.fetch_or(waiting_bit(who), AcqRel);
    }

    /// Whether others wait.
    fn expect_none(&self, who: usize) -> bool {
        self.word.fetch_and(!waiting_bit(who), AcqRel) as u32 != 0
    }

    /// Goes on with a process.
    fn run(&self, who: usize) {
        let process = &self.processes[who];
        let (saved, truth) = (process.saved.load(Relaxed), process.truth.load(Relaxed));
        assert_eq!(saved, truth, "it does not see its saved frames");
        if process.answered.load(Acquire) == 1 {
            return self.done.arrived(who as u32);
        }
        process.saved.store(saved + 1, Relaxed);
        process.truth.store(saved + 1, Relaxed);
        if self.rules.says_first {
            self.expect_wake(who);
        }
        if process.turn.park() {
            if !self.rules.says_first {
                self.expect_wake(who);
            }
            return;
        }
        let others = self.expect_none(who);
        if self.rules.looks_after && (others || !self.alone) {
            self.gather(1 << who, 0);
        } else {
            self.run(who);
        }
    }

    fn gather(&self, which: u64, waited: u64) {
        let change = which.wrapping_sub(waited << 32);
        let before = self.word.fetch_add(change, self.rules.gather);
        let mut now = before.wrapping_add(change);
        while now != 0 && now >> 32 == 0 {
            match self.word.compare_exchange(now, 0, AcqRel, Acquire) {
                Ok(_) => {
                    for who in (0..2).filter(|who| now >> who & 1 != 0) {
                        self.run(who);
                    }
                    return;
                }
                Err(other) => now = other,
            }
        }
    }

    /// The host replies, and the task that it submits wakes the process.
    fn answer(&self, who: usize) {
        self.processes[who].answered.store(1, Release);
        let woken = u64::from(self.processes[who].turn.resume()) << who;
        self.gather(woken, woken);
    }

    /// Another process wakes it, without a reply of the host.
    fn wake(&self, who: usize) {
        if self.processes[who].turn.resume() {
            if self.expect_none(who) && self.rules.others_look_after {
                self.gather(0, 0);
            }
            self.run(who);
        }
    }
}

/// Runs the first process concurrently with these; in the end both have their replies.
fn all_get_through(group: &Arc<Group>, others: [fn(&Group); 3]) {
    let others = others.map(|act| {
        let group = group.clone();
        thread::spawn(move || act(&group))
    });
    group.run(0);
    for other in others {
        other.join().unwrap();
    }
    group.done.assert_all();
    assert_eq!(group.word.load(Relaxed), 0, "a process is still waited for");
}

fn both_are_answered(alone: bool, rules: Rules) {
    explore(move || {
        let group = Group::new(alone, rules);
        all_get_through(&group, [|g| g.run(1), |g| g.answer(0), |g| g.answer(1)]);
    });
}

/// The second process is parked and waits for the host, as it would have done by itself.
fn another_wakes_the_first(rules: Rules) {
    explore(move || {
        let group = Group::new(true, rules);
        group.run(1);
        all_get_through(&group, [|g| g.answer(0), |g| g.answer(1), |g| g.wake(0)]);
    });
}

#[test]
fn neighbours_with_replies_continue_once_each() {
    both_are_answered(true, AS_WRITTEN);
}

#[test]
fn neighbours_continue_once_each_among_other_processes() {
    both_are_answered(false, AS_WRITTEN);
}

#[test]
fn process_woken_by_another_leaves_no_neighbour_waiting() {
    another_wakes_the_first(AS_WRITTEN);
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_a_second_wake_that_writes_nothing_is_missed() {
    another_wakes_the_first(Rules {
        turn: turn::Rules {
            chains: false,
            ..turn::AS_WRITTEN
        },
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic]
fn mutant_who_parks_before_it_says_so_is_waited_for_in_vain() {
    both_are_answered(
        true,
        Rules {
            says_first: false,
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_process_that_could_not_park_forgets_its_waiters() {
    both_are_answered(
        true,
        Rules {
            looks_after: false,
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_waker_forgets_the_waiters_of_the_woken_process() {
    another_wakes_the_first(Rules {
        others_look_after: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_a_relaxed_gather_hides_the_answer() {
    both_are_answered(
        true,
        Rules {
            gather: Relaxed,
            ..AS_WRITTEN
        },
    );
}
