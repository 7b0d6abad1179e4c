//! The interface between `everwarp::process` and the engines that host processes.

use std::ops::ControlFlow;
use std::task::{Context, Poll};
use std::time::Duration;

use everwarp_engine::EngineKind;
use everwarp_telemetry::view::ProcessTotals;

use crate::channel::{ChannelError, Receiver, Sender};
use crate::compiling::Compiling;
use crate::config::{Grants, LoadConfig, ModuleId, StartWriter};
use crate::error::{HostError, SpawnError, StartError};
use crate::exit::Exit;
use crate::listing::Listing;
use crate::module::Module;
use crate::output::OutputErrors;
use crate::pid::Pid;

/// The result of [`ProcessEngine::load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedModule {
    /// The module's id in this host.
    pub id: ModuleId,
    /// The time to compile the module, while other processes ran.
    pub compiling: Duration,
    /// The time for which running processes were paused; zero on an engine that does not pause them.
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

/// The arguments of [`ProcessEngine::spawn`].
#[derive(Clone, Copy)]
pub struct SpawnRequest<'a> {
    /// The module that the processes run.
    pub module: ModuleId,
    /// The settings that all these processes share.
    pub grants: &'a Grants,
    /// The number of processes. They are numbered from 0, and `everwarp:gpu`'s `instance` returns this number.
    pub count: u32,
    /// Writes the arguments, the environment and the standard input of the process with the given number. Several
    /// threads call it at the same time, each number once.
    pub write: &'a (dyn Fn(u32, &mut dyn StartWriter) + Sync),
    /// Receives the pids of processes as soon as these have been started: `started(first, pids)` means that process
    /// `first + i` has the pid `pids[i]`. Any thread may call it, and the parts come in any order. After
    /// [`ControlFlow::Break`] the engine starts no further processes and [`ProcessEngine::spawn`] returns `Ok`.
    pub started: &'a (dyn Fn(u32, &[Pid]) -> ControlFlow<()> + Sync),
}

/// An engine that hosts WebAssembly processes. `everwarp-process-cpu` and `everwarp-process-cuda` implement it; users
/// reach it through `everwarp::process`.
///
/// Each engine's crate has a function that starts it from `&[Module]` and [`HostConfig`](crate::HostConfig); the modules
/// get the ids 0, 1, 2 and so on. Dropping an engine kills the processes that still run.
pub trait ProcessEngine: Send + Sync + std::fmt::Debug {
    /// The kind of this engine.
    fn kind(&self) -> EngineKind;

    /// How many processes of a module can run at the same time: the CPU engine's threads, or the places that the module
    /// has on a GPU. It is 0 for an unknown module.
    fn width(&self, module: ModuleId) -> u32;

    /// Loads a module while processes run. Other processes can spawn the module by its name.
    ///
    /// # Errors
    /// The engine refuses the module, or has no room for its processes. Loaded modules and processes are not affected.
    fn load(&self, module: &Module, config: &LoadConfig) -> Result<LoadedModule, StartError>;

    /// Starts processes. Each of them runs as soon as a thread or a place is free.
    ///
    /// # Errors
    /// [`SpawnError`]. The processes that were passed to `started` before the error keep running.
    fn spawn(&self, request: &SpawnRequest<'_>) -> Result<(), SpawnError>;

    /// Waits until a process exits, and frees its pid.
    ///
    /// # Errors
    /// * [`HostError::Timeout`]: the process did not exit in time; it keeps running.
    /// * [`HostError::UnknownPid`]: the pid has been waited for, or never existed.
    /// * [`HostError::Lost`]: the engine has failed.
    fn wait(&self, pid: Pid, timeout: Option<Duration>) -> Result<Exit, HostError>;

    /// Waits until all these processes have exited, and passes each exit to `each` in the order of `pids`. It skips pids
    /// that have been waited for.
    ///
    /// # Errors
    /// [`HostError::Lost`]: the engine has failed.
    fn wait_each(&self, pids: &[Pid], each: &mut dyn FnMut(Pid, Exit)) -> Result<(), HostError>;

    /// Takes the exit of a process if it has exited, and frees its pid. Otherwise it stores `cx`'s waker and wakes it
    /// when the process exits or the engine fails. An engine keeps one waker for each process, the last one.
    fn poll_wait(&self, pid: Pid, cx: &mut Context<'_>) -> Poll<Result<Exit, HostError>>;

    /// Asks a process to end. Returns `false` if the pid is unknown. A process that has exited keeps its status.
    ///
    /// # Errors
    /// [`HostError::Lost`]: the engine has failed.
    fn kill(&self, pid: Pid) -> Result<bool, HostError>;

    /// Asks all processes to end, first those that have not started.
    ///
    /// # Errors
    /// [`HostError::Lost`]: the engine has failed.
    fn kill_all(&self) -> Result<(), HostError>;

    /// Counts the processes that have not been waited for, and describes up to `limit` of them.
    ///
    /// # Errors
    /// [`HostError::Lost`]: the engine has failed.
    fn list(&self, limit: usize) -> Result<Listing, HostError>;

    /// Stops all processes for a moment, as [`load`](Self::load) does, and returns how long they stood still; zero on an
    /// engine that never has to stop them. It is for measurements.
    ///
    /// # Errors
    /// [`HostError::Lost`]: the engine has failed.
    fn pause(&self) -> Result<Duration, HostError> {
        Ok(Duration::ZERO)
    }

    /// How far the compiler is with functions that come while processes run; none if there are no such functions.
    fn compiling(&self) -> Option<Compiling> {
        None
    }

    /// What processes did so far and how long it took, if that was asked for before the engine started; none where it is not measured,
    /// as in a service. The CPU engine's numbers are those of all hosts of this program.
    fn totals(&self) -> Option<ProcessTotals> {
        None
    }

    /// Holds back output to the host's streams, or lets it go on, where the processes run in a service: for a program
    /// that is about to be stopped. Elsewhere the processes stop with the program.
    ///
    /// # Errors
    /// [`HostError::Lost`]: the engine has failed.
    fn hold_output(&self, held: bool) -> Result<(), HostError> {
        let _ = held;
        Ok(())
    }

    /// Makes a channel for `capacity` messages of up to `bytes` bytes each. The host holds both ends and may pass them
    /// to processes ([`Grants::ends`]). A side is open as long as any end of it exists.
    ///
    /// # Errors
    /// The channel is too large, there are too many channels, or no module of this host imports `everwarp:gpu`.
    fn channel(&self, capacity: u32, bytes: u32) -> Result<(Sender, Receiver), ChannelError>;

    /// The errors of writes to the host's own standard output and standard error. All output of a process has been
    /// written, or its error is recorded here, before [`wait`](Self::wait) has returned for all processes of the engine.
    fn output_errors(&self) -> &OutputErrors;
}
