//! What is said of processes while they are there.

use std::fmt;

use crate::pid::Pid;

/// Where a process is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not begun: all threads, or all places, are taken.
    Waiting,
    /// It runs.
    Running,
    /// It waits for the answer of a host call.
    Calling,
    /// It has ended, for this reason, and has not been waited for.
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

/// One process of a [`Listing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The process.
    pub pid: Pid,
    /// The process that has spawned it; nothing if that was the host.
    pub parent: Option<Pid>,
    /// Where it is in its life.
    pub stage: Stage,
    /// The fuel that it had used at its last host call; on the CPU engine at its last call of any function, on a GPU
    /// also when it was last suspended. In between it is counted in a register, which nobody else can read. Nothing
    /// before it has begun.
    pub fuel_used: Option<u64>,
    /// Bytes of its linear memory and its tables; nothing if it has none yet, or none any more.
    pub memory_bytes: Option<u64>,
}

/// The processes of a host that have not been waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// As many as were asked for, by slot: first those that have begun and not ended, then those that wait, then
    /// those that have ended.
    pub rows: Vec<Status>,
    /// How many have not begun.
    pub waiting: usize,
    /// How many have begun and not ended.
    pub running: usize,
    /// How many have ended and have not been waited for.
    pub ended: usize,
}

impl Listing {
    /// How many there are in all.
    pub fn total(&self) -> usize {
        self.waiting + self.running + self.ended
    }
}
