//! The initial bytes of an instance, so that a host only allocates and copies.

mod constants;
mod initial;
mod instantiate;
mod link;

pub use initial::{Addresses, Initial, InstanceLimits};
pub use link::{Link, NoImports, SharedMemory};
