//! Settings of hosts, modules and processes.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use everwarp_io::{Connection, Events, Listener, Network};

use crate::channel::ChannelEnd;
use crate::input_lines::InputLines;
use crate::net::Launcher;
use crate::streams::{Input, Output};
use crate::threads::THREADS;

/// A module of a host: its number in the order of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The settings of a host. An engine refuses an option that it does not have
/// ([`StartError::Option`](crate::StartError::Option)). The CPU engine ignores the options that only size a GPU's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// On the CPU engine, the number of threads that run processes; by default one for each core. A GPU does not have
    /// this option.
    pub workers: Option<NonZeroUsize>,
    /// On the CPU engine, the number of processes that may wait for sockets at the same time, of all hosts of the program
    /// together; 1,024 by default. Further ones wait for these. More can be asked for before the program's first
    /// host starts, and Linux's default limits have room for some 9,500. On a GPU a process that waits keeps its place.
    pub waiting: u32,
    /// The settings of each module that the host starts with.
    pub load: LoadConfig,
    /// The bytes of stack on which calls nest. On the CPU engine that is the stack of each process, 8 MiB by default and
    /// otherwise rounded up to a power of two; memory is taken as it is touched. On a GPU it is memory that each process has
    /// from the start, besides a short stack of the device: by default an eighth of the process's memory, 8 MiB at most, and
    /// never more than 1 GiB. Modules with tail calls nest on the device's stack alone, and this is its size, which the
    /// driver reserves for every thread that the device can hold: an H200 has 270,336, so that 32 KiB are 8.9 GB.
    pub stack_bytes: Option<u32>,
    /// On a GPU, interleave the memories of every 32 processes of a module by 4 bytes. Processes that run in step gain,
    /// because what they access at the same time is adjacent; processes that each do something else lose. Modules that
    /// import `everwarp:gpu` and modules that are loaded later are never interleaved. The CPU engine does not have this
    /// option.
    pub interleaved: bool,
    /// On a GPU, allow one rounding for a product and a sum, as CUDA C++ does by default. The CPU engine does not have
    /// this option.
    pub contract: bool,
    /// On a GPU, which functions an image has before processes start. The CPU engine ignores it.
    pub tier: Tier,
    /// On a GPU, the places for modules that are loaded later, including their children and threads. Until then each
    /// takes a slot for host calls and 1.5 KiB of the engine's task memory. With the other places they are 2^20 at most.
    pub spare_places: u32,
    /// On a GPU, the bytes of arguments and standard input that all processes will get together, if this is known.
    /// Memory for them is mapped at the start, because mapping 64 MiB while the engine runs takes 2 ms.
    pub given_bytes: u64,
    /// On a GPU, the number of threads that serve host calls, besides the thread that polls the ring.
    pub servers: usize,
    /// On a GPU, how the servers read files.
    pub reads: Reads,
    /// On a GPU, the largest number of channels at the same time: 16 KiB each.
    pub channels: u32,
}

impl HostConfig {
    /// The default of [`waiting`](Self::waiting).
    pub const WAITING: u32 = 1024;
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            workers: None,
            waiting: Self::WAITING,
            load: LoadConfig::default(),
            stack_bytes: None,
            interleaved: false,
            contract: false,
            tier: Tier::default(),
            spare_places: 0,
            given_bytes: 0,
            servers: std::thread::available_parallelism()
                .map_or(4, |cores| (cores.get() / 2).clamp(4, 8)),
            reads: Reads::default(),
            channels: 1024,
        }
    }
}

/// Which functions of a module a GPU's image has before processes start. What processes compute is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// All of them: no process waits for the compiler after the start.
    Best,
    /// Of a large module, those that its processes are likely to call, if that is known from a rehearsal
    /// ([`Rehearsal`](crate::Rehearsal)), and those that the image had in earlier programs. A rehearsal of an earlier program counts
    /// for processes that are given the same. The others are compiled while processes run; a process that calls one that is not there
    /// yet waits for it. Where nothing is known all functions are compiled, as with [`Best`](Self::Best), and so are those of modules
    /// that have threads, import `everwarp:gpu` or come with machine code, and of all modules where memories are interleaved.
    #[default]
    Lazy,
    /// Of any module, as few as possible, and later only those that processes ask for. It is there for tests.
    Least,
}

/// The settings of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// On a GPU, the number of the module's processes that are on the device at the same time; further processes wait.
    /// Each place reserves its memory, so there are fewer if the memory does not suffice.
    pub places: u32,
    /// The bytes that linear memory and tables (8 bytes an element) may take in each process; beyond that `memory.grow`
    /// and `table.grow` return -1. By default, on the CPU engine linear memory may take as much as the module declares
    /// (4 GiB at most), and all tables together may have 10,000,000 elements, or as many as the module starts with; on a
    /// GPU both may take 64 MiB more than the module starts with, as memory allows.
    pub memory: Option<u64>,
    /// Whether processes of the module will have a fuel limit ([`Grants::fuel`]). The CPU engine compiles the module with
    /// counting of fuel if so, and without otherwise, because counting costs 15 to 30 % of the run time. If a process
    /// needs the other form, the engine compiles that form when it starts the process. A GPU always counts.
    pub metered: bool,
    /// The number of threads that each process may have besides its first one, if the module starts threads; up to
    /// [`THREADS_MOST`](crate::threads::THREADS_MOST).
    pub threads: u32,
    /// On a GPU, the places for processes of the module that other processes spawn.
    pub children: u32,
    /// On a GPU, the bytes of device memory for all places of the module; by default seven tenths of what is free,
    /// divided among the modules that a host starts with.
    pub memory_budget: Option<u64>,
}

impl Default for LoadConfig {
    fn default() -> Self {
        Self {
            places: 1024,
            memory: None,
            metered: false,
            threads: THREADS,
            children: 1024,
            memory_budget: None,
        }
    }
}

/// How the threads that serve host calls read files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// One read after the other, with a system call each.
    Plain,
    /// Through an io_uring, when a thread has at least this many reads at the same time.
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
    /// Opens the directory at `path`, which processes see as `guest`.
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

    /// A directory that the caller has opened, which processes see as `guest`. Messages name it by `path`.
    ///
    /// # Errors
    /// The file is no directory.
    pub fn from_file(
        handle: std::fs::File,
        path: impl Into<PathBuf>,
        guest: impl Into<String>,
    ) -> std::io::Result<Self> {
        if !handle.metadata()?.is_dir() {
            return Err(std::io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            path: path.into(),
            guest: guest.into(),
            handle: Arc::new(handle),
            read_only: false,
        })
    }

    /// Sets whether a process that changes anything beneath the directory gets `EPERM`.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// The path that it was opened at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name that processes see.
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

/// The settings that all processes of one call of [`ProcessEngine::spawn`](crate::ProcessEngine::spawn) share. A process
/// sees nothing else of the host.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    /// The directories. Their descriptors start at 3, in this order.
    pub directories: Vec<Directory>,
    /// Listeners, on which the processes accept connections. Their descriptors follow those of the directories, in this
    /// order.
    pub listeners: Vec<Listener>,
    /// Starts the programs that the processes ask for by name; without it they may start none.
    pub launcher: Option<Arc<dyn Launcher>>,
    /// The addresses that the processes may connect to and bind; without it they open no sockets.
    pub network: Option<Arc<Network>>,
    /// Gives each process a descriptor of events, which follows those of the listeners.
    pub events: Option<Arc<Events>>,
    /// Standard input, for processes that get none of their own.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// How much a process may execute. On the CPU engine a unit is about one instruction; on a GPU it is an iteration of
    /// a loop, or a call of a function that calls others. Without a limit the CPU engine does not count fuel.
    pub fuel: Option<u64>,
    /// The largest number of descriptors that a process may have at the same time; by default the engine's limit.
    pub handles: Option<u32>,
    /// Ends of channels, which become the process's handles from 0.
    pub ends: Vec<ChannelEnd>,
}

/// Receives what one process gets of its own: its arguments and its environment, in any order, and its standard input or a
/// connection.
///
/// Engines implement it and copy the parts to where the process reads them, so starting 100,000 processes allocates
/// nothing for each of them.
pub trait StartWriter {
    /// Adds an argument: these parts, joined. By convention the first argument is the program's name.
    fn arg(&mut self, parts: &[&str]);
    /// Adds an environment variable: `parts`, joined, are its value.
    fn variable(&mut self, name: &str, parts: &[&str]);
    /// Gives the process a standard input of its own.
    fn stdin(&mut self, bytes: Bytes);
    /// Makes a connection the process's standard input and standard output. It ends when the process has exited, unless
    /// the caller keeps a clone.
    fn connection(&mut self, connection: Connection);
    /// Gives the process the line with this number, from 0, as its standard input.
    ///
    /// # Panics
    /// The lines are those of a service's host, and the process is not.
    fn stdin_line(&mut self, lines: &InputLines, number: u32) {
        let line = lines.source().line(number);
        self.stdin(line.expect("lines are given to processes of the host that has read them"));
    }
}
