//! The host side of the task engines: devices, engines, buffers, submissions and completions.
//!
//! Nothing here runs a task. This crate writes into the submission ring that an engine drains, reads the completion
//! ring that it fills, and leads the engine from one epoch to the next. `everwarp` re-exports the parts that users need.
//! [`LinkedEngine`], [`LinkedEngineBuilder`] and the types of their signatures are for `everwarp-process-cuda`, which
//! links compiled WebAssembly modules into an engine, and for tests.
//!
//! This crate is internal to everwarp and promises no stability.

// The protocols that loom models. Under `--cfg loom` nothing else is built: the models see no engine.
#[cfg_attr(
    all(loom, not(test)),
    expect(dead_code, reason = "only the models use it")
)]
mod instance_slot;
mod sync;
#[cfg_attr(
    all(loom, not(test)),
    expect(dead_code, reason = "only the models use it")
)]
mod token;

#[cfg(all(test, loom))]
mod models;

/// All that talks to an engine. It is one module, so that there is one condition.
#[cfg(not(loom))]
#[path = "."]
mod host {
    pub(crate) mod buffer;
    pub(crate) mod builder;
    pub(crate) mod canceller;
    pub(crate) mod control;
    pub(crate) mod core;
    pub(crate) mod device;
    pub(crate) mod diagnose;
    pub(crate) mod engine;
    pub(crate) mod error;
    pub(crate) mod heap;
    pub(crate) mod host_bytes;
    pub(crate) mod instance;
    pub(crate) mod linked;
    pub(crate) mod look;
    pub(crate) mod pending;
    pub(crate) mod reap;
    pub(crate) mod retired;
    pub(crate) mod stats;
    pub(crate) mod submit;
    pub(crate) mod wait;

    #[cfg(test)]
    pub(crate) mod mock;
    #[cfg(test)]
    mod tests;

    pub use buffer::{Buffer, Element};
    pub use builder::EngineBuilder;
    pub use canceller::Canceller;
    pub use device::{AdapterReport, Device, Select, cuda_device_count};
    pub use engine::{Engine, EngineMark};
    pub use error::{Error, StuckReason};
    pub use everwarp_engine_cuda::CudaUnavailable;
    pub use host_bytes::HostBytes;
    pub use instance::{Instance, TaskBuilder};
    pub use linked::{Exchanged, LinkedEngine, LinkedEngineBuilder};
    pub use pending::{Completion, Pending};
    pub use stats::Stats;

    /// The CUDA engine's workings, for `doctor` and for tests that compile without a GPU. Not a stable API.
    #[doc(hidden)]
    pub use everwarp_engine_cuda as cuda;
    /// The wgpu engine's workings, for the command. Not a stable API.
    #[cfg(feature = "wgpu")]
    #[doc(hidden)]
    pub use everwarp_engine_wgpu as wgpu;
}
#[cfg(not(loom))]
pub use host::*;

pub use everwarp_contract::{
    DevPtr, DevTask, DevType, DevWorker, HeapOwner, Layout, Priority, dev_consts, dev_struct,
    layout,
};
pub use everwarp_engine::{
    Addition, Declaration, DevNone, DispatchTimes, EngineError, EngineKind, Footprint, Frames,
    Function, Haste, HeapConfig, HeapError, HeapErrorKind, HeapMode, HeapOwnerStats, HeapStats,
    HostCallMemory, Image, Linked, LinkedPart, MAX_SPAWN, Order, Params, PoolState, Pools,
    Precompiled, PreparedAddition, PreparedImage, Program, ProgramRef, Publisher, Shape, StackRule,
    TaskCx, Twin, TwinClosure, TwinFn, program,
};
#[doc(hidden)] // for the command and for the hosts of processes
pub use everwarp_engine::{identifier, trace, turn_name};
