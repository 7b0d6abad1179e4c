//! Pieces on their way to the device, where they follow each other.

use everwarp_engine::EngineError;

use crate::driver::{Pinned, Stream, call};
use crate::locked::Locked;

/// Pieces in page-locked memory are copied directly, neighbours together; all others pass through a staging area, where one
/// half is filled while the other is copied.
pub(crate) struct Pieces<'l> {
    stream: &'l Stream,
    staging: &'l Pinned,
    locked: Locked,
    /// The device address of the next piece.
    to: u64,
    /// The half that is filled, and how far.
    half: usize,
    filled: usize,
    direct: Direct,
}

/// Bytes in page-locked memory that are still to be copied.
struct Direct {
    begin: *const u8,
    bytes: usize,
    /// The end of that memory. Bytes that follow it belong to another one, even without a gap between them.
    memory_end: usize,
}

impl Direct {
    const NOTHING: Self = Self {
        begin: std::ptr::null(),
        bytes: 0,
        memory_end: 0,
    };

    fn ends_at(&self, piece: &[u8]) -> bool {
        let end = self.begin.addr() + self.bytes;
        end == piece.as_ptr().addr() && end + piece.len() <= self.memory_end
    }
}

impl<'l> Pieces<'l> {
    /// # Safety
    /// - The staging area is the caller's until the stream has done all queued copies.
    /// - The destination is live device memory for all pieces, and the pieces stay until then.
    pub(crate) unsafe fn to(to: u64, stream: &'l Stream, staging: &'l Pinned) -> Self {
        Self {
            stream,
            staging,
            locked: Locked::look(),
            to,
            half: 0,
            filled: 0,
            direct: Direct::NOTHING,
        }
    }

    pub(crate) fn add(&mut self, mut piece: &[u8]) -> Result<(), EngineError> {
        if piece.is_empty() {
            return Ok(());
        }
        if let Some(memory_end) = self.locked.end_around(piece) {
            self.send_staged()?;
            if !self.direct.ends_at(piece) {
                self.send_direct()?;
                self.direct = Direct {
                    begin: piece.as_ptr(),
                    bytes: 0,
                    memory_end,
                };
            }
            self.direct.bytes += piece.len();
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

    /// Queues the copies that have not been queued yet.
    pub(crate) fn finish(&mut self) -> Result<(), EngineError> {
        self.send_staged()?;
        self.send_direct()
    }

    fn send_staged(&mut self) -> Result<(), EngineError> {
        if self.filled == 0 {
            return Ok(());
        }
        // The other half has been copied: it is filled next.
        self.stream.synchronize()?;
        let (half, filled) = (self.half, self.filled);
        (self.half, self.filled) = (1 - half, 0);
        // SAFETY: within the staging area.
        let from = unsafe { self.staging.host.add(half * (self.staging.bytes / 2)) };
        self.send(from, filled)
    }

    fn send_direct(&mut self) -> Result<(), EngineError> {
        let Direct { begin, bytes, .. } = std::mem::replace(&mut self.direct, Direct::NOTHING);
        match bytes {
            0 => Ok(()),
            _ => self.send(begin, bytes),
        }
    }

    fn send(&mut self, from: *const u8, bytes: usize) -> Result<(), EngineError> {
        // SAFETY: the caller of `to` vouches for the destination, and that the source stays until the copy has ended.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_together_only_in_one_memory() {
        let bytes = [0_u8; 64];
        let direct = Direct {
            begin: bytes[8..].as_ptr(),
            bytes: 8,
            memory_end: bytes.as_ptr().addr() + 32,
        };
        assert!(direct.ends_at(&bytes[16..32]) && direct.ends_at(&bytes[16..17]));
        // After a gap, before it, and partly in another memory.
        assert!(!direct.ends_at(&bytes[17..20]) && !direct.ends_at(&bytes[4..8]));
        assert!(!direct.ends_at(&bytes[16..33]));
        assert!(!Direct::NOTHING.ends_at(&bytes));
    }
}
