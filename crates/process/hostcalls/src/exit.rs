//! How a process ended.

use everwarp_contract::hostcall::{
    EXIT_KILLED, EXIT_NORMAL, EXIT_OUT_OF_FUEL, EXIT_OUT_OF_MEMORY, EXIT_TRAP,
};
use everwarp_process::Captured;

use crate::errno::{Errno, Result};

/// Why a process ended, as the device reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It returned from `_start` (code 0), or called `proc_exit` with this code.
    Normal(u32),
    /// It trapped. The module's compiler defines the numbers.
    Trap {
        /// The kind of trap.
        kind: u32,
        /// The function that trapped.
        function: u32,
        /// The position in the module.
        offset: u32,
    },
    /// It was killed.
    Killed,
    /// It used all its fuel.
    OutOfFuel,
    /// The memory that it starts with could not be had.
    OutOfMemory,
}

impl ExitReason {
    /// The reason that an `EXIT` gives. `trap` is what it says of a trap.
    pub(crate) fn of_exit(kind: u32, code: u32, trap: Self) -> Result<Self> {
        Ok(match kind {
            EXIT_NORMAL => Self::Normal(code),
            EXIT_TRAP => trap,
            EXIT_KILLED => Self::Killed,
            EXIT_OUT_OF_FUEL => Self::OutOfFuel,
            EXIT_OUT_OF_MEMORY => Self::OutOfMemory,
            _ => return Err(Errno::INVAL),
        })
    }
}

/// How a process ended and what it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// Why it ended.
    pub reason: ExitReason,
    /// The fuel that it had left, as the device reports it; 0 if the device did not report any.
    pub fuel_left: u64,
    /// Its standard output, if it was captured.
    pub stdout: Option<Captured>,
    /// Its standard error, if it was captured.
    pub stderr: Option<Captured>,
}
