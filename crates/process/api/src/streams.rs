//! Where standard streams lead.

use bytes::Bytes;

/// Where a process reads its standard input.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// There is none: the first read is at the end.
    #[default]
    Empty,
    /// The host's own. Processes that share it race for its bytes.
    Inherit,
    /// These bytes; many processes may have parts of the same.
    Bytes(Bytes),
}

/// Where a process's standard output or standard error goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// To the host's stream of the same name, byte for byte as it is written.
    #[default]
    Inherit,
    /// To a stream of the host in whole lines, so that those of several processes do not mix. The last line
    /// gets its line feed if it has none; a line longer than 64 KiB arrives as several. Lines are on their way when the
    /// process has ended, and written when all that write at the time have.
    Lines {
        /// Whether the process's name in brackets stands before each line: `[pid] `.
        tag: bool,
        /// Whether the lines go to the host's standard error, whichever stream the process wrote to.
        to_stderr: bool,
    },
    /// Kept for whoever waits for the process. A write beyond the limit is answered with `ENOSPC`, and the exit
    /// says so.
    Capture {
        /// How many bytes are kept at most.
        limit: usize,
    },
}

/// What a captured stream holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The bytes, as many as the limit allows.
    pub bytes: Vec<u8>,
    /// Whether the process wanted to write more and was refused.
    pub refused: bool,
}
