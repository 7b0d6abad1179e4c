//! The ids of groups: a shared list of free ones, and those that each worker keeps for itself.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp_contract::GroupId;
use everwarp_engine::sync::lock;

/// Ids that a worker fetches from or returns to the shared list at once.
const BATCH: usize = 64;

/// All ids of an engine. An id is in one of three places: never used, in the shared list, or with a worker.
#[derive(Debug)]
pub(crate) struct GroupPool {
    limit: u32,
    free: Mutex<Vec<GroupId>>,
    /// The ids from here on were never used.
    fresh: AtomicU32,
    /// How often a worker wanted an id and none was free.
    pub(crate) refusals: AtomicU64,
}

/// Whether ids went back to the shared list, so that workers that wait for one must be woken.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The worker keeps the id.
    Kept,
    /// Every worker can take ids again.
    Shared,
}

impl GroupPool {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit,
            free: Mutex::default(),
            fresh: AtomicU32::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// Takes an id: from the worker's own, the shared list, or those never used.
    pub(crate) fn take(&self, own: &mut Vec<GroupId>) -> Option<GroupId> {
        if own.is_empty() {
            self.refill(own);
        }
        let taken = own.pop();
        if taken.is_none() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    #[cold]
    fn refill(&self, own: &mut Vec<GroupId>) {
        {
            let mut free = lock(&self.free);
            let keep = free.len().saturating_sub(BATCH);
            own.extend(free.drain(keep..));
        }
        // Few at a time when there are few in all, so that no worker hoards the ids that others need.
        let want = (self.limit / 16).clamp(1, BATCH as u32);
        while own.len() < want as usize {
            let fresh = self.fresh.fetch_add(1, Ordering::Relaxed);
            if fresh >= self.limit {
                self.fresh.fetch_sub(1, Ordering::Relaxed);
                break;
            }
            own.push(GroupId(fresh));
        }
    }

    /// Gives an id back to the worker, and part of the worker's ids to the shared list if it has many.
    pub(crate) fn free(&self, own: &mut Vec<GroupId>, id: GroupId) -> Freed {
        own.push(id);
        if own.len() < 2 * BATCH && own.len() <= self.limit as usize / 16 {
            return Freed::Kept;
        }
        let keep = own.len() / 2;
        lock(&self.free).extend(own.drain(keep..));
        Freed::Shared
    }

    /// Gives all ids of a worker that leaves to the shared list.
    pub(crate) fn free_all(&self, own: Vec<GroupId>) {
        lock(&self.free).extend(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_gives_out_each_id_once_and_counts_refusals() {
        let pool = GroupPool::new(20);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.take(&mut one)).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..20).map(GroupId).collect::<Vec<_>>());
        assert_eq!(pool.refusals.load(Ordering::Relaxed), 1);
        assert_eq!(pool.take(&mut other), None);
        // A worker with a single id keeps it; of two it gives one away.
        assert_eq!(pool.free(&mut one, taken[0]), Freed::Kept);
        assert_eq!(pool.free(&mut one, taken[1]), Freed::Shared);
        assert_eq!(pool.take(&mut other), Some(taken[1]));
        pool.free_all(one);
        assert_eq!(pool.take(&mut other), Some(taken[0]));
    }
}
