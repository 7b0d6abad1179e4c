//! What an engine must do for the host library.

use std::fmt;
use std::time::Duration;

use everwarp_contract::{
    DevCompletion, DevHostCall, DevHostCallEntry, DevTask, DevWords, DevWorker,
};

use crate::{BackendError, Heap, HeapConfig, Image};

/// Which kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Host threads.
    Cpu,
    /// A resident cooperative grid on an NVIDIA GPU.
    Cuda,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
    }
}

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
            // 8 MiB, which more of stays in the host's caches than of 16: an H200 takes 344 to 361 M tasks a second
            // instead of 291 to 327.
            arena_tasks: 1 << 19,
            tasks: 4 << 20,
            groups: 2 << 20,
            heap: HeapConfig::default(),
        }
    }
}

impl Pools {
    /// Whether the sizes of the rings can work; what an engine needs beyond that it checks itself.
    ///
    /// # Errors
    /// [`BackendError::Pool`] names the first that cannot.
    pub fn check(&self) -> Result<(), BackendError> {
        for (what, value) in [
            ("pools.submission_slots", self.submission_slots),
            ("pools.tokens", self.tokens),
            ("pools.arena_tasks", self.arena_tasks),
        ] {
            if !value.is_power_of_two() || value > 1 << 28 {
                return Err(BackendError::Pool {
                    what,
                    rule: "a power of two up to 2^28",
                    value: value.into(),
                });
            }
        }
        self.heap.rounded().map(drop)
    }
}

/// Where the rings are. The addresses stay valid as long as the backend lives, parked or not.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory {
    /// Control words.
    pub words: *const DevWords,
    /// Submission ring, `Pools::submission_slots` slots.
    pub submissions: *mut DevTask,
    /// Completion ring, `Pools::tokens` slots.
    pub completions: *const DevCompletion,
    /// Arena, `Pools::arena_tasks` tasks.
    pub arena: *mut DevTask,
}
// SAFETY: plain addresses; the access rules are those of `everwarp_contract::ring`.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// Where the host-call ring is on the host; the rules are those of `everwarp_contract::hostcall`.
#[derive(Clone, Copy, Debug)]
pub struct HostCallMemory {
    /// Slots, `slot_count` of them.
    pub slots: *mut DevHostCall,
    /// Areas, `area_count` of them.
    pub areas: *mut u8,
    /// The submission queue, `entry_count` entries, of which the device is the only writer.
    pub entries: *mut DevHostCallEntry,
    /// Number of slots, a power of two.
    pub slot_count: u32,
    /// Number of areas.
    pub area_count: u32,
    /// Number of entries, a power of two.
    pub entry_count: u32,
}
// SAFETY: plain addresses; the access rules are those of `everwarp_contract::hostcall`.
unsafe impl Send for HostCallMemory {}
// SAFETY: as above.
unsafe impl Sync for HostCallMemory {}

/// How the pools fared so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Tasks the pool holds at most.
    pub task_limit: u64,
    /// How often a chunk of tasks was wanted and none was free.
    pub task_refusals: u64,
    /// Groups the pool holds at most.
    pub group_limit: u64,
    /// How often groups were wanted and none were free.
    pub group_refusals: u64,
}

/// What an engine occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of device memory (host memory on the CPU engine), fixed at the start.
    pub device_bytes: u64,
    /// Bytes of pinned host memory.
    pub host_bytes: u64,
}

/// An engine. All methods may be called from any thread.
pub trait Backend: Send + Sync {
    /// Which kind this is.
    fn kind(&self) -> EngineKind;
    /// The device's name, for example `NVIDIA H200` or `host, 2 threads`.
    fn device_name(&self) -> String;
    /// How many workers are resident: warps on a GPU, threads on a CPU.
    fn worker_count(&self) -> u32;
    /// The size of one epoch that `resume` takes: blocks on a GPU, threads on a CPU.
    fn size(&self) -> u32;
    /// The largest such size.
    fn max_size(&self) -> u32;
    /// The sizes of rings and pools.
    fn pools(&self) -> Pools;
    /// Where the rings are.
    fn shared(&self) -> SharedMemory;
    /// Called after submissions were published. Engines that poll ignore it.
    fn doorbell(&self);
    /// Called by a waiter that found no completion, with the number of times it has found none in a
    /// row: spin, yield, or sleep for a moment; return at the latest after about a millisecond.
    fn idle_wait(&self, round: u32);

    /// Allocates zeroed memory that tasks can reach, aligned to 256 bytes; works while resident.
    fn alloc(&self, bytes: u64) -> Result<u64, BackendError>;
    /// As [`alloc`](Self::alloc), but what is in the memory is left as it is: any bytes.
    fn alloc_uncleared(&self, bytes: u64) -> Result<u64, BackendError> {
        self.alloc(bytes)
    }
    /// Frees memory from [`alloc`](Self::alloc). `bytes` is the size it was allocated with.
    ///
    /// # Safety
    /// - No task that is queued or running uses it, and it is freed once.
    unsafe fn free(&self, address: u64, bytes: u64);
    /// Copies to the device and waits until it is there.
    ///
    /// # Safety
    /// - `address..address + data.len()` lies in one live allocation of this backend.
    unsafe fn write(&self, address: u64, data: &[u8]) -> Result<(), BackendError>;
    /// Copies pieces to the device, one behind the other, and waits until all are there.
    ///
    /// # Safety
    /// - As many bytes as they have from `address` on lie in one live allocation of this backend.
    unsafe fn write_pieces(
        &self,
        address: u64,
        pieces: &mut dyn Iterator<Item = &[u8]>,
    ) -> Result<(), BackendError> {
        let mut at = address;
        for piece in pieces {
            // SAFETY: the caller vouches for the whole range.
            unsafe { self.write(at, piece) }?;
            at += piece.len() as u64;
        }
        Ok(())
    }
    /// Copies from the device. What a task wrote before its completion was seen is included.
    ///
    /// # Safety
    /// - As for [`write`](Self::write).
    unsafe fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BackendError>;
    /// Fills with a byte and waits until it is done.
    ///
    /// # Safety
    /// - As for [`write`](Self::write).
    unsafe fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), BackendError>;
    /// Sets the parameter block of an instance, whose tasks must not run yet.
    fn set_params(&self, instance: u8, params: &[u8]) -> Result<(), BackendError>;

    /// The counters of every worker, also while resident.
    fn workers(&self) -> Result<Vec<DevWorker>, BackendError>;
    /// How the pools fare.
    fn pool_state(&self) -> Result<PoolState, BackendError>;
    /// The heap of its tasks, if it has one.
    fn heap(&self) -> Option<&dyn Heap>;
    /// What it occupies.
    fn footprint(&self) -> Footprint;
    /// Where the host-call ring is, if the image has one ([`Linked::host_call_slots`](crate::Linked)). The
    /// addresses stay valid as long as the backend lives.
    fn host_calls(&self) -> Option<HostCallMemory> {
        None
    }
    /// Bytes of the largest stack frame among all functions of the image; 0 where nothing is linked.
    fn largest_frame(&self) -> u32 {
        0
    }
    /// How long the start took: from an open device to the engine's first answer.
    fn start_time(&self) -> Duration;

    /// Stops at the next task boundary and saves all state. Parking a parked engine does nothing.
    /// If a task does not end within `grace`, that is [`BackendError::Stuck`] and the engine is lost.
    fn park(&self, grace: Duration) -> Result<(), BackendError>;
    /// Goes on after [`park`](Self::park), with another size if one is given.
    fn resume(&self, size: Option<u32>) -> Result<(), BackendError>;
    /// Parks and goes on in one step, as fast as the engine can: from raising the stop flag to the
    /// next epoch's first answer, which is the time returned.
    fn swap(&self, size: Option<u32>, grace: Duration) -> Result<Duration, BackendError>;
    /// Compiles an image for this engine, also while it is resident, and checks that it may follow the one that the
    /// engine has; see [`Image::programs`] for what may change.
    fn prepare(&self, image: &Image) -> Result<Prepared, BackendError>;
    /// Replaces the image of a parked engine.
    fn set_image(&self, prepared: &Prepared) -> Result<(), BackendError>;
}

/// An image that an engine has compiled, to be loaded by the same engine.
#[derive(Debug)]
pub struct Prepared {
    /// What it was made from.
    pub image: Image,
    /// The machine code, as the engine wants it; empty where there is none.
    pub code: Vec<u8>,
    /// Bytes of the largest stack frame among all its functions; 0 where nothing is linked.
    pub largest_frame: u32,
}
