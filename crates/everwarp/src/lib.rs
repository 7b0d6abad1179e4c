//! everwarp: one kernel stays resident on the GPU and schedules tasks that spawn tasks; the CPU only
//! submits the first ones and reaps the last. The same programs run on the CPU engine.
//!
//! A [`Device`] is one GPU or the host's cores; an [`Engine`] is what is resident there; a [`Program`]
//! is a named set of task functions; an [`Instance`] is a program with parameters; a [`Buffer`] is
//! memory that tasks reach; a [`Pending`] is what was submitted and has not been waited for. Handles
//! may be dropped in any order.
//!
//! ```
//! use everwarp::{Device, Select, TaskCx, dev_struct, program};
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
//! program! {
//!     /// Without device source, which would be a file of CUDA C++ that defines `scale_multiply`.
//!     static SCALE: scale(DevScale) {
//!         /// Reports its argument times the factor.
//!         MULTIPLY: lane(multiply),
//!     }
//! }
//!
//! # fn main() -> Result<(), everwarp::Error> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&SCALE).size(1).start()?;
//! // SAFETY: the parameters point to nothing.
//! let scale = unsafe { engine.instance(&SCALE, &DevScale { factor: 6, reserved: 0 }) }?;
//!
//! // A batch has one completion; its value is the sum of what its tasks report.
//! let tasks: Vec<_> = (1..=3).map(|n| scale.task(MULTIPLY).arg(n).build()).collect();
//! assert_eq!(engine.submit_batch(&tasks)?.wait()?.value, 36);
//! # Ok(()) }
//! ```

#[doc(hidden)]
pub use everwarp_runtime::cuda;
pub use everwarp_runtime::{
    Buffer, Completion, CudaUnavailable, DevNone, DevPtr, DevTask, DevType, DevWorker, Device,
    Element, Engine, EngineBuilder, EngineError, EngineKind, Error, Footprint, Function,
    HeapConfig, HeapError, HeapErrorKind, HeapMode, HeapOwner, HeapOwnerStats, HeapStats,
    HostBytes, Instance, Layout, MAX_SPAWN, Order, Pending, PoolState, Pools, Priority, Program,
    Select, Shape, Stats, StuckReason, TaskBuilder, TaskCx, TwinFn, cuda_device_count, dev_consts,
    dev_struct, layout, program,
};
