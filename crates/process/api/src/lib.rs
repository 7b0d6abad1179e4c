//! What processes have in common on every engine: what they are called, what is said of them while they are there,
//! where their standard streams lead, how their output becomes whole lines, which modules can be some, and what they
//! import beside WASI ([`gpu`]).
//!
//! A crate of its own, because the engines share nothing else: one needs wasmtime, the other a GPU's driver.
//!
//! This crate is internal to everwarp and promises no stability.

mod channel;
mod config;
mod engine;
mod error;
mod exit;
pub mod gpu;
mod lines;
mod module;
mod pid;
mod status;
mod streams;
pub mod threads;

pub use bytes::Bytes;
pub use channel::{ChannelEnd, ChannelError, Endpoint, Receiver, Sender};
pub use config::{Directory, Grants, HostConfig, LoadConfig, ModuleId, Reads, StartWriter};
pub use engine::{LoadedModule, ProcessEngine, SpawnRequest};
pub use error::{HostError, LoadError, SpawnError, StartError};
pub use exit::{Exit, ExitStatus, Trap, TrapKind};
pub use lines::{LINE_LIMIT, Lines, tag_into, tagged};
pub use module::{Invalid, Module, validate, validate_language};
pub use pid::{NoPid, Pid};
pub use status::{Listing, Stage, Status};
pub use streams::{Captured, Input, Output};
