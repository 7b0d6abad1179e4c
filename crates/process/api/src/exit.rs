//! How a process ended.

use std::fmt;
use std::time::Duration;

pub use everwarp_contract::TrapKind;

use crate::streams::Captured;

/// A trap: the process did something that WebAssembly does not define, and was ended there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// What the process did.
    pub kind: TrapKind,
    /// The function that did it: its name if the module has one for it, otherwise `function` and its number.
    pub function: Option<String>,
    /// What else is known, such as the position in the module; empty if nothing is.
    pub message: String,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trap: {}", self.kind)?;
        if let Some(function) = &self.function {
            write!(f, " in `{}`", function.escape_debug())?;
        }
        match self.message.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.message),
        }
    }
}

/// Why a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitStatus {
    /// It returned from `_start` (code 0), or called `proc_exit` with this code.
    Exited(u32),
    /// It trapped.
    Trapped(Trap),
    /// It was killed, or its host was dropped.
    Killed,
    /// It used all its fuel.
    OutOfFuel,
    /// The memory that it starts with could not be had. A process that asks for more later gets -1 from `memory.grow`
    /// and goes on.
    OutOfMemory {
        /// The bytes that it needs at the start.
        needs: u64,
    },
}

impl ExitStatus {
    /// Whether the process ended by itself with code 0.
    pub fn success(&self) -> bool {
        *self == Self::Exited(0)
    }

    /// The exit code, if the process ended by itself.
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Exited(code) => Some(*code),
            _ => None,
        }
    }

    /// The kind of end in a few words, for counting: two processes that trapped alike have the same.
    pub fn category(&self) -> String {
        match self {
            Self::Trapped(trap) => format!("trap: {}", trap.kind),
            Self::OutOfMemory { .. } => "out of memory".to_owned(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Trapped(trap) => trap.fmt(f),
            Self::Killed => f.write_str("killed"),
            Self::OutOfFuel => f.write_str("out of fuel"),
            Self::OutOfMemory { needs } => write!(
                f,
                "out of memory: it starts with {needs} bytes, which could not be had"
            ),
        }
    }
}

/// How a process ended and what it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Why it ended.
    pub status: ExitStatus,
    /// The fuel that it used; `None` where fuel was not counted, because no limit was set.
    pub fuel_used: Option<u64>,
    /// From its start to its end, as the host saw both; zero if it never started.
    pub elapsed: Duration,
    /// Its standard output, if that was captured.
    pub stdout: Option<Captured>,
    /// Its standard error, if that was captured.
    pub stderr: Option<Captured>,
}

impl Exit {
    /// Whether the process ended by itself with code 0.
    pub fn success(&self) -> bool {
        self.status.success()
    }
}
