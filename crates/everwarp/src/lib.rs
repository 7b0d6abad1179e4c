//! everwarp: one kernel stays resident on the GPU and schedules tasks that spawn tasks; the CPU only
//! submits the first ones and reaps the last. The same programs run on the CPU engine.
//!
//! A [`Device`] is one GPU or the host's cores; an [`Engine`] is what is resident there; a [`Program`]
//! is a named set of task functions; an [`Instance`] is a program with parameters; a [`Buffer`] is
//! memory that tasks reach; a [`Pending`] is what was submitted and has not been waited for.

mod buffer;
mod builder;
mod core;
mod device;
mod engine;
mod error;
mod instance;
mod pending;
mod reap;
mod submit;
mod token;
mod watch;

pub use buffer::{Buffer, Element};
pub use builder::EngineBuilder;
pub use device::{Device, Select, cuda_device_count};
pub use engine::{Engine, Stats};
pub use error::Error;
pub use everwarp_backend::{
    BackendError, EngineKind, Footprint, Function, Image, Order, PoolState, Pools, Program, Shape, TaskCx, TwinFn,
};
pub use everwarp_contract::{DevPtr, DevTask, DevType, DevWorker, Layout, dev_struct, layout};
pub use everwarp_cuda::CudaUnavailable;
pub use instance::{Instance, Priority, TaskBuilder};
pub use pending::{Completion, Pending};

/// The CUDA engine's workings, for `doctor` and for tests that compile without a GPU. Not a stable API.
#[doc(hidden)]
pub use everwarp_cuda as cuda;
