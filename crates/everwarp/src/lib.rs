//! everwarp runs many small things on one GPU, or the same things on the CPU.
//!
//! * **Processes** are WebAssembly modules with files, standard streams, threads and channels: from one process to
//!   hundreds of thousands of them. The module [`process`](crate::process) is their guide.
//! * **Tasks** are native functions that spawn further tasks and wait for them, without a kernel launch for each. The
//!   rest of this page is about them.
//!
//! On a GPU one kernel stays resident and schedules everything; the CPU only submits the first tasks and receives the
//! results of the last ones. The CPU engine runs the same programs and modules, with the same results, on the host's
//! cores.
//!
//! # Tasks
//!
//! A [`Device`] is one GPU or the host's cores. An [`Engine`] is resident there. A [`Program`] is a named set of task
//! functions. An [`Instance`] is a program with parameters. A [`Buffer`] is memory that tasks can reach. A [`Pending`] is
//! a submission that has not been waited for. Handles may be dropped in any order.
//!
//! ```
//! use everwarp::{Device, Select, TaskCx, program};
//!
//! program! {
//!     static SQUARES: squares() { SQUARE: lane(square) }
//! }
//!
//! fn square(task: &mut dyn TaskCx) {
//!     task.report_add(task.arg() * task.arg());
//! }
//!
//! # fn main() -> Result<(), everwarp::Error> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&SQUARES).start()?;
//! let squares = engine.plain_instance(&SQUARES)?;
//!
//! // A batch has one completion; its value is the sum of what its tasks report.
//! let tasks: Vec<_> = (1..=100).map(|n| squares.task(SQUARE).arg(n).build()).collect();
//! assert_eq!(engine.submit_batch(&tasks)?.wait()?.value, 338_350);
//! # Ok(()) }
//! ```
//!
//! # Writing a program
//!
//! The [`program!`] table names the functions of a program. Each function has two forms: a device function in CUDA C++,
//! called `PROGRAM_FUNCTION`, and its CPU twin in Rust. The example above has no device source, so only the CPU engine
//! runs it. With the line `static SQUARES: squares(), "squares.cu" { ... }` and this file next to it, a GPU does too:
//!
//! ```cuda
#![doc = include_str!("../examples/squares.cu")]
//! ```
//!
//! A task may also spawn tasks. In Fibonacci numbers by their definition, each call is a task that forks two more, and
//! `sum` runs when both have reported:
//!
//! ```
//! use everwarp::{Device, Select, TaskCx, program};
//!
//! program! {
//!     /// Fibonacci numbers. There are no parameters.
//!     static FIB: fib() {
//!         /// Argument n; reports fib(n) to the slot that the task's tag names.
//!         CALL: lane(call).forks(2),
//!         /// Adds the results of two calls.
//!         SUM: lane(sum),
//!     }
//! }
//!
//! fn call(task: &mut dyn TaskCx) {
//!     let (n, slot) = (task.lo(), task.tag());
//!     if n < 2 {
//!         return task.report_slot(slot.into(), n);
//!     }
//!     task.fork_collect(SUM, slot);
//!     task.spawn_child(CALL, 0, (n - 1).into());
//!     task.spawn_child(CALL, 1, (n - 2).into());
//! }
//!
//! fn sum(task: &mut dyn TaskCx) {
//!     let (slot, value) = (task.tag(), task.lo() + task.hi());
//!     task.report_slot(slot.into(), value);
//! }
//!
//! # fn main() -> Result<(), everwarp::Error> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&FIB).start()?;
//! let fib = engine.plain_instance(&FIB)?;
//! assert_eq!(engine.run(fib.task(CALL).arg(20))?.value, 6765);
//! # Ok(()) }
//! ```
//!
//! # Parameters
//!
//! Parameters that all tasks of an instance share are a [`dev_struct!`], which also generates the CUDA C++ declaration.
//! They may hold addresses of buffers ([`Buffer::ptr`]), so making an instance with parameters is unsafe.
//!
//! ```
//! use everwarp::{Device, Select, TaskCx, dev_struct, program};
//!
//! dev_struct! {
//!     /// The program's parameters.
//!     pub struct DevScale: align 16, size 16 {
//!         /// The factor.
//!         pub factor: u64,
//!         /// Padding, which is always spelled out.
//!         pub reserved: u64,
//!     }
//! }
//!
//! program! {
//!     /// Multiplies numbers.
//!     static SCALE: scale(DevScale) {
//!         /// Reports its argument times the factor.
//!         MULTIPLY: lane(multiply),
//!     }
//! }
//!
//! fn multiply(task: &mut dyn TaskCx) {
//!     // SAFETY: instances of this program are made with `DevScale`.
//!     let factor = unsafe { task.params::<DevScale>() }.factor;
//!     task.report_add(task.arg() * factor);
//! }
//!
//! # fn main() -> Result<(), everwarp::Error> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&SCALE).size(1).start()?;
//! // SAFETY: the parameters point to nothing.
//! let scale = unsafe { engine.instance(&SCALE, &DevScale { factor: 6, reserved: 0 }) }?;
//!
//! assert_eq!(engine.run(scale.task(MULTIPLY).arg(7))?.value, 42);
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! `process` (on by default) adds [`process`](crate::process) with the WebAssembly engine of the CPU and the compiler for
//! GPUs. Without it the crate has tasks only and builds quickly.

pub mod actor;
pub mod buffer;
pub mod files;
#[cfg(all(feature = "process", target_os = "linux"))]
pub mod operator;
#[cfg(feature = "process")]
pub mod process;
pub mod ring;
#[cfg(all(feature = "process", target_os = "linux"))]
mod service;
#[cfg(all(feature = "process", target_os = "linux"))]
pub use service::{Service, ServiceError};
pub mod telemetry;

#[cfg(feature = "wgpu")]
#[doc(hidden)]
pub use everwarp_runtime::wgpu;
pub use everwarp_runtime::{
    AdapterReport, Buffer, Completion, CudaUnavailable, Declaration, DevNone, DevPtr, DevTask,
    DevType, DevWorker, Device, DispatchTimes, Element, Engine, EngineBuilder, EngineError,
    EngineKind, Error, Footprint, Function, HeapConfig, HeapError, HeapErrorKind, HeapMode,
    HeapOwner, HeapOwnerStats, HeapStats, HostBytes, Instance, Layout, MAX_SPAWN, Order, Params,
    Pending, PoolState, Pools, Priority, Program, ProgramRef, Select, Shape, Stats, StuckReason,
    TaskBuilder, TaskCx, Twin, TwinClosure, TwinFn, cuda_device_count, dev_consts, dev_struct,
    layout, program,
};
#[doc(hidden)]
pub use everwarp_runtime::{Canceller, cuda, trace};
