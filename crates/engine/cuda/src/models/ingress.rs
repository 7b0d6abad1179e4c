//! Twin of the hand-over in shared memory, `Shared::ready` with `Shared::staging`: `claim_neighbour` and `hand` of
//! `device/grid/idle.cuh`, `deliver` and `hand_over` of `device/system/ingress.cuh`, and the part of `wait` in
//! `device/grid/refill.cuh` that takes.
//!
//! Any warp of a block may hand over to another; here one does, the ingress warp. Two that claim the same
//! warp, and a claim that is withdrawn (`hand` with no tasks), are not modelled.
//!
//! The staging area is memory without atomics here as there, so loom reports a race where two accesses are
//! not ordered. Where the source loads `ready` once more with acquire, the twin has an acquire-release fence,
//! which orders the same.
//!
//! The source offers, claims and withdraws by operations that acquire and release. Several hand-overs to one warp need
//! the offer to release and the claim to acquire: otherwise a claim is not ordered after the warp's earlier accesses to
//! its staging area, such as reading the last hand-over or using it as scratch memory in `take`. The last mutant shows it. A first hand-over needs neither, and is modelled
//! with relaxed ones, so that only the store that says "full" orders the tasks.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{
    AtomicU32,
    Ordering::{self, AcqRel, Acquire, Relaxed, Release},
    fence,
};
use loom::thread;

use super::{Tally, explore};

const BUSY: u32 = 0;
const WAITING: u32 = 1;
const CLAIMED: u32 = 2;
const FULL: u32 = 0x100;

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
struct Rules {
    /// Order in which a warp offers itself.
    offer: Ordering,
    /// Order in which it is claimed.
    claim: Ordering,
    /// The memory order with which the word says that the staging area is full.
    full: Ordering,
    /// Whether a warp that withdraws asks whether it was claimed.
    withdraws_by_cas: bool,
}

/// The orders of the source, but for offers and claims, which are weaker: enough for a first hand-over.
const FIRST: Rules = Rules {
    offer: Relaxed,
    claim: Relaxed,
    full: Release,
    withdraws_by_cas: true,
};

/// The orders of offers and claims in the source, as several hand-overs need them.
const ORDERED: Rules = Rules {
    offer: Release,
    claim: Acquire,
    ..FIRST
};

struct Warp {
    ready: AtomicU32,
    staging: [UnsafeCell<u32>; 2],
}

struct Block {
    warps: Vec<Warp>,
    rules: Rules,
}

// SAFETY: the staging areas are accessed through loom's cells only, which report every access that is not ordered
// against the others; the models check that all of them are.
unsafe impl Sync for Block {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Block {}

impl Block {
    fn new(warps: usize, rules: Rules) -> Self {
        let warp = || Warp {
            ready: AtomicU32::new(BUSY),
            staging: [UnsafeCell::new(0), UnsafeCell::new(0)],
        };
        Self {
            warps: (0..warps).map(|_| warp()).collect(),
            rules,
        }
    }

    fn stage(&self, who: usize, rank: usize, task: u32) {
        // SAFETY: loom's cell checks that no other thread accesses it now.
        self.warps[who].staging[rank].with_mut(|p| unsafe { *p = task });
    }

    fn staged(&self, who: usize, rank: usize) -> u32 {
        // SAFETY: as above.
        self.warps[who].staging[rank].with(|p| unsafe { *p })
    }

    fn claim(&self, who: usize) -> bool {
        let ready = &self.warps[who].ready;
        ready
            .compare_exchange(WAITING, CLAIMED, self.rules.claim, Relaxed)
            .is_ok()
    }

    /// The warps that wait at a first look.
    fn candidates(&self) -> Vec<usize> {
        let waits = |who: &usize| self.warps[*who].ready.load(Relaxed) == WAITING;
        (0..self.warps.len()).filter(waits).collect()
    }

    /// The ingress warp; false when no warp waits, where the device goes on to chunks.
    fn deliver(&self, tasks: &[u32]) -> bool {
        for who in self.candidates() {
            if !self.claim(who) {
                continue;
            }
            for (rank, &task) in tasks.iter().enumerate() {
                self.stage(who, rank, task);
            }
            let full = FULL + tasks.len() as u32;
            self.warps[who].ready.store(full, self.rules.full);
            return true;
        }
        false
    }

    /// The ingress warp: one task, to the first candidate.
    fn hand_over(&self, task: u32) -> bool {
        let Some(&who) = self.candidates().first() else {
            return false;
        };
        let done = self.claim(who);
        if done {
            self.stage(who, 0, task);
            self.warps[who].ready.store(FULL + 1, self.rules.full);
        }
        done
    }

    /// A warp of the block offers itself, polls once, and withdraws: any of the other reasons not to wait.
    fn wait(&self, who: usize, tally: &Tally) {
        let ready = &self.warps[who].ready;
        ready.swap(WAITING, self.rules.offer);
        let _ = ready.load(Relaxed) >= FULL;
        let mut seen = if self.rules.withdraws_by_cas {
            match ready.compare_exchange(WAITING, BUSY, Relaxed, Relaxed) {
                Ok(seen) | Err(seen) => seen,
            }
        } else {
            let seen = ready.load(Relaxed);
            if seen == WAITING {
                ready.store(BUSY, Relaxed);
            }
            seen
        };
        while seen == CLAIMED {
            thread::yield_now();
            seen = ready.load(Acquire);
        }
        if seen >= FULL {
            fence(AcqRel);
            for rank in 0..(seen - FULL) as usize {
                tally.arrived(self.staged(who, rank));
            }
            ready.swap(BUSY, Relaxed);
        }
    }
}

/// Warps wait `rounds` times each, while the ingress warp delivers; it keeps tasks that no warp takes.
fn model(
    warps: usize,
    rounds: usize,
    tasks: u32,
    rules: Rules,
    ingress: impl Fn(&Block, &Tally) + Sync + Send + Copy + 'static,
) {
    explore(move || {
        let shared = Arc::new((Block::new(warps, rules), Tally::new(tasks as usize)));
        let waiting: Vec<_> = (0..warps)
            .map(|who| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (block, tally) = &*shared;
                    for _ in 0..rounds {
                        block.wait(who, tally);
                        // The batch that follows may use the area as scratch memory (`take`).
                        if rounds > 1 {
                            block.stage(who, 0, u32::MAX);
                        }
                    }
                })
            })
            .collect();
        ingress(&shared.0, &shared.1);
        for warp in waiting {
            warp.join().unwrap();
        }
        shared.1.assert_all();
    });
}

fn hands_over_two(block: &Block, tally: &Tally) {
    for task in 0..2 {
        if !block.hand_over(task) {
            tally.arrived(task);
        }
    }
}

fn delivers_two(block: &Block, tally: &Tally) {
    if !block.deliver(&[0, 1]) {
        tally.arrived(0);
        tally.arrived(1);
    }
}

#[test]
fn a_warp_that_withdraws_loses_nothing() {
    model(1, 1, 2, FIRST, delivers_two);
}

#[test]
fn one_of_two_waiting_warps_gets_it() {
    model(2, 1, 2, FIRST, delivers_two);
}

#[test]
fn a_warp_that_waits_again_gets_what_is_new() {
    model(1, 2, 2, ORDERED, hands_over_two);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_a_relaxed_full_hides_the_tasks() {
    // The fence of a waiter cannot make up for it.
    let rules = Rules {
        full: Relaxed,
        ..FIRST
    };
    model(1, 1, 2, rules, delivers_two);
}

#[test]
#[should_panic(expected = "lost")]
fn mutant_a_warp_that_withdraws_without_asking_loses_tasks() {
    let rules = Rules {
        withdraws_by_cas: false,
        ..FIRST
    };
    model(1, 1, 2, rules, delivers_two);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn mutant_relaxed_offers_and_claims_race_on_what_was_staged_before() {
    model(1, 2, 2, FIRST, hands_over_two);
}
