//! Buffers' memory: an address range into which physical memory is mapped as it is needed, while the engine runs.
//! The ordinary allocation call would wait for the engine to end.

use std::collections::BTreeMap;
use std::sync::Mutex;

use everwarp_engine::EngineError;
use everwarp_engine::sync::lock;

use crate::driver::Context;
use crate::vmm::{Range, insert_range};

/// Addresses reserved: more than any GPU has memory.
const RESERVED: u64 = 1 << 40;
/// Physical memory is mapped in multiples of this.
const STEP: u64 = 64 << 20;
/// Mapped from the start.
pub(crate) const FIRST: u64 = 32 << 20;
/// Allocations are aligned to this.
const ALIGN: u64 = 256;

/// Where a heap's addresses come from.
pub(crate) trait Backing {
    /// Maps memory behind the next `bytes` addresses, and returns the first.
    fn grow(&mut self, bytes: u64) -> Result<u64, EngineError>;
}

/// Physical memory of a device, mapped into a reserved range.
#[derive(Debug)]
pub(crate) struct Mapped {
    context: Context,
    range: Range,
}

impl Backing for Mapped {
    fn grow(&mut self, bytes: u64) -> Result<u64, EngineError> {
        self.range.grow(&self.context, bytes)
    }
}

/// The heap. Freed ranges are kept for later allocations; physical memory goes back with the heap.
#[derive(Debug)]
pub(crate) struct Heap<B = Mapped> {
    backing: B,
    free: BTreeMap<u64, u64>,
}

impl Heap {
    /// Reserves the range and maps a first part, so that small buffers need no mapping later.
    pub(crate) fn new(context: Context) -> Result<Self, EngineError> {
        let range = Range::reserve(RESERVED)?;
        let mut heap = Self::over(Mapped { context, range });
        heap.grow(FIRST)?;
        Ok(heap)
    }

    /// Gives physical memory back that no buffer is in, except for the first part.
    ///
    /// # Safety
    /// - Nothing is resident on the device.
    pub(crate) unsafe fn trim(&mut self) {
        let (free, base) = (&mut self.free, self.backing.range.base);
        // SAFETY: the caller vouches for it, and what is taken out of `free` is not allocated before it is mapped again.
        unsafe {
            self.backing
                .range
                .trim(|at, bytes| at != base && take_range(free, at, bytes));
        }
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// - Nothing on the device uses the heap any more.
    pub(crate) unsafe fn release(&mut self) {
        // SAFETY: the caller vouches for it.
        unsafe { self.backing.range.release() };
    }
}

/// Takes a range out of others, if it is within one of them.
fn take_range(ranges: &mut BTreeMap<u64, u64>, at: u64, bytes: u64) -> bool {
    let Some((&begin, &size)) = ranges.range(..=at).next_back() else {
        return false;
    };
    let (end, last) = (at + bytes, begin + size);
    if end > last {
        return false;
    }
    ranges.remove(&begin);
    for (from, to) in [(begin, at), (end, last)] {
        if from < to {
            ranges.insert(from, to - from);
        }
    }
    true
}

/// Allocates memory and fills it. If it cannot be filled, it goes back to the heap, which is not locked while `fill` runs.
pub(crate) fn alloc_filled<B: Backing>(
    heap: &Mutex<Heap<B>>,
    bytes: u64,
    fill: impl FnOnce(u64) -> Result<(), EngineError>,
) -> Result<u64, EngineError> {
    let address = lock(heap).alloc(bytes)?;
    if let Err(refused) = fill(address) {
        lock(heap).free(address, bytes);
        return Err(refused);
    }
    Ok(address)
}

impl<B: Backing> Heap<B> {
    fn over(backing: B) -> Self {
        Self {
            backing,
            free: BTreeMap::new(),
        }
    }

    pub(crate) fn alloc(&mut self, bytes: u64) -> Result<u64, EngineError> {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        loop {
            if let Some((&at, &size)) = self.free.iter().find(|&(_, &size)| size >= bytes) {
                self.free.remove(&at);
                if size > bytes {
                    self.free.insert(at + bytes, size - bytes);
                }
                return Ok(at);
            }
            self.grow(bytes.next_multiple_of(STEP))?;
        }
    }

    pub(crate) fn free(&mut self, at: u64, bytes: u64) {
        insert_range(&mut self.free, at, bytes.max(1).next_multiple_of(ALIGN));
    }

    fn grow(&mut self, bytes: u64) -> Result<(), EngineError> {
        let at = self.backing.grow(bytes)?;
        self.free(at, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with memory for this many more bytes.
    struct Device {
        next: u64,
        left: u64,
    }

    impl Backing for Device {
        fn grow(&mut self, bytes: u64) -> Result<u64, EngineError> {
            let refused = || EngineError::OutOfMemory {
                kind: "device",
                bytes,
                detail: "the device is full".into(),
            };
            self.left = self.left.checked_sub(bytes).ok_or_else(refused)?;
            self.next += bytes;
            Ok(self.next - bytes)
        }
    }

    fn heap(bytes: u64) -> Mutex<Heap<Device>> {
        Mutex::new(Heap::over(Device {
            next: ALIGN,
            left: bytes,
        }))
    }

    /// The memory used to be lost, so that the second of these attempts was refused for want of memory.
    #[test]
    fn memory_that_could_not_be_filled_can_be_allocated_again() {
        let heap = heap(STEP);
        for _ in 0..3 {
            let failed = alloc_filled(&heap, STEP, |_| {
                Err(EngineError::Lost {
                    reason: "the fill failed".into(),
                })
            });
            assert!(
                matches!(failed, Err(EngineError::Lost { .. })),
                "{failed:?}"
            );
        }
        let mut filled = None;
        let address = alloc_filled(&heap, STEP, |address| {
            filled = Some(address);
            Ok(())
        });
        assert_eq!(address.expect("all memory is free"), ALIGN);
        assert_eq!(filled, Some(ALIGN), "the range that was allocated");
        let full = alloc_filled(&heap, 1, |_| Ok(()));
        assert!(
            matches!(full, Err(EngineError::OutOfMemory { .. })),
            "{full:?}"
        );
    }

    #[test]
    fn a_range_is_taken_out_only_if_all_of_it_is_there() {
        let mut free = BTreeMap::from([(100, 50), (200, 10)]);
        for (at, bytes) in [(90, 20), (140, 20), (160, 10), (195, 10), (0, 5)] {
            assert!(!take_range(&mut free, at, bytes), "{at}");
        }
        assert!(take_range(&mut free, 110, 20));
        assert!(take_range(&mut free, 200, 10));
        assert_eq!(free, BTreeMap::from([(100, 10), (130, 20)]));
        insert_range(&mut free, 110, 20);
        assert_eq!(free, BTreeMap::from([(100, 50)]));
    }

    #[test]
    fn freed_neighbours_become_one_range() {
        let heap = heap(STEP);
        let mut heap = lock(&heap);
        let parts: Vec<_> = (0..4)
            .map(|_| heap.alloc(STEP / 4).expect("there is room"))
            .collect();
        for part in [1, 3, 0, 2] {
            heap.free(parts[part], STEP / 4);
        }
        assert_eq!(heap.alloc(STEP).expect("one range"), parts[0]);
    }
}
