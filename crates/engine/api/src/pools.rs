//! The sizes of an engine's rings and pools, and how full the pools have been.

use crate::{EngineError, HeapConfig};

/// How large an engine's rings and pools are. All sizes are fixed before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    /// Slots of the submission ring (power of two).
    pub submission_slots: u32,
    /// Submissions in flight, which is also the size of the completion ring (power of two).
    pub tokens: u32,
    /// Tasks that batches in flight hold together (power of two).
    pub arena_tasks: u32,
    /// Tasks that wait in the engine, in chunks of 32.
    pub tasks: u32,
    /// Groups that are open at once.
    pub groups: u32,
    /// The heap from which tasks allocate; none by default.
    pub heap: HeapConfig,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            submission_slots: 4096,
            tokens: 16384,
            // 8 MiB. More of it stays in the host's caches than of 16 MiB: an H200 takes 344 to 361 M tasks a second
            // instead of 291 to 327.
            arena_tasks: 1 << 19,
            tasks: 4 << 20,
            groups: 2 << 20,
            heap: HeapConfig::default(),
        }
    }
}

impl Pools {
    /// Checks that the sizes of the rings can work. Each engine checks its own further limits.
    ///
    /// # Errors
    /// [`EngineError::Pool`] names the first size that cannot work.
    pub fn check(&self) -> Result<(), EngineError> {
        for (what, value) in [
            ("pools.submission_slots", self.submission_slots),
            ("pools.tokens", self.tokens),
            ("pools.arena_tasks", self.arena_tasks),
        ] {
            if !value.is_power_of_two() || value > 1 << 28 {
                return Err(EngineError::Pool {
                    what,
                    rule: "a power of two up to 2^28",
                    value: value.into(),
                });
            }
        }
        self.heap.rounded().map(drop)
    }
}

/// The limits of the pools, and how often they were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Tasks that the pool can hold.
    pub task_limit: u64,
    /// How often a worker wanted a chunk of tasks and none was free.
    pub task_refusals: u64,
    /// Groups that the pool can hold.
    pub group_limit: u64,
    /// How often a worker wanted groups and none were free.
    pub group_refusals: u64,
}

/// The memory that an engine occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of device memory (host memory on the CPU engine), fixed at the start.
    pub device_bytes: u64,
    /// Bytes of pinned host memory.
    pub host_bytes: u64,
}
