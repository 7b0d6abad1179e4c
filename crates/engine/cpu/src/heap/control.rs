//! The host's access to the heap.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_contract::HeapOwner;
use everwarp_engine::sync::lock;
use everwarp_engine::{
    EngineError, HEAP_STEP, HeapConfig, HeapControl, HeapError, HeapOwnerStats, HeapStats,
};

use super::HostHeap;

impl HeapControl for HostHeap {
    fn config(&self) -> HeapConfig {
        self.config
    }
    fn stats(&self) -> Result<HeapStats, EngineError> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(HeapStats {
            bytes: of(&self.bytes),
            limit: self.config.limit,
            in_use: of(&self.in_use),
            refused: of(&self.refused),
            wrong_frees: of(&self.wrong_frees),
            errors: of(&self.errors),
        })
    }
    fn owner(&self, owner: HeapOwner) -> Result<HeapOwnerStats, EngineError> {
        let account = &self.owners[owner.0 as usize];
        let quota = account.quota.load(Ordering::Relaxed);
        Ok(HeapOwnerStats {
            in_use: account.in_use.load(Ordering::Relaxed),
            quota: (quota != 0).then_some(quota),
            refused: account.refused.load(Ordering::Relaxed),
        })
    }
    fn set_quota(&self, owner: HeapOwner, quota: Option<u64>) -> Result<(), EngineError> {
        let account = &self.owners[owner.0 as usize];
        account.quota.store(quota.unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }
    fn errors(&self) -> Result<Vec<HeapError>, EngineError> {
        Ok(lock(&self.kept).clone())
    }
    fn grow(&self, bytes: u64) -> Result<u64, EngineError> {
        let limit = self.config.limit;
        let more = |size: u64| {
            let size = size.checked_add(bytes.checked_next_multiple_of(HEAP_STEP)?)?;
            (size <= limit).then_some(size)
        };
        match self
            .bytes
            .fetch_update(Ordering::Release, Ordering::Relaxed, more)
        {
            Ok(_) => Ok(self.bytes.load(Ordering::Relaxed)),
            Err(size) => Err(EngineError::HeapLimit { size, limit, bytes }),
        }
    }
}
