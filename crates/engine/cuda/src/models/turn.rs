//! Twin of `park` and `resume` of `crates/process/cuda/device/turn.cuh`, which the models of whatever wakes processes share.

use loom::sync::atomic::{
    AtomicU32,
    Ordering::{self, AcqRel, Acquire, Relaxed},
};

const RUNS: u32 = 0;
const WOKEN: u32 = 1;
const PARKED: u32 = 2;

/// The rules that a mutant weakens.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Order in which a process parks.
    pub(super) park: Ordering,
    /// Whether a wake of one that has not parked is remembered.
    pub(super) remembers: bool,
    /// Whether a wake that finds another one writes the word again, so that the taker reads the last write.
    pub(super) chains: bool,
}

pub(super) const AS_WRITTEN: Rules = Rules {
    park: AcqRel,
    remembers: true,
    chains: true,
};

pub(super) struct Turn {
    word: AtomicU32,
    rules: Rules,
}

impl Turn {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            word: AtomicU32::new(RUNS),
            rules,
        }
    }

    /// Gives up the lane; false if it has been woken already.
    pub(super) fn park(&self) -> bool {
        let parked = (self.word).compare_exchange(RUNS, PARKED, self.rules.park, Acquire);
        if parked.is_err() && self.rules.chains {
            self.word.swap(RUNS, AcqRel);
        } else if parked.is_err() {
            self.word.store(RUNS, Relaxed);
        }
        parked.is_ok()
    }

    /// Whether the caller is to go on with it.
    pub(super) fn resume(&self) -> bool {
        let change = |from, to| {
            let changed = self.word.compare_exchange(from, to, AcqRel, Acquire);
            changed.unwrap_or_else(|found| found)
        };
        loop {
            if change(PARKED, RUNS) == PARKED {
                return true;
            }
            if !self.rules.remembers {
                return false;
            }
            let found = change(RUNS, WOKEN);
            if found == RUNS || (found == WOKEN && !self.rules.chains) {
                return false;
            }
            if found == WOKEN && change(WOKEN, WOKEN) == WOKEN {
                return false;
            }
        }
    }
}
