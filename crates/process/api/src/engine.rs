//! What an engine of processes does: the one interface of the CPU's and the GPU's.

use std::ops::ControlFlow;
use std::task::{Context, Poll};
use std::time::Duration;

use everwarp_engine::EngineKind;

use crate::channel::{ChannelError, Receiver, Sender};
use crate::config::{Grants, LoadConfig, ModuleId, StartWriter};
use crate::error::{HostError, SpawnError, StartError};
use crate::exit::Exit;
use crate::module::Module;
use crate::pid::Pid;
use crate::status::Listing;

/// A module that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedModule {
    /// Its id in this host.
    pub id: ModuleId,
    /// How long it took to compile, beside running processes.
    pub compiling: Duration,
    /// How long processes stood still; zero where they did not.
    pub pause: Duration,
}

impl LoadedModule {
    /// Describes a load.
    pub fn new(id: ModuleId, compiling: Duration, pause: Duration) -> Self {
        Self {
            id,
            compiling,
            pause,
        }
    }
}

/// A call of [`ProcessEngine::spawn`].
#[derive(Clone, Copy)]
pub struct SpawnRequest<'a> {
    /// The module.
    pub module: ModuleId,
    /// What all processes have in common.
    pub grants: &'a Grants,
    /// How many processes to start; they are numbered from 0.
    pub count: u32,
    /// Writes what the process with this number has of its own. Several threads call it at once.
    pub write: &'a (dyn Fn(u32, &mut dyn StartWriter) + Sync),
    /// Receives the number of the first of some processes and their pids in order, as soon as they have been started,
    /// from any thread. After [`ControlFlow::Break`] no further processes are started.
    pub started: &'a (dyn Fn(u32, &[Pid]) -> ControlFlow<()> + Sync),
}

/// An engine that hosts processes. `everwarp-process-cpu` and `everwarp-process-cuda` implement it; `everwarp::process`
/// is what users see of it.
///
/// Dropping it kills what still runs.
pub trait ProcessEngine: Send + Sync + std::fmt::Debug {
    /// Which kind of engine this is.
    fn kind(&self) -> EngineKind;

    /// How many processes of a module run at once: threads of the CPU engine, places on a GPU. 0 for an unknown module.
    fn width(&self, module: ModuleId) -> u32;

    /// Loads a module while processes run. Its processes can be spawned by its name from other processes.
    ///
    /// # Errors
    /// The module is refused, or there is no room for its processes; the engine goes on as before.
    fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError>;

    /// Starts processes. They run when a thread or place is free.
    ///
    /// # Errors
    /// [`SpawnError`]. Those that `started` has been told of have been started.
    fn spawn(&self, request: &SpawnRequest<'_>) -> Result<(), SpawnError>;

    /// Waits for a process to end; its pid names nothing afterwards.
    ///
    /// # Errors
    /// [`HostError::Timeout`], and the process goes on; [`HostError::UnknownPid`]; or the engine has ended.
    fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError>;

    /// Waits for processes and hands their exits over in this order. Pids that have been waited for are skipped.
    ///
    /// # Errors
    /// The engine has ended.
    fn wait_each(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError>;

    /// Looks whether a process has ended, and otherwise wakes `cx`'s waker when it has. Only the last waker of a process
    /// is kept.
    fn poll_wait(&self, pid: Pid, cx: &mut Context<'_>) -> Poll<Result<Exit, HostError>>;

    /// Asks a process to end; `false` if the pid names none. One that has ended keeps its status.
    ///
    /// # Errors
    /// The engine has ended.
    fn kill(&self, pid: Pid) -> Result<bool, HostError>;

    /// Asks all processes to end, those that have not started first.
    ///
    /// # Errors
    /// The engine has ended.
    fn kill_all(&self) -> Result<(), HostError>;

    /// The processes that have not been waited for, with details of at most `most`.
    ///
    /// # Errors
    /// The engine has ended.
    fn list(&self, most: usize) -> Result<Listing, HostError>;

    /// Makes a channel for `capacity` messages of up to `bytes` bytes, whose ends the host holds and may give to
    /// processes ([`Grants::ends`]). A side is open as long as anyone has an end of it.
    ///
    /// # Errors
    /// It is too large, there are too many, or no module of this host imports `everwarp:gpu`.
    fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError>;
}
