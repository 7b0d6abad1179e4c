//! Memory that is mapped into a reserved address range piece by piece, while an engine runs. The ordinary allocation
//! call would wait for the engine to end.

use std::collections::BTreeMap;

use cudarc::driver::sys;
use everwarp_engine::EngineError;

use crate::driver::{Context, call};

/// Sizes and addresses of mappings are multiples of this, on every GPU so far.
pub(crate) const GRANULE: u64 = 2 << 20;
/// The most bytes of one physical part. A large range can be given back in parts, even if something small is still in it.
const PART_MOST: u64 = 1 << 30;

/// Adds a range to others that it does not overlap. Neighbours become one.
pub(crate) fn insert_range(ranges: &mut BTreeMap<u64, u64>, at: u64, bytes: u64) {
    let (mut at, mut size) = (at, bytes);
    if let Some((&before, &length)) = ranges.range(..at).next_back()
        && before + length == at
    {
        ranges.remove(&before);
        (at, size) = (before, size + length);
    }
    if let Some(length) = ranges.remove(&(at + size)) {
        size += length;
    }
    ranges.insert(at, size);
}

/// A reserved range with the parts of it that are mapped.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) base: u64,
    /// Bytes from the base on that are mapped or holes.
    pub(crate) mapped: u64,
    reserved: u64,
    parts: Vec<Part>,
    /// Addresses that were unmapped, with their sizes.
    holes: BTreeMap<u64, u64>,
}

/// Physical memory and where it is mapped.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: u64,
    bytes: u64,
    handle: u64,
}

impl Part {
    /// Makes memory and maps it.
    ///
    /// # Safety
    /// - The addresses are reserved and unmapped.
    unsafe fn map(
        at: u64,
        bytes: u64,
        prop: &sys::CUmemAllocationProp,
    ) -> Result<Self, EngineError> {
        let mut handle = 0;
        // SAFETY: the out-pointer is valid; the caller vouches for the addresses.
        unsafe {
            call!(cuMemCreate(&raw mut handle, bytes as usize, prop, 0))?;
            if let Err(e) = call!(cuMemMap(at, bytes as usize, 0, handle, 0)) {
                let _ = call!(cuMemRelease(handle));
                return Err(e);
            }
        }
        Ok(Self { at, bytes, handle })
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// - Nothing on the device uses it any more, and it is mapped.
    unsafe fn unmap(self) {
        // SAFETY: the caller vouches for it; a failure leaves a leak.
        unsafe {
            let _ = call!(cuMemUnmap(self.at, self.bytes as usize));
            let _ = call!(cuMemRelease(self.handle));
        }
    }
}

impl Range {
    /// Reserves addresses. None can be used before it is mapped.
    pub(crate) fn reserve(bytes: u64) -> Result<Self, EngineError> {
        let mut base = 0;
        // SAFETY: `base` is a valid out-pointer.
        unsafe {
            call!(cuMemAddressReserve(
                &raw mut base,
                bytes as usize,
                GRANULE as usize,
                0,
                0
            ))
        }?;
        Ok(Self {
            base,
            mapped: 0,
            reserved: bytes,
            parts: Vec::new(),
            holes: BTreeMap::new(),
        })
    }

    /// Maps `bytes` more, a multiple of [`GRANULE`], and returns their address.
    pub(crate) fn grow(&mut self, context: &Context, bytes: u64) -> Result<u64, EngineError> {
        let oom = |detail: String| EngineError::OutOfMemory {
            kind: "device",
            bytes,
            detail,
        };
        let hole = self.holes.iter().find(|(_, size)| **size >= bytes);
        let hole = hole.map(|(at, size)| (*at, *size));
        if hole.is_none() && bytes > self.reserved - self.mapped {
            return Err(oom("address range used up".into()));
        }
        let _span = everwarp_engine::trace::span("mapping");
        let at = hole.map_or(self.base + self.mapped, |(at, _)| at);
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
        let (end, before) = (at + bytes, self.parts.len());
        let parts = (at..end).step_by(PART_MOST as usize);
        let mut mapped =
            parts
                .map(|at| (at, PART_MOST.min(end - at)))
                .try_for_each(|(at, bytes)| {
                    // SAFETY: the addresses are reserved and unmapped, and sizes are multiples of the granularity.
                    let part = unsafe { Part::map(at, bytes, &prop) }?;
                    self.parts.push(part);
                    Ok(())
                });
        if mapped.is_ok() {
            // SAFETY: all of the range has just been mapped.
            mapped = unsafe { call!(cuMemSetAccess(at, bytes as usize, &raw const access, 1)) };
        }
        if let Err(e) = mapped {
            for part in self.parts.drain(before..) {
                // SAFETY: nothing knows of it yet.
                unsafe { part.unmap() };
            }
            return Err(oom(e.to_string()));
        }
        match hole {
            None => self.mapped += bytes,
            Some((at, size)) => {
                self.holes.remove(&at);
                if size > bytes {
                    self.holes.insert(at + bytes, size - bytes);
                }
            }
        }
        Ok(at)
    }

    /// Gives the parts back for which `unused` holds, called with their addresses and sizes.
    ///
    /// # Safety
    /// - Nothing is resident on the device, and nothing will use these addresses before they are mapped again.
    pub(crate) unsafe fn trim(&mut self, mut unused: impl FnMut(u64, u64) -> bool) {
        let holes = &mut self.holes;
        self.parts.retain(|part| {
            let goes = unused(part.at, part.bytes);
            if goes {
                // SAFETY: mapped by `grow`; the caller vouches for the rest.
                unsafe { part.unmap() };
                insert_range(holes, part.at, part.bytes);
            }
            !goes
        });
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// - Nothing on the device uses the range any more.
    pub(crate) unsafe fn release(&mut self) {
        for part in self.parts.drain(..) {
            // SAFETY: mapped by `grow`, and not in use any more.
            unsafe { part.unmap() };
        }
        // SAFETY: reserved by `reserve`, now without mappings.
        let _ = unsafe { call!(cuMemAddressFree(self.base, self.reserved as usize)) };
    }
}
