//! Copies while the engine runs, on a stream of their own: directly where the host's memory is page-locked, otherwise through
//! a staging area, where one half is copied by the device while the other is copied by the thread.
//!
//! Only the copy engines are used. A memset would be a kernel, which might find no room next to a
//! resident grid and wait for ever; so `fill` copies a filled staging area.

use std::sync::{Mutex, MutexGuard};

use everwarp_engine::EngineError;
use everwarp_engine::sync::{lock, try_lock};

use crate::driver::{Context, Pinned, Stream, call};
use crate::locked::Locked;
use crate::pieces::Pieces;

/// Bytes of the staging area of each lane.
const STAGING: usize = 1 << 20;
/// Bytes that are copied at once, whatever memory they are in: less time than it takes to look.
const SMALL: usize = 64 << 10;
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
        if data.len() > SMALL {
            // SAFETY: the caller vouches for it.
            return unsafe { self.write_pieces(to, &mut std::iter::once(data)) };
        }
        let lane = self.lane()?;
        let (stream, staging) = &*lane;
        // SAFETY: the staging area is ours while the lock is held and longer than `data`.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr(), staging.host, data.len());
            call!(cuMemcpyHtoDAsync_v2(
                to,
                staging.host.cast(),
                data.len(),
                stream.0
            ))?;
        }
        stream.synchronize()
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
        let copy = |at: usize, to: *mut u8, bytes: usize| {
            // SAFETY: below, `to` has as many bytes, which are not used otherwise until the stream has ended.
            unsafe {
                call!(cuMemcpyDtoHAsync_v2(
                    to.cast(),
                    from + at as u64,
                    bytes,
                    stream.0
                ))
            }
        };
        if data.len() > SMALL && Locked::look().end_around(data).is_some() {
            copy(0, data.as_mut_ptr(), data.len())?;
            return stream.synchronize();
        }
        let (half, all) = (STAGING / 2, data.len());
        // SAFETY: within the staging area, which is ours while the lock is held.
        let place = |part: usize| unsafe { staging.host.add(part % 2 * half) };
        let begin = |part: usize| copy(part * half, place(part), half.min(all - part * half));
        for (part, to) in data.chunks_mut(half).enumerate() {
            if part == 0 {
                begin(0)?;
            }
            stream.synchronize()?;
            if (part + 1) * half < all {
                begin(part + 1)?;
            }
            // SAFETY: this half has been copied, and the device writes the other one.
            unsafe { std::ptr::copy_nonoverlapping(place(part), to.as_mut_ptr(), to.len()) };
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
