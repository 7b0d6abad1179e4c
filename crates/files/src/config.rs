//! The sizes of files, and their small types.

use crate::faults::Faults;

/// The sizes of an instance's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesConfig {
    /// Requests that wait to be taken (a power of two). The host takes them at once, so this is not how many requests may be on
    /// their way; four for each task that asks spare second tries.
    pub requests: u32,
    /// Files that are open at a time, up to 65,536.
    pub handles: u32,
    /// Threads that do what is asked; 0: one for each core, up to 8.
    pub threads: u32,
    /// Faults on purpose. Without them, `EVERWARP_FILE_FAULTS=SEED` turns those on that tasks must not notice.
    pub faults: Option<Faults>,
}

impl Default for FilesConfig {
    fn default() -> Self {
        Self {
            requests: 1024,
            handles: 1024,
            threads: 0,
            faults: None,
        }
    }
}

/// What tasks may do to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Read them.
    Read,
    /// Read, write, make and truncate them.
    ReadWrite,
}

/// A handle of an open file: the number that tasks use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle(pub u32);

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Requests that were done.
    pub served: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Requests on their way.
    pub in_flight: u64,
    /// How often the ring of requests was full.
    pub refused: u64,
    /// Open files.
    pub open: usize,
}
