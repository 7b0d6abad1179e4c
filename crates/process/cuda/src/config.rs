//! What a host and its processes are given.

use everwarp_contract::hostcall::HOSTCALL_SLOTS_MOST;
use everwarp_hostcalls::{Directory, Input, Output, Reads};
use everwarp_process::Bytes;
use everwarp_process::threads::{THREADS, THREADS_MOST};

use crate::channel::End;
use crate::module::Loaded;
use crate::threads::PLACES_MOST;

/// What a host is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Processes of each module that are on the GPU at once; more wait. Every one costs its memory, so no more
    /// than [`HostConfig::memory_budget`] allows are made, and no more than 2^20 for all modules together, since
    /// each has a slot for its host calls.
    pub places: u32,
    /// Bytes that linear memory and the tables it starts with (8 an element) may take in each process, which are
    /// reserved for it; without it what its module starts with and up to 64 MiB more, as the budget allows.
    pub memory: Option<u64>,
    /// Bytes of device memory for all places together.
    pub memory_budget: u64,
    /// Bytes of stack of each thread. The driver reserves them for every thread that the device can hold: an
    /// H200 has 270,336, so that 32 KiB are 8.9 GB.
    pub stack_bytes: u32,
    /// Whether the memories of every 32 processes of a module are interleaved
    /// ([`everwarp_compiler::CompileOptions::interleaved`]). Processes that run in step gain by it, since what they access
    /// at the same time lies side by side; those that each do something else lose. Modules that import
    /// `everwarp:gpu` have theirs apart in any case, and so have those that are loaded later.
    pub interleaved: bool,
    /// Whether a product and a sum may be rounded once ([`everwarp_compiler::CompileOptions::contract`]), in modules that are
    /// loaded later too.
    pub contract: bool,
    /// Places for modules that are loaded later ([`Host::load`](crate::Host::load)), for their children and threads too.
    /// Until then each takes a slot for host calls and 1.5 KiB of the engine's task memory, and some 900 bytes more
    /// once a module is there that imports `everwarp:gpu` or has threads. With the others they are 2^20 at most.
    pub spare_places: u32,
    /// Bytes that processes will be given together as arguments and standard input, as far as that is known: memory for
    /// them is mapped at the start, because beside a running engine that takes 2 ms for 64 MiB. What is more is mapped
    /// when it is needed.
    pub given_bytes: u64,
    /// Threads that serve host calls, beside the one that reads the ring.
    pub workers: usize,
    /// How they read files.
    pub reads: Reads,
    /// Places of each module for processes that others spawn, where a module imports `everwarp:gpu`. What is loaded later
    /// has its own ([`LoadConfig::children`](crate::LoadConfig::children)).
    pub children: u32,
    /// Threads that each process may have at a time beside its first, where its module begins any; at most
    /// [`everwarp_process::threads::THREADS_MOST`]. They have their places from the start, a record each, of which a
    /// module has 16,384 at most: so many processes of it are on the GPU at once as that allows.
    pub threads: u32,
    /// Channels that there can be at a time, from when on a module imports `everwarp:gpu`: 16 KiB each.
    pub channels: u32,
}

impl HostConfig {
    /// How many threads each process of a module may have beside its first.
    pub(crate) fn threads_of(&self, module: &Loaded) -> u32 {
        match &module.threads {
            Some(threads) if threads.spawns => self.threads.min(THREADS_MOST),
            _ => 0,
        }
    }

    /// How many places these modules have at most, those for children and threads included.
    pub(crate) fn places_of(&self, modules: &[Loaded]) -> u64 {
        let children = match modules.iter().any(Loaded::uses_gpu) {
            true => self.children,
            false => 0,
        };
        modules.iter().map(|m| self.places_with(m, children)).sum()
    }

    /// How many a module has at most, of which so many are for children.
    pub(crate) fn places_with(&self, module: &Loaded, children: u32) -> u64 {
        let threads = self.threads_of(module);
        let processes = self.places.min((PLACES_MOST / threads.max(1)).max(1));
        match (threads, &module.threads) {
            (0, None) => u64::from(self.places) + u64::from(children),
            // Nobody but the host spawns processes with threads.
            (0, Some(_)) => u64::from(self.places),
            _ => u64::from(processes) * u64::from(1 + threads),
        }
    }

    /// The slots of the ring with these modules: one for each place, spare ones included.
    pub(crate) fn slots(&self, modules: &[Loaded]) -> u32 {
        let places = self.places_of(modules) + u64::from(self.spare_places);
        places
            .next_power_of_two()
            .clamp(32, HOSTCALL_SLOTS_MOST.into()) as u32
    }

    /// For up to `places` processes at once on a device with so much free memory.
    pub fn new(places: u32, free_bytes: u64) -> Self {
        Self {
            places,
            memory: None,
            memory_budget: free_bytes / 10 * 7,
            stack_bytes: 32 << 10,
            interleaved: false,
            contract: false,
            spare_places: 0,
            given_bytes: 0,
            workers: std::thread::available_parallelism()
                .map_or(4, |cores| (cores.get() / 2).clamp(4, 8)),
            reads: Reads::default(),
            children: 1024,
            threads: THREADS,
            channels: 1024,
        }
    }
}

/// What each process has of its own: arguments, environment and, if it is to be so, standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// The arguments; the first is the program's name by convention.
    pub args: Vec<String>,
    /// The environment.
    pub env: Vec<(String, String)>,
    /// Standard input, in the place of the configuration's. It lies on the device, so reading it takes no host call.
    pub stdin: Option<Bytes>,
}

/// What a process is given: nothing but this is visible to it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its arguments and environment, and perhaps its standard input.
    pub strings: Strings,
    /// The directories, in the order of their descriptors from 3.
    pub directories: Vec<Directory>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// How much may be executed: rounds of loops, and calls of functions that call. Without it, as much as 2^63.
    pub fuel: Option<u64>,
    /// How many descriptors it may have at a time.
    pub handles: u32,
    /// Ends of channels that it is given, as its handles from 0.
    pub ends: Vec<End>,
}

impl Default for Config {
    fn default() -> Self {
        let base = everwarp_hostcalls::Config::default();
        Self {
            strings: Strings::default(),
            directories: base.directories,
            stdin: base.stdin,
            stdout: base.stdout,
            stderr: base.stderr,
            fuel: None,
            handles: base.handles,
            ends: Vec::new(),
        }
    }
}
