//! The memories of a buffer: the host's, and the device's where that is another one.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use everwarp_runtime::{Buffer, HostBytes};

use crate::error::BufferError;

/// The alignment of buffers, as on a device.
const ALIGN: usize = 256;

/// Zeroed memory of the host.
#[derive(Debug)]
pub(crate) struct Aligned {
    at: NonNull<u8>,
    layout: Layout,
}
// SAFETY: plain memory that this value owns; the leases order accesses to it.
unsafe impl Send for Aligned {}
// SAFETY: as above.
unsafe impl Sync for Aligned {}

impl Aligned {
    pub(crate) fn new(bytes: usize) -> Result<Self, BufferError> {
        let failed = BufferError::OutOfMemory { bytes };
        let Ok(layout) = Layout::from_size_align(bytes.max(1), ALIGN) else {
            return Err(failed);
        };
        // SAFETY: the layout has a size.
        match NonNull::new(unsafe { alloc_zeroed(layout) }) {
            Some(at) => Ok(Self { at, layout }),
            None => Err(failed),
        }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}

/// Memory of the host that another library owns.
pub struct Foreign {
    at: *mut u8,
    bytes: usize,
    read_only: bool,
    _owner: Box<dyn Any + Send>,
}
// SAFETY: the memory may be used from any thread, as the caller of `new` has promised; the leases order accesses to it.
// The owner is only dropped.
unsafe impl Send for Foreign {}
// SAFETY: as above; nothing reaches the owner through a shared reference.
unsafe impl Sync for Foreign {}

impl Foreign {
    /// Memory that stays until `owner` is dropped.
    ///
    /// # Safety
    /// - `bytes` bytes from `at` on are live until `owner` is dropped, and may be read from any thread; unless
    ///   `read_only`, they may also be written.
    /// - Nothing else writes them while a lease of the buffer is held, and nothing reads them while a lease that writes is.
    pub unsafe fn new(at: *mut u8, bytes: usize, read_only: bool, owner: impl Any + Send) -> Self {
        Self {
            at,
            bytes,
            read_only,
            _owner: Box::new(owner),
        }
    }
    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Whether they may only be read.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
    /// Whether an element of this size may begin here.
    pub(crate) fn is_aligned(&self, size: usize) -> bool {
        self.at.addr().is_multiple_of(size)
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign of {}", self.bytes)
    }
}

/// The memory of the host's side.
#[derive(Debug)]
pub(crate) enum HostMemory {
    Own(Aligned),
    /// Page-locked, with its address.
    Locked(Locked),
    Foreign(Foreign),
}

/// Page-locked memory; it is reached by the address alone.
pub(crate) struct Locked {
    at: NonNull<u8>,
    _bytes: HostBytes,
}
// SAFETY: plain memory that this value owns; the leases order accesses to it.
unsafe impl Send for Locked {}
// SAFETY: as above; nothing reaches the bytes but by the address.
unsafe impl Sync for Locked {}

impl fmt::Debug for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Locked")
    }
}

impl HostMemory {
    /// Takes page-locked bytes, and clears them.
    pub(crate) fn locked(mut bytes: HostBytes) -> Self {
        bytes.fill(0);
        let at = NonNull::from(&mut *bytes).cast();
        Self::Locked(Locked { at, _bytes: bytes })
    }
    /// Where it begins.
    pub(crate) fn at(&self) -> *mut u8 {
        match self {
            Self::Own(memory) => memory.at.as_ptr(),
            Self::Locked(memory) => memory.at.as_ptr(),
            Self::Foreign(memory) => memory.at,
        }
    }
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self, Self::Foreign(memory) if memory.read_only)
    }
}

/// The memory of the device's side, where that is not the host's.
pub(crate) trait DeviceMemory: fmt::Debug + Send + Sync {
    /// Its address, as tasks see it.
    fn address(&self) -> u64;
    /// Copies to it, from byte `at` on.
    fn write(&self, at: usize, from: &[u8]) -> Result<(), BufferError>;
    /// Copies from it, from byte `at` on.
    fn read(&self, at: usize, to: &mut [u8]) -> Result<(), BufferError>;
}

/// Memory of an engine, which the engine's own copies reach: they never wait for a resident kernel.
impl DeviceMemory for Buffer<u8> {
    fn address(&self) -> u64 {
        self.ptr().address()
    }
    fn write(&self, at: usize, from: &[u8]) -> Result<(), BufferError> {
        Ok(self.write_at(at, from)?)
    }
    fn read(&self, at: usize, to: &mut [u8]) -> Result<(), BufferError> {
        Ok(self.read_at(at, to)?)
    }
}

/// A device whose memory is other memory of the host: what is not copied is not there, so that tests see it.
impl DeviceMemory for Aligned {
    fn address(&self) -> u64 {
        self.at.as_ptr().addr() as u64
    }
    fn write(&self, at: usize, from: &[u8]) -> Result<(), BufferError> {
        debug_assert!(at + from.len() <= self.layout.size());
        // SAFETY: the caller copies inside the buffer, and its leases exclude other accesses.
        unsafe {
            self.at
                .add(at)
                .copy_from_nonoverlapping(NonNull::from(from).cast(), from.len())
        };
        Ok(())
    }
    fn read(&self, at: usize, to: &mut [u8]) -> Result<(), BufferError> {
        debug_assert!(at + to.len() <= self.layout.size());
        // SAFETY: as in `write`.
        unsafe {
            self.at
                .add(at)
                .copy_to_nonoverlapping(NonNull::from(&mut *to).cast(), to.len())
        };
        Ok(())
    }
}
