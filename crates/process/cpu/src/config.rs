//! What a process is given.

use std::path::PathBuf;

use everwarp_process::{Input, Output};

use crate::channel::End;

/// A directory of the host that a process may use, with everything beneath it and nothing beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Where it is.
    pub host: PathBuf,
    /// What the process calls it.
    pub guest: String,
}

/// What a process is given: nothing but this is visible to it.
///
/// A clone holds ends of its own.
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
    /// Threads that it may have at a time beside its first; without it as many as
    /// [`everwarp_process::threads::THREADS`]. At most [`everwarp_process::threads::THREADS_MOST`].
    pub threads: Option<u32>,
    /// Ends of channels that it is given, as its handles from 0.
    pub ends: Vec<End>,
    /// What `everwarp:gpu` answers for its number among those that are spawned together.
    pub instance: u32,
}
