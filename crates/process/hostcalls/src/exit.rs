//! How a process ended.

use everwarp_contract::hostcall::{
    EXIT_KILLED, EXIT_NORMAL, EXIT_OUT_OF_FUEL, EXIT_OUT_OF_MEMORY, EXIT_TRAP,
};
use everwarp_process::Captured;

use crate::errno::{Errno, Result};
use crate::request::Request;

/// Why a process ended, by its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It returned from `_start` (code 0) or asked to end with this code.
    Normal(u32),
    /// It did something that cannot be done. The numbers mean what the module's compiler says they mean.
    Trap {
        /// What that was.
        kind: u32,
        /// The function that did it.
        function: u32,
        /// Where in the module.
        offset: u32,
    },
    /// Somebody ended it.
    Killed,
    /// Its fuel is spent.
    OutOfFuel,
    /// The memory that it starts with was not to be had.
    OutOfMemory,
}

impl Reason {
    /// What an `EXIT` says.
    pub(crate) fn of(request: &Request<'_>) -> Result<Self> {
        Ok(match request.word(0)? {
            EXIT_NORMAL => Self::Normal(request.word(1)?),
            EXIT_TRAP => Self::Trap {
                kind: request.word(2)?,
                function: request.word(3)?,
                offset: request.word(4)?,
            },
            EXIT_KILLED => Self::Killed,
            EXIT_OUT_OF_FUEL => Self::OutOfFuel,
            EXIT_OUT_OF_MEMORY => Self::OutOfMemory,
            _ => return Err(Errno::INVAL),
        })
    }
}

/// How a process ended and what it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Why it ended.
    pub reason: Reason,
    /// The fuel that was left, by its own account; 0 if it gave none.
    pub fuel_left: u64,
    /// Its standard output, if that was captured.
    pub stdout: Option<Captured>,
    /// Its standard error, if that was captured.
    pub stderr: Option<Captured>,
}
