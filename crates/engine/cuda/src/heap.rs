//! Buffers' memory: an address range into which physical memory is mapped as it is needed, while the engine runs.
//! The ordinary allocation call would wait for the engine to end.

use std::collections::BTreeMap;

use everwarp_engine::EngineError;

use crate::driver::Context;
use crate::vmm::Range;

/// Addresses reserved: more than any GPU has memory.
const RESERVED: u64 = 1 << 40;
/// Physical memory is mapped in multiples of this.
const STEP: u64 = 64 << 20;
/// Mapped from the start.
pub(crate) const FIRST: u64 = 32 << 20;
/// Allocations are aligned to this.
const ALIGN: u64 = 256;

/// The heap. Freed ranges are kept for later allocations; physical memory goes back with the heap.
#[derive(Debug)]
pub(crate) struct Heap {
    range: Range,
    free: BTreeMap<u64, u64>,
}

impl Heap {
    /// Reserves the range and maps a first part, so that small buffers need no mapping later.
    pub(crate) fn new(context: &Context) -> Result<Self, EngineError> {
        let mut heap = Self {
            range: Range::reserve(RESERVED)?,
            free: BTreeMap::new(),
        };
        heap.grow(context, FIRST)?;
        Ok(heap)
    }

    pub(crate) fn alloc(&mut self, context: &Context, bytes: u64) -> Result<u64, EngineError> {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        loop {
            if let Some((&at, &size)) = self.free.iter().find(|&(_, &size)| size >= bytes) {
                self.free.remove(&at);
                if size > bytes {
                    self.free.insert(at + bytes, size - bytes);
                }
                return Ok(at);
            }
            self.grow(context, bytes.next_multiple_of(STEP))?;
        }
    }

    pub(crate) fn free(&mut self, at: u64, bytes: u64) {
        let (mut at, mut size) = (at, bytes.max(1).next_multiple_of(ALIGN));
        if let Some((&before, &length)) = self.free.range(..at).next_back()
            && before + length == at
        {
            self.free.remove(&before);
            (at, size) = (before, size + length);
        }
        if let Some(length) = self.free.remove(&(at + size)) {
            size += length;
        }
        self.free.insert(at, size);
    }

    fn grow(&mut self, context: &Context, bytes: u64) -> Result<(), EngineError> {
        let at = self.range.grow(context, bytes)?;
        self.free(at, bytes);
        Ok(())
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// - Nothing on the device uses the heap any more.
    pub(crate) unsafe fn release(&mut self) {
        // SAFETY: the caller vouches for it.
        unsafe { self.range.release() };
    }
}
