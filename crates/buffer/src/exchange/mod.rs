//! Exchange with other libraries without copies: [DLPack](dlpack) and the [Arrow C device interface](arrow).
//!
//! Both are structs of C with a function that gives the memory back. An export holds a lease until then; an import is a
//! buffer over the other library's memory.

pub mod arrow;
pub mod dlpack;

use crate::error::BufferError;
use crate::lease::Side;
use crate::raw::Lease;

/// The address of an export's memory for code on the host, unless it is on a device.
fn host_memory(lease: &Lease) -> Result<*mut u8, BufferError> {
    match lease.how().side == Side::Host || lease.is_shared() {
        true => Ok(lease.host_address()),
        false => Err(BufferError::Export(format!(
            "the device's side of a buffer of the {} engine cannot be exported yet: export the host's side",
            lease.engine()
        ))),
    }
}

fn refused(reason: impl Into<String>) -> BufferError {
    BufferError::Import(reason.into())
}
