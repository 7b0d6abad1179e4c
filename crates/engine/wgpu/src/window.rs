//! The allocator of the window: which parts of it belong to buffers.

use std::collections::BTreeMap;

/// The unit, and the alignment, of allocations.
const UNIT: u64 = 256;

/// Free ranges of the window by their beginning. Address 0 stays free, so that no buffer has the null address.
#[derive(Debug)]
pub(crate) struct Window {
    free: BTreeMap<u64, u64>,
    /// From here on no byte was ever allocated, so that all are zero.
    fresh: u64,
}

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: u64,
    /// The bytes that may not be zero: the range from the address on, up to here.
    pub(crate) used: u64,
}

fn rounded(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(UNIT)
}

impl Window {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            free: BTreeMap::from([(UNIT, bytes & !(UNIT - 1))]),
            fresh: UNIT,
        }
    }
    /// The first range that is large enough.
    pub(crate) fn alloc(&mut self, bytes: u64) -> Option<Place> {
        let bytes = rounded(bytes)?;
        let fits = |(&begin, &end): (&u64, &u64)| (end - begin >= bytes).then_some((begin, end));
        let (address, end) = self.free.iter().find_map(fits)?;
        self.free.remove(&address);
        if address + bytes < end {
            self.free.insert(address + bytes, end);
        }
        let used = self.fresh.clamp(address, address + bytes);
        self.fresh = self.fresh.max(address + bytes);
        Some(Place { address, used })
    }
    /// Gives a range back.
    pub(crate) fn free(&mut self, address: u64, bytes: u64) {
        let (mut begin, mut end) = (address, address + rounded(bytes).unwrap_or(0));
        if let Some((&before, &middle)) = self.free.range(..begin).next_back()
            && middle == begin
        {
            self.free.remove(&before);
            begin = before;
        }
        if let Some(after) = self.free.remove(&end) {
            end = after;
        }
        self.free.insert(begin, end);
    }
    /// Bytes that are not allocated.
    pub(crate) fn left(&self) -> u64 {
        self.free.iter().map(|(begin, end)| end - begin).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_come_back_whole() {
        let mut window = Window::new(1 << 20);
        let left = window.left();
        let sizes = [1, 256, 257, 1000, 4096, 70_000];
        let places: Vec<_> = sizes.map(|s| (window.alloc(s).expect("room"), s)).into();
        for ((a, size), (b, _)) in places.iter().zip(&places[1..]) {
            assert!(a.address + size <= b.address && b.address.is_multiple_of(UNIT));
            assert_eq!(a.used, a.address, "fresh memory is zero");
        }
        assert!(places[0].0.address != 0);
        assert_eq!(window.alloc(1 << 20), None);
        for order in [[0, 2, 4], [5, 3, 1]] {
            for i in order {
                window.free(places[i].0.address, places[i].1);
            }
        }
        assert_eq!(window.left(), left);
        let again = window.alloc(512).expect("room");
        assert_eq!(again.used, again.address + 512, "it was used before");
        assert_eq!(window.free.len(), 1);
    }
}
