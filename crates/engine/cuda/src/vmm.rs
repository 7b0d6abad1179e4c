//! Memory that is mapped into a reserved address range piece by piece, while an engine runs. The ordinary allocation
//! call would wait for the engine to end.

use cudarc::driver::sys;
use everwarp_engine::EngineError;

use crate::driver::{Context, call};

/// Sizes and addresses of mappings are multiples of this, on every GPU so far.
pub(crate) const GRANULE: u64 = 2 << 20;

/// A reserved range whose beginning is mapped.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) base: u64,
    pub(crate) mapped: u64,
    reserved: u64,
    parts: Vec<(u64, u64, u64)>,
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
        })
    }

    /// Maps `bytes` more, a multiple of [`GRANULE`], and returns their address.
    pub(crate) fn grow(&mut self, context: &Context, bytes: u64) -> Result<u64, EngineError> {
        let oom = |detail: String| EngineError::OutOfMemory {
            kind: "device",
            bytes,
            detail,
        };
        if bytes > self.reserved - self.mapped {
            return Err(oom("address range used up".into()));
        }
        let _span = everwarp_engine::trace::span("mapping");
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
            .map_err(|e| oom(e.to_string()))?;
            let mapped = call!(cuMemMap(at, bytes as usize, 0, handle, 0))
                .and_then(|()| call!(cuMemSetAccess(at, bytes as usize, &raw const access, 1)));
            if let Err(e) = mapped {
                let _ = call!(cuMemUnmap(at, bytes as usize));
                let _ = call!(cuMemRelease(handle));
                return Err(oom(e.to_string()));
            }
        }
        self.parts.push((at, bytes, handle));
        self.mapped += bytes;
        Ok(at)
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// - Nothing on the device uses the range any more.
    pub(crate) unsafe fn release(&mut self) {
        for (at, bytes, handle) in self.parts.drain(..) {
            // SAFETY: mapped by `grow`, and not in use any more; a failure leaves a leak.
            unsafe {
                let _ = call!(cuMemUnmap(at, bytes as usize));
                let _ = call!(cuMemRelease(handle));
            }
        }
        // SAFETY: reserved by `reserve`, now without mappings.
        let _ = unsafe { call!(cuMemAddressFree(self.base, self.reserved as usize)) };
    }
}
