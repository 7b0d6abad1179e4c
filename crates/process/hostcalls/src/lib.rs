//! WASI preview 1 for processes that run on a GPU: the CPU's side.
//!
//! A process on the device asks through a ring in host memory ([`everwarp_contract::hostcall`] has its layout and
//! what each call carries). [`Server`] reads that ring with threads of the host, copies each request out of it
//! once, and has [`Service`] answer the copy. A service knows the processes and what they have open, and can be
//! asked without a ring too.
//!
//! **What is trusted.** Nothing that comes through the ring: slot numbers, lengths, descriptors, flags and paths are
//! allegations until something here has compared them with what there is. A request that no process can have meant
//! is counted and, if there is somebody to answer, answered with an error number.
//!
//! **Files.** A process sees the directories that its [`Config`] names and what lies beneath them. cap-std keeps
//! paths there, whatever `..`, absolute paths, links and renames by others make of them.
//!
//! **Waiting.** What waits for a clock or for standard input waits on a thread that all such requests share, and
//! holds up nobody. What a request may hold up is the other processes of its worker, by a slow file system or by
//! writing to a stream of the host that nobody reads.
//!
//! **Errors** are those of wasmtime's preview 1 wherever it is a matter of choice, because the CPU engine runs
//! that. Two answers say more than there: a directory entry and `filestat` carry the host's device and inode
//! numbers, and `poll_oneoff` the number of bytes that can be read.
//!
//! Linux only, for now. This crate is internal to everwarp and promises no stability.
#![cfg(target_os = "linux")]

mod adopt;
mod config;
mod counters;
mod descriptors;
mod dir;
mod disk;
mod endings;
mod errno;
mod exit;
mod file;
mod input;
mod openings;
mod poll;
mod process;
mod readdir;
mod request;
mod ring;
mod server;
mod service;
mod sink;
mod stat;
mod streams;
mod table;
mod together;
mod wait;
mod wasi;

pub use config::{Config, Directory, Own};
pub use counters::{CALLS, Counts};
pub use descriptors::{descriptor_limit, reserve_descriptors};
pub use errno::Errno;
pub use everwarp_process::{Captured, Input, LINE_LIMIT, Output};
pub use exit::{Exit, Reason};
pub use input::HostInput;
pub use request::{DATA_BYTES, Reply, Request};
pub use ring::{Ring, RingError, RingMemory, Ticket};
pub use server::{Reads, Server, ServerConfig};
pub use service::{Ended, Events, OpenError, Service, Woken};
pub use sink::HostOutput;
pub use streams::Streams;
pub use wait::{Later, Wait};
