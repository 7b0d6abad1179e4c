//! Copies beside the running engine: through pinned staging memory on a stream of their own.
//!
//! Only the copy engines are used. A memset would be a kernel, which might find no room beside a
//! resident grid and wait for ever; so filling copies a filled staging area.

use std::sync::{Mutex, MutexGuard, PoisonError};

use everwarp_backend::BackendError;

use crate::driver::{Context, Pinned, Stream, call};

const STAGING: usize = 8 << 20;

#[derive(Debug)]
pub(crate) struct Copier {
    context: Context,
    lane: Mutex<(Stream, Pinned)>,
}

impl Copier {
    pub(crate) fn new(context: Context) -> Result<Self, BackendError> {
        Ok(Self {
            context,
            lane: Mutex::new((Stream::new()?, Pinned::new(STAGING)?)),
        })
    }
    pub(crate) fn host_bytes(&self) -> u64 {
        STAGING as u64
    }
    fn lane(&self) -> Result<MutexGuard<'_, (Stream, Pinned)>, BackendError> {
        self.context.enter()?;
        Ok(self.lane.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// # Safety
    /// - The destination lies in live device memory.
    pub(crate) unsafe fn write(&self, to: u64, data: &[u8]) -> Result<(), BackendError> {
        let lane = self.lane()?;
        let (stream, staging) = &*lane;
        for (i, part) in data.chunks(STAGING).enumerate() {
            // SAFETY: the staging area is ours while the lock is held and as long as `part`.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), staging.host, part.len());
                let to = to + (i * STAGING) as u64;
                call!(cuMemcpyHtoDAsync_v2(
                    to,
                    staging.host.cast(),
                    part.len(),
                    stream.0
                ))?;
            }
            stream.synchronize()?;
        }
        Ok(())
    }

    /// # Safety
    /// - The source lies in live device memory.
    pub(crate) unsafe fn read(&self, from: u64, data: &mut [u8]) -> Result<(), BackendError> {
        let lane = self.lane()?;
        let (stream, staging) = &*lane;
        for (i, part) in data.chunks_mut(STAGING).enumerate() {
            let from = from + (i * STAGING) as u64;
            // SAFETY: the staging area is ours while the lock is held and as long as `part`.
            unsafe {
                call!(cuMemcpyDtoHAsync_v2(
                    staging.host.cast(),
                    from,
                    part.len(),
                    stream.0
                ))
            }?;
            stream.synchronize()?;
            // SAFETY: as above; the copy has ended.
            unsafe { std::ptr::copy_nonoverlapping(staging.host, part.as_mut_ptr(), part.len()) };
        }
        Ok(())
    }

    /// # Safety
    /// - The destination lies in live device memory.
    pub(crate) unsafe fn fill(&self, to: u64, bytes: u64, value: u8) -> Result<(), BackendError> {
        let lane = self.lane()?;
        let (stream, staging) = &*lane;
        let first = bytes.min(STAGING as u64);
        // SAFETY: the staging area is ours while the lock is held.
        unsafe { std::ptr::write_bytes(staging.host, value, first as usize) };
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(STAGING as u64);
            // SAFETY: as above; the caller vouches for the destination.
            unsafe {
                call!(cuMemcpyHtoDAsync_v2(
                    to + done,
                    staging.host.cast(),
                    part as usize,
                    stream.0
                ))
            }?;
            done += part;
        }
        stream.synchronize()
    }

    /// # Safety
    /// - No copy is running and none will.
    pub(crate) unsafe fn release(&self) {
        if let Ok(lane) = self.lane() {
            // SAFETY: the caller vouches for it.
            unsafe { lane.1.free() };
        }
    }
}
