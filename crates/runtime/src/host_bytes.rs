//! Memory of the host from which a device copies without a detour.

use std::fmt;
use std::ops::{Deref, DerefMut};

use everwarp_engine_cuda::LockedBytes;

use crate::device::{Device, Opened};
use crate::error::Error;

/// Bytes of the host, page-locked where the device is a GPU: what is copied to it from there (by
/// [`Buffer::write_pieces`](crate::Buffer::write_pieces), or as a process's input) does not pass through another place on
/// the way. The memory of those that are dropped is kept and used again, because the driver gives none back beside a
/// running engine.
pub struct HostBytes(Kind);

enum Kind {
    Plain(Vec<u8>),
    Locked(LockedBytes),
}

impl Device {
    /// So many bytes, with whatever is in them. To lock pages takes about as long as to touch them for the first time, so
    /// it pays to read or to compute inputs there, and not to copy them there.
    ///
    /// # Errors
    /// The system gives no more such memory.
    pub fn host_bytes(&self, len: usize) -> Result<HostBytes, Error> {
        Ok(HostBytes(match &self.opened {
            Opened::Cpu => Kind::Plain(vec![0; len]),
            Opened::Cuda(device) => Kind::Locked(device.locked_bytes(len)?),
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
