//! How a process ended.

use std::fmt;
use std::time::Duration;

use everwarp_compiler::TrapKind;
use everwarp_hostcalls::Captured;

/// Why a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It returned from `_start` (code 0) or asked to end with this code.
    Normal(u32),
    /// It did something that cannot be done.
    Trap {
        /// What that was.
        trap: TrapKind,
        /// The function that did it, by the name that the module gives it.
        function: Option<String>,
        /// A sentence: what, and where.
        sentence: String,
    },
    /// Somebody ended it.
    Killed,
    /// Its fuel is spent.
    OutOfFuel,
    /// The memory that it starts with was not to be had.
    OutOfMemory,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal(code) => write!(f, "exit code {code}"),
            Self::Trap { sentence, .. } => write!(f, "trap: {sentence}"),
            Self::Killed => f.write_str("killed"),
            Self::OutOfFuel => f.write_str("out of fuel"),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

/// How a process ended and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Why it ended.
    pub reason: Reason,
    /// Fuel that it used.
    pub fuel_used: u64,
    /// From its start on the GPU to its end, as the host saw both; zero if it never started.
    pub elapsed: Duration,
    /// Its standard output, if that was captured.
    pub stdout: Option<Captured>,
    /// Its standard error, if that was captured.
    pub stderr: Option<Captured>,
}
