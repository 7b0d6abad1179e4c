//! What hosts, modules and processes are given.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::channel::ChannelEnd;
use crate::streams::{Input, Output};
use crate::threads::THREADS;

/// A module of a host, by the order of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a host is started with. Each engine refuses options that it does not have
/// ([`StartError::Option`](crate::StartError::Option)); what is said to be a GPU's and has a default is ignored by the
/// CPU engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostConfig {
    /// On the CPU engine, how many threads run processes; by default one for each core. A GPU has no such option.
    pub workers: Option<NonZeroUsize>,
    /// What each module that the host starts with may have.
    pub load: LoadConfig,
    /// On a GPU, bytes of stack for each thread, which decide how deep calls may nest; by default 32 KiB, or more if a
    /// module's frames need more. The driver reserves the stack for every thread that the device can hold. The CPU
    /// engine has no such option.
    pub stack_bytes: Option<u32>,
    /// On a GPU, interleave the memories of every 32 processes by 4 bytes. Processes that run in step gain by it. The
    /// CPU engine has no such option.
    pub interleaved: bool,
    /// On a GPU, allow one rounding for a product and a sum, as CUDA C++ does by default. The CPU engine has no such
    /// option.
    pub contract: bool,
    /// On a GPU, places for modules that are loaded later, including their children and threads.
    pub spare_places: u32,
    /// On a GPU, bytes that processes will be given as arguments and standard input, if known: memory for them is
    /// mapped at the start.
    pub given_bytes: u64,
    /// On a GPU, threads that serve host calls.
    pub servers: usize,
    /// On a GPU, how the servers read files.
    pub reads: Reads,
    /// On a GPU, how many channels there can be at a time: 16 KiB each.
    pub channels: u32,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            workers: None,
            load: LoadConfig::default(),
            stack_bytes: None,
            interleaved: false,
            contract: false,
            spare_places: 0,
            given_bytes: 0,
            servers: std::thread::available_parallelism()
                .map_or(4, |cores| (cores.get() / 2).clamp(4, 8)),
            reads: Reads::default(),
            channels: 1024,
        }
    }
}

/// What the processes of one module may have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadConfig {
    /// On a GPU, how many processes of the module are on the device at once; more wait. Each takes its memory from the
    /// start, so there are fewer if the memory does not suffice.
    pub places: u32,
    /// Bytes that linear memory and tables (8 bytes an element) may take in each process. By default as much as the
    /// module declares on the CPU engine, and on a GPU 64 MiB more than the module starts with, as memory allows.
    pub memory: Option<u64>,
    /// Threads that each process may have at a time beside its first, if the module starts any; at most
    /// [`THREADS_MOST`](crate::threads::THREADS_MOST).
    pub threads: u32,
    /// On a GPU, places for processes of the module that other processes spawn.
    pub children: u32,
    /// On a GPU, bytes of device memory for all places of the module; by default seven tenths of what is free, divided
    /// among the modules that a host starts with.
    pub memory_budget: Option<u64>,
}

impl Default for LoadConfig {
    fn default() -> Self {
        Self {
            places: 1024,
            memory: None,
            threads: THREADS,
            children: 1024,
            memory_budget: None,
        }
    }
}

/// How the threads that serve host calls read files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// One read after the other, by plain calls.
    Plain,
    /// Through an io_uring, when a thread has at least this many reads at a time.
    Batched(usize),
}

impl Default for Reads {
    /// Through an io_uring from two reads on.
    fn default() -> Self {
        Self::Batched(2)
    }
}

/// A directory of the host that processes may use, with everything beneath it and nothing else.
///
/// The directory is opened once; clones share the handle.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    guest: String,
    handle: Arc<std::fs::File>,
    read_only: bool,
}

impl Directory {
    /// Opens the directory at `path`, which processes will call `guest`.
    ///
    /// # Errors
    /// There is no directory at `path`, or this program may not list it.
    pub fn open(path: impl Into<PathBuf>, guest: impl Into<String>) -> std::io::Result<Self> {
        let path = path.into();
        // Opening a directory does not show whether it may be listed.
        drop(std::fs::read_dir(&path)?);
        let handle = Arc::new(std::fs::File::open(&path)?);
        Ok(Self {
            path,
            guest: guest.into(),
            handle,
            read_only: false,
        })
    }

    /// Whether a process that changes anything beneath it gets `EPERM`.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name that processes have for it.
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// The open directory.
    pub fn handle(&self) -> &Arc<std::fs::File> {
        &self.handle
    }

    /// Whether processes may only read.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

/// What the processes of one call of [`ProcessEngine::spawn`](crate::ProcessEngine::spawn) have in common. A process
/// sees nothing else of the host.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// The directories, in the order of their descriptors from 3.
    pub directories: Vec<Directory>,
    /// Standard input, for processes that get none of their own.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// How much a process may execute. On the CPU engine a unit is about one instruction; on a GPU it is a round of a
    /// loop, or a call of a function that calls. Without a limit the CPU engine does not count.
    pub fuel: Option<u64>,
    /// How many descriptors a process may have at a time; by default as many as the engine allows.
    pub handles: Option<u32>,
    /// Ends of channels, which become the process's handles from 0.
    pub ends: Vec<ChannelEnd>,
}

/// Receives what one process is given of its own: arguments first, then variables, then standard input.
///
/// Engines implement it, so that nothing has to be allocated for each of 100,000 processes.
pub trait StartWriter {
    /// Adds an argument, which is these parts joined. By convention the first argument is the program's name.
    fn arg(&mut self, parts: &[&str]);
    /// Adds an environment variable, whose value is these parts joined.
    fn variable(&mut self, name: &str, parts: &[&str]);
    /// Gives the process a standard input of its own.
    fn stdin(&mut self, bytes: Bytes);
}
