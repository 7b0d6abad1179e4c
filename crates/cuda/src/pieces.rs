//! Pieces on their way to one place on the device, one behind the other.

use everwarp_backend::BackendError;

use crate::driver::{Pinned, Stream, call};
use crate::locked::Locked;

/// What lies in page-locked memory is copied from where it lies, neighbours together; all else through a staging area,
/// one half of which is filled while the other is on its way.
pub(crate) struct Pieces<'l> {
    stream: &'l Stream,
    staging: &'l Pinned,
    locked: Locked,
    /// Where on the device what comes next begins.
    to: u64,
    /// The half that is filled, and how far.
    half: usize,
    filled: usize,
    /// What lies in page-locked memory and is still to be copied: where it begins, and its bytes.
    direct: (*const u8, usize),
}

impl<'l> Pieces<'l> {
    /// # Safety
    /// - The staging area is the caller's until the stream has ended what is queued.
    /// - The destination lies in live device memory, as far as there are pieces, which stay until then.
    pub(crate) unsafe fn to(to: u64, stream: &'l Stream, staging: &'l Pinned) -> Self {
        Self {
            stream,
            staging,
            locked: Locked::look(),
            to,
            half: 0,
            filled: 0,
            direct: (std::ptr::null(), 0),
        }
    }

    pub(crate) fn add(&mut self, mut piece: &[u8]) -> Result<(), BackendError> {
        if piece.is_empty() {
            return Ok(());
        }
        if self.locked.has(piece) {
            self.send_staged()?;
            let (begin, bytes) = self.direct;
            if begin.addr() + bytes != piece.as_ptr().addr() {
                self.send_direct()?;
                self.direct.0 = piece.as_ptr();
            }
            self.direct.1 += piece.len();
            return Ok(());
        }
        self.send_direct()?;
        let most = self.staging.bytes / 2;
        while !piece.is_empty() {
            let part;
            (part, piece) = piece.split_at(piece.len().min(most - self.filled));
            // SAFETY: within the half, which no copy reads.
            unsafe {
                let at = self.staging.host.add(self.half * most + self.filled);
                std::ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
            }
            self.filled += part.len();
            if self.filled == most {
                self.send_staged()?;
            }
        }
        Ok(())
    }

    /// Queues what has not been.
    pub(crate) fn finish(&mut self) -> Result<(), BackendError> {
        self.send_staged()?;
        self.send_direct()
    }

    fn send_staged(&mut self) -> Result<(), BackendError> {
        if self.filled == 0 {
            return Ok(());
        }
        // What is in the other half has arrived: it is filled next.
        self.stream.synchronize()?;
        let (half, filled) = (self.half, self.filled);
        (self.half, self.filled) = (1 - half, 0);
        // SAFETY: within the staging area.
        let from = unsafe { self.staging.host.add(half * (self.staging.bytes / 2)) };
        self.send(from, filled)
    }

    fn send_direct(&mut self) -> Result<(), BackendError> {
        match std::mem::replace(&mut self.direct, (std::ptr::null(), 0)) {
            (_, 0) => Ok(()),
            (from, bytes) => self.send(from, bytes),
        }
    }

    fn send(&mut self, from: *const u8, bytes: usize) -> Result<(), BackendError> {
        // SAFETY: who made this vouches for the destination, and that what is read stays until the copy has ended.
        unsafe {
            call!(cuMemcpyHtoDAsync_v2(
                self.to,
                from.cast(),
                bytes,
                self.stream.0
            ))
        }?;
        self.to += bytes as u64;
        Ok(())
    }
}
