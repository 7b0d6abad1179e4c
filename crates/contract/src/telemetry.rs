//! The counters of each worker. Only the worker writes them; they are free-running and may be read at any time.

use core::fmt;

crate::dev_consts! {
    /// Writes the worker states as CUDA C++.
    pub fn write_consts;
    /// Not resident.
    pub const WORKER_AWAY = 0;
    /// Looking for work.
    pub const WORKER_IDLE = 1;
    /// Running the function in `function`.
    pub const WORKER_RUNNING = 2;
    /// Holding tasks that cannot run, because the pools have no room for the tasks that they may spawn.
    pub const WORKER_STARVED = 3;
    /// Polling the host's submission ring.
    pub const WORKER_INGRESS = 4;
}

crate::dev_struct! {
    /// One worker's counters.
    pub struct DevWorker: align 64, size 64 {
        /// Tasks run to completion, continuations included.
        pub executed: u64,
        /// Batches: how often the worker chose a function and ran up to 32 tasks of it.
        pub batches: u64,
        /// Tasks that another worker had made.
        pub received: u64,
        /// Tasks that the worker moved to public queues or handed to an idle worker.
        pub published: u64,
        /// How often the worker could not run because a pool was exhausted.
        pub starved: u64,
        /// Continuations fired.
        pub fired: u64,
        /// `WORKER_…`.
        pub state: u32,
        /// The function of the current or last batch.
        pub function: u32,
        /// Tasks in its local queue.
        pub queued: u32,
        /// Spelled-out hole.
        pub reserved: u32,
    }
}

/// The activity of a worker, from `DevWorker::state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerState {
    /// The worker is not resident.
    Away,
    /// The worker looks for work.
    Idle,
    /// The worker runs the function in `DevWorker::function`.
    Running,
    /// The worker holds tasks that it cannot run, because the pools have no room for the tasks that they may spawn.
    Starved,
    /// The worker polls the host's submission ring.
    Ingress,
    /// A number that this version does not know.
    Unknown(u32),
}

impl WorkerState {
    /// The state with a `WORKER_…` number.
    pub const fn from_code(code: u32) -> Self {
        match code {
            WORKER_AWAY => Self::Away,
            WORKER_IDLE => Self::Idle,
            WORKER_RUNNING => Self::Running,
            WORKER_STARVED => Self::Starved,
            WORKER_INGRESS => Self::Ingress,
            code => Self::Unknown(code),
        }
    }
    /// Whether the worker is in a task function, which `DevWorker::function` then names.
    pub const fn is_in_function(self) -> bool {
        matches!(self, Self::Running | Self::Starved)
    }
}

/// The words of a report; the name of the function follows them if the state
/// [has one](WorkerState::is_in_function).
impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away => f.write_str("away"),
            Self::Idle => f.write_str("idle"),
            Self::Running => f.write_str("running"),
            Self::Starved => f.write_str("starved in"),
            Self::Ingress => f.write_str("polling the submission ring"),
            Self::Unknown(code) => write!(f, "in the unknown state {code}"),
        }
    }
}

impl DevWorker {
    /// The worker's state as an enum.
    pub const fn activity(&self) -> WorkerState {
        WorkerState::from_code(self.state)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn every_worker_state_has_its_words() {
        let words = |code| WorkerState::from_code(code).to_string();
        assert_eq!(words(WORKER_AWAY), "away");
        assert_eq!(words(WORKER_IDLE), "idle");
        assert_eq!(words(WORKER_RUNNING), "running");
        assert_eq!(words(WORKER_STARVED), "starved in");
        assert_eq!(words(WORKER_INGRESS), "polling the submission ring");
        assert_eq!(words(9), "in the unknown state 9");
    }
}
