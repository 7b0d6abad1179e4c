//! Twin of `spawn_as`, `reap`, `tell_parent` and `kill_from_outside` of `crates/process/cuda/device/gpu`, for one place and two
//! children in it, one after the other. A child's first contents and the request to end it are one word here, and a
//! child that runs until it is killed waits for that word, so a forgotten child is a deadlock.

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use loom::thread;

use super::explore;

const RUNNING: u32 = 1;
const AWAITED: u32 = 2;
const EXITED: u32 = 4;
const HELD: u32 = 8;

/// The rules that a mutant leaves out.
#[derive(Clone, Copy)]
struct Rules {
    /// Whether a kill from outside holds the place.
    holds: bool,
    /// Whether the parent waits until the place is not held.
    heeds: bool,
    /// Whether all is written before the state says that the child runs.
    runs_last: bool,
}

const AS_WRITTEN: Rules = Rules {
    holds: true,
    heeds: true,
    runs_last: true,
};

struct Place {
    state: AtomicU32,
    generation: AtomicU32,
    kill: AtomicU32,
    /// Rings for the child.
    asked: Notify,
    /// Rings for the parent.
    ended: Notify,
    rules: Rules,
}

impl Place {
    fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            kill: AtomicU32::new(0),
            asked: Notify::new(),
            ended: Notify::new(),
            rules,
        })
    }

    /// The parent, which has the place.
    fn spawn(&self) {
        let generation = self.generation.load(Relaxed) + 1;
        self.generation.store(generation, Relaxed);
        if !self.rules.runs_last {
            self.state.store(RUNNING, Release);
        }
        self.kill.store(0, Relaxed);
        if self.rules.runs_last {
            self.state.store(RUNNING, Release);
        }
    }

    /// The parent waits for the end.
    fn reap(&self) {
        loop {
            let mut state = self.state.fetch_or(AWAITED, AcqRel);
            if state & EXITED == 0 {
                self.ended.wait();
                continue;
            }
            while self.rules.heeds && state & HELD != 0 {
                thread::yield_now();
                state = self.state.load(Acquire);
            }
            self.state.store(0, Relaxed);
            return;
        }
    }

    /// The child ends.
    fn tell_parent(&self) {
        if self.state.fetch_or(EXITED, AcqRel) & AWAITED != 0 {
            self.ended.notify();
        }
    }

    /// A kill from outside, of the child of a generation.
    fn kill(&self, generation: u32) -> bool {
        let mut state = self.state.load(Relaxed);
        loop {
            if state & RUNNING == 0 || state & EXITED != 0 {
                return false;
            }
            if !self.rules.holds {
                break;
            }
            // No other thread holds it here.
            match (self.state).compare_exchange(state, state | HELD, Acquire, Relaxed) {
                Ok(_) => break,
                Err(found) => state = found,
            }
        }
        let same = self.generation.load(Relaxed) == generation;
        if same {
            self.kill.store(1, Relaxed);
            self.asked.notify();
        }
        if self.rules.holds {
            self.state.fetch_and(!HELD, Release);
        }
        same
    }
}

/// The first child ends by itself while it is killed, and a second one gets its place.
fn end_during_a_kill(rules: Rules) {
    explore(move || {
        let place = Place::new(rules);
        place.spawn();
        let first = {
            let place = place.clone();
            thread::spawn(move || place.tell_parent())
        };
        let killer = {
            let place = place.clone();
            thread::spawn(move || place.kill(1))
        };
        place.reap();
        place.spawn();
        killer.join().unwrap();
        first.join().unwrap();
        let killed = place.kill.load(Relaxed);
        assert_eq!(killed, 0, "the second one was killed");
        assert_eq!(place.state.load(Relaxed), RUNNING, "it does not run");
    });
}

/// A child that runs until it is killed, at any time.
fn runs_until_it_is_killed(rules: Rules) {
    explore(move || {
        let place = Place::new(rules);
        let killer = {
            let place = place.clone();
            thread::spawn(move || place.kill(1))
        };
        place.spawn();
        if killer.join().unwrap() {
            // The kill was accepted, so the child must see it.
            while place.kill.load(Relaxed) == 0 {
                place.asked.wait();
            }
        }
        place.tell_parent();
        place.reap();
        assert_eq!(place.state.load(Relaxed), 0, "the place is free");
    });
}

#[test]
fn kill_from_outside_ends_the_named_child() {
    end_during_a_kill(AS_WRITTEN);
    runs_until_it_is_killed(AS_WRITTEN);
}

#[test]
#[should_panic(expected = "the second one was killed")]
fn mutant_kill_without_holding_the_place_ends_the_next_child() {
    end_during_a_kill(Rules {
        holds: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "the second one was killed")]
fn mutant_parent_that_ignores_the_hold_gives_the_place_away() {
    end_during_a_kill(Rules {
        heeds: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_child_that_runs_too_early_misses_the_kill() {
    runs_until_it_is_killed(Rules {
        runs_last: false,
        ..AS_WRITTEN
    });
}
