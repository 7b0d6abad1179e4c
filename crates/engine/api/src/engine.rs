//! The interface of an engine: the host library starts, watches, parks and resumes it.

use std::fmt;
use std::time::Duration;

use everwarp_contract::{DevCompletion, DevTask, DevWords, DevWorker};
use everwarp_telemetry::{Distribution, EngineRecorder};

use crate::{EngineError, EngineLoader, EngineMemory, Footprint, PoolState, Pools};

/// The kinds of engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// Host threads.
    Cpu,
    /// A resident cooperative grid on an NVIDIA GPU.
    Cuda,
    /// A chain of bounded dispatches on Vulkan, Metal or Direct3D 12.
    Wgpu,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Wgpu => "wgpu",
        })
    }
}

/// What a GPU has measured of one function.
#[derive(Clone, Debug, Default)]
pub struct MeasuredFunction {
    /// Tasks that have run: exact once the warps have nothing to do or are parked. While they run, the last ones may be missing.
    pub calls: u64,
    /// How long batches took, in nanoseconds. The tasks of a batch run together; each measured batch counts for those of its warp
    /// since the one before.
    pub run: Distribution,
    /// How long tasks waited in queues that another task had queued, in nanoseconds.
    pub wait: Distribution,
    /// For turns of actors, how long handling one message took, in nanoseconds.
    pub handling: Distribution,
    /// How many tasks the warp's own queue had after a batch.
    pub depth: Distribution,
}

/// The addresses of an engine's rings. They stay valid as long as the engine lives, parked or not.
#[derive(Clone, Copy, Debug)]
pub struct EngineRings {
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
unsafe impl Send for EngineRings {}
// SAFETY: as above.
unsafe impl Sync for EngineRings {}

/// How long the dispatches of an engine took. Those of one submission to the driver count with their mean, which contains
/// what the submission itself costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchTimes {
    /// How many there were.
    pub count: u64,
    /// Half of them took up to this, to an eighth of a doubling.
    pub median: Duration,
    /// All but one in a thousand took up to this, likewise.
    pub p999: Duration,
    /// The longest.
    pub longest: Duration,
}

/// An engine that runs tasks. All methods may be called from any thread.
///
/// The host library drives an engine through four things: its rings, its [memory](EngineMemory), its
/// [image](EngineLoader), and the epochs of this trait.
pub trait TaskEngine: EngineMemory + EngineLoader + Send + Sync {
    /// The kind of this engine.
    fn kind(&self) -> EngineKind;
    /// The device's name, for example `NVIDIA H200` or `host, 2 threads`.
    fn device_name(&self) -> String;
    /// How many workers are resident: warps on a GPU, threads on a CPU.
    fn worker_count(&self) -> u32;
    /// The size of the current epoch: blocks on a GPU, threads on a CPU.
    fn size(&self) -> u32;
    /// The largest size that [`resume`](Self::resume) takes.
    fn max_size(&self) -> u32;
    /// The sizes of rings and pools.
    fn pools(&self) -> Pools;
    /// The addresses of the rings.
    fn rings(&self) -> EngineRings;
    /// Tells the engine that submissions were published. An engine that polls ignores it.
    fn doorbell(&self);
    /// Lets a waiter pass its time; `round` is how many times in a row it has found no completion. The engine spins,
    /// yields, or sleeps for a moment, and returns after about a millisecond at the latest.
    fn idle_wait(&self, round: u32);

    /// Whether the engine goes on only while a thread steps it, so that a waiter had better call
    /// [`idle_wait`](Self::idle_wait) at once than spin first.
    fn is_stepped(&self) -> bool {
        false
    }

    /// The counters of every worker; may be read while the engine is resident.
    fn workers(&self) -> Result<Vec<DevWorker>, EngineError>;
    /// How long dispatches took since the start, where an engine is a chain of them.
    fn dispatch_times(&self) -> Option<DispatchTimes> {
        None
    }
    /// Why the driver has lost the device, if it has.
    fn loss(&self) -> Option<String> {
        None
    }
    /// The state of the pools.
    fn pool_state(&self) -> Result<PoolState, EngineError>;
    /// The memory that the engine occupies.
    fn footprint(&self) -> Footprint;
    /// What the workers record about their tasks, if they do.
    fn recorder(&self) -> Option<&EngineRecorder> {
        None
    }
    /// What a GPU's warps have measured, by the numbers of functions; none if they do not measure.
    ///
    /// # Errors
    /// The device memory cannot be read.
    fn measured(&self) -> Result<Option<Vec<MeasuredFunction>>, EngineError> {
        Ok(None)
    }
    /// How long the start took: from an open device to the engine's first answer.
    fn start_time(&self) -> Duration;

    /// Stops at the next task boundary and saves all state. Parking a parked engine does nothing.
    /// If a task does not end within `grace`, that is [`EngineError::Stuck`] and the engine is lost.
    fn park(&self, grace: Duration) -> Result<(), EngineError>;
    /// Goes on after [`park`](Self::park), with another size if one is given.
    fn resume(&self, size: Option<u32>) -> Result<(), EngineError>;
    /// Parks and goes on in one step, as fast as the engine can. Returns the time from raising the stop flag to the
    /// next epoch's first answer.
    fn swap(&self, size: Option<u32>, grace: Duration) -> Result<Duration, EngineError>;
}
