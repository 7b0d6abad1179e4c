//! The ids of groups: a shared list of free ones, and those that each worker keeps for itself.
//!
//! Some ids are a reserve, which only one worker may take at a time (`reserve.rs`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp_contract::GroupId;
use everwarp_engine::sync::lock;

/// Ids that a worker fetches from or returns to the shared list at once, if there are many.
const BATCH: u32 = 64;

/// The ids that no worker has.
#[derive(Debug, Default)]
struct FreeIds {
    returned: Vec<GroupId>,
    /// The ids from here on were never used.
    fresh: u32,
}

/// All ids of an engine. An id is in one of three places: never used, in the shared list, or with a worker.
#[derive(Debug)]
pub(crate) struct GroupPool {
    limit: u32,
    free: Mutex<FreeIds>,
    /// How many of the free ids are the reserve.
    reserve: AtomicU32,
    /// Ids that a worker fetches at once.
    batch: AtomicU32,
    /// How often a worker wanted an id and none was free.
    pub(crate) refusals: AtomicU64,
}

/// Whether ids went back to the shared list, so that workers that wait for one must be woken.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The worker keeps the id, or it belongs to the reserve.
    Kept,
    /// Every worker can take ids again.
    Shared,
}

impl GroupPool {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit,
            free: Mutex::default(),
            reserve: AtomicU32::new(0),
            batch: AtomicU32::new(1),
            refusals: AtomicU64::new(0),
        }
    }

    /// Sets the reserve, for an epoch with this many workers.
    pub(crate) fn set_reserve(&self, reserve: u32, workers: u32) {
        self.reserve.store(reserve, Ordering::Relaxed);
        // Few at a time when there are few in all, so that no worker hoards the ids that others need.
        let batch = self.limit / (8 * workers).max(1);
        self.batch.store(batch.clamp(1, BATCH), Ordering::Relaxed);
    }

    fn batch(&self) -> usize {
        self.batch.load(Ordering::Relaxed) as usize
    }

    /// How many of these ids are not the reserve.
    fn beyond_reserve(&self, free: &FreeIds) -> usize {
        let count = free.returned.len() + (self.limit - free.fresh) as usize;
        count.saturating_sub(self.reserve.load(Ordering::Relaxed) as usize)
    }

    /// Takes an id: from the worker's own, the shared list, or those never used. Only the worker that `has_reserve` takes
    /// those of the reserve.
    pub(crate) fn take(&self, own: &mut Vec<GroupId>, has_reserve: bool) -> Option<GroupId> {
        if own.is_empty() {
            self.refill(own, has_reserve);
        }
        let taken = own.pop();
        if taken.is_none() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    #[cold]
    fn refill(&self, own: &mut Vec<GroupId>, has_reserve: bool) {
        let mut free = lock(&self.free);
        let wanted = match has_reserve {
            true => self.batch(),
            false => self.batch().min(self.beyond_reserve(&free)),
        };
        let keep = free.returned.len().saturating_sub(wanted);
        own.extend(free.returned.drain(keep..));
        while own.len() < wanted && free.fresh < self.limit {
            own.push(GroupId(free.fresh));
            free.fresh += 1;
        }
    }

    /// Gives an id back to the worker, and part of the worker's ids to the shared list if it has many.
    pub(crate) fn free(&self, own: &mut Vec<GroupId>, id: GroupId) -> Freed {
        own.push(id);
        if own.len() < 2 * self.batch() {
            return Freed::Kept;
        }
        let keep = own.len() / 2;
        let mut free = lock(&self.free);
        free.returned.extend(own.drain(keep..));
        match self.beyond_reserve(&free) {
            0 => Freed::Kept,
            _ => Freed::Shared,
        }
    }

    /// Gives all ids of a worker to the shared list.
    pub(crate) fn free_all(&self, own: &mut Vec<GroupId>) {
        lock(&self.free).returned.append(own);
    }

    /// Whether the whole reserve is free, with the ids that a worker keeps.
    pub(crate) fn reserve_is_whole(&self, own: &[GroupId]) -> bool {
        let free = lock(&self.free);
        let count = free.returned.len() + (self.limit - free.fresh) as usize + own.len();
        count >= self.reserve.load(Ordering::Relaxed) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_gives_out_each_id_once_and_counts_refusals() {
        let pool = GroupPool::new(20);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.take(&mut one, false)).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..20).map(GroupId).collect::<Vec<_>>());
        assert_eq!(pool.refusals.load(Ordering::Relaxed), 1);
        assert_eq!(pool.take(&mut other, false), None);
        // A worker with a single id keeps it; of two it gives one away.
        assert_eq!(pool.free(&mut one, taken[0]), Freed::Kept);
        assert_eq!(pool.free(&mut one, taken[1]), Freed::Shared);
        assert_eq!(pool.take(&mut other, false), Some(taken[1]));
        pool.free_all(&mut one);
        assert_eq!(pool.take(&mut other, false), Some(taken[0]));
    }

    #[test]
    fn reserve_is_for_one_worker_and_others_are_woken_when_it_is_whole_again() {
        let pool = GroupPool::new(20);
        pool.set_reserve(8, 4);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.take(&mut one, false)).collect();
        assert_eq!(taken.len(), 12, "all but the reserve");
        assert!(pool.reserve_is_whole(&one));
        taken.extend(std::iter::from_fn(|| pool.take(&mut one, true)));
        assert_eq!(taken.len(), 20);
        assert!(!pool.reserve_is_whole(&one));
        let mut freed = taken.into_iter().map(|id| pool.free(&mut one, id));
        // Eight in the shared list and one with the worker are the reserve and no more.
        assert!(freed.by_ref().take(9).all(|freed| freed == Freed::Kept));
        assert_eq!(pool.take(&mut other, false), None);
        assert_eq!(freed.next(), Some(Freed::Shared));
        drop(freed);
        assert!(pool.reserve_is_whole(&one));
        assert!(pool.take(&mut other, false).is_some());
    }
}
