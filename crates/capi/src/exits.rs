//! `ew_exits`.

use everwarp::process::{Exit, ExitStatus};

use crate::objects::{borrow, free};
use crate::status::{Failure, Status, guard};

/// How processes ended, in the order of their numbers.
#[derive(Debug)]
pub struct Exits(pub(crate) Vec<Exit>);

/// Why a process ended, as in the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum Reason {
    /// By itself.
    Exited = 0,
    /// By a trap.
    Trapped = 1,
    /// It was killed.
    Killed = 2,
    /// Its fuel was used up.
    OutOfFuel = 3,
    /// Its memory was not available.
    OutOfMemory = 4,
    /// In a way that this interface does not know.
    Other = 5,
}

/// An exit, as in the header.
#[derive(Debug)]
#[repr(C)]
pub struct ExitView {
    reason: Reason,
    code: u32,
    output: *const u8,
    output_bytes: usize,
    errors: *const u8,
    error_bytes: usize,
    elapsed_s: f64,
}

/// How many exits there are.
///
/// # Safety
/// - `exits` is null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_exits_count(exits: *const Exits) -> usize {
    // SAFETY: the caller vouches for it.
    unsafe { exits.as_ref() }.map_or(0, |exits| exits.0.len())
}

/// Describes one exit.
///
/// # Safety
/// - `exits` is null or alive; `exit` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_exits_get(
    exits: *const Exits,
    number: usize,
    exit: *mut ExitView,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let exits = unsafe { borrow(exits, "exits") }?;
        if exit.is_null() {
            return Err(Failure::null("exit"));
        }
        let found = exits.0.get(number).ok_or_else(|| {
            let count = exits.0.len();
            Failure::argument(format!(
                "there are {count} exits, and none has the number {number}"
            ))
        })?;
        let (reason, code) = match found.status {
            ExitStatus::Exited(code) => (Reason::Exited, code),
            ExitStatus::Trapped(_) => (Reason::Trapped, 0),
            ExitStatus::Killed => (Reason::Killed, 0),
            ExitStatus::OutOfFuel => (Reason::OutOfFuel, 0),
            ExitStatus::OutOfMemory { .. } => (Reason::OutOfMemory, 0),
            _ => (Reason::Other, 0),
        };
        let (output, errors) = (found.stdout_bytes(), found.stderr_bytes());
        let view = ExitView {
            reason,
            code,
            output: output.as_ptr(),
            output_bytes: output.len(),
            errors: errors.as_ptr(),
            error_bytes: errors.len(),
            elapsed_s: found.elapsed.as_secs_f64(),
        };
        // SAFETY: the caller vouches for it.
        unsafe { exit.write(view) };
        Ok(())
    })
}

/// Frees exits.
///
/// # Safety
/// - `exits` is null or alive, and nothing uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_exits_free(exits: *mut Exits) {
    // SAFETY: the caller vouches for it.
    unsafe { free(exits) }
}
