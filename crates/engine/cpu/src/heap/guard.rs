//! The checks of a checked heap: the bytes after the end of each block, and frees of wrong addresses.

use std::sync::atomic::Ordering;

use everwarp_contract::HeapOwner;
use everwarp_contract::heap::{HEAP_ERRORS, HEAP_FENCE, HEAP_FENCE_BYTES, HEAP_GUARD_BYTES};
use everwarp_engine::sync::lock;
use everwarp_engine::{HeapError, HeapErrorKind};

use super::{Block, HostHeap};

impl HostHeap {
    /// Reports the blocks of this part of the tables with an overwritten end.
    pub(crate) fn sweep(&self, part: u32, parts: u32) -> u64 {
        let mut broken = 0;
        for shard in self.part(part, parts) {
            for (&at, &block) in &lock(shard).live {
                broken += u64::from(!self.check_fence(block.owner, at as *mut u8, block));
            }
        }
        broken
    }

    /// The bytes of a block after the requested size.
    fn fence(&self, block: Block) -> std::ops::Range<usize> {
        let room = block.bytes - block.asked;
        let length = room.min(u64::from(HEAP_FENCE_BYTES + HEAP_GUARD_BYTES));
        block.asked as usize..(block.asked + length) as usize
    }
    pub(super) fn set_fence(&self, at: *mut u8, block: Block) {
        if self.checked() {
            for i in self.fence(block) {
                // SAFETY: inside the block.
                unsafe { at.add(i).write(HEAP_FENCE as u8) };
            }
        }
    }
    /// Whether the bytes after the block's end are intact; reports the block if not.
    pub(super) fn check_fence(&self, by: HeapOwner, at: *mut u8, block: Block) -> bool {
        let intact = !self.checked()
            || self
                .fence(block)
                // SAFETY: inside the block, and `set_fence` has written it.
                .all(|i| unsafe { at.add(i).read() } == HEAP_FENCE as u8);
        if !intact {
            self.report(HeapErrorKind::Overflow, at, block, by);
        }
        intact
    }

    fn report(&self, kind: HeapErrorKind, at: *mut u8, block: Block, by: HeapOwner) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut kept = lock(&self.kept);
        if kept.len() < HEAP_ERRORS as usize {
            kept.push(HeapError {
                kind,
                address: at as u64,
                bytes: block.bytes,
                owner: block.owner,
                by,
            });
        }
    }

    /// Counts and reports a free of an address without a block.
    pub(super) fn wrong(&self, by: HeapOwner, at: *mut u8) {
        self.wrong_frees.fetch_add(1, Ordering::Relaxed);
        if !self.checked() {
            return;
        }
        let address = at as usize;
        if let Some(&block) = lock(self.shard(address)).freed.get(&address) {
            return self.report(HeapErrorKind::FreedTwice, at, block, by);
        }
        let around = self.shards.iter().find_map(|shard| {
            let inside = |(&start, block): (&usize, &Block)| {
                (start < address && address < start + block.bytes as usize).then_some(*block)
            };
            lock(shard).live.iter().find_map(inside)
        });
        let none = Block {
            owner: HeapOwner(0),
            asked: 0,
            bytes: 0,
        };
        match around {
            Some(block) => self.report(HeapErrorKind::MiddleOfBlock, at, block, by),
            None => self.report(HeapErrorKind::Foreign, at, none, by),
        }
    }
}
