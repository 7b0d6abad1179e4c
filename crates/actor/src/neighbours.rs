//! Turns of actors in neighbouring slots that one task runs, so that a message to each of many actors does not cost a task
//! for each: the tasks that deliver them make the actors of a few slots busy one after the other.
//!
//! The argument of such a task is the first slot, and in its upper half a bit for each of the slots that follow it. The
//! lowest bit of that half is not one of them, since it stands for a [`COURIER`](crate::side::COURIER).

/// The most slots after the first.
const MOST: u32 = 15;

/// Slots of one kind whose turns wait, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbours {
    kind: u16,
    first: u32,
    /// A bit for each slot from the first on.
    slots: u32,
}

impl Neighbours {
    /// One slot.
    pub(crate) const fn of(kind: u16, slot: u32) -> Self {
        Self {
            kind,
            first: slot,
            slots: 1,
        }
    }
    /// Those of a task's argument.
    pub(crate) const fn from_arg(kind: u16, arg: u64) -> Self {
        let after = (arg >> 33) as u32 & ((1 << MOST) - 1);
        Self {
            kind,
            first: arg as u32,
            slots: 1 | after << 1,
        }
    }
    /// The argument of the task that runs them. There is one at least.
    pub(crate) const fn arg(&self) -> u64 {
        // The first bit is for the first slot.
        let skipped = self.slots.trailing_zeros();
        let (first, slots) = (self.first + skipped, self.slots >> skipped);
        first as u64 | (slots as u64 >> 1) << 33
    }
    /// The kind of their actors.
    pub(crate) const fn kind(&self) -> u16 {
        self.kind
    }
    /// Adds a slot. Returns whether it did: it is of the same kind, and follows soon.
    pub(crate) const fn add(&mut self, kind: u16, slot: u32) -> bool {
        let after = slot.wrapping_sub(self.first);
        let fits = kind == self.kind && after > 0 && after <= MOST;
        if fits {
            self.slots |= 1 << after;
        }
        fits
    }
    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.slots.count_ones() as usize
    }
    /// Takes the first one.
    pub(crate) const fn take(&mut self) -> Option<u32> {
        if self.slots == 0 {
            return None;
        }
        let bit = self.slots.trailing_zeros();
        self.slots &= self.slots - 1;
        Some(self.first + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::COURIER;

    fn all(mut some: Neighbours) -> Vec<u32> {
        std::iter::from_fn(|| some.take()).collect()
    }

    #[test]
    fn slots_come_back_in_order_and_only_neighbours_of_a_kind_are_added() {
        let mut some = Neighbours::of(2, 1000);
        assert!(some.add(2, 1001) && some.add(2, 1007) && some.add(2, 1000 + MOST));
        assert!(!some.add(2, 1000 + MOST + 1) && !some.add(2, 999) && !some.add(3, 1002));
        assert_eq!((some.len(), some.kind()), (4, 2));
        let arg = some.arg();
        assert_ne!((arg >> 32) as u32 & COURIER, COURIER);
        assert_eq!(Neighbours::from_arg(2, arg), some);
        assert_eq!(all(some), [1000, 1001, 1007, 1000 + MOST]);
    }

    #[test]
    fn one_slot_is_a_plain_argument() {
        let one = Neighbours::of(0, u32::MAX);
        assert_eq!(one.arg(), u64::from(u32::MAX));
        assert_eq!(all(Neighbours::from_arg(0, 7)), [7]);
    }

    #[test]
    fn what_is_left_is_an_argument_again() {
        let mut some = Neighbours::of(1, 5);
        assert!((6..=20).all(|slot| some.add(1, slot)));
        for left in (1..16).rev() {
            assert_eq!(some.take(), Some(20 - left));
            let again = Neighbours::from_arg(1, some.arg());
            assert_eq!(all(again), (21 - left..=20).collect::<Vec<_>>());
            assert_eq!(some.len(), left as usize);
        }
    }
}
