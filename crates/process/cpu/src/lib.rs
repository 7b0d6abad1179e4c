//! Processes on the CPU engine: WebAssembly modules under wasmtime, with WASI preview 1.
//!
//! A [`Program`] is a module that has been validated and compiled once. A [`Host`] runs any number of
//! processes of it on a fixed set of threads: what does not run yet waits in a queue, so a process costs a
//! record and not a thread. A process is known by its [`Pid`], sees only the arguments, variables and
//! directories that its [`Config`] names, and ends with an [`Exit`]. A trap, a kill or spent fuel ends that
//! process and touches no other.
//!
//! **Killing.** Compiled code looks at an epoch at every loop and call; a kill moves the epoch on until the
//! process has ended. A process that waits in a host call (a clock, standard input, a file) is killed there
//! too, because host calls are futures here and a future can be dropped. The synchronous flavour of WASI would
//! have been simpler, but a process that sleeps for an hour could be killed only after that hour. What a kill
//! waits for is a write to a standard stream whose reader has stopped reading.
//!
//! **Fuel.** One unit is about one WebAssembly instruction. The GPU compiler counts rounds of loops and calls
//! instead, so a budget does not carry over from one engine to the other.
//!
//! **Channels and children.** `everwarp:gpu` means the same here as on a GPU ([`Host::channel`], [`Config::ends`]): a
//! process is a warp of its own with one lane. A process that waits for others gives its thread to the next one.
//!
//! **Threads.** A module that imports `wasi.thread-spawn` may begin threads ([`Config::threads`] at a time). Each is a
//! thread of the system with an instance of its own over the process's memory. What waits at an address waits in a
//! queue of this crate's (`threads/wait.rs`), because nothing could end a wait of wasmtime's. The first end of any
//! thread but a return is the end of all.
//!
//! **Memory.** The limit of a process covers its linear memory and its tables. `memory.grow` beyond it
//! answers -1, as the specification says.
//!
//! This crate is internal to everwarp and promises no stability.

mod channel;
mod config;
mod crowd;
mod engines;
mod epoch;
mod exit;
mod gpu;
mod host;
mod kin;
mod limits;
mod list;
mod live;
mod outlet;
mod paths;
mod pid;
mod process;
mod program;
mod run;
mod sink;
mod table;
mod threads;

pub use channel::{End, Receiver, Sender};
pub use config::{Config, Directory};
pub use everwarp_process::{Bytes, Captured, ChannelError, Input, Listing, Output, Pid, Stage};
pub use exit::{Exit, Reason, TrapKind};
pub use host::{Host, ProcessState, SpawnError, Status};
pub use pid::StalePid;
pub use program::{LoadError, Program};
#[doc(hidden)]
pub use program::{bare_engine, check_module};
