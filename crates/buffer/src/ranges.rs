//! Sets of ranges: which bytes of a buffer are newer on one side.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch, by their beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet(BTreeMap<usize, usize>);

impl RangeSet {
    /// Adds a range.
    pub(crate) fn insert(&mut self, range: &Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (mut begin, mut end) = (range.start, range.end);
        while let Some((&b, &e)) = self.0.range(..=end).next_back()
            && e >= begin
        {
            self.0.remove(&b);
            (begin, end) = (begin.min(b), end.max(e));
        }
        self.0.insert(begin, end);
    }
    /// Takes a range out.
    pub(crate) fn remove(&mut self, range: &Range<usize>) {
        if range.is_empty() {
            return;
        }
        while let Some((&b, &e)) = self.0.range(..range.end).next_back()
            && e > range.start
        {
            self.0.remove(&b);
            if e > range.end {
                self.0.insert(range.end, e);
            }
            if b < range.start {
                self.0.insert(b, range.start);
            }
        }
    }
    /// The parts of the set that are inside a range, in order.
    pub(crate) fn within(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let before = self.0.range(..range.start).next_back();
        let inside = self.0.range(range.start..range.end.max(range.start));
        before
            .into_iter()
            .chain(inside)
            .map(|(b, e)| (*b).max(range.start)..(*e).min(range.end))
            .filter(|part| part.start < part.end)
            .collect()
    }
    /// Whether a range has a part of the set.
    pub(crate) fn overlaps(&self, range: &Range<usize>) -> bool {
        let last = self.0.range(..range.end).next_back();
        !range.is_empty() && last.is_some_and(|(_, e)| *e > range.start)
    }
    /// The number of bytes in the set.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(b, e)| e - b).sum()
    }
}

/// The longest gap that a copy takes with it instead of being divided in two. A copy costs a GPU about as much as this
/// many bytes.
const GAP: usize = 64 << 10;

/// Joins neighbouring ranges to fewer copies, the smallest gaps first, such that at most twice as many bytes are copied
/// as there were. `may` says whether the bytes of a gap may be copied as well.
pub(crate) fn joined(
    ranges: Vec<Range<usize>>,
    may: impl Fn(&Range<usize>) -> bool,
) -> Vec<Range<usize>> {
    let mut gaps: Vec<usize> = (1..ranges.len()).collect();
    let gap = |at: usize| ranges[at - 1].end..ranges[at].start;
    gaps.sort_by_key(|at| gap(*at).len());
    let mut left: usize = ranges.iter().map(Range::len).sum();
    let mut joins = vec![false; ranges.len()];
    for at in gaps {
        let gap = gap(at);
        if gap.len() > left.min(GAP) {
            break;
        }
        if may(&gap) {
            left -= gap.len();
            joins[at] = true;
        }
    }
    let mut copies: Vec<Range<usize>> = Vec::new();
    for (range, join) in ranges.into_iter().zip(joins) {
        match copies.last_mut() {
            Some(last) if join => last.end = range.end,
            _ => copies.push(range),
        }
    }
    copies
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = Range<usize>> {
        (0..200_usize, 0..40_usize).prop_map(|(begin, len)| begin..(begin + len).min(200))
    }

    proptest! {
        /// The set against one truth value for each byte.
        #[test]
        fn set_has_the_bytes_that_were_added_and_not_taken_out(
            steps in prop::collection::vec((any::<bool>(), range()), 0..40),
            asked in range(),
        ) {
            let mut set = RangeSet::default();
            let mut plain = [false; 200];
            for (add, range) in steps {
                match add {
                    true => set.insert(&range),
                    false => set.remove(&range),
                }
                plain[range].fill(add);
            }
            let within = set.within(&asked);
            let mut found = [false; 200];
            for part in &within {
                prop_assert!(part.start >= asked.start && part.end <= asked.end);
                found[part.clone()].fill(true);
            }
            for at in asked.clone() {
                prop_assert_eq!(found[at], plain[at]);
            }
            prop_assert!(within.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(set.overlaps(&asked), asked.clone().any(|at| plain[at]));
            prop_assert_eq!(set.bytes(), plain.iter().filter(|byte| **byte).count());
        }

        /// Joining loses no byte, copies at most twice as many, and takes no gap that it must not take.
        #[test]
        fn joined_copies_cover_the_ranges_and_at_most_twice_their_bytes(
            steps in prop::collection::vec(range(), 0..40),
            held in range(),
        ) {
            let mut set = RangeSet::default();
            steps.iter().for_each(|range| set.insert(range));
            let ranges = set.within(&(0..200));
            let outside = |gap: &Range<usize>| gap.end <= held.start || gap.start >= held.end;
            let copies = joined(ranges.clone(), outside);
            let bytes: usize = copies.iter().map(Range::len).sum();
            prop_assert!(bytes <= 2 * set.bytes());
            prop_assert!(copies.len() <= ranges.len());
            for range in &ranges {
                prop_assert!(copies.iter().any(|c| c.start <= range.start && range.end <= c.end));
            }
            for at in held.clone() {
                let copied = copies.iter().any(|copy| copy.contains(&at));
                prop_assert!(!copied || set.overlaps(&(at..at + 1)));
            }
        }
    }
}
