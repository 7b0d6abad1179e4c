//! everwarp: one kernel stays resident on the GPU and schedules tasks that spawn tasks; the CPU only
//! submits the first ones and reaps the last. The same programs run on the CPU engine.
//!
//! A [`Device`] is one GPU or the host's cores; an [`Engine`] is what is resident there; a [`Program`]
//! is a named set of task functions; an [`Instance`] is a program with parameters; a [`Buffer`] is
//! memory that tasks reach; a [`Pending`] is what was submitted and has not been waited for. Handles
//! may be dropped in any order.
//!
//! ```
//! use everwarp::{Device, Function, Layout, Order, Program, Select, Shape, TaskCx, dev_struct};
//!
//! dev_struct! {
//!     /// The program's parameters.
//!     pub struct DevScale: align 16, size 16 {
//!         /// What to multiply by.
//!         pub factor: u64,
//!         /// Spelled-out hole.
//!         pub reserved: u64,
//!     }
//! }
//!
//! /// The CPU twin of the device function `scale_multiply`.
//! fn multiply(cx: &mut dyn TaskCx) {
//!     // SAFETY: instances of this program are made with `DevScale`.
//!     let factor = unsafe { cx.params::<DevScale>() }.factor;
//!     cx.report_add(cx.arg() * factor);
//! }
//!
//! static SCALE: Program = Program {
//!     name: "scale",
//!     functions: &[Function {
//!         name: "multiply",
//!         shape: Shape::Lane,
//!         order: Order::DepthFirst,
//!         max_spawn: 0,
//!         forks: false,
//!         spawns: false,
//!         outlined: false,
//!         twin: multiply,
//!     }],
//!     device_source: "", // CUDA C++ that defines `scale_multiply`; the CPU engine does not need it.
//!     write_params: <DevScale as Layout>::write_struct,
//!     params_name: <DevScale as Layout>::NAME,
//! };
//!
//! # fn main() -> Result<(), everwarp::Error> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&SCALE).size(1).start()?;
//! // SAFETY: the parameters point to nothing.
//! let scale = unsafe { engine.instance(&SCALE, &DevScale { factor: 6, reserved: 0 }) }?;
//!
//! // A batch has one completion; its value is the sum of what its tasks report.
//! let tasks: Vec<_> = (1..=3).map(|n| scale.task(0).arg(n).build()).collect();
//! assert_eq!(engine.submit_batch(&tasks)?.wait()?.value, 36);
//! # Ok(()) }
//! ```

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
pub use everwarp_backend::{
    BackendError, EngineKind, Footprint, Function, HeapConfig, HeapError, HeapErrorKind, HeapMode,
    HeapOwner, HeapStats, HostCallMemory, Image, Linked, LinkedPart, MAX_SPAWN, Order, PoolState,
    Pools, Prepared, Program, Shape, TaskCx, TwinFn,
};
pub use everwarp_contract::{
    DevPtr, DevTask, DevType, DevWorker, Layout, dev_consts, dev_struct, layout,
};
#[cfg(not(loom))]
pub use everwarp_cuda::CudaUnavailable;
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
pub use everwarp_cuda as cuda;
