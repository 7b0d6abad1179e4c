//! The interface between `everwarp::process` and the engines that host WebAssembly processes.
//!
//! * [`ProcessEngine`] is the trait that each engine implements.
//! * [`Module`] is a validated module. Every check that does not depend on an engine happens there, with the table of
//!   [`imports`] that all engines provide.
//! * [`HostConfig`], [`LoadConfig`] and [`Grants`] are the settings; [`Exit`], [`Listing`] and the errors are the results.
//! * [`HostStreams`], [`Lines`] and [`OutputErrors`] are parts that the engines share.
//!
//! It is a crate of its own because the engines have nothing else in common: one needs wasmtime, the other a GPU's
//! driver.
//!
//! This crate is internal to everwarp and promises no stability. `everwarp::process` re-exports what users need.

mod budget;
mod channel;
mod compiling;
mod config;
mod engine;
mod error;
mod exit;
pub mod gpu;
mod host_streams;
mod image_file;
pub mod imports;
mod input_lines;
mod lines;
mod listing;
mod module;
pub mod net;
mod output;
mod pid;
mod rehearsal;
pub mod sockets;
mod streams;
pub mod threads;
mod validate;
mod validate_functions;

pub use budget::{Budget, HostBudgets};
pub use bytes::Bytes;
pub use channel::{ChannelEnd, ChannelError, Endpoint, Receiver, Sender};
pub use compiling::{Compiling, Exchanges};
pub use config::{Directory, Grants, HostConfig, LoadConfig, ModuleId, Reads, StartWriter, Tier};
pub use engine::{LoadedModule, ProcessEngine, SpawnRequest};
pub use error::{HostError, LoadError, SpawnError, StartError};
#[doc(hidden)]
pub use everwarp_engine::sync;
pub use everwarp_io::{
    AddressError, AddressRule, Connection, EventSources, Events, ListenAddress, ListenError,
    Listener, Network, Recording, RuleError,
};
pub use exit::{Exit, ExitStatus, Trap, TrapKind};
pub use host_streams::{
    HostStreams, InputSource, OutputTarget, ProgramStderr, ProgramStdin, ProgramStdout,
    SourceReader, TargetWriter,
};
pub use image_file::{ImageFile, NativeImage};
pub use input_lines::{InputLines, LineSource};
pub use lines::{LINE_LIMIT, Lines, tag_into, tagged};
pub use listing::{Listing, ProcessSnapshot, Stage};
pub use module::Module;
pub use output::{OutputError, OutputErrors, OutputStream};
pub use pid::{ParsePidError, Pid};
pub use rehearsal::Rehearsal;
pub use streams::{Captured, Input, Output};
pub use validate::{Invalid, validate_language};

/// As the engines called it before [`Module`]; it goes when they use that.
#[doc(hidden)]
pub fn validate(bytes: &[u8]) -> Result<Option<threads::Threads>, Invalid> {
    let types = validate::validate_types(bytes)?;
    threads::Threads::find(bytes, &types)
}
