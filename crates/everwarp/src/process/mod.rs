//! WebAssembly processes: from one to hundreds of thousands, on a GPU or on the CPU.
//!
//! A [`Module`] is an ordinary WebAssembly command (`wasm32-wasip1`). A [`Host`] runs processes of its modules on a
//! [`Device`](crate::Device); the device's kind decides which engine that is, and both run the same modules with the
//! same output. A [`Command`] says what a process is granted and starts it, as [`std::process::Command`] does for
//! processes of the operating system. A [`Child`] is a process that was started.
//!
//! # One process
//!
//! ```
//! use everwarp::process::{Command, Host, Module};
//! use everwarp::{Device, Select};
//!
//! # fn main() -> Result<(), everwarp::process::Error> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/built/hello.wasm");
//! let device = Device::open(Select::Cpu)?;
//! let hello = Module::from_file(path)?;
//! let host = Host::builder(&device).module(&hello).start()?;
//!
//! let exit = Command::new(&host, &hello).arg("world").output()?;
//! assert!(exit.success());
//! println!("{}", String::from_utf8_lossy(exit.stdout_bytes()));
//! # Ok(()) }
//! ```
//!
//! # Many processes
//!
//! [`Command::spawn_many`] starts equal processes, and [`Command::spawn_each`] gives each its own arguments. The handle
//! for all of them is [`Children`]. Processes that write to this program's standard output should do so in whole lines
//! ([`Output::Lines`]).
//!
//! ```no_run
#![doc = include_str!("../../examples/processes.rs")]
//! ```
//!
//! # Limits
//!
//! A process sees only what its command grants: arguments, environment, [directories](Command::dir), standard input.
//! [`Command::fuel`] limits how much it may execute, and [`HostBuilder::memory`] how much memory it may have. A process
//! that traps, is killed or runs out of fuel affects no other process: its [`Exit`] says what happened.
//!
//! ```
//! # use everwarp::process::{Command, ExitStatus, Host, Module};
//! # use everwarp::{Device, Select};
//! # fn main() -> Result<(), everwarp::process::Error> {
//! # let device = Device::open(Select::Cpu)?;
//! # // (module (func (export "_start") (loop $forever (br $forever))))
//! # let bytes = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";
//! # let endless = Module::new("endless", bytes.to_vec())?;
//! let host = Host::builder(&device).module(&endless).memory(1 << 20).start()?;
//! let exit = Command::new(&host, &endless).fuel(1_000_000).status()?;
//! assert_eq!(exit.status, ExitStatus::OutOfFuel);
//! # Ok(()) }
//! ```
//!
//! # Waiting and killing
//!
//! [`Child::wait`] blocks, [`Child::wait_timeout`] and [`Child::try_wait`] do not block for long, and a [`Child`] is a
//! [`Future`] for any executor. [`Host::list`] shows the processes that have not been waited for.
//!
//! ```
//! # use std::time::Duration;
//! # use everwarp::process::{Command, ExitStatus, Host, Module};
//! # use everwarp::{Device, Select};
//! # fn main() -> Result<(), everwarp::process::Error> {
//! # let device = Device::open(Select::Cpu)?;
//! # let bytes = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";
//! # let endless = Module::new("endless", bytes.to_vec())?;
//! # let host = Host::builder(&device).module(&endless).start()?;
//! let mut child = Command::new(&host, &endless).spawn()?;
//! assert!(child.wait_timeout(Duration::from_millis(10))?.is_none());
//! assert_eq!(host.list(10)?.rows[0].pid, child.pid());
//! child.kill()?;
//! assert_eq!(child.wait()?.status, ExitStatus::Killed);
//! # Ok(()) }
//! ```
//!
//! # Channels
//!
//! Processes whose module imports `everwarp:gpu` exchange messages over channels, with each other and with the host:
//! [`Host::channel`] makes a channel, [`Command::end`] passes one of its ends to a process, and the host keeps the other
//! as a [`Sender`] or a [`Receiver`]. A [`Bridge`] joins one with a typed channel of actors, tasks and the host.
//!
//! # Sockets
//!
//! [`Command::listener`] gives a process a [`Listener`], on which it accepts connections through WASI preview 1.
//! [`StartWriter::connection`] makes a connection the standard input and output of a process, so that any filter program
//! is a server.
//!
//! # Errors
//!
//! Each function returns the narrow type of its error: [`LoadError`], [`StartError`], [`SpawnError`], [`HostError`],
//! [`ChannelError`]. All of them convert into [`Error`]. A process that fails is not an error of this kind: its [`Exit`]
//! says so.

mod bridge;
mod builder;
mod child;
mod command;
mod error;
mod host;
mod lines;
mod opening;
mod parallel;
#[cfg(target_os = "linux")]
mod rehearse;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod serving;
mod shown;
mod two_engines;

pub use bridge::{Bridge, BridgeError};
pub use builder::HostBuilder;
#[cfg(target_os = "linux")]
pub(crate) use builder::Place;
pub use child::{Child, ChildIter, Children};
pub use command::Command;
pub use error::Error;
pub use everwarp_process::net::{LaunchError, Launcher};
#[doc(hidden)]
pub use everwarp_process::sync;
pub use everwarp_process::{
    AddressError, AddressRule, Bytes, Captured, ChannelEnd, ChannelError, Compiling, Connection,
    Directory, EventSources, Events, Exchanges, Exit, ExitStatus, HostError, Input, InputLines,
    ListenAddress, ListenError, Listener, Listing, LoadConfig, LoadError, LoadedModule, Module,
    Network, Output, OutputError, OutputErrors, OutputStream, ParsePidError, Pid, ProcessSnapshot,
    Reads, Receiver, Recording, Rehearsal, RuleError, Sender, SpawnError, Stage, StartError,
    StartWriter, Tier, Trap, TrapKind, threads,
};
#[doc(hidden)]
pub use everwarp_process::{ImageFile, NativeImage};
pub use host::Host;
pub use lines::read_lines;
#[doc(hidden)]
pub use shown::compiling_view;
pub use two_engines::Meanwhile;
