//! Buffers' memory: an address range that physical memory is mapped into as it is needed, beside the
//! running engine. The ordinary allocation call would wait for the engine to end.

use std::collections::BTreeMap;

use cudarc::driver::sys;
use everwarp_backend::BackendError;

use crate::driver::{Context, call};

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
    base: u64,
    mapped: u64,
    parts: Vec<(u64, u64, u64)>,
    free: BTreeMap<u64, u64>,
}

impl Heap {
    /// Reserves the range and maps a first part, so that small buffers need no mapping beside the engine.
    pub(crate) fn new(context: &Context) -> Result<Self, BackendError> {
        let mut base = 0;
        // SAFETY: `base` is a valid out-pointer.
        unsafe {
            call!(cuMemAddressReserve(
                &raw mut base,
                RESERVED as usize,
                STEP as usize,
                0,
                0
            ))
        }?;
        let mut heap = Self {
            base,
            mapped: 0,
            parts: Vec::new(),
            free: BTreeMap::new(),
        };
        heap.grow(context, FIRST)?;
        Ok(heap)
    }

    pub(crate) fn alloc(&mut self, context: &Context, bytes: u64) -> Result<u64, BackendError> {
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

    fn grow(&mut self, context: &Context, bytes: u64) -> Result<(), BackendError> {
        let oom = |e: BackendError| BackendError::OutOfMemory {
            kind: "device",
            bytes,
            detail: e.to_string(),
        };
        if self.mapped + bytes > RESERVED {
            return Err(BackendError::OutOfMemory {
                kind: "device",
                bytes,
                detail: "address range used up".into(),
            });
        }
        let at = self.base + self.mapped;
        let location = sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: context.device,
        };
        // SAFETY: all-zero is a valid value of this plain C struct; the fields that matter are set below.
        let mut prop: sys::CUmemAllocationProp =
            unsafe { std::mem::zeroed::<sys::CUmemAllocationProp_st>() };
        prop.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location = location;
        let access = sys::CUmemAccessDesc {
            location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let mut handle = 0;
        // SAFETY: the range at `at` is reserved and unmapped, sizes are multiples of the granularity.
        unsafe {
            call!(cuMemCreate(
                &raw mut handle,
                bytes as usize,
                &raw const prop,
                0
            ))
            .map_err(oom)?;
            let mapped = call!(cuMemMap(at, bytes as usize, 0, handle, 0))
                .and_then(|()| call!(cuMemSetAccess(at, bytes as usize, &raw const access, 1)));
            if let Err(e) = mapped {
                let _ = call!(cuMemRelease(handle));
                return Err(oom(e));
            }
        }
        self.parts.push((at, bytes, handle));
        self.mapped += bytes;
        self.free(at, bytes);
        Ok(())
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// - Nothing on the device uses the heap any more.
    pub(crate) unsafe fn release(&mut self) {
        for (at, bytes, handle) in self.parts.drain(..) {
            // SAFETY: mapped by `grow`, used by nobody; a failure leaves a leak.
            unsafe {
                let _ = call!(cuMemUnmap(at, bytes as usize));
                let _ = call!(cuMemRelease(handle));
            }
        }
        // SAFETY: reserved by `new`, now without mappings.
        let _ = unsafe { call!(cuMemAddressFree(self.base, RESERVED as usize)) };
    }
}
