//! Twin of `begin_wait`, `end_wait` and `notify` of `crates/process/cuda/device/threads/wait.cuh`, with `locked` and `wake` of
//! `gpu/wake.cuh` there (`turn.rs` has `turn.cuh`), for one address. A thread of a process is a thread; where it
//! parks, it continues when its task has been posted. The host's clock is a thread that replies and wakes.

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::thread;

use super::explore;
use super::turn::{self, Turn};

const WAIT_NONE: u32 = 0;
const WAIT_LISTED: u32 = 1;
const WAIT_NOTIFIED: u32 = 2;

/// The rules that a mutant leaves out.
#[derive(Clone, Copy)]
struct Rules {
    /// Whether the value is compared under the lock.
    compares_locked: bool,
    /// Whether the notifier takes the lock even if no thread waits.
    notifies_locked: bool,
    /// Whether a waiter whose time is over checks if it was notified.
    looks: bool,
    /// Whether one that was taken off the list cannot be found there again.
    takes_off: bool,
}

const AS_WRITTEN: Rules = Rules {
    compares_locked: true,
    notifies_locked: true,
    looks: true,
    takes_off: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Notified,
    Other,
    TimedOut,
}

struct Place {
    turn: Turn,
    posted: AtomicU32,
    bell: Notify,
    wait: AtomicU32,
    before: AtomicU32,
    behind: AtomicU32,
    /// Whether the host has answered the call for its time.
    answered: AtomicU32,
}

struct Team {
    lock: AtomicU32,
    value: AtomicU32,
    first: AtomicU32,
    last: AtomicU32,
    places: Vec<Place>,
    rules: Rules,
}

fn word(v: u32) -> AtomicU32 {
    AtomicU32::new(v)
}

impl Team {
    fn new(places: usize, rules: Rules) -> Arc<Self> {
        let place = |_| Place {
            turn: Turn::new(turn::AS_WRITTEN),
            posted: word(0),
            bell: Notify::new(),
            wait: word(WAIT_NONE),
            before: word(0),
            behind: word(0),
            answered: word(0),
        };
        Arc::new(Self {
            lock: word(0),
            value: word(0),
            first: word(0),
            last: word(0),
            places: (0..places).map(place).collect(),
            rules,
        })
    }

    fn locked<T>(&self, f: impl FnOnce() -> T) -> T {
        let take = || self.lock.compare_exchange(0, 1, Acquire, Relaxed);
        while take().is_err() {
            thread::yield_now();
        }
        let value = f();
        self.lock.store(0, Release);
        value
    }

    fn listed(&self, me: usize) {
        let last = self.last.load(Relaxed);
        self.places[me].before.store(last, Relaxed);
        self.places[me].behind.store(0, Relaxed);
        let link = match last {
            0 => &self.first,
            other => &self.places[other as usize - 1].behind,
        };
        link.store(me as u32 + 1, Relaxed);
        self.last.store(me as u32 + 1, Relaxed);
    }

    fn unlisted(&self, who: usize) {
        let place = &self.places[who];
        let (before, behind) = (place.before.load(Relaxed), place.behind.load(Relaxed));
        let forward = match before {
            0 => &self.first,
            other => &self.places[other as usize - 1].behind,
        };
        forward.store(behind, Relaxed);
        let backward = match behind {
            0 => &self.last,
            other => &self.places[other as usize - 1].before,
        };
        backward.store(before, Relaxed);
    }

    fn wake(&self, who: usize) {
        let place = &self.places[who];
        if place.turn.resume() {
            place.posted.store(1, Release);
            place.bell.notify();
        }
    }

    /// Gives up the lane, and goes on when it has been woken.
    fn park(&self, me: usize) {
        let place = &self.places[me];
        if !place.turn.park() {
            return;
        }
        while place.posted.load(Acquire) == 0 {
            place.bell.wait();
        }
        place.posted.store(0, Relaxed);
    }

    fn begin_wait(&self, me: usize, expected: u32) -> bool {
        let as_expected = || self.value.load(Acquire) == expected;
        let early = self.rules.compares_locked || as_expected();
        self.locked(|| {
            let waits = early && (!self.rules.compares_locked || as_expected());
            if waits {
                self.places[me].wait.store(WAIT_LISTED, Relaxed);
                self.listed(me);
            }
            waits
        })
    }

    fn end_wait(&self, me: usize, timed: bool) -> Option<Waited> {
        let place = &self.places[me];
        let late = timed && place.answered.load(Acquire) != 0;
        self.locked(|| {
            let notified = place.wait.load(Relaxed) == WAIT_NOTIFIED;
            let result = match late {
                _ if notified && (self.rules.looks || !late) => Waited::Notified,
                true => {
                    if !notified {
                        self.unlisted(me);
                    }
                    Waited::TimedOut
                }
                false => return None,
            };
            place.wait.store(WAIT_NONE, Relaxed);
            Some(result)
        })
    }

    /// Runs the instruction until it has a result.
    fn wait(&self, me: usize, expected: u32, timed: bool) -> Waited {
        if !self.begin_wait(me, expected) {
            return Waited::Other;
        }
        loop {
            self.park(me);
            if let Some(result) = self.end_wait(me, timed) {
                return result;
            }
        }
    }

    fn notify(&self, most: u32) -> u32 {
        if !self.rules.notifies_locked && self.first.load(Relaxed) == 0 {
            return 0;
        }
        self.locked(|| {
            let (mut woken, mut next) = (0, self.first.load(Relaxed));
            while next != 0 && woken < most {
                let who = next as usize - 1;
                next = self.places[who].behind.load(Relaxed);
                if self.rules.takes_off {
                    self.unlisted(who);
                }
                self.places[who].wait.store(WAIT_NOTIFIED, Relaxed);
                self.wake(who);
                woken += 1;
            }
            woken
        })
    }
}

/// One changes the value and notifies; the other waits for the change, however often it is woken.
fn change(rules: Rules) {
    explore(move || {
        let team = Team::new(1, rules);
        let other = {
            let team = team.clone();
            thread::spawn(move || {
                team.value.store(1, Relaxed);
                team.notify(1);
            })
        };
        while team.value.load(Relaxed) == 0 {
            team.wait(0, 0, false);
        }
        other.join().unwrap();
    });
}

/// Two threads wait, and two notify one each until both have been notified: no waiter is counted twice.
fn one_each(rules: Rules) {
    explore(move || {
        let team = Team::new(2, rules);
        assert!(team.begin_wait(0, 0) && team.begin_wait(1, 0));
        let notifier = {
            let team = team.clone();
            thread::spawn(move || team.notify(1))
        };
        let own = team.notify(1);
        let woken = notifier.join().unwrap() + own;
        let ended = (0..2).filter(|me| team.end_wait(*me, false).is_some());
        assert_eq!(ended.count() as u32, woken, "counted and not woken");
        assert_eq!(woken, 2, "a thread that was to be woken still waits");
    });
}

/// A time ends while another thread notifies: either the one or the other.
fn in_time(rules: Rules) {
    explore(move || {
        let team = Team::new(1, rules);
        let clock = {
            let team = team.clone();
            thread::spawn(move || {
                team.places[0].answered.store(1, Release);
                team.wake(0);
            })
        };
        let notifier = {
            let team = team.clone();
            thread::spawn(move || team.notify(1))
        };
        let waited = team.wait(0, 0, true);
        let woken = notifier.join().unwrap();
        assert_eq!(
            waited == Waited::Notified,
            woken == 1,
            "a lost notification"
        );
        clock.join().unwrap();
    });
}

#[test]
fn waiter_learns_of_a_change() {
    change(AS_WRITTEN);
}

#[test]
fn as_many_are_woken_as_are_counted() {
    one_each(AS_WRITTEN);
}

#[test]
fn a_wait_ends_by_time_or_by_a_notification() {
    in_time(AS_WRITTEN);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_compare_without_the_lock_misses_a_notification() {
    change(Rules {
        compares_locked: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_notifier_without_the_lock_misses_a_waiter() {
    change(Rules {
        notifies_locked: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "a lost notification")]
fn mutant_timeout_without_a_check_loses_a_notification() {
    in_time(Rules {
        looks: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "counted and not woken")]
fn mutant_waiter_left_on_the_list_is_counted_twice() {
    one_each(Rules {
        takes_off: false,
        ..AS_WRITTEN
    });
}
