//! What a host and its processes are given.

use everwarp_contract::hostcall::HOSTCALL_SLOTS_MOST;
use everwarp_wasi::{Directory, Input, Output};

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
    /// ([`everwarp_wasm::CompileOptions::interleaved`]). Processes that run in step gain by it, since what they access
    /// at the same time lies side by side; those that each do something else lose.
    pub interleaved: bool,
    /// Threads that serve host calls, beside the one that reads the ring.
    pub workers: usize,
}

impl HostConfig {
    /// The slots of the ring, with this many modules: one for each place.
    pub(crate) fn slots(&self, modules: usize) -> u32 {
        let places = u64::from(self.places) * modules as u64;
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
            workers: 4,
        }
    }
}

/// The arguments and the environment of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// The arguments; the first is the program's name by convention.
    pub args: Vec<String>,
    /// The environment.
    pub env: Vec<(String, String)>,
}

/// What a process is given: nothing but this is visible to it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its arguments and environment.
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
}

impl Default for Config {
    fn default() -> Self {
        let base = everwarp_wasi::Config::default();
        Self {
            strings: Strings::default(),
            directories: base.directories,
            stdin: base.stdin,
            stdout: base.stdout,
            stderr: base.stderr,
            fuel: None,
            handles: base.handles,
        }
    }
}
