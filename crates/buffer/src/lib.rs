//! Unified buffers: typed memory with a host side and a device side that cannot be stale unnoticed. `docs/buffers.md` is
//! their guide.
//!
//! [`Buffers`] makes buffers for an engine. A [`UnifiedBuffer`] knows which ranges are newer on which side, and copies
//! just those when a view of the other side is made. Views borrow the buffer, so Rust refuses to use a stale one. Where
//! borrows do not reach, a [`Lease`] says who uses a range, and a conflict is [`BufferError::InUse`], which names the
//! holder.
//!
//! This crate is **internal** to everwarp, which shows it as `everwarp::buffer`.

mod device;
mod dtype;
mod error;
pub mod exchange;
mod lease;
mod memory;
mod ranges;
mod raw;
mod shape;
mod strategy;
mod unified;

pub use device::Buffers;
pub use dtype::{DType, Number};
pub use error::BufferError;
pub use lease::{Holder, Side, Use};
pub use memory::Foreign;
pub use raw::{Lease, RawBuffer, Traffic, Transfers};
pub use shape::Shape;
pub use strategy::Strategy;
pub use unified::{DeviceView, HostView, HostViewMut, Lent, UnifiedBuffer};
