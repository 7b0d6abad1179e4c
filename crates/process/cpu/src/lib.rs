//! Processes on the CPU engine: WebAssembly modules under wasmtime, with WASI preview 1.
//!
//! [`CpuProcesses`] implements [`ProcessEngine`](everwarp_process::ProcessEngine) on a few threads, which are started when
//! there are processes for them. A process
//! that does not run yet waits in a queue, so it costs a record and not a thread. A process sees only the arguments,
//! variables and directories that it is given. A trap, a kill or spent fuel ends that process and touches no other.
//!
//! **Killing.** Compiled code looks at an epoch at every loop and call; a kill moves the epoch on until the process has
//! ended. A process that waits in a host call (for a clock, standard input, a file) is killed there too, because host
//! calls are futures here and a future can be dropped. The synchronous flavour of WASI would have been simpler, but a
//! process that sleeps for an hour could be killed only after that hour. A kill waits only for a write to a standard
//! stream whose reader has stopped reading.
//!
//! **Fuel.** One unit is about one WebAssembly instruction. The GPU compiler counts rounds of loops and calls instead, so
//! a budget does not carry over from one engine to the other. Without a limit nothing is counted: counting costs 15 to
//! 30 % of the run time. So a module may be compiled twice, once with and once without counting; each form is compiled at
//! its first use, and [`LoadConfig::metered`](everwarp_process::LoadConfig::metered) says which form is made when the
//! module is loaded.
//!
//! **Channels and children.** `everwarp:gpu` means the same here as on a GPU: a process is a warp of its own with one
//! lane. A process that waits for other processes gives its thread to the next one.
//!
//! **Threads.** A module that imports `wasi.thread-spawn` may start threads. Each is a thread of the system with an
//! instance of its own over the process's memory. A thread that waits at an address waits in a queue of this crate's
//! (`threads/parking.rs`), because nothing could end a wait of wasmtime's. The first end of any thread other than a
//! return is the end of all.
//!
//! **Memory.** The limit of a process covers its linear memory and its tables; `memory.grow` and `table.grow` beyond it
//! return -1, as the specification says. Without a limit, the memory may be as large as the module declares, and all
//! tables together may have 10,000,000 elements.
//!
//! **Layers.** Each file uses only files of its own line and the lines above it, and there are no circles
//! (`tests/layers.rs`):
//! * `lock`, `permits`, `watch`, `cached_file`, `engines`, `epoch`, `limits`, `usage`, `pid_table`, `channel`, `child_compiler`, `host_input`, `host_stream`, `worker_load`,
//!   `rewrite`, `mark`;
//! * `process` (the record), `sink` (its output), `scheduler` (the table and the queue), `worker` (a thread);
//! * `facts` (what a module needs), `threads` (what threads share), `family` (children), `guest` (an instance's data);
//! * `status`, `guest_thread`, `imports` (the host calls), `program` (a compiled module), `grants`;
//! * `run` (a process), `rehearsal`, `modules`, `spawn`, `list`, and `host` on top.
//!
//! This crate is internal to everwarp and promises no stability.

#[cfg(target_os = "linux")]
mod cached_file;
#[cfg(not(target_os = "linux"))]
#[path = "no_cached_file.rs"]
mod cached_file;
mod channel;
mod child_compiler;
mod compiled;
mod engines;
mod epoch;
mod facts;
mod family;
mod grants;
mod guest;
mod guest_thread;
mod host;
mod host_input;
mod host_stream;
mod imports;
mod limits;
mod list;
mod lock;
mod mark;
mod modules;
mod numbers;
mod permits;
mod pid_table;
mod process;
mod program;
mod rehearsal;
mod rewrite;
mod run;
mod scheduler;
mod sink;
mod spawn;
mod status;
mod threads;
mod usage;
mod watch;
mod worker;
mod worker_load;

pub use child_compiler::{answer_parent, compile_in_children, rehearse_in_children};
pub use host::CpuProcesses;
pub use rehearsal::{Called, rehearse};

/// An engine like the one that any process with a fuel limit may run on, for tests that run modules by other means. Its stack
/// fits on that of an ordinary thread.
///
/// # Errors
/// wasmtime does not generate code for this machine.
#[doc(hidden)]
pub fn bare_engine() -> Result<wasmtime::Engine, String> {
    let stack = engines::Stack::of(Some(512 << 10));
    let engines = engines::EnginePair::get(engines::Metering::Fuel, stack)?;
    Ok(engines.mapped().clone())
}
