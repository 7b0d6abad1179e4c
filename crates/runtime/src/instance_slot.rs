//! The slots of the instance table.
//!
//! A slot is one word: bit 31 says that an `Instance` holds the slot, the bits below count its submissions in flight. The
//! slot is free when the word is 0, so a dropped instance keeps its slot, and the engine keeps its parameters, until the
//! last of its work is done.
//!
//! Why one word and not a flag and a counter? A thread that saw "dropped" in one word and "none in flight" in the other
//! could free the slot of the next instance, which had come and gone in between.

use everwarp_contract::FunctionId;

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::token::RegionId;

const HELD: u32 = 1 << 31;

/// One slot of the instance table.
#[derive(Debug)]
pub(crate) struct InstanceSlot {
    word: AtomicU32,
    /// The function ids that tasks of the instance may name: first | number << 32. Empty if the slot is not held.
    functions: AtomicU64,
    /// The region of the instance that holds the slot.
    region: AtomicU32,
}

impl InstanceSlot {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            functions: AtomicU64::new(0),
            region: AtomicU32::new(0),
        }
    }
    /// Takes the slot, if it is free. Acquire pairs with the release of `end` and `release`: all tasks that ran in it
    /// before have ended.
    pub(crate) fn hold(&self) -> bool {
        self.word
            .compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
    /// Sets the functions that tasks of the instance may name. Only for the holder.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn set_functions(&self, first: FunctionId, number: u32) {
        self.functions.store(
            u64::from(number) << 32 | u64::from(first.0),
            Ordering::Release,
        );
    }
    /// Sets the region whose buffers its tasks may reach, besides the common ones. Only for the holder.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn set_region(&self, region: RegionId) {
        self.region.store(u32::from(region.0), Ordering::Relaxed);
    }
    /// The region of the instance that holds the slot.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn region(&self) -> RegionId {
        RegionId(self.region.load(Ordering::Relaxed) as u8)
    }
    /// The functions that tasks of the instance may name: the first, and how many there are.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn functions(&self) -> (FunctionId, u32) {
        let word = self.functions.load(Ordering::Acquire);
        (FunctionId(word as u32), (word >> 32) as u32)
    }
    /// Gives the slot up. Only for the holder.
    pub(crate) fn release(&self) {
        self.functions.store(0, Ordering::Release);
        self.word.fetch_and(!HELD, Ordering::Release);
    }
    /// Counts the begin of a submission. Relaxed: it reaches the engine through the ring.
    pub(crate) fn begin(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }
    /// Counts the end of a submission.
    pub(crate) fn end(&self) {
        self.word.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FunctionId, InstanceSlot};

    #[test]
    fn dropped_instance_keeps_its_slot_until_its_work_is_done() {
        let slot = InstanceSlot::new();
        assert!(slot.hold() && !slot.hold());
        slot.set_functions(FunctionId(3), 4);
        slot.begin();
        slot.release();
        assert_eq!(slot.functions().1, 0);
        assert!(!slot.hold(), "its work is in flight");
        slot.end();
        assert!(slot.hold());
    }
}
