//! The heap of tasks on the host: the system's allocator with the accounts of the device heap.
//!
//! The blocks in use are recorded in tables, in shards by address, so that a wrong address is found before anything is
//! touched. The GPU's rules hold: sizes are rounded as its classes are, a heap is full when its blocks take its size, and a
//! checked heap has guards, too.

mod control;
mod guard;
#[cfg(test)]
mod tests;

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_contract::HeapOwner;
use everwarp_contract::heap::{HEAP_GUARD_BYTES, HEAP_LARGEST_CLASS, block_bytes};
use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_engine::{EngineError, HeapConfig, HeapError, HeapMode};

/// Blocks are aligned to this.
const ALIGN: usize = 16;
/// Tables among which blocks are divided.
const SHARDS: usize = 64;
/// Addresses of freed blocks that a shard of a checked heap remembers, to recognize a second free.
const REMEMBERED: usize = 4096;

/// A block in use, or freed.
#[derive(Clone, Copy)]
struct Block {
    owner: HeapOwner,
    /// The requested size.
    asked: u64,
    /// The size that it takes.
    bytes: u64,
}

#[derive(Default)]
struct Shard {
    live: HashMap<usize, Block>,
    /// Freed blocks whose address was not allocated again.
    freed: HashMap<usize, Block>,
}

#[derive(Default)]
struct Account {
    in_use: AtomicU64,
    /// 0: no limit.
    quota: AtomicU64,
    refused: AtomicU64,
}

/// The heap of an engine on the host's cores.
pub(crate) struct HostHeap {
    config: HeapConfig,
    bytes: AtomicU64,
    in_use: AtomicU64,
    refused: AtomicU64,
    wrong_frees: AtomicU64,
    errors: AtomicU64,
    kept: Mutex<Vec<HeapError>>,
    shards: [Mutex<Shard>; SHARDS],
    owners: Box<[Account]>,
}

impl std::fmt::Debug for HostHeap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostHeap")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Adds if the sum stays within the limit.
fn charge(account: &AtomicU64, bytes: u64, limit: u64) -> bool {
    let more = |now: u64| now.checked_add(bytes).filter(|&sum| sum <= limit);
    account
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .is_ok()
}

fn layout(bytes: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(bytes).ok()?, ALIGN).ok()
}

impl HostHeap {
    /// Makes a heap; `None` if the configuration has none. The system's memory is taken block by block.
    ///
    /// # Errors
    /// The configuration cannot work.
    pub(crate) fn new(config: HeapConfig) -> Result<Option<Self>, EngineError> {
        let config = config.rounded()?;
        if config.bytes == 0 {
            return Ok(None);
        }
        let owners = if config.mode == HeapMode::Plain {
            0
        } else {
            config.owners
        };
        Ok(Some(Self {
            config,
            bytes: AtomicU64::new(config.bytes),
            in_use: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            wrong_frees: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            kept: Mutex::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            owners: (0..owners).map(|_| Account::default()).collect(),
        }))
    }

    fn checked(&self) -> bool {
        self.config.mode == HeapMode::Checked
    }
    fn guard(&self) -> u64 {
        if self.checked() {
            HEAP_GUARD_BYTES.into()
        } else {
            0
        }
    }
    fn shard(&self, at: usize) -> &Mutex<Shard> {
        let mixed = (at as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 58) as usize]
    }

    /// Counts bytes for an owner and for the heap. Returns whether both have room.
    fn charge(&self, owner: HeapOwner, bytes: u64) -> bool {
        if let Some(account) = self.owners.get(owner.0 as usize) {
            let limit = match account.quota.load(Ordering::Relaxed) {
                0 => u64::MAX,
                quota => quota,
            };
            if !charge(&account.in_use, bytes, limit) {
                return false;
            }
        } else if !self.owners.is_empty() {
            return false;
        }
        let there = charge(&self.in_use, bytes, self.bytes.load(Ordering::Acquire));
        if !there && let Some(account) = self.owners.get(owner.0 as usize) {
            account.in_use.fetch_sub(bytes, Ordering::Relaxed);
        }
        there
    }
    fn discharge(&self, owner: HeapOwner, bytes: u64) {
        self.in_use.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(account) = self.owners.get(owner.0 as usize) {
            account.in_use.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
    fn refuse(&self, owner: HeapOwner) -> *mut u8 {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(account) = self.owners.get(owner.0 as usize) {
            account.refused.fetch_add(1, Ordering::Relaxed);
        }
        null_mut()
    }

    /// Allocates a block for an owner; null when there is no room.
    pub(crate) fn alloc(&self, owner: HeapOwner, bytes: u64) -> *mut u8 {
        let takes = block_bytes(bytes.saturating_add(self.guard()));
        if !self.charge(owner, takes) {
            return self.refuse(owner);
        }
        // SAFETY: a block takes at least 16 bytes.
        let at = layout(takes).map_or(null_mut(), |l| unsafe { alloc(l) });
        if at.is_null() {
            self.discharge(owner, takes);
            return self.refuse(owner);
        }
        let block = Block {
            owner,
            asked: bytes,
            bytes: takes,
        };
        self.set_fence(at, block);
        let mut shard = lock(self.shard(at as usize));
        shard.freed.remove(&(at as usize));
        shard.live.insert(at as usize, block);
        at
    }

    /// Frees a block; `by` is the owner whose task frees it.
    pub(crate) fn free(&self, by: HeapOwner, at: *mut u8) {
        if at.is_null() {
            return;
        }
        let Some(block) = self.take(at) else {
            return self.wrong(by, at);
        };
        self.end(by, at, block);
    }

    fn take(&self, at: *mut u8) -> Option<Block> {
        let mut shard = lock(self.shard(at as usize));
        let block = shard.live.remove(&(at as usize))?;
        if self.checked() && shard.freed.len() < REMEMBERED {
            shard.freed.insert(at as usize, block);
        }
        Some(block)
    }

    /// Gives a block that is in no table any more back to the system.
    fn end(&self, by: HeapOwner, at: *mut u8, block: Block) {
        self.check_fence(by, at, block);
        // SAFETY: it came from `alloc` with this layout, and only the thread that took it out of the table frees it.
        unsafe {
            dealloc(
                at,
                layout(block.bytes).expect("it was allocated with this layout"),
            );
        }
        self.discharge(block.owner, block.bytes);
    }

    /// Changes the size of a block, as `TaskCx::realloc` says.
    pub(crate) fn realloc(&self, owner: HeapOwner, old: *mut u8, bytes: u64) -> *mut u8 {
        if old.is_null() {
            return self.alloc(owner, bytes);
        }
        let Some(block) = lock(self.shard(old as usize))
            .live
            .get(&(old as usize))
            .copied()
        else {
            self.wrong(owner, old);
            return null_mut();
        };
        let takes = block_bytes(bytes.saturating_add(self.guard()));
        // A block that becomes a little smaller stays in place, as on a GPU.
        let little =
            block.bytes <= HEAP_LARGEST_CLASS.into() && takes.saturating_mul(2) > block.bytes;
        if takes == block.bytes || (takes < block.bytes && little) {
            self.check_fence(owner, old, block);
            let block = Block {
                asked: bytes,
                ..block
            };
            self.set_fence(old, block);
            lock(self.shard(old as usize))
                .live
                .insert(old as usize, block);
            return old;
        }
        let new = self.alloc(block.owner, bytes);
        if new.is_null() && takes < block.bytes {
            // There is no room even for a smaller block: the old one stays.
            let block = Block {
                asked: bytes,
                ..block
            };
            self.set_fence(old, block);
            lock(self.shard(old as usize))
                .live
                .insert(old as usize, block);
            return old;
        }
        if !new.is_null() {
            // SAFETY: both are blocks of at least that many bytes, and they are different blocks.
            unsafe { std::ptr::copy_nonoverlapping(old, new, block.asked.min(bytes) as usize) };
            self.free(owner, old);
        }
        new
    }

    /// Frees every block of an owner that is in this part of the tables.
    pub(crate) fn release(&self, owner: HeapOwner, part: u32, parts: u32) -> u64 {
        if self.owners.is_empty() {
            return 0;
        }
        let mut came_back = 0;
        for shard in self.part(part, parts) {
            let blocks: Vec<_> = lock(shard)
                .live
                .extract_if(|_, b| b.owner == owner)
                .collect();
            for (at, block) in blocks {
                came_back += block.bytes;
                self.end(owner, at as *mut u8, block);
            }
        }
        came_back
    }

    fn part(&self, part: u32, parts: u32) -> impl Iterator<Item = &Mutex<Shard>> {
        let (part, parts) = (part as usize, parts.max(1) as usize);
        self.shards.iter().skip(part).step_by(parts)
    }
}

impl Drop for HostHeap {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            let shard = ignore_poison(shard.get_mut());
            for (at, block) in shard.live.drain() {
                let layout = layout(block.bytes).expect("it was allocated with this layout");
                // SAFETY: as in `end`; no other thread has the heap any more.
                unsafe { dealloc(at as *mut u8, layout) };
            }
        }
    }
}
