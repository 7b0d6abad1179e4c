//! The standard streams of a process.

use bytes::Bytes;

/// The source of a process's standard input.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// No input: the first read returns the end of the stream.
    #[default]
    Empty,
    /// The host's own standard input. Processes that share it compete for its bytes.
    Inherit,
    /// These bytes. Many processes may share parts of the same buffer.
    Bytes(Bytes),
}

impl From<Bytes> for Input {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<u8>> for Input {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<&'static str> for Input {
    fn from(text: &'static str) -> Self {
        Self::Bytes(Bytes::from_static(text.as_bytes()))
    }
}

/// The destination of a process's standard output or standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// The host's stream of the same name, byte for byte as the process writes.
    #[default]
    Inherit,
    /// A stream of the host, in whole lines, so that the lines of several processes do not mix. The last line gets a
    /// line feed if it has none; a line longer than 64 KiB arrives in several parts. When a process has exited, its
    /// lines may still wait for another process's write; when all processes have exited, all lines have been written.
    Lines {
        /// Whether each line begins with the process's pid in brackets: `[pid] `.
        tag: bool,
        /// Whether the lines go to the host's standard error, whichever stream the process writes to.
        to_stderr: bool,
    },
    /// Memory, for [`Exit`](crate::Exit). A write beyond the limit fails with `ENOSPC`, and the exit says so.
    Capture {
        /// The largest number of bytes that is kept.
        limit: usize,
    },
}

impl Output {
    /// Whole lines without a tag, on the host's stream of the same name.
    pub const fn lines() -> Self {
        Self::Lines {
            tag: false,
            to_stderr: false,
        }
    }

    /// Memory for up to `limit` bytes.
    pub const fn capture(limit: usize) -> Self {
        Self::Capture { limit }
    }
}

/// The content of a captured stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The bytes, up to the limit.
    pub bytes: Vec<u8>,
    /// Whether the process tried to write more than the limit.
    pub refused: bool,
}
