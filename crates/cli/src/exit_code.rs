//! The command's exit codes.
//!
//! 0 success; 1 the work failed or its result is wrong; 2 the command line is wrong; 128 and the signal's number if a
//! signal ended the run. A single process of a module that exits by itself passes its own code on.

use signal_hook::consts::{SIGINT, SIGPIPE};

/// The work failed, or its result is wrong.
pub(crate) const FAILED: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;

/// The exit code after a signal.
pub(crate) fn of_signal(signal: i32) -> u8 {
    128 + signal as u8
}

/// The exit code for the code of a process. The system has room for 8 bits, and a code of 256 must not look like
/// success.
pub(crate) fn of_process(code: u32) -> u8 {
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The name of a signal that the command handles.
pub(crate) fn signal_name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        SIGPIPE => "SIGPIPE",
        _ => "SIGTERM",
    }
}
