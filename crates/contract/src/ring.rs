//! The submission and completion rings: slots with lap parity, no shared indices on the fast path.
//!
//! A slot is valid for lap `n` of its ring when its lap bit equals `1 - (n & 1)`. Memory starts zeroed, so nothing is valid
//! before it is written. The consumer of a ring polls the slot itself, which makes
//! a submission one PCIe read for the GPU and a completion one cache line for the host.
//!
//! Access rules:
//! 1. A submission slot is written by the host only: first `arg`, then `head | group` with release.
//!    The host may reuse slot `i` once `DevWords::taken` has passed it.
//! 2. A completion slot is written by the engine only, in one 16-byte store after a system fence. There
//!    are never more tokens in flight than slots, so the completion ring cannot overflow, by design.
//! 3. The arena holds the tasks of batches; the host reuses a range once its batch has completed.
//!
//! [`Slots`] holds the parity rule for both rings and both directions, so it cannot change on one side only.

use crate::task::{DevTask, TASK_LAP};

/// A submission is a task descriptor whose `group` is the host's token.
pub type DevSubmission = DevTask;

crate::dev_struct! {
    /// One completion.
    pub struct DevCompletion: align 16, size 16 {
        /// The token of the submission.
        pub token: u32,
        /// [`COMPLETION_LAP`] and, below it, the status: 0 for success.
        pub status: u32,
        /// The value that the task or the tasks of its group reported.
        pub value: u64,
    }
}

crate::dev_consts! {
    /// Writes the ring constants as CUDA C++.
    pub fn write_consts;
    /// Lap parity of the completion slot, in `status`.
    pub const COMPLETION_LAP = 1 << 31;
}

/// The slot of a free-running index in a ring of a power-of-two size, and the lap bit that is valid there.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    mask: u32,
}

impl Slots {
    /// A ring of `capacity` slots.
    ///
    /// # Panics
    /// If `capacity` is not a power of two.
    pub const fn new(capacity: u32) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "a ring's capacity is a power of two"
        );
        Self { mask: capacity - 1 }
    }
    /// The number of slots.
    pub const fn capacity(self) -> u32 {
        self.mask + 1
    }
    /// The slot of free-running index `index`.
    pub const fn slot(self, index: u32) -> usize {
        (index & self.mask) as usize
    }
    /// The lap bit (bit 31) that a valid entry of `index` carries.
    pub const fn lap(self, index: u32) -> u32 {
        if index & (self.mask + 1) == 0 {
            TASK_LAP
        } else {
            0
        }
    }
    /// Whether a word read from the slot of `index` belongs to that lap.
    pub const fn is_valid(self, index: u32, word: u32) -> bool {
        word & TASK_LAP == self.lap(index)
    }
    /// Whether a producer at `tail` may write while the consumer has taken up to `head`.
    pub const fn has_room(self, tail: u32, head: u32) -> bool {
        tail.wrapping_sub(head) < self.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_memory_is_not_valid_and_laps_alternate() {
        let ring = Slots::new(4);
        for index in 0..4 {
            assert!(!ring.is_valid(index, 0));
            assert!(ring.is_valid(index, ring.lap(index)));
            assert!(!ring.is_valid(index + 4, ring.lap(index)));
            assert!(ring.is_valid(index + 8, ring.lap(index)));
        }
        let wrap = u32::MAX - 1;
        assert!(ring.has_room(wrap.wrapping_add(3), wrap));
        assert!(!ring.has_room(wrap.wrapping_add(4), wrap));
    }
}
