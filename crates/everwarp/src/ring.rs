//! Ring kernels: a handler that is launched once, and bounded streams of messages to it and of results from it.
//!
//! A message is a slice of numbers. The handler runs as a task of the engine, for one message at a time and in the order in
//! which they were sent, and each message has one result. Slices of [buffers](crate::buffer) pass through without a copy.
//! A handler is a closure for the CPU engine, CUDA C++ for the CUDA engine ([`CudaHandler`]), or both. The book's chapter on
//! buffers has the rules.
//!
//! ```
//! use everwarp::ring::{PROGRAM, RingError, RingKernel};
//! use everwarp::{Device, Select};
//!
//! # fn main() -> Result<(), RingError> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&PROGRAM).start()?;
//! let mut total = 0.0;
//! let sums = RingKernel::new("sums", &[3], &[1], move |input: &[f64], output: &mut [f64]| {
//!     total += input.iter().sum::<f64>(); // what the closure owns is the kernel's state
//!     output[0] = total;
//!     Ok(())
//! })?;
//! let ring = sums.launch(&engine)?;
//! ring.activate()?;
//! for n in 0..10 {
//!     ring.send(&[1.0, f64::from(n), 0.0])?;
//! }
//! for _ in 0..9 {
//!     drop(ring.receive()?);
//! }
//! assert_eq!(ring.receive()?[0], 55.0);
//! ring.terminate()?;
//! # Ok(()) }
//! ```

#[cfg(feature = "process")]
pub use everwarp_handler::{ModuleError, RingModule};
pub use everwarp_ring::{
    CFunction, CHandler, CudaHandler, Failure, Handler, PROGRAM, RawKernel, RawMessage,
    RawReceived, RawRing, Received, Reserved, Ring, RingError, RingKernel, RingStats, Signature,
};
