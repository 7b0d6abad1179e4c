//! Twin of `spawn`, `end`, `leave` and `retire` of `crates/process/cuda/device/threads/team.cuh`, for a process whose second
//! thread starts a third one while the first ends. A thread that runs until it is asked to end waits for that request
//! here, so a forgotten thread is a deadlock.

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{self, AcqRel, Acquire, Relaxed, Release},
};
use loom::thread;

use super::explore;

const ENDS: u32 = 1 << 31;

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
struct Rules {
    /// Whether a thread is counted before its creator checks whether the process ends.
    counts_first: bool,
    /// Order in which a thread counts itself off.
    leave: Ordering,
}

const AS_WRITTEN: Rules = Rules {
    counts_first: true,
    leave: AcqRel,
};

/// A thread other than the first.
struct Place {
    kill: AtomicU32,
    asked: Notify,
    /// The number that it wrote last.
    wrote: AtomicU32,
}

struct Team {
    state: AtomicU32,
    claimed: AtomicU32,
    taken: AtomicU32,
    places: [Place; 2],
    /// Rings for the leader.
    leader: Notify,
    rules: Rules,
}

impl Team {
    /// The second thread runs already.
    fn new(rules: Rules) -> Arc<Self> {
        let place = || Place {
            kill: AtomicU32::new(0),
            asked: Notify::new(),
            wrote: AtomicU32::new(0),
        };
        Arc::new(Self {
            state: AtomicU32::new(1),
            claimed: AtomicU32::new(0),
            taken: AtomicU32::new(1),
            places: [place(), place()],
            leader: Notify::new(),
            rules,
        })
    }

    /// Whether a thread may begin in the second place.
    fn spawn(&self) -> bool {
        self.taken.fetch_or(2, Acquire);
        self.places[1].kill.store(0, Relaxed);
        let before = match self.rules.counts_first {
            true => self.state.fetch_add(1, AcqRel),
            false => {
                let before = self.state.load(Acquire);
                if before & ENDS == 0 {
                    self.state.fetch_add(1, AcqRel);
                    return true;
                }
                self.state.fetch_add(1, AcqRel)
            }
        };
        if before & ENDS != 0 {
            self.taken.fetch_and(!2, Release);
            self.count_off();
            return false;
        }
        true
    }

    fn count_off(&self) {
        if self.state.fetch_sub(1, self.rules.leave) == ENDS + 1 {
            self.leader.notify();
        }
    }

    fn end(&self) {
        if self
            .claimed
            .compare_exchange(0, 1, AcqRel, Acquire)
            .is_err()
        {
            return;
        }
        if self.state.fetch_or(ENDS, AcqRel) == 0 {
            return;
        }
        let taken = self.taken.load(Acquire);
        for (k, place) in self.places.iter().enumerate() {
            if taken >> k & 1 != 0 {
                place.kill.store(1, Release);
                place.asked.notify();
            }
        }
    }

    /// A thread that runs until it is asked to end.
    fn run(&self, k: usize) {
        let place = &self.places[k];
        while place.kill.load(Acquire) == 0 {
            place.asked.wait();
        }
        place.wrote.store(1, Relaxed);
        self.taken.fetch_and(!(1 << k), Release);
        self.count_off();
    }

    /// The first thread ends.
    fn retire(&self) {
        self.end();
        while self.state.load(Acquire) != ENDS {
            self.leader.wait();
        }
    }
}

fn ends_while_another_begins(rules: Rules) {
    explore(move || {
        let team = Team::new(rules);
        let second = {
            let team = team.clone();
            thread::spawn(move || {
                let third = team.spawn().then(|| {
                    let team = team.clone();
                    thread::spawn(move || team.run(1))
                });
                team.run(0);
                third
            })
        };
        team.retire();
        // The host owns the threads' memory now.
        let wrote = team.places[0].wrote.load(Relaxed);
        assert_eq!(wrote, 1, "it has not ended");
        assert_eq!(team.taken.load(Relaxed), 0, "a place is still taken");
        if let Some(third) = second.join().unwrap() {
            assert_eq!(team.places[1].wrote.load(Relaxed), 1, "it has not ended");
            third.join().unwrap();
        }
    });
}

#[test]
fn no_thread_is_left_when_the_first_has_ended() {
    ends_while_another_begins(AS_WRITTEN);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_who_looks_before_it_counts_leaves_somebody() {
    ends_while_another_begins(Rules {
        counts_first: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "a place is still taken")]
fn mutant_a_relaxed_leave_hides_what_was_written() {
    ends_while_another_begins(Rules {
        leave: Relaxed,
        ..AS_WRITTEN
    });
}
