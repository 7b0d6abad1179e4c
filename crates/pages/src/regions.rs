//! Regions of the table of words: one for each cached file.

use std::collections::BTreeMap;

/// What is free.
#[derive(Debug)]
pub(crate) struct Regions {
    /// How many words are free from each first word on. No two regions touch.
    free: BTreeMap<u64, u64>,
    /// How many words are not.
    taken: u64,
}

impl Regions {
    pub(crate) fn new(words: u64) -> Self {
        let free = (words > 0).then_some((0, words));
        Self {
            free: free.into_iter().collect(),
            taken: 0,
        }
    }
    /// How many words all regions have.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }
    /// Takes the first region that is large enough.
    pub(crate) fn take(&mut self, count: u64) -> Option<u64> {
        let mut regions = self.free.iter();
        let (&first, &len) = regions.find(|(_, len)| **len >= count)?;
        self.free.remove(&first);
        if len > count {
            self.free.insert(first + count, len - count);
        }
        self.taken += count;
        Some(first)
    }
    /// Gives a region back.
    pub(crate) fn give(&mut self, mut first: u64, mut count: u64) {
        self.taken -= count;
        if let Some((&before, &len)) = self.free.range(..first).next_back()
            && before + len == first
        {
            self.free.remove(&before);
            (first, count) = (before, count + len);
        }
        if let Some(after) = self.free.remove(&(first + count)) {
            count += after;
        }
        self.free.insert(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_used_again_and_joined() {
        let mut regions = Regions::new(10);
        let parts = [4, 3, 3].map(|count| regions.take(count));
        assert_eq!(parts, [Some(0), Some(4), Some(7)]);
        assert_eq!((regions.take(1), regions.taken()), (None, 10));
        regions.give(0, 4);
        regions.give(7, 3);
        assert_eq!(regions.take(5), None, "they do not touch");
        assert_eq!(regions.taken(), 3);
        regions.give(4, 3);
        assert_eq!(regions.take(10), Some(0));
    }
}
