//! Ctrl-C: the processes end, and the command says what became of them.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::job::Job;
use crate::error::CliError;

/// Listens for signals on a thread of its own.
///
/// The first one ends the processes. Until there are any it ends the command, as does the second one, for processes
/// that do not end; what the command has left behind then is for others to find out.
pub(super) fn listen(job: &Arc<Job>) -> Result<(), CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CliError::Signals)?;
    let job = job.clone();
    let listen = move || {
        for signal in signals.forever() {
            hear(&job, signal);
        }
    };
    let builder = std::thread::Builder::new().name("signals".to_owned());
    builder.spawn(listen).map(drop).map_err(CliError::Signals)
}

fn hear(job: &Job, signal: i32) {
    let first = job.note(signal);
    let ended = job.with(|processes| {
        if first {
            eprintln!("everwarp: {}: the processes end", name(signal));
            processes.kill_all();
        }
    });
    if !first || ended.is_none() {
        std::process::exit(code(signal).into());
    }
}

/// A signal's name.
pub(crate) fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "SIGINT",
        _ => "SIGTERM",
    }
}

/// The exit code of a command that a signal ended.
pub(crate) fn code(signal: i32) -> u8 {
    128 + signal as u8
}
