//! Why code could not be assembled or linked.

use std::time::Duration;

/// Code that could not be assembled or linked, and why.
#[derive(Debug, thiserror::Error)]
#[error("{part}: {cause}")]
pub struct AssembleError {
    /// The module or the image.
    pub part: String,
    /// The reason.
    #[source]
    pub cause: Cause,
}

/// Why a compiler's child process failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// It could not be started, or its files could not be written or read.
    #[error("{program} could not be run: {source}")]
    Run {
        /// The program.
        program: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It refused the code.
    #[error("{program} refuses the code (exit code {code}): {log}")]
    Refused {
        /// The program.
        program: &'static str,
        /// Its exit code.
        code: i32,
        /// The first lines that it wrote.
        log: String,
    },
    /// It needed more memory than it may use.
    #[error(
        "{program} needs more than {bytes} bytes of memory for one function, the limit: divide the module's largest \
         functions, or use --engine cpu"
    )]
    Memory {
        /// The program.
        program: &'static str,
        /// The limit.
        bytes: u64,
    },
    /// It needed more time than it may use.
    #[error(
        "{program} needs more than {limit:?} for one function, the limit: divide the module's largest functions, or use \
         --engine cpu"
    )]
    Time {
        /// The program.
        program: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// Another process or the system ended it, twice in a row.
    #[error(
        "{program} was ended by signal {signal}, twice: see whether the system ran out of memory, and run the command again"
    )]
    Killed {
        /// The program.
        program: &'static str,
        /// The signal's number.
        signal: i32,
    },
    /// Another piece of the same work failed first, or the caller does not want the result any more.
    #[error("{program} was ended, because its result is not wanted any more")]
    Stopped {
        /// The program.
        program: &'static str,
    },
    /// The program that links is not installed.
    #[error("{0}")]
    Missing(#[from] crate::ToolError),
}
