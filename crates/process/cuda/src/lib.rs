//! Processes on the CUDA engine: WebAssembly modules, compiled to the GPU's own code, in a process table on
//! the GPU, with WASI preview 1.
//!
//! A [`Host`] links modules into an image, starts an engine with it, and spawns processes from [`Config`]s.
//! A process takes a *place*: a record, the instance's block and its linear memory, all in device memory. A
//! task makes places ready and starts what runs in them; what there is no place for waits on the host. Each
//! process is one lane of the engine. It ends with an [`Exit`]; a trap, a kill or spent fuel ends that process
//! and touches no other, because compiled code checks every access against its own memory.
//!
//! **Calls of the host.** What the GPU knows it answers itself: arguments, environment, clocks, random bytes.
//! Standard output is collected and sent by the page. Everything else goes through the host-call ring to
//! `everwarp-hostcalls`. A process that waits gives up its lane: compiled code saves its frames, and the host's
//! answer submits a task that goes on with it. Only short calls, while few are on their way, are waited for on
//! the spot.
//!
//! **Turns.** A process that loops gives up its lane when its slice is spent, and goes on behind everything else that
//! its warp has to do.
//!
//! **Channels and children.** Where a module imports `everwarp:gpu`, processes have channels and spawn others without
//! the CPU: `world` lays out the memory for it, and a process that another one has woken is submitted by it, on
//! the GPU. The host has ends of channels too, and gives them to processes ([`Host::channel`]); it lists children and
//! ends them (`children`).
//!
//! **Loading.** Modules may come while processes run ([`Host::load`]), those with channels, children and threads too.
//!
//! **Stack.** Compiled functions call each other on the device's own stack, which the driver reserves for every
//! thread that the device can hold. [`HostConfig::stack_bytes`] says how much that is, and the depth of calls
//! that it allows follows from the largest frame among the image's functions.
//!
//! This crate is internal to everwarp and promises no stability.
#![cfg(target_os = "linux")]

mod channel;
mod children;
mod config;
mod dispatch;
mod error;
mod exit;
mod growing;
mod host;
mod kin;
mod layout;
mod link;
mod list;
mod load;
mod module;
mod places;
mod program;
mod spawn;
mod spread;
mod state;
mod strings;
mod table;
mod threads;
mod wasi;
mod world;

pub use channel::{End, Receiver, Sender};
pub use config::{Config, HostConfig, Strings};
pub use error::{LoadError, SpawnError, StartError};
pub use everwarp_hostcalls::{
    Captured, Directory, Input, Output, Reads, Streams, descriptor_limit,
};
pub use everwarp_process::{Bytes, ChannelError, Listing, Pid, ProcessSnapshot, Stage};
pub use exit::{Exit, Reason};
pub use host::Host;
#[doc(hidden)]
pub use link::image;
pub use load::{LoadConfig, LoadedModule};
pub use module::Module;
pub use strings::Writer;
