//! A process as its host knows it, from the queue to its exit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp_hostcalls::ExitReason;
use everwarp_process::{Captured, ModuleId};
use everwarp_runtime::Buffer;

use crate::channel::HostEnd;
use crate::lease::PlaceLease;

/// The data that processes spawned together share. Few enough share one group that the threads which start and end them
/// do not contend for its count.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    pub(crate) memory: Arc<GroupMemory>,
    /// Their ends of channels, which are open as long as one of the processes waits to start.
    pub(crate) ends: Arc<[HostEnd]>,
    /// Their configuration in the service of host calls.
    pub(crate) served: Arc<everwarp_hostcalls::Config>,
}

/// The part of a group that is kept until all its processes have exited. Ends of channels must not be.
#[derive(Debug)]
pub(crate) struct GroupMemory {
    /// Arguments, environment and input, which the device reads.
    pub(crate) strings: Arc<Buffer<u8>>,
    /// The fuel that each process started with.
    pub(crate) fuel: i64,
}

/// A process that waits for a place: what it needs to start.
#[derive(Debug)]
pub(crate) struct QueuedProcess {
    pub(crate) group: Arc<ProcessGroup>,
    /// Its number in the group.
    pub(crate) number: u32,
    /// Where its own strings begin in the group's.
    pub(crate) strings_at: u64,
    pub(crate) flags: u32,
    pub(crate) instance: u32,
    pub(crate) module: ModuleId,
    /// When it began to wait, on the clock of measurements; 0 if its host does not measure.
    pub(crate) queued: u64,
}

/// The point that a process has reached in its life.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The slot has no process.
    Free,
    /// The process waits for a place.
    Queued(QueuedProcess),
    /// The process has a place.
    Running(RunningProcess),
    /// The process has exited and has not been waited for.
    Exited(ProcessEnd),
}

impl Phase {
    /// Whether the process has not exited.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self, Self::Queued(_) | Self::Running(_))
    }
}

/// A process that has a place.
#[derive(Debug)]
pub(crate) struct RunningProcess {
    pub(crate) module: ModuleId,
    pub(crate) lease: PlaceLease,
    pub(crate) begin: Instant,
    pub(crate) memory: Arc<GroupMemory>,
}

/// How a process ended, in few bytes. It becomes an [`Exit`](everwarp_process::Exit) when a caller waits for it.
#[derive(Debug)]
pub(crate) struct ProcessEnd {
    pub(crate) module: ModuleId,
    pub(crate) reason: ExitReason,
    pub(crate) fuel_used: u64,
    pub(crate) elapsed: Duration,
    /// Standard output and standard error, if either was captured.
    pub(crate) captured: Option<Box<[Option<Captured>; 2]>>,
}

impl ProcessEnd {
    /// The end of a process that was killed before it started.
    pub(crate) fn killed(module: ModuleId) -> Self {
        Self {
            module,
            reason: ExitReason::Killed,
            fuel_used: 0,
            elapsed: Duration::ZERO,
            captured: None,
        }
    }
}
