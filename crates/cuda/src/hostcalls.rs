//! The memory of the host-call ring: slots, data and queue in pinned host memory, the device's own words
//! beside them in device memory.

use everwarp_backend::{BackendError, HostCallMemory};
use everwarp_contract::DevHostCall;
use everwarp_contract::hostcall::{DevHostCallRing, HOSTCALL_DATA_BYTES};
use everwarp_contract::layout::{DevPtr, Layout};

use crate::driver::{Pinned, call};

/// The ring of one engine.
#[derive(Debug)]
pub(crate) struct HostCalls {
    pinned: Pinned,
    device: u64,
    device_bytes: u64,
    slots: u32,
}

/// Where the parts lie in their allocation, for a number of slots.
struct Parts {
    data: u64,
    entries: u64,
    pinned: u64,
    tail: u64,
    free: u64,
    sequence: u64,
    device: u64,
}

impl Parts {
    /// The device's words lie on lines of their own: the tail is what all contend for.
    fn of(slots: u32) -> Self {
        let n = u64::from(slots);
        let headers = n * size_of::<DevHostCall>() as u64;
        let entries = headers + n * u64::from(HOSTCALL_DATA_BYTES);
        let free = 256;
        let sequence = (free + n.div_ceil(32) * 4).next_multiple_of(128);
        Self {
            data: headers,
            entries,
            pinned: entries + n * 8,
            tail: 128,
            free,
            sequence,
            device: sequence + n * 4,
        }
    }
}

impl HostCalls {
    /// Allocates a ring of `slots` slots, a power of two, none of them taken. Nothing may be resident.
    pub(crate) fn new(slots: u32) -> Result<Self, BackendError> {
        if !slots.is_power_of_two() || !(32..=1 << 20).contains(&slots) {
            return Err(BackendError::Pool {
                what: "linked.host_call_slots",
                rule: "a power of two from 32 to 2^20",
                value: slots.into(),
            });
        }
        let parts = Parts::of(slots);
        let pinned = Pinned::new(parts.pinned as usize)?;
        let mut device = 0;
        // SAFETY: a context is current and `device` is a valid out-pointer; nothing is resident.
        let allocated = unsafe { call!(cuMemAlloc_v2(&raw mut device, parts.device as usize)) };
        let oom = |e: BackendError| BackendError::OutOfMemory {
            kind: "device",
            bytes: parts.device,
            detail: e.to_string(),
        };
        allocated.map_err(oom)?;
        let at = |offset| device + offset;
        let ring = DevHostCallRing {
            slots: DevPtr::new(pinned.device),
            data: DevPtr::new(pinned.device + parts.data),
            entries: DevPtr::new(pinned.device + parts.entries),
            tail: DevPtr::new(at(parts.tail)),
            free: DevPtr::new(at(parts.free)),
            sequence: DevPtr::new(at(parts.sequence)),
            slot_count: slots,
            entry_count: slots,
            reserved: 0,
        };
        let mut words = vec![0u8; parts.device as usize];
        words[..size_of::<DevHostCallRing>()].copy_from_slice(ring.bytes());
        words[parts.free as usize..][..slots as usize / 8].fill(0xff);
        // SAFETY: just allocated with this size.
        unsafe { call!(cuMemcpyHtoD_v2(device, words.as_ptr().cast(), words.len())) }?;
        Ok(Self {
            pinned,
            device,
            device_bytes: parts.device,
            slots,
        })
    }

    /// Where the device finds it.
    pub(crate) fn ring(&self) -> DevPtr<DevHostCallRing> {
        DevPtr::new(self.device)
    }

    pub(crate) fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    pub(crate) fn host_bytes(&self) -> u64 {
        self.pinned.bytes as u64
    }

    /// Where the host finds it.
    pub(crate) fn memory(&self) -> HostCallMemory {
        let parts = Parts::of(self.slots);
        // SAFETY: both offsets lie inside the pinned allocation.
        unsafe {
            HostCallMemory {
                slots: self.pinned.host.cast(),
                data: self.pinned.host.add(parts.data as usize),
                entries: self.pinned.host.add(parts.entries as usize).cast(),
                slot_count: self.slots,
                entry_count: self.slots,
            }
        }
    }

    /// # Safety
    /// - Nothing is resident, and nobody uses the memory on the host.
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
    fn the_parts_do_not_overlap_and_are_aligned() {
        for slots in [32, 4096, 1 << 20] {
            let (p, n) = (Parts::of(slots), u64::from(slots));
            assert_eq!(p.data, n * 128);
            assert_eq!(p.entries, p.data + n * u64::from(HOSTCALL_DATA_BYTES));
            assert_eq!(p.pinned, p.entries + 8 * n);
            assert!(p.tail >= size_of::<DevHostCallRing>() as u64);
            assert!(p.free >= p.tail + 4 && p.sequence >= p.free + n / 8);
            assert_eq!(p.device, p.sequence + 4 * n);
            assert_eq!((p.data % 128, p.entries % 8, p.sequence % 128), (0, 0, 0));
        }
    }
}
