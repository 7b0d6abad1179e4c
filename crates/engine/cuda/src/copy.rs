//! Copies while the engine runs: through pinned staging memory, on a stream of their own.
//!
//! Only the copy engines are used. A memset would be a kernel, which might find no room next to a
//! resident grid and wait for ever; so `fill` copies a filled staging area.

use std::sync::{Mutex, MutexGuard};

use everwarp_engine::EngineError;
use everwarp_engine::sync::{lock, try_lock};

use crate::driver::{Context, Pinned, Stream, call};
use crate::pieces::Pieces;

/// Bytes of the staging area of each lane.
const STAGING: usize = 1 << 20;
/// Copies that may be on their way at once, each filled by a thread of its own.
const LANES: usize = 8;

#[derive(Debug)]
pub(crate) struct Copier {
    context: Context,
    /// [`LANES`] of them.
    lanes: Box<[Mutex<(Stream, Pinned)>]>,
}

impl Copier {
    pub(crate) fn new(context: Context) -> Result<Self, EngineError> {
        let lane = || Ok(Mutex::new((Stream::new()?, Pinned::new(STAGING)?)));
        Ok(Self {
            context,
            lanes: (0..LANES).map(|_| lane()).collect::<Result<_, _>>()?,
        })
    }
    pub(crate) fn host_bytes(&self) -> u64 {
        (LANES * STAGING) as u64
    }
    fn lane(&self) -> Result<MutexGuard<'_, (Stream, Pinned)>, EngineError> {
        self.context.enter()?;
        let free = self.lanes.iter().find_map(try_lock);
        // None is better than another to wait for.
        let wait = || lock(&self.lanes[0]);
        Ok(free.unwrap_or_else(wait))
    }

    /// # Safety
    /// - The destination is live device memory.
    pub(crate) unsafe fn write(&self, to: u64, data: &[u8]) -> Result<(), EngineError> {
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
    /// - The destination is live device memory for all pieces together.
    pub(crate) unsafe fn write_pieces(
        &self,
        to: u64,
        mut pieces: &mut dyn Iterator<Item = &[u8]>,
    ) -> Result<(), EngineError> {
        let lane = self.lane()?;
        let (stream, staging) = &*lane;
        // SAFETY: the staging area is ours while the lock is held; the caller vouches for the destination, and borrows
        // the pieces until the stream has ended, below.
        let mut sent = unsafe { Pieces::to(to, stream, staging) };
        let queued = Iterator::try_for_each(&mut pieces, |piece| sent.add(piece));
        let copied = queued.and_then(|()| sent.finish());
        // Also where it failed: nothing may read the staging area or the pieces afterwards.
        stream.synchronize().and(copied)
    }

    /// # Safety
    /// - The source is live device memory.
    pub(crate) unsafe fn read(&self, from: u64, data: &mut [u8]) -> Result<(), EngineError> {
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
    /// - The destination is live device memory.
    pub(crate) unsafe fn fill(&self, to: u64, bytes: u64, value: u8) -> Result<(), EngineError> {
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
        if self.context.enter().is_err() {
            return;
        }
        for lane in self.lanes.iter() {
            let lane = lock(lane);
            // SAFETY: the caller vouches for it.
            unsafe { lane.1.free() };
        }
    }
}
