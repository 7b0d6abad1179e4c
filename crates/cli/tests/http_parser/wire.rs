//! The twin of `guests/http/src/wire.rs` in memory: a peer that has sent all its segments, and then ended its half.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Why the connection cannot go on.
#[allow(dead_code, reason = "a peer in memory is never late and never fails")]
#[derive(Debug)]
pub(crate) enum Broken {
    End,
    Late,
    Failed,
}

/// A connection with the bytes that were read and not used.
pub(crate) struct Wire {
    segments: VecDeque<Vec<u8>>,
    buffer: Vec<u8>,
    /// Bytes that were used up so far.
    pub(crate) used: usize,
}

impl Wire {
    pub(crate) fn new(segments: Vec<Vec<u8>>) -> Self {
        Self {
            segments: segments.into(),
            buffer: Vec::new(),
            used: 0,
        }
    }

    pub(crate) fn ready(&self) -> &[u8] {
        &self.buffer
    }

    pub(crate) fn use_up(&mut self, count: usize) {
        self.buffer.drain(..count);
        self.used += count;
    }

    pub(crate) fn more(&mut self, _: Instant) -> Result<(), Broken> {
        let next = self.segments.pop_front().ok_or(Broken::End)?;
        self.buffer.extend(next);
        Ok(())
    }

    pub(crate) fn more_within(&mut self, _: Duration) -> Result<(), Broken> {
        self.more(Instant::now())
    }

    pub(crate) fn put(&mut self, _: &[u8]) -> Result<(), Broken> {
        Ok(())
    }
}
