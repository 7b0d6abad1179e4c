//! Twin of `device/grid/idle.cuh` (`go_idle`, `claim_idle`, `give`, one lane of `scatter`) and of `check_inbox`,
//! `receive`, `anything` and the announcing and polling in `wait` of `device/grid/refill.cuh`. One word of bits; a giver publishes to a
//! deque of its own, and `anything` looks at the counts of all.
//!
//! The idle warp fences between its bit and its look at public chunks; a publisher does not fence between counting a
//! chunk and looking at the idle bits. So the models keep two cases apart: with both fences one of the two would see the
//! other at a single look; with one they may miss each other, and `wait` makes up for it by looking again every 64 polls. Here it looks again at every poll.

use std::sync::Arc;

use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{self, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use loom::thread;

use super::deque::{self, Deque};
use super::{NONE, Tally, explore};

/// In the inbox: it holds a single task.
const INBOX_TASK: u64 = u32::MAX as u64;

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
struct Rules {
    /// Order in which a warp sets its bit.
    announce: Ordering,
    /// Order in which a bit is claimed.
    claim: Ordering,
    /// Order in which an inbox is filled.
    give: Ordering,
    /// Whether the claimer of a bit checks that it was still set.
    claims_once: bool,
}

const AS_WRITTEN: Rules = Rules {
    announce: Release,
    claim: Acquire,
    give: Release,
    claims_once: true,
};

struct Grid {
    idle_bits: AtomicU32,
    idle_warps: AtomicU32,
    inbox: AtomicU64,
    /// The single task in the inbox, when it says so.
    task: AtomicU64,
    /// A giver's deque each; giver `i` has chunk `i`.
    deques: Vec<Deque>,
    tally: Tally,
    rules: Rules,
}

impl Grid {
    fn new(givers: usize, chunks: usize, rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            idle_bits: AtomicU32::new(0),
            idle_warps: AtomicU32::new(0),
            inbox: AtomicU64::new(0),
            task: AtomicU64::new(0),
            deques: (0..givers)
                .map(|_| Deque::new(chunks, deque::AS_WRITTEN))
                .collect(),
            tally: Tally::new(chunks),
            rules,
        })
    }

    fn go_idle(&self) {
        self.idle_bits.fetch_or(1, self.rules.announce);
        self.idle_warps.fetch_add(1, Relaxed);
    }

    fn claim_idle(&self) -> bool {
        let word = self.idle_bits.load(Relaxed);
        let was = |old: u32| old & 1 != 0 || !self.rules.claims_once;
        if word != 0 && was(self.idle_bits.fetch_and(!1, self.rules.claim)) {
            self.idle_warps.fetch_sub(1, Relaxed);
            return true;
        }
        false
    }

    /// Giver `from` hands its chunk to the idle warp, or publishes it; true in the first case.
    fn give(&self, from: usize, chunk: u32) -> bool {
        self.deques[from].fill(chunk);
        let claimed = self.claim_idle();
        if claimed {
            self.inbox.store(u64::from(chunk) + 1, self.rules.give);
        } else {
            self.deques[from].publish(chunk);
        }
        claimed
    }

    /// Sends one task to the idle warp, if it is idle.
    fn scatter(&self, task: u64) -> bool {
        let claimed = self.claim_idle();
        if claimed {
            self.task.store(task, Relaxed);
            self.inbox.store(INBOX_TASK, self.rules.give);
        }
        claimed
    }

    /// The single task in the inbox.
    fn receive(&self) -> Option<u64> {
        if self.inbox.load(Acquire) == 0 {
            return None;
        }
        self.inbox.store(0, Relaxed);
        Some(self.task.load(Relaxed))
    }

    fn anything(&self) -> bool {
        self.deques.iter().any(|d| d.count.load(Relaxed) != 0)
    }

    /// Whether something was in the inbox; which giver's chunk it is does not matter to its reader.
    fn check_inbox(&self) -> bool {
        let chunk = self.inbox.load(Acquire);
        if chunk == 0 {
            return false;
        }
        self.inbox.store(0, Relaxed);
        let chunk = chunk as u32 - 1;
        self.deques[chunk as usize % self.deques.len()].unload(&self.tally, chunk);
        true
    }

    fn take_public(&self) -> bool {
        self.deques.iter().any(|d| {
            let chunk = d.take_oldest();
            d.unload(&self.tally, chunk);
            chunk != NONE
        })
    }

    /// Announces, unless it has, and waits until there is a reason to look.
    fn wait(&self, idle: &mut bool) {
        if !*idle {
            self.go_idle();
            fence(SeqCst);
            *idle = true;
            if self.anything() {
                return;
            }
        }
        while self.inbox.load(Relaxed) == 0 && !self.anything() {
            thread::yield_now();
        }
    }

    /// Turns of a warp without work of its own, until it has received this many chunks.
    fn turns(&self, chunks: usize) {
        let (mut idle, mut got) = (false, 0);
        while got < chunks {
            if idle && self.check_inbox() {
                idle = false;
                got += 1;
            } else if self.anything() {
                if self.take_public() {
                    got += 1;
                } else {
                    // Counted, and not yet there or taken: the device comes round again.
                    thread::yield_now();
                }
            } else {
                self.wait(&mut idle);
            }
        }
    }
}

/// A warp waits for all that is given by several, a chunk each.
fn given(givers: usize, rules: Rules) {
    explore(move || {
        let grid = Grid::new(givers, givers, rules);
        let others: Vec<_> = (0..givers)
            .map(|from| {
                let grid = grid.clone();
                thread::spawn(move || grid.give(from, from as u32))
            })
            .collect();
        grid.turns(givers);
        for other in others {
            other.join().unwrap();
        }
        assert!(!grid.check_inbox());
        grid.tally.assert_all();
    });
}

/// A warp empties its inbox and is idle again, while the next chunk is given.
fn given_again(rules: Rules) {
    explore(move || {
        let grid = Grid::new(1, 2, rules);
        grid.deques[0].fill(0);
        grid.inbox.store(1, Release);
        let giver = {
            let grid = grid.clone();
            thread::spawn(move || grid.give(0, 1))
        };
        assert!(grid.check_inbox());
        grid.go_idle();
        giver.join().unwrap();
        grid.check_inbox();
        grid.take_public();
        grid.tally.assert_all();
    });
}

/// Two give at once while one warp is idle.
fn given_at_once(rules: Rules) {
    explore(move || {
        let grid = Grid::new(2, 2, rules);
        grid.go_idle();
        let giver = {
            let grid = grid.clone();
            thread::spawn(move || grid.give(0, 0))
        };
        let claimed = grid.give(1, 1);
        let both = giver.join().unwrap() && claimed;
        assert!(!both, "one idle warp was claimed twice");
        grid.check_inbox();
        while grid.take_public() {}
        grid.tally.assert_all();
    });
}

/// A publisher that looks at the idle bits, and an idle warp that looks at public chunks, once each.
fn look_once(publisher_fences: bool, idle_fences: bool) {
    explore(move || {
        let grid = Grid::new(1, 1, AS_WRITTEN);
        let publisher = {
            let grid = grid.clone();
            thread::spawn(move || {
                grid.deques[0].fill(0);
                grid.deques[0].publish(0);
                if publisher_fences {
                    fence(SeqCst);
                }
                grid.idle_warps.load(Relaxed) != 0
            })
        };
        grid.go_idle();
        if idle_fences {
            fence(SeqCst);
        }
        let sees_chunk = grid.anything();
        let sees_idle = publisher.join().unwrap();
        assert!(sees_chunk || sees_idle, "they missed each other");
    });
}

/// A warp is sent one task after the other, each when it is idle.
fn scattered(tasks: u64, rules: Rules) {
    explore(move || {
        let grid = Grid::new(1, 0, rules);
        let giver = {
            let grid = grid.clone();
            thread::spawn(move || {
                for task in 1..=tasks {
                    while !grid.scatter(task) {
                        thread::yield_now();
                    }
                }
            })
        };
        for task in 1..=tasks {
            grid.go_idle();
            let got = loop {
                match grid.receive() {
                    Some(got) => break got,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(got, task, "stale task");
        }
        giver.join().unwrap();
        assert_eq!(grid.receive(), None);
    });
}

#[test]
fn single_tasks_reach_waiting_warps() {
    scattered(2, AS_WRITTEN);
}

#[test]
#[should_panic(expected = "stale task")]
fn mutant_a_relaxed_scatter_hides_the_task() {
    scattered(
        1,
        Rules {
            give: Relaxed,
            ..AS_WRITTEN
        },
    );
}

#[test]
fn chunk_reaches_a_waiting_warp() {
    given(1, AS_WRITTEN);
}

#[test]
fn chunks_of_two_publishers_reach_waiting_warps() {
    given(2, AS_WRITTEN);
}

#[test]
fn an_inbox_is_not_filled_before_it_is_empty() {
    given_again(AS_WRITTEN);
}

#[test]
fn an_idle_warp_is_claimed_once() {
    given_at_once(AS_WRITTEN);
}

#[test]
fn with_both_fences_one_sees_the_other() {
    look_once(true, true);
}

#[test]
#[should_panic(expected = "they missed each other")]
fn mutant_without_the_publishers_fence_a_single_look_misses() {
    look_once(false, true);
}

#[test]
#[should_panic(expected = "they missed each other")]
fn mutant_without_the_idle_warps_fence_a_single_look_misses() {
    look_once(true, false);
}

#[test]
#[should_panic(expected = "stale chunk")]
fn mutant_a_relaxed_give_hides_the_chunk() {
    given(
        1,
        Rules {
            give: Relaxed,
            ..AS_WRITTEN
        },
    );
}

#[test]
#[should_panic(expected = "claimed twice")]
fn mutant_bit_that_is_not_checked_is_claimed_twice() {
    given_at_once(Rules {
        claims_once: false,
        ..AS_WRITTEN
    });
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_a_relaxed_announcement_lets_an_inbox_be_emptied_late() {
    given_again(Rules {
        announce: Relaxed,
        ..AS_WRITTEN
    });
}
