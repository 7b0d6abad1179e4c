//! The host's access to the heap. Its tables are in the state, so that a look at them waits for the dispatches in flight.

use std::mem::offset_of;

use everwarp_contract::heap::{HEAP_ERRORS, HEAP_PAGE_SHIFT};
use everwarp_contract::wgpu::{DevWgpuHeap, DevWgpuOwner};
use everwarp_contract::{DevHeapError, DevType, HeapOwner};
use everwarp_engine::sync::lock;
use everwarp_engine::{
    EngineError, HEAP_STEP, HeapConfig, HeapControl, HeapError, HeapOwnerStats, HeapStats,
};

use crate::engine::WgpuEngine;
use crate::memory::LIMIT;
use crate::sizes::pages;

impl WgpuEngine {
    /// Reads `count` records from a word of the state on.
    fn records<T: DevType>(&self, word: u32, count: usize) -> Result<Vec<T>, EngineError> {
        let mut bytes = vec![0; count * size_of::<T>()];
        let (shared, at) = (&self.shared, u64::from(word) * 4);
        shared.gpu.check()?;
        shared.read(&shared.gpu.state, at, &mut bytes, LIMIT)?;
        Ok(bytes
            .chunks_exact(size_of::<T>())
            .map(T::from_bytes)
            .collect())
    }
    fn account(&self, owner: HeapOwner) -> u32 {
        let words = (size_of::<DevWgpuOwner>() / 4) as u32;
        self.sizes.round.at_owners + owner.0 * words
    }
}

impl HeapControl for WgpuEngine {
    fn config(&self) -> HeapConfig {
        self.sizes.pools.heap
    }
    fn stats(&self) -> Result<HeapStats, EngineError> {
        let counters = self.records::<DevWgpuHeap>(self.sizes.round.at_heap, 1)?[0];
        Ok(HeapStats {
            bytes: u64::from(lock(&self.shared.pump).heap_pages()) << HEAP_PAGE_SHIFT,
            limit: self.config().limit,
            in_use: u64::from(counters.in_use) * 16,
            refused: counters.refused.into(),
            wrong_frees: counters.wrong_frees.into(),
            errors: counters.errors.into(),
        })
    }
    fn owner(&self, owner: HeapOwner) -> Result<HeapOwnerStats, EngineError> {
        let account = self.records::<DevWgpuOwner>(self.account(owner), 1)?[0];
        Ok(HeapOwnerStats {
            in_use: account.in_use.into(),
            quota: (account.quota != 0).then_some(account.quota.into()),
            refused: account.refused.into(),
        })
    }
    fn set_quota(&self, owner: HeapOwner, quota: Option<u64>) -> Result<(), EngineError> {
        let gpu = &self.shared.gpu;
        gpu.check()?;
        // A window is smaller than 2 GiB, so a larger quota is as good as none, and is kept as the largest number.
        let quota = quota.map_or(0, |q| u32::try_from(q).unwrap_or(u32::MAX));
        let word = self.account(owner) + (offset_of!(DevWgpuOwner, quota) / 4) as u32;
        gpu.write_words(&gpu.state, word.into(), &[quota]);
        Ok(())
    }
    fn errors(&self) -> Result<Vec<HeapError>, EngineError> {
        let at = self.sizes.round.at_errors;
        let records = self.records::<DevHeapError>(at, HEAP_ERRORS as usize)?;
        Ok(records.iter().filter_map(HeapError::from_device).collect())
    }
    fn grow(&self, bytes: u64) -> Result<u64, EngineError> {
        let gpu = &self.shared.gpu;
        gpu.check()?;
        let limit = self.config().limit;
        let mut pump = lock(&self.shared.pump);
        let size = u64::from(pump.heap_pages()) << HEAP_PAGE_SHIFT;
        let steps = bytes.div_ceil(HEAP_STEP);
        if steps > (limit - size) / HEAP_STEP {
            return Err(EngineError::HeapLimit { size, limit, bytes });
        }
        if steps > 0 {
            pump.append_pages(gpu, pages(steps * HEAP_STEP));
        }
        Ok(size + steps * HEAP_STEP)
    }
}
