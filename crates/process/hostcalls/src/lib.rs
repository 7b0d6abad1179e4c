//! WASI preview 1 for processes that run on a GPU: the CPU's side.
//!
//! A process on the device calls through a ring in host memory ([`everwarp_contract::hostcall`] has its layout and the
//! table of calls). [`Server`] reads that ring with threads of the host, copies each request out of it once, and lets
//! [`Service`] serve the copy. A service knows the processes and what they have open, and can be used without a ring.
//!
//! **A request's way.** `submissions` copies and decodes an entry; `plan` says which thread serves the call; `poller` serves
//! it or hands it to a worker (`hands`, `batch`); `serve` has the code of each call; `ring` writes the answer. A request
//! that has to wait goes to `waits`, or to `openings` if it waits for room to open a file.
//!
//! **Trust.** Nothing that comes through the ring is trusted: slot numbers, lengths, descriptors, flags and paths are
//! allegations until this crate has checked them. A request that no process can have meant is counted, and gets an error
//! number if it names a slot.
//!
//! **Files.** A process sees the directories that its [`Config`] names and everything beneath them. cap-std keeps paths
//! there, in spite of `..`, absolute paths, links and renames by others.
//!
//! **Waiting.** A request that waits for a clock or for standard input waits on a thread that all such requests share, and
//! one that waits for the peer of a socket on another. Neither holds up any other request. A slow file system, or a stream of the host whose reader does not read, holds up the
//! processes of one worker.
//!
//! **Output.** A failed write to a stream of the host is recorded in [`Service::output_errors`], and the process whose
//! bytes were lost gets the error: at once, or with its next write if its lines were written later. Once the reader of a
//! stream has closed it, every write gets `EPIPE`.
//!
//! **Errors** are those of wasmtime's preview 1 wherever WASI leaves a choice, because the CPU engine uses that. Two
//! answers say more than wasmtime's: a directory entry and `filestat` carry the host's device and inode numbers, and
//! `poll_oneoff` the number of bytes that can be read.
//!
//! Linux only, for now. This crate is internal to everwarp and promises no stability.
#![cfg(target_os = "linux")]

mod adopt;
mod batch;
mod config;
mod counters;
mod descriptors;
mod dir;
mod directory;
mod disk;
mod endings;
mod errno;
mod events;
mod exit;
mod file;
mod hands;
mod input;
mod limits;
mod listing;
mod net;
mod open;
mod openings;
mod output;
mod permit;
mod plan;
mod poll;
mod poller;
mod process;
mod read;
mod readdir;
mod request;
mod ring;
mod serve;
mod server;
mod service;
mod sink;
mod sockets;
mod stat;
mod streams;
mod submissions;
mod table;
mod timed;
mod wait;
mod waits;
mod wasi;
mod watched;

pub use config::{Config, GivenConnection, Own};
pub use counters::Counts;
pub use descriptors::{raise_descriptor_limit, reserve_descriptors};
pub use directory::ServedDirectory;
pub use errno::Errno;
pub use events::{AnswerCallback, Ended, Events, FunctionState, Woken};
pub use everwarp_process::{Captured, Input, LINE_LIMIT, Output, Reads};
pub use exit::{ExitReason, ExitReport};
pub use input::HostInput;
pub use limits::DATA_BYTES;
pub use output::HostOutput;
pub use request::{Reply, Request};
pub use ring::{Ring, RingError, RingMemory};
pub use server::{Attached, Server, ServerConfig};
pub use service::{OpenError, Service};
pub use streams::Streams;
pub use wait::Wait;
