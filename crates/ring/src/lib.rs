//! Ring kernels: a handler that is launched once, and bounded streams of messages to it and of results from it.
//! `docs/buffers.md` is their guide.
//!
//! A message is a slice of a buffer. It is handled by a task of the engine, one message at a time and in order, and
//! becomes one result. A kernel without messages holds no thread. The same kernel may be activated and deactivated, and it
//! ends by being terminated, which handles what was sent before. A handler is code of the host for CPU engines, CUDA C++
//! for CUDA engines ([`CudaHandler`]), or both.
//!
//! This crate is **internal** to everwarp, which shows it as `everwarp::ring`.
//!
//! ```
//! use everwarp_ring::{PROGRAM, RingError, RingKernel};
//! use everwarp_runtime::{Device, Select};
//!
//! # fn main() -> Result<(), RingError> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&PROGRAM).start()?;
//! let double = RingKernel::new("double", &[4], &[4], |input: &[f32], output: &mut [f32]| {
//!     for (from, to) in input.iter().zip(output) {
//!         *to = 2.0 * from;
//!     }
//!     Ok(())
//! })?;
//! let ring = double.launch(&engine)?;
//! ring.activate()?;
//! ring.send(&[1.0, 2.0, 3.0, 4.0])?;
//! assert_eq!(*ring.receive()?, [2.0, 4.0, 6.0, 8.0]);
//! ring.terminate()?;
//! # Ok(()) }
//! ```

mod both;
mod error;
mod far;
mod handler;
mod instance;
mod raw;
mod shared;
mod state;
mod turn;
mod typed;

#[doc(no_inline)]
pub use everwarp_buffer::{DType, Shape};

pub use error::{Failure, RingError};
pub use handler::{CFunction, CHandler, CudaHandler, Handler, RawKernel, RawMessage, Signature};
pub use raw::{RawReceived, RawRing, Reserved, RingStats};
pub use turn::PROGRAM;
pub use typed::{Received, Ring, RingKernel};
