//! Memory of the host from which a device copies without a detour.

use std::fmt;
use std::ops::{Deref, DerefMut};

use everwarp_engine_cuda::LockedBytes;

use crate::device::{Device, Opened};
use crate::error::Error;

/// Bytes of the host, page-locked where the device is a GPU. A copy from there to the device (by
/// [`Buffer::write_pieces`](crate::Buffer::write_pieces), or as a process's input) goes the direct way. The memory of
/// dropped values is kept and used again, because the driver gives no locked memory back while an engine runs.
pub struct HostBytes(Kind);

enum Kind {
    Plain(Vec<u8>),
    Locked(LockedBytes),
}

impl Device {
    /// Allocates `len` bytes of any value. Locking pages takes about as long as touching them for the first time, so it
    /// pays to read or compute inputs there, and not to copy them there.
    ///
    /// # Errors
    /// The system gives no more such memory.
    pub fn host_bytes(&self, len: usize) -> Result<HostBytes, Error> {
        Ok(HostBytes(match &self.opened {
            Opened::Cuda(device) => Kind::Locked(device.locked_bytes(len)?),
            _ => Kind::Plain(vec![0; len]),
        }))
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBytes of {}", self.len())
    }
}

impl Deref for HostBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Plain(bytes) => bytes,
            Kind::Locked(bytes) => bytes,
        }
    }
}

impl DerefMut for HostBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kind::Plain(bytes) => bytes,
            Kind::Locked(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for HostBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
