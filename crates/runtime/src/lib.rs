//! The host side of the task engines: devices, engines, buffers, submissions and completions.
//!
//! Nothing here runs a task. This crate writes into the submission ring that an engine drains, reads the completion
//! ring that it fills, and leads the engine from one epoch to the next. `everwarp` re-exports what users need; the
//! crates that host processes on a GPU use the rest.
//!
//! This crate is internal to everwarp and promises no stability.

// Under loom only the host's own protocols are built: the models see no engine.
#[cfg_attr(
    all(loom, not(test)),
    expect(dead_code, reason = "only the models use it")
)]
mod slot;
mod sync;
#[cfg_attr(
    all(loom, not(test)),
    expect(dead_code, reason = "only the models use it")
)]
mod token;

#[cfg(all(test, loom))]
mod models;

#[cfg(not(loom))]
mod buffer;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod core;
#[cfg(not(loom))]
mod device;
#[cfg(not(loom))]
mod diagnose;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod grave;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod host_bytes;
#[cfg(not(loom))]
mod instance;
#[cfg(not(loom))]
mod pending;
#[cfg(not(loom))]
mod reap;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod submit;
#[cfg(not(loom))]
mod watch;

#[cfg(all(test, not(loom)))]
mod mock;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(not(loom))]
pub use buffer::{Buffer, Element};
#[cfg(not(loom))]
pub use builder::EngineBuilder;
#[cfg(not(loom))]
pub use control::Exchanged;
#[cfg(not(loom))]
pub use device::{Device, Select, cuda_device_count};
#[cfg(not(loom))]
pub use engine::Engine;
#[cfg(not(loom))]
pub use error::{Error, StuckReason};
pub use everwarp_contract::{
    DevPtr, DevTask, DevType, DevWorker, Layout, dev_consts, dev_struct, layout,
};
pub use everwarp_engine::{
    BackendError, DevNone, EngineKind, Footprint, Function, HeapConfig, HeapError, HeapErrorKind,
    HeapMode, HeapOwner, HeapStats, HostCallMemory, Image, Linked, LinkedPart, MAX_SPAWN, Order,
    PoolState, Pools, Prepared, Program, Shape, TaskCx, TwinFn, program,
};
#[cfg(not(loom))]
pub use everwarp_engine_cuda::CudaUnavailable;
#[cfg(not(loom))]
pub use host_bytes::HostBytes;
#[cfg(not(loom))]
pub use instance::{Instance, Priority, TaskBuilder};
#[cfg(not(loom))]
pub use pending::{Completion, Pending};
#[cfg(not(loom))]
pub use stats::Stats;

/// The CUDA engine's workings, for `doctor` and for tests that compile without a GPU. Not a stable API.
#[doc(hidden)]
#[cfg(not(loom))]
pub use everwarp_engine_cuda as cuda;
