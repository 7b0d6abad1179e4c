//! The memory of the host-call ring: slots, areas and queue in pinned host memory, the device's own words in device
//! memory.

use everwarp_contract::hostcall::{DevHostCallRing, HOSTCALL_DATA_BYTES, HOSTCALL_SLOTS_MOST};
use everwarp_contract::layout::DevPtr;
use everwarp_contract::{DevHostCall, DevHostCallEntry};
use everwarp_engine::{EngineError, HostCallMemory};

use crate::driver::{Pinned, call};

/// Areas at most, of 8 KiB each: more calls with much data wait for one than gain by being out. They are page-locked at the
/// start of each engine, which takes 0.4 ms for a mebibyte.
const AREAS_MOST: u32 = 1024;

/// The ring of an engine whose host serves no calls.
pub(crate) const NONE: DevHostCallRing = DevHostCallRing {
    slots: DevPtr::NULL,
    areas: DevPtr::NULL,
    entries: DevPtr::NULL,
    tail: DevPtr::NULL,
    free: DevPtr::NULL,
    entry_count: 0,
    area_count: 0,
};

/// The ring of one engine.
#[derive(Debug)]
pub(crate) struct HostCalls {
    pinned: Pinned,
    device: u64,
    parts: Parts,
}

/// The offsets of the parts in their allocations, for a number of slots. There are as many entries as slots.
#[derive(Debug)]
struct Parts {
    slots: u32,
    areas: u32,
    entries_at: u64,
    areas_at: u64,
    pinned: u64,
    free_at: u64,
    device: u64,
}

impl Parts {
    /// The device's words are on cache lines of their own: all warps contend for the tail, at 0.
    fn of(slots: u32) -> Self {
        let n = u64::from(slots);
        let areas = slots.min(AREAS_MOST);
        let entries_at = n * size_of::<DevHostCall>() as u64;
        let areas_at = entries_at + n * size_of::<DevHostCallEntry>() as u64;
        Self {
            slots,
            areas,
            entries_at,
            areas_at,
            pinned: areas_at + u64::from(areas) * u64::from(HOSTCALL_DATA_BYTES),
            free_at: 128,
            device: 128 + u64::from(areas) / 8,
        }
    }
}

impl HostCalls {
    /// Allocates a ring of `slots` slots, a power of two, none of them in use. Nothing may be resident.
    pub(crate) fn new(slots: u32) -> Result<Self, EngineError> {
        if !slots.is_power_of_two() || !(32..=HOSTCALL_SLOTS_MOST).contains(&slots) {
            return Err(EngineError::Pool {
                what: "linked.host_call_slots",
                rule: "a power of two from 32 to 2^20",
                value: slots.into(),
            });
        }
        let parts = Parts::of(slots);
        let pinned = Pinned::with_anything(parts.pinned as usize)?;
        // What is in an area before its first use is never read.
        // SAFETY: the memory is that long, and nothing else has its address yet.
        unsafe { std::ptr::write_bytes(pinned.host, 0, parts.areas_at as usize) };
        let mut device = 0;
        // SAFETY: a context is current and `device` is a valid out-pointer; nothing is resident.
        let allocated = unsafe { call!(cuMemAlloc_v2(&raw mut device, parts.device as usize)) };
        let oom = |e: EngineError| EngineError::OutOfMemory {
            kind: "device",
            bytes: parts.device,
            detail: e.to_string(),
        };
        allocated.map_err(oom)?;
        let mut words = vec![0u8; parts.device as usize];
        words[parts.free_at as usize..].fill(0xff);
        // SAFETY: just allocated with this size.
        unsafe { call!(cuMemcpyHtoD_v2(device, words.as_ptr().cast(), words.len())) }?;
        Ok(Self {
            pinned,
            device,
            parts,
        })
    }

    /// Where the device finds it.
    pub(crate) fn ring(&self) -> DevHostCallRing {
        let host = self.pinned.device;
        DevHostCallRing {
            slots: DevPtr::new(host),
            areas: DevPtr::new(host + self.parts.areas_at),
            entries: DevPtr::new(host + self.parts.entries_at),
            tail: DevPtr::new(self.device),
            free: DevPtr::new(self.device + self.parts.free_at),
            entry_count: self.parts.slots,
            area_count: self.parts.areas,
        }
    }

    pub(crate) fn device_bytes(&self) -> u64 {
        self.parts.device
    }

    pub(crate) fn host_bytes(&self) -> u64 {
        self.pinned.bytes as u64
    }

    /// Where the host finds it.
    pub(crate) fn memory(&self) -> HostCallMemory {
        let parts = &self.parts;
        // SAFETY: both offsets are inside the pinned allocation.
        unsafe {
            HostCallMemory {
                slots: self.pinned.host.cast(),
                areas: self.pinned.host.add(parts.areas_at as usize),
                entries: self.pinned.host.add(parts.entries_at as usize).cast(),
                slot_count: parts.slots,
                area_count: parts.areas,
                entry_count: parts.slots,
            }
        }
    }

    /// # Safety
    /// - Nothing is resident, and no thread of the host uses the memory.
    pub(crate) unsafe fn release(&self) {
        // SAFETY: allocated by `new`; the caller vouches for the rest. A failure leaves a leak.
        unsafe {
            let _ = call!(cuMemFree_v2(self.device));
            self.pinned.free();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_aligned_and_do_not_overlap() {
        for slots in [32, 4096, HOSTCALL_SLOTS_MOST] {
            let (p, n) = (Parts::of(slots), u64::from(slots));
            assert_eq!(p.areas, slots.min(AREAS_MOST));
            assert_eq!(p.entries_at, n * 256);
            assert_eq!(p.areas_at, p.entries_at + n * 64);
            assert_eq!(p.pinned, p.areas_at + u64::from(p.areas) * 8192);
            assert_eq!(p.device, p.free_at + u64::from(p.areas / 32) * 4);
            assert_eq!((p.areas_at % 128, p.areas % 32), (0, 0));
        }
    }
}
