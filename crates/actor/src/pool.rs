//! Free cells and free slots: stacks whose links are in the free things themselves, spread over shards.
//!
//! A head is tag << 32 | number + 1; each change raises the tag, so that a head that came back cannot be mistaken for one
//! that stayed. Numbers that were never used are handed out by a counter, once the caller's own shard is empty.

use everwarp_contract::actor::{ACTOR_CELLS, ACTOR_SHARD_STEP, ACTOR_SLOTS};

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::table::Table;

/// Which pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    Cells,
    Slots,
}

const fn after(head: u64, first: u32) -> u64 {
    ((head >> 32) + 1) << 32 | first as u64
}

impl<'t> Table<'t> {
    /// How many shards each pool has: `ACTOR_SHARDS`, and fewer in models.
    fn shard_count(&self) -> u32 {
        self.shards.len() as u32 / 2
    }
    fn head(&self, pool: Pool, shard: u32) -> &'t AtomicU64 {
        let base = match pool {
            Pool::Cells => ACTOR_CELLS,
            Pool::Slots => ACTOR_SLOTS,
        };
        let shards = self.shard_count();
        &self.shards[(base * shards + shard % shards) as usize].head
    }
    fn link(&self, pool: Pool, number: u32) -> &'t AtomicU32 {
        match pool {
            Pool::Cells => &self.cells[number as usize].next,
            Pool::Slots => &self.slots[number as usize].wait_next,
        }
    }

    /// Gives back a list of numbers from `first` to `last`, whose links are set.
    pub(crate) fn give(&self, pool: Pool, shard: u32, first: u32, last: u32) {
        let head = self.head(pool, shard);
        let mut seen = head.load(Ordering::Relaxed);
        loop {
            self.link(pool, last).store(seen as u32, Ordering::Relaxed);
            // Release: the taker sees the links, and what the giver wrote.
            let next = after(seen, first + 1);
            match head.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    fn pop(&self, pool: Pool, shard: u32) -> Option<u32> {
        let head = self.head(pool, shard);
        let mut seen = head.load(Ordering::Acquire);
        while seen as u32 != 0 {
            let number = seen as u32 - 1;
            let next = after(seen, self.link(pool, number).load(Ordering::Relaxed));
            match head.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Takes one number; none when the pool is exhausted.
    pub(crate) fn take(&self, pool: Pool, shard: u32) -> Option<u32> {
        if let Some(number) = self.pop(pool, shard) {
            return Some(number);
        }
        let (fresh, limit) = match pool {
            Pool::Cells => (&self.control.fresh_cells, self.cells.len()),
            Pool::Slots => (&self.control.fresh_slots, self.slots.len()),
        };
        if (fresh.load(Ordering::Relaxed) as usize) < limit {
            let number = fresh.fetch_add(1, Ordering::Relaxed);
            if (number as usize) < limit {
                return Some(number);
            }
        }
        let mut others = (1..self.shard_count()).map(|i| i.wrapping_mul(ACTOR_SHARD_STEP));
        others.find_map(|step| self.pop(pool, shard.wrapping_add(step)))
    }
}
