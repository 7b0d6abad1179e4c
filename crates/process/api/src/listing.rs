//! Descriptions of the processes of a host.

use std::fmt;

use crate::pid::Pid;

/// The point that a process has reached in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not started: all threads, or all places, are taken.
    Waiting,
    /// It runs.
    Running,
    /// It waits for the result of a host call.
    Calling,
    /// It has exited, for this reason, and has not been waited for.
    Ended(String),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting for a place"),
            Self::Running => f.write_str("running"),
            Self::Calling => f.write_str("in a host call"),
            Self::Ended(reason) => write!(f, "ended: {reason}"),
        }
    }
}

/// One process of a [`Listing`], as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSnapshot {
    /// The process.
    pub pid: Pid,
    /// The process that spawned it; `None` if the host did.
    pub parent: Option<Pid>,
    /// The point that it has reached in its life.
    pub stage: Stage,
    /// The fuel that it had used at its last host call, on a GPU also when it was last suspended, and on the CPU engine at
    /// its last million of units. In between, compiled code counts the fuel in a register, which no other thread can
    /// read. `None` before the process starts, and where fuel is not counted.
    pub fuel_used: Option<u64>,
    /// The bytes of its linear memory and its tables; `None` before it has any and after it has exited.
    pub memory_bytes: Option<u64>,
}

/// The processes of a host that have not been waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Up to as many processes as the caller asked for: first those that run, then those that have not started, then
    /// those that have exited; within each part by slot.
    pub rows: Vec<ProcessSnapshot>,
    /// How many processes have not started.
    pub waiting: usize,
    /// How many processes have started and not exited.
    pub running: usize,
    /// How many processes have exited and have not been waited for.
    pub ended: usize,
}

impl Listing {
    /// How many processes there are in all.
    pub fn total(&self) -> usize {
        self.waiting + self.running + self.ended
    }
}
