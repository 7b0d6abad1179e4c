//! The slots of the instance table.
//!
//! A slot is one word: bit 31 says that an `Instance` holds it, the bits below count its submissions in
//! flight. It is free when the word is 0, so a dropped instance keeps its slot, and the engine its
//! parameters, until the last of its work is done.
//!
//! Why one word and not a flag beside a counter? Whoever saw "dropped" and "none in flight" in two words
//! could free the slot of the next instance, which had come and gone in between.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

const HELD: u32 = 1 << 31;

#[derive(Debug)]
pub(crate) struct Slot {
    word: AtomicU32,
    /// The function ids that tasks of the instance may name: first | number << 32. Empty if not held.
    functions: AtomicU64,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            functions: AtomicU64::new(0),
        }
    }
    /// Takes the slot, if it is free. Acquire pairs with the release of `end` and `release`: what ran
    /// in it before has ended.
    pub(crate) fn hold(&self) -> bool {
        self.word
            .compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
    /// The holder: which functions its tasks may name.
    #[cfg_attr(loom, allow(dead_code, reason = "no model comes by here"))]
    pub(crate) fn set_functions(&self, first: u32, number: u32) {
        self.functions.store(
            u64::from(number) << 32 | u64::from(first),
            Ordering::Release,
        );
    }
    /// First and number of the function ids that tasks of the instance may name.
    #[cfg_attr(loom, allow(dead_code, reason = "no model comes by here"))]
    pub(crate) fn functions(&self) -> (u32, u32) {
        let word = self.functions.load(Ordering::Acquire);
        (word as u32, (word >> 32) as u32)
    }
    /// The holder goes away.
    pub(crate) fn release(&self) {
        self.functions.store(0, Ordering::Release);
        self.word.fetch_and(!HELD, Ordering::Release);
    }
    /// A submission begins. Relaxed: it reaches the engine through the ring.
    pub(crate) fn begin(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }
    /// A submission has ended.
    pub(crate) fn end(&self) {
        self.word.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Slot;

    #[test]
    fn a_dropped_instance_keeps_its_slot_until_its_work_is_done() {
        let slot = Slot::new();
        assert!(slot.hold() && !slot.hold());
        slot.set_functions(3, 4);
        slot.begin();
        slot.release();
        assert_eq!(slot.functions().1, 0);
        assert!(!slot.hold(), "its work is in flight");
        slot.end();
        assert!(slot.hold());
    }
}
