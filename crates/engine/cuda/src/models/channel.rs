//! Twin of `locked`, `join`, `leave`, `first`, `send`, `receive` and `close` of
//! `crates/process/cuda/device/gpu/channel.cuh`, and of `wake` of `gpu/wake.cuh` there (`turn.rs` has `turn.cuh`), for a
//! channel of one message. A process is a thread; where it parks, it continues when its task has been posted (`idle.rs` has
//! the task's way to another warp). A process that is never woken is a deadlock, which loom finds.

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{self, Acquire, Relaxed, Release},
};
use loom::thread;

use super::explore;
use super::turn::{self, Turn};

const NO_PROCESS: u32 = 0;
const SEND: usize = 0;
const RECEIVE: usize = 1;

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
struct Rules {
    /// Order in which the lock is given back.
    unlock: Ordering,
    turn: turn::Rules,
    /// Whether one joins the list under the lock under which it has found nothing.
    joins_at_once: bool,
    /// Whether the last end of a side wakes the other side.
    closes: bool,
    /// Whether a process that gives up an end passes on a wake that it may have received.
    passes_on: bool,
}

const AS_WRITTEN: Rules = Rules {
    unlock: Release,
    turn: turn::AS_WRITTEN,
    joins_at_once: true,
    closes: true,
    passes_on: true,
};

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Done(u32),
    Closed,
    Again,
}

/// A process, as other processes see it.
struct Place {
    turn: Turn,
    /// Its task has been submitted.
    posted: AtomicU32,
    /// Rings with it. It may also ring for nothing.
    bell: Notify,
    /// Whether it has saved its frames.
    saved: AtomicU32,
    waits_on: AtomicU32,
    side: AtomicU32,
    before: AtomicU32,
    behind: AtomicU32,
}

struct Channel {
    lock: AtomicU32,
    count: AtomicU32,
    message: AtomicU32,
    ends: [AtomicU32; 2],
    first: [AtomicU32; 2],
    last: [AtomicU32; 2],
    places: Vec<Place>,
    rules: Rules,
}

fn word(v: u32) -> AtomicU32 {
    AtomicU32::new(v)
}

impl Channel {
    fn new(places: usize, senders: u32, receivers: u32, rules: Rules) -> Arc<Self> {
        let place = |_| Place {
            turn: Turn::new(rules.turn),
            posted: word(0),
            bell: Notify::new(),
            saved: word(0),
            waits_on: word(0),
            side: word(0),
            before: word(NO_PROCESS),
            behind: word(NO_PROCESS),
        };
        Arc::new(Self {
            lock: word(0),
            count: word(0),
            message: word(0),
            ends: [word(senders), word(receivers)],
            first: [word(NO_PROCESS), word(NO_PROCESS)],
            last: [word(NO_PROCESS), word(NO_PROCESS)],
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
        self.lock.store(0, self.rules.unlock);
        value
    }

    fn join(&self, side: usize, place: usize) {
        let k = &self.places[place];
        k.waits_on.store(1, Relaxed);
        k.side.store(side as u32, Relaxed);
        let last = self.last[side].load(Relaxed);
        k.before.store(last, Relaxed);
        k.behind.store(NO_PROCESS, Relaxed);
        let link = match last {
            NO_PROCESS => &self.first[side],
            other => &self.places[other as usize - 1].behind,
        };
        link.store(place as u32 + 1, Relaxed);
        self.last[side].store(place as u32 + 1, Relaxed);
    }

    fn leave(&self, place: usize) {
        let k = &self.places[place];
        if k.waits_on.load(Relaxed) == 0 {
            return;
        }
        let side = k.side.load(Relaxed) as usize;
        let (before, behind) = (k.before.load(Relaxed), k.behind.load(Relaxed));
        let forward = match before {
            NO_PROCESS => &self.first[side],
            other => &self.places[other as usize - 1].behind,
        };
        forward.store(behind, Relaxed);
        let backward = match behind {
            NO_PROCESS => &self.last[side],
            other => &self.places[other as usize - 1].before,
        };
        backward.store(before, Relaxed);
        k.waits_on.store(0, Relaxed);
    }

    fn first(&self, side: usize) -> u32 {
        let who = self.first[side].load(Relaxed);
        if who != NO_PROCESS {
            self.leave(who as usize - 1);
        }
        who
    }

    fn wake(&self, who: u32) {
        if who == NO_PROCESS {
            return;
        }
        let place = &self.places[who as usize - 1];
        if place.turn.resume() {
            // The thread that continues it needs the frames that it has saved.
            assert_eq!(place.saved.load(Relaxed), 1, "stale frames");
            place.posted.store(1, Release);
            place.bell.notify();
        }
    }

    /// The import: sends or receives, or joins the list.
    fn attempt(&self, me: usize, side: usize, value: u32) -> Answer {
        let (answer, other) = self.locked(|| {
            self.leave(me);
            let count = self.count.load(Relaxed);
            let (ready, opposite) = match side {
                SEND => (count == 0, RECEIVE),
                _ => (count != 0, SEND),
            };
            let alone = self.ends[opposite].load(Relaxed) == 0;
            if alone && (side == SEND || !ready) {
                return (Answer::Closed, NO_PROCESS);
            }
            if !ready {
                if self.rules.joins_at_once {
                    self.join(side, me);
                }
                return (Answer::Again, NO_PROCESS);
            }
            if side == SEND {
                self.message.store(value, Relaxed);
            }
            self.count.store(1 - count, Relaxed);
            (
                Answer::Done(self.message.load(Relaxed)),
                self.first(opposite),
            )
        });
        if answer == Answer::Again && !self.rules.joins_at_once {
            self.locked(|| self.join(side, me));
        }
        self.wake(other);
        answer
    }

    /// Runs the process until the import has a result.
    fn call(&self, me: usize, side: usize, value: u32) -> Answer {
        let place = &self.places[me];
        loop {
            let answer = self.attempt(me, side, value);
            if answer != Answer::Again {
                return answer;
            }
            place.saved.store(1, Relaxed);
            if self.places[me].turn.park() {
                while place.posted.load(Acquire) == 0 {
                    place.bell.wait();
                }
                place.posted.store(0, Relaxed);
            }
            place.saved.store(0, Relaxed);
        }
    }

    fn close(&self, side: usize) {
        let opposite = 1 - side;
        let (mut other, last) = self.locked(|| {
            let ends = self.ends[side].load(Relaxed) - 1;
            self.ends[side].store(ends, Relaxed);
            let count = self.count.load(Relaxed);
            let something = if side == RECEIVE {
                count != 0
            } else {
                count == 0
            };
            let other = match ends {
                0 if self.rules.closes => self.first(opposite),
                0 => NO_PROCESS,
                _ if something && self.rules.passes_on => self.first(side),
                _ => NO_PROCESS,
            };
            (other, ends == 0)
        });
        while other != NO_PROCESS {
            self.wake(other);
            other = NO_PROCESS;
            if last {
                other = self.locked(|| self.first(opposite));
            }
        }
    }
}

/// One process sends increasing numbers; the other receives them and then finds the channel closed.
fn in_order(messages: u32, rules: Rules) {
    explore(move || {
        let channel = Channel::new(2, 1, 1, rules);
        let sender = {
            let channel = channel.clone();
            thread::spawn(move || {
                for value in 1..=messages {
                    assert_eq!(channel.call(0, SEND, value), Answer::Done(value));
                }
                channel.close(SEND);
            })
        };
        for value in 1..=messages {
            let got = channel.call(1, RECEIVE, 0);
            assert_eq!(got, Answer::Done(value), "stale message");
        }
        assert_eq!(channel.call(1, RECEIVE, 0), Answer::Closed);
        channel.close(RECEIVE);
        sender.join().unwrap();
    });
}

/// A receiver is killed that may have been woken for the message; the other one gets it.
fn woken_and_killed(rules: Rules) {
    explore(move || {
        let channel = Channel::new(3, 1, 2, rules);
        // It waits, and has parked.
        assert_eq!(channel.attempt(2, RECEIVE, 0), Answer::Again);
        channel.places[2].saved.store(1, Relaxed);
        assert!(channel.places[2].turn.park());
        let others = {
            let channel = channel.clone();
            thread::spawn(move || {
                assert_eq!(channel.call(0, SEND, 7), Answer::Done(7));
                channel.locked(|| channel.leave(2));
                channel.close(RECEIVE);
            })
        };
        // The sender's end stays open, so only the message can arrive.
        assert_eq!(channel.call(1, RECEIVE, 0), Answer::Done(7));
        others.join().unwrap();
    });
}

#[test]
fn messages_arrive_in_order_and_then_the_end() {
    in_order(1, AS_WRITTEN);
    in_order(2, AS_WRITTEN);
}

#[test]
fn wake_of_a_dead_process_is_passed_on() {
    woken_and_killed(AS_WRITTEN);
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_a_wake_that_is_not_passed_on_is_lost() {
    woken_and_killed(Rules {
        passes_on: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_a_wake_that_is_not_remembered_is_lost() {
    in_order(
        1,
        Rules {
            turn: turn::Rules {
                remembers: false,
                ..turn::AS_WRITTEN
            },
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_waiter_that_joins_the_list_late_is_forgotten() {
    in_order(
        1,
        Rules {
            joins_at_once: false,
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_close_without_a_wake_leaves_a_waiter() {
    in_order(
        1,
        Rules {
            closes: false,
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "stale frames")]
fn mutant_a_relaxed_park_hides_what_was_saved() {
    in_order(
        1,
        Rules {
            turn: turn::Rules {
                park: Relaxed,
                ..turn::AS_WRITTEN
            },
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn mutant_a_relaxed_unlock_hides_what_was_done() {
    in_order(
        2,
        Rules {
            unlock: Relaxed,
            ..AS_WRITTEN
        },
    );
}
