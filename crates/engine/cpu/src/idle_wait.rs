//! How a waiting host thread passes its time: it sleeps only once it has seen everything that completed.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everwarp_contract::fault::FAULT_NONE;

use crate::shared::CpuShared;

/// Rounds in which a waiter does not sleep.
const SPINS: u32 = 100;
/// The first sleeps of a waiter. A completion ends them; what else may end a wait is looked at after each.
const NAP: Duration = Duration::from_millis(1);
/// After this many sleeps, and after each as many more, they are longer by [`NAP`], so that a long wait costs less.
const NAPS: u32 = 256;
/// How many times [`NAP`] they last at most.
const LONGEST: u32 = 8;

/// The next engine's id; no engine has id 0.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// For the engines that this thread waited for last: the engine's id, and how many completions were written when
    /// the thread last returned from [`idle_wait`], which was before the caller's last look at the ring. Kept by thread,
    /// because one waiter's looks say nothing about the looks of another.
    static SEEN: Cell<[(u64, u64); 4]> = const { Cell::new([(0, 0); 4]) };
}

/// An id that tells an engine from all others of this process.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// Notes `now` for an engine and returns the number that was noted before.
fn exchange_seen(id: u64, now: u64) -> Option<u64> {
    let mut seen = SEEN.get();
    let place = seen.iter().position(|s| s.0 == id);
    let before = place.map(|p| seen[p].1);
    // Most recent first. An engine that has dropped out of the list costs one look more than needed.
    seen[..=place.unwrap_or(3)].rotate_right(1);
    seen[0] = (id, now);
    SEEN.set(seen);
    before
}

/// Passes some time until the waiter's next look; `round` is how many looks in a row have found nothing.
pub(crate) fn idle_wait(shared: &CpuShared, id: u64, round: u32) {
    // A waiting thread must not take a core from the workers for long.
    if round < SPINS {
        return everwarp_engine::relax();
    }
    // The caller's look came after the last call returned. Only if nothing was written since then has it seen
    // everything, and may sleep until something is.
    let written = || shared.completed.written();
    let now = written();
    if exchange_seen(id, now) == Some(now) {
        let completed = || written() != now || shared.fault_code() != FAULT_NONE;
        let nap = NAP * ((round - SPINS) / NAPS + 1).min(LONGEST);
        shared.waiters.sleep(nap, completed);
        exchange_seen(id, written());
    }
}
