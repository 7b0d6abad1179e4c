//! The engine's heap, as the host sees it.

use everwarp_contract::HeapOwner;
use everwarp_engine::{HeapControl, HeapError, HeapMode, HeapOwnerStats, HeapStats};

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    fn heap(&self) -> Result<&dyn HeapControl, Error> {
        self.core.engine.heap().ok_or(Error::NoHeap { with: "" })
    }
    fn owned_heap(&self, owner: HeapOwner) -> Result<&dyn HeapControl, Error> {
        let heap = self.heap()?;
        let config = heap.config();
        match config.mode {
            HeapMode::Plain => Err(Error::NoHeap {
                with: " with owners",
            }),
            _ if owner.0 >= config.owners => Err(Error::NoOwner {
                owner,
                limit: config.owners,
            }),
            _ => Ok(heap),
        }
    }
    /// The state of the heap; exact while no task allocates or frees.
    ///
    /// # Errors
    /// [`Error::NoHeap`], or the device cannot be read.
    pub fn heap_stats(&self) -> Result<HeapStats, Error> {
        Ok(self.heap()?.stats()?)
    }
    /// The blocks of an owner; exact while none of its tasks allocates or frees. An instance's owner is
    /// [`Instance::owner`](crate::Instance::owner).
    ///
    /// # Errors
    /// [`Error::NoHeap`], [`Error::NoOwner`], or the device cannot be read.
    pub fn heap_owner(&self, owner: HeapOwner) -> Result<HeapOwnerStats, Error> {
        Ok(self.owned_heap(owner)?.owner(owner)?)
    }
    /// Limits the bytes, as the heap rounds them, that an owner may hold; the heap refuses requests beyond the limit. The
    /// owner keeps the blocks that it has. Without a limit its requests are counted with less work.
    ///
    /// # Errors
    /// As [`heap_owner`](Self::heap_owner).
    pub fn set_heap_quota(&self, owner: HeapOwner, quota: Option<u64>) -> Result<(), Error> {
        // A quota of 0 would mean none: 1 byte is as little, since every block takes more.
        let quota = quota.map(|q| q.max(1));
        Ok(self.owned_heap(owner)?.set_quota(owner, quota)?)
    }
    /// The first errors that a checked heap found, oldest first; [`HeapStats::errors`] counts all.
    ///
    /// # Errors
    /// [`Error::NoHeap`], or the device cannot be read.
    pub fn heap_errors(&self) -> Result<Vec<HeapError>, Error> {
        Ok(self.heap()?.errors()?)
    }
    /// Makes the heap larger by at least `bytes`, while the engine runs. Returns its new size. Tasks whose requests were
    /// refused may ask again.
    ///
    /// # Errors
    /// [`Error::NoHeap`], [`EngineError::HeapLimit`](crate::EngineError::HeapLimit), or the device has no memory
    /// left.
    pub fn grow_heap(&self, bytes: u64) -> Result<u64, Error> {
        self.core.check()?;
        Ok(self.heap()?.grow(bytes)?)
    }
}
