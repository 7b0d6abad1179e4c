//! Unified buffers: typed memory with a host side and a device side that cannot be stale unnoticed.
//!
//! [`Buffers`] makes buffers for an engine. A view of one side has what the other wrote: the ranges that are newer there
//! are copied when the view is made, and no others. Views borrow the buffer, so a stale one does not compile; tasks in
//! flight hold [`Lent`] parts, and a use that they exclude is [`BufferError::InUse`], which names the line of the holder.
//! The book's chapter on buffers has the rules. [`exchange`] has DLPack and the Arrow C device interface.
//!
//! ```
//! use everwarp::buffer::{BufferError, Buffers, Strategy};
//! use everwarp::{Device, Select, TaskCx, dev_struct, program};
//!
//! dev_struct! {
//!     /// Where the numbers are.
//!     pub struct DevNumbers: align 16, size 16 {
//!         /// The first.
//!         pub at: everwarp::DevPtr<u32>,
//!         /// Padding.
//!         pub reserved: u64,
//!     }
//! }
//!
//! program! { static SQUARES: squares(DevNumbers) { SQUARE: lane(square) } }
//!
//! fn square(task: &mut dyn TaskCx) {
//!     // SAFETY: the parameters point to as many numbers as there are tasks, which have one each.
//!     unsafe {
//!         let numbers = task.params::<DevNumbers>().at;
//!         let number = (numbers.address() as *mut u32).add(task.arg() as usize);
//!         *number *= *number;
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open(Select::Cpu)?;
//! let engine = device.engine().program(&SQUARES).start()?;
//! let buffers = Buffers::on(&device, &engine);
//! let mut numbers = buffers.from_slice(&(0..1000).collect::<Vec<u32>>(), Strategy::Pinned)?;
//! numbers.host_rows_mut(0..10)?.fill(7); // only these are newer on the host
//!
//! let lent = numbers.lend_mut(0..1000)?;
//! // SAFETY: the parameters point to the lent numbers, and the lease is kept until the tasks have completed.
//! let squares = unsafe { engine.instance(&SQUARES, &DevNumbers { at: lent.ptr(), reserved: 0 })? };
//! let tasks: Vec<_> = (0..1000).map(|n| squares.task(SQUARE).arg(n).build()).collect();
//! let mut pending = engine.submit_batch(&tasks)?;
//! assert!(matches!(numbers.host(), Err(BufferError::InUse(_))), "the tasks are in flight");
//! pending.wait()?;
//! drop(lent);
//! assert_eq!(numbers.host()?[9..12], [49, 100, 121]);
//! # Ok(()) }
//! ```

pub use everwarp_buffer::{
    BufferError, Buffers, DType, DeviceView, Foreign, Holder, HostView, HostViewMut, Lease, Lent,
    Number, RawBuffer, Shape, Side, Strategy, Traffic, Transfers, UnifiedBuffer, Use, exchange,
};
