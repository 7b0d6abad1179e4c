//! Memory of an engine that host and tasks reach.

use std::sync::atomic::AtomicU64;

use everwarp_runtime::{Buffer, Engine, EngineKind, Error};

/// Memory that both sides reach.
#[derive(Debug)]
pub(crate) struct Both {
    buffer: Buffer<u64>,
    host: HostAddress,
}

#[derive(Clone, Copy, Debug)]
struct HostAddress(*mut u8);
// SAFETY: the memory belongs to a `Both`; the protocol says who may access which part of it, and when.
unsafe impl Send for HostAddress {}
// SAFETY: as above.
unsafe impl Sync for HostAddress {}

impl Both {
    pub(crate) fn new(engine: &Engine, bytes: usize) -> Result<Self, Error> {
        let buffer = engine.near_buffer::<u64>(bytes.div_ceil(8))?;
        let host = match (buffer.near(), engine.kind()) {
            (Some(near), _) => near.as_ptr().cast(),
            // All memory of this engine is the host's.
            (None, EngineKind::Cpu) => {
                std::ptr::with_exposed_provenance_mut(buffer.ptr().address() as usize)
            }
            (None, _) => unreachable!("a GPU that runs CUDA C++ reaches memory of the host"),
        };
        Ok(Self {
            buffer,
            host: HostAddress(host),
        })
    }
    /// Where the host finds it.
    pub(crate) fn host(&self) -> *mut u8 {
        self.host.0
    }
    /// Where tasks find it.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.ptr().address()
    }
    /// A word of it.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at + 8 <= 8 * self.buffer.len() && at.is_multiple_of(8));
        // SAFETY: it is inside the memory and aligned, and all accesses to such words are atomic.
        unsafe { AtomicU64::from_ptr(self.host.0.add(at).cast()) }
    }
}
