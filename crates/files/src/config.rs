//! The sizes of files, and their small types.

use std::time::Duration;

use everwarp_io::Backend;

use crate::error::FilesError;
use crate::faults::Faults;
use crate::setting::number_of;

/// The sizes of an instance's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesConfig {
    /// Requests that wait to be taken (a power of two). The host takes them at once, so this is not how many requests may be on
    /// their way; four for each task that asks spare second tries.
    pub requests: u32,
    /// Files, timers and sockets that are open at a time, up to 65,536.
    pub handles: u32,
    /// How many of those may be sockets; 0: all.
    pub sockets: u32,
    /// Bytes that requests of files and sockets may have in flight at a time; 0: without a limit. A request beyond that ends with
    /// `NOBUFS`.
    pub bytes: u64,
    /// Timers and sleeps that are set at a time, up to 2^20; 0: tasks have none.
    pub timers: u32,
    /// Threads that do what is asked; 0: one for each core, up to 8.
    pub threads: u32,
    /// How files are read; `None`: through an io_uring for each thread if the system allows it, or as `EVERWARP_IO` says
    /// (`threads` or `io_uring`).
    pub backend: Option<Backend>,
    /// Faults on purpose. Without them, `EVERWARP_FILE_FAULTS=SEED` turns those on that tasks must not notice.
    pub faults: Option<Faults>,
    /// The page cache. Without one, no file can be opened as cached.
    pub cache: CacheConfig,
    /// The host's memory through which files are read where the host does not reach the engine's memory: on a GPU.
    pub arena: ArenaConfig,
}

/// The memory of the host into which files are read, and from which tasks copy to the engine's memory. It is page-locked, and stays so
/// until the process ends. A read that finds no room there waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaConfig {
    /// Bytes in all, divided evenly among the threads; 0: 2 MiB for each, or as `EVERWARP_FILE_ARENA=BYTES` says.
    pub bytes: u64,
    /// Reads go this way on the CPU engine, too. Tests do that, and so does `EVERWARP_FILE_ARENA`.
    pub always: bool,
}

/// The variable that sets the arena's size, and has it used on the CPU engine.
const ARENA_SETTING: &str = "EVERWARP_FILE_ARENA";
/// Bytes in which places of an arena are counted: each thread has one at least.
pub(crate) const ARENA_UNIT: u64 = 4096;
/// The most bytes of an arena.
pub(crate) const ARENA_MOST: u64 = 1 << 30;

impl ArenaConfig {
    /// This configuration, or that of the environment if this one says nothing.
    ///
    /// # Errors
    /// The variable's value is no number of bytes that this many threads can have.
    pub(crate) fn or_environment(self, threads: usize) -> Result<Self, FilesError> {
        if self != Self::default() {
            return Ok(self);
        }
        let least = ARENA_UNIT * threads as u64;
        let what = format!("the arena's bytes, from {least} to {ARENA_MOST}");
        match number_of(ARENA_SETTING, &what)? {
            None => Ok(self),
            Some(bytes) => Self::of_setting(bytes, threads).ok_or(FilesError::Setting {
                name: ARENA_SETTING,
                what,
                value: bytes.to_string(),
            }),
        }
    }
    /// What the variable says; `None` if that cannot be.
    fn of_setting(bytes: u64, threads: usize) -> Option<Self> {
        let always = true;
        let config = Self { bytes, always };
        (bytes == 0 || config.has_room(threads)).then_some(config)
    }
    /// Whether its bytes are enough for each thread, and not too many.
    pub(crate) fn has_room(self, threads: usize) -> bool {
        (ARENA_UNIT * threads as u64..=ARENA_MOST).contains(&self.bytes)
    }
}

/// The sizes of a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Bytes of pages in the engine's memory; 0: no cache.
    pub bytes: u64,
    /// Bytes of a page: a power of two from 4 KiB to 1 MiB.
    pub page: u32,
    /// Bytes of all files that are cached at a time, rounded up to pages; 0: sixteen times the cache. Each page of theirs takes
    /// eight bytes of the engine's memory.
    pub files: u64,
    /// Bytes that are read ahead at a time of a file that tasks read in order, at most; 0: none. Where a task comes to bytes that are still
    /// being read, up to four times as many are ahead of it from then on.
    pub ahead: u32,
    /// When every page is held for this long, tasks that wait for one fail with `NOBUFS`.
    pub patience: Duration,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            bytes: 0,
            page: 4096,
            files: 0,
            ahead: 256 << 10,
            patience: Duration::from_secs(10),
        }
    }
}

impl CacheConfig {
    /// A cache of this many bytes.
    pub fn of(bytes: u64) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

impl Default for FilesConfig {
    fn default() -> Self {
        Self {
            requests: 1024,
            handles: 1024,
            sockets: 0,
            bytes: 0,
            timers: 0,
            threads: 0,
            backend: None,
            faults: None,
            cache: CacheConfig::default(),
            arena: ArenaConfig::default(),
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

/// Counters. Those of requests are of one moment: each request that the host has taken is served, failed or in flight. Times are those of
/// all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Requests that were done.
    pub served: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Requests that have no result yet.
    pub in_flight: u64,
    /// How often the ring of requests was full.
    pub refused: u64,
    /// Bytes that they have in flight, if those are limited (`FilesConfig::bytes`).
    pub bytes: u64,
    /// Open files, timers and sockets.
    pub open: usize,
    /// Bytes of the arena that reads have (`FilesConfig::arena`).
    pub arena: u64,
    /// How often the host has taken requests, one or more at a time.
    pub takes: u64,
    /// Reads of up to 64 KiB that were alone, and were done by the thread that had taken them, because the system had the bytes in its cache.
    pub lone_reads: u64,
    /// The most jobs that have waited for a thread at a time. A job is a request, or up to 16 reads or write-backs of pages.
    pub queued_most: u64,
    /// Copies from the arena, each of up to 16 KiB, and batches in which threads have submitted them.
    pub copies: u64,
    /// See `copies`.
    pub copy_batches: u64,
    /// How long threads have waited for copies.
    pub copy_wait: Duration,
    /// How long orders of the page cache were on their way to the engine and back, one batch at a time (`PageStats::order_batches`).
    pub order_wait: Duration,
    /// How often threads have taken misses, reads that have ended and the like to the page cache, some at a time.
    pub page_turns: u64,
    /// How long threads have waited for the lock of the page cache.
    pub lock_wait: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_gives_an_arena_room_for_each_thread_or_none() {
        let of = |bytes| ArenaConfig::of_setting(bytes, 8);
        for bytes in [1, 5, 8 * ARENA_UNIT - 1, ARENA_MOST + 1, u64::MAX] {
            assert_eq!(of(bytes), None, "{bytes}");
        }
        for bytes in [0, 8 * ARENA_UNIT, ARENA_MOST] {
            let always = true;
            assert_eq!(of(bytes), Some(ArenaConfig { bytes, always }));
        }
    }
}
