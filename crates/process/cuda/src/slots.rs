//! The slots of the host-call ring, which hosts get in ranges.

use std::ops::Range;

/// Numbers that no host has, as ranges in ascending order that do not touch.
#[derive(Debug)]
pub(crate) struct FreeSlots(Vec<Range<u32>>);

impl FreeSlots {
    /// All numbers below `count`.
    pub(crate) fn new(count: u32) -> Self {
        Self(std::iter::once(0..count).collect())
    }

    /// Takes `count` adjacent numbers, or the longest range that is left if it is shorter.
    pub(crate) fn take_up_to(&mut self, count: u32) -> Range<u32> {
        let fits = self.0.iter().position(|range| range.len() as u32 >= count);
        let longest = || (0..self.0.len()).max_by_key(|&at| self.0[at].len());
        let Some(at) = fits.or_else(longest) else {
            return 0..0;
        };
        let range = &mut self.0[at];
        let end = range.end.min(range.start + count);
        let taken = range.start..end;
        range.start = end;
        if range.start == range.end {
            self.0.remove(at);
        }
        taken
    }

    /// The length of the longest range.
    pub(crate) fn longest(&self) -> u32 {
        let lengths = self.0.iter().map(|range| range.len() as u32);
        lengths.max().unwrap_or(0)
    }

    /// Gives numbers back.
    pub(crate) fn give_back(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let at = self.0.partition_point(|other| other.start < range.start);
        self.0.insert(at, range);
        if self
            .0
            .get(at + 1)
            .is_some_and(|next| next.start == self.0[at].end)
        {
            self.0[at].end = self.0.remove(at + 1).end;
        }
        if at > 0 && self.0[at - 1].end == self.0[at].start {
            self.0[at - 1].end = self.0.remove(at).end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_taken_apart_and_joined_again() {
        let mut free = FreeSlots::new(100);
        let [a, b, c] = [10, 20, 30].map(|count| free.take_up_to(count));
        assert_eq!((a.clone(), b.clone(), c.clone()), (0..10, 10..30, 30..60));
        free.give_back(b);
        assert_eq!(free.take_up_to(25), 60..85);
        assert_eq!(free.longest(), 20);
        assert_eq!(free.take_up_to(25), 10..30, "the longest one that is left");
        for range in [60..85, 10..30, c, a] {
            free.give_back(range);
        }
        assert_eq!(free.0, FreeSlots::new(100).0);
        assert_eq!(free.take_up_to(1000), 0..100);
        assert_eq!(free.take_up_to(1), 0..0);
        free.give_back(0..0);
        assert!(free.0.is_empty());
    }
}
