//! What a process is given.

use std::path::PathBuf;

/// A directory of the host that a process may use, with everything beneath it and nothing beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Where it is.
    pub host: PathBuf,
    /// What the process calls it.
    pub guest: String,
}

/// Where a process reads its standard input.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// There is none: the first read is at the end.
    #[default]
    Empty,
    /// The host's own. Processes that share it race for its bytes.
    Inherit,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// Where a process's standard output or standard error goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// To the host's stream of the same name, byte for byte as it is written.
    #[default]
    Inherit,
    /// To a stream of the host in whole lines, so that those of several processes do not mix. The last line
    /// gets its line feed if it has none; a line longer than 64 KiB arrives as several.
    Lines {
        /// Whether `[pid] ` stands before each line.
        tag: bool,
        /// Whether the lines go to the host's standard error, whichever stream the process wrote to.
        to_stderr: bool,
    },
    /// Kept for the [`Exit`](crate::Exit). A write beyond the limit is answered with `ENOSPC`, and the exit
    /// says so.
    Capture {
        /// How many bytes are kept at most.
        limit: usize,
    },
}

/// What a process is given: nothing but this is visible to it.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The arguments; the first is the program's name by convention.
    pub args: Vec<String>,
    /// The environment.
    pub env: Vec<(String, String)>,
    /// The directories, in the order of their descriptors from 3.
    pub directories: Vec<Directory>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// How much may be executed, in units of about one WebAssembly instruction; without it as much as 2^64.
    pub fuel: Option<u64>,
    /// How many bytes linear memory and tables (8 bytes an element) may take together; without it as much as
    /// the module declares and WebAssembly allows.
    pub memory_limit: Option<u64>,
}
