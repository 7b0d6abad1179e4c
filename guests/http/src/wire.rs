//! The connection: bytes in and out, each with a time limit.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

use crate::wasi::{self, For};

const INPUT: u32 = 0;
const OUTPUT: u32 = 1;
/// Bytes that are read at a time.
const READ: usize = 4096;
/// How long a peer may leave sent bytes unread.
const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// What is read after an answer that ends the connection, so that the peer gets the answer and not a reset.
const DRAINED: usize = 1 << 20;
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Why the connection cannot go on.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The peer sends no more.
    End,
    /// The peer took too long.
    Late,
    /// The connection has failed.
    Failed,
}

/// A connection with the bytes that were read and not used.
pub(crate) struct Wire {
    buffer: Vec<u8>,
    /// Of the buffer, what was used up, and what was read.
    used: usize,
    end: usize,
    out: Vec<u8>,
    asked_back: bool,
}

impl Wire {
    pub(crate) fn new() -> Self {
        wasi::do_not_wait(OUTPUT);
        Self {
            buffer: Vec::new(),
            used: 0,
            end: 0,
            out: Vec::new(),
            asked_back: false,
        }
    }

    /// Whether the host has asked for the connection.
    pub(crate) fn is_asked_back(&self) -> bool {
        self.asked_back
    }

    /// The bytes that were read and not used.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.buffer[self.used..self.end]
    }

    /// Uses bytes up.
    pub(crate) fn use_up(&mut self, count: usize) {
        self.used += count;
        if self.used == self.end {
            (self.used, self.end) = (0, 0);
        }
    }

    /// Reads more bytes.
    pub(crate) fn more(&mut self, until: Instant) -> Result<(), Broken> {
        self.more_within(until.saturating_duration_since(Instant::now()))
    }

    /// Reads more bytes, which are to come within a time.
    pub(crate) fn more_within(&mut self, limit: Duration) -> Result<(), Broken> {
        // What was answered so far goes out before the peer is waited for.
        self.flush()?;
        match wasi::wait(INPUT, For::Read, limit) {
            Ok(Some(ready)) => self.asked_back |= ready.asked_back,
            Ok(None) => return Err(Broken::Late),
            Err(_) => return Err(Broken::Failed),
        }
        if self.used > 0 {
            self.buffer.copy_within(self.used..self.end, 0);
            self.end -= self.used;
            self.used = 0;
        }
        // It never becomes shorter, so that bytes are cleared once and not before each read.
        if self.buffer.len() < self.end + READ {
            self.buffer.resize(self.end + READ, 0);
        }
        match raw(INPUT).read(&mut self.buffer[self.end..]) {
            Ok(0) => Err(Broken::End),
            Ok(read) => {
                self.end += read;
                Ok(())
            }
            Err(_) => Err(Broken::Failed),
        }
    }

    /// Adds bytes to what goes out.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.out.extend_from_slice(bytes);
        if self.out.len() >= 1 << 16 {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Sends what was put.
    pub(crate) fn flush(&mut self) -> Result<(), Broken> {
        let out = std::mem::take(&mut self.out);
        let mut sent = 0;
        while sent < out.len() {
            match raw(OUTPUT).write(&out[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock
                        && matches!(wasi::wait(OUTPUT, For::Write, WRITE_LIMIT), Ok(Some(_))) => {}
                // A part is missing from now on, so nothing may follow: no other answer, and no other process.
                Err(_) => return Err(Broken::Failed),
            }
        }
        self.out = out;
        self.out.clear();
        Ok(())
    }

    /// Ends the connection: the peer may still send a little, which is thrown away.
    pub(crate) fn close(&mut self) {
        if self.flush().is_err() {
            return;
        }
        wasi::end_sending(OUTPUT);
        let until = Instant::now() + DRAIN_LIMIT;
        let mut drained = 0;
        while drained < DRAINED {
            self.use_up(self.ready().len());
            if self.more(until).is_err() {
                return;
            }
            drained += self.ready().len();
        }
    }
}

/// A standard stream without the buffer of the standard library, which would hold bytes back from `poll_oneoff`.
fn raw(fd: u32) -> ManuallyDrop<File> {
    // SAFETY: the standard streams are open, and the file is not dropped, so they stay open.
    ManuallyDrop::new(unsafe { File::from_raw_fd(fd as i32) })
}
