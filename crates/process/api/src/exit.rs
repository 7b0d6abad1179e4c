//! The end of a process.

use std::fmt;
use std::time::Duration;

pub use everwarp_contract::TrapKind;

use crate::streams::Captured;

/// A trap: the process did something that WebAssembly does not define, and was ended there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// What the process did.
    pub kind: TrapKind,
    /// The function that trapped: its name if the module has names, otherwise `function` and its number.
    pub function: Option<String>,
    /// Details, such as the position in the module; empty if there are none.
    pub message: String,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trap: {}", self.kind)?;
        if let Some(function) = &self.function {
            // The name comes from the module and must not control the terminal.
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
    /// It was killed, or its host ended.
    Killed,
    /// It used all its fuel.
    OutOfFuel,
    /// The memory that it starts with was not available. A process that asks for more memory later gets -1 from
    /// `memory.grow` and continues.
    OutOfMemory {
        /// The bytes that it starts with.
        needs: u64,
    },
}

impl ExitStatus {
    /// Whether the process exited by itself with code 0.
    pub fn success(&self) -> bool {
        *self == Self::Exited(0)
    }

    /// The exit code, if the process exited by itself.
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Exited(code) => Some(*code),
            _ => None,
        }
    }

    /// A few words that are the same for all processes that ended in the same way, for counting.
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
                "out of memory: it starts with {needs} bytes, which are not available"
            ),
        }
    }
}

/// How a process ended, what it used and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Why it ended.
    pub status: ExitStatus,
    /// The fuel that it used; `None` where fuel is not counted: on the CPU engine without a limit.
    pub fuel_used: Option<u64>,
    /// The time from its start to its end, as the host saw both; zero if it never started.
    pub elapsed: Duration,
    /// Its standard output, if that was captured.
    pub stdout: Option<Captured>,
    /// Its standard error, if that was captured.
    pub stderr: Option<Captured>,
}

impl Exit {
    /// Whether the process exited by itself with code 0.
    pub fn success(&self) -> bool {
        self.status.success()
    }

    /// The captured bytes of standard output; empty if it was not captured.
    pub fn stdout_bytes(&self) -> &[u8] {
        bytes_of(&self.stdout)
    }

    /// The captured bytes of standard error; empty if it was not captured.
    pub fn stderr_bytes(&self) -> &[u8] {
        bytes_of(&self.stderr)
    }
}

fn bytes_of(captured: &Option<Captured>) -> &[u8] {
    captured.as_ref().map_or(&[], |captured| &captured.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_module_cannot_control_the_terminal() {
        let trap = Trap {
            kind: TrapKind::Unreachable,
            function: Some("\u{1b}[31mred\n".to_owned()),
            message: String::new(),
        };
        let text = ExitStatus::Trapped(trap).to_string();
        assert_eq!(text, r"trap: unreachable in `\u{1b}[31mred\n`");
    }

    #[test]
    fn out_of_memory_names_the_size() {
        let status = ExitStatus::OutOfMemory { needs: 131_072 };
        assert!(status.to_string().contains("131072 bytes"));
        assert_eq!(status.category(), "out of memory");
    }
}
