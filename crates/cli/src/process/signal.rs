//! Ctrl-C: the processes end, and the command reports how far they came.

use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::job::Job;
use crate::error::CliError;
use crate::exit_code;

/// Listens for signals on a thread of its own.
///
/// The first signal ends the processes, or the command if there are none yet. The second one ends the command in any
/// case, for processes that do not end.
pub(super) fn listen(job: &Arc<Job>) -> Result<(), CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CliError::Signals)?;
    let job = job.clone();
    let listen = move || {
        for signal in signals.forever() {
            handle(&job, signal);
        }
    };
    let builder = std::thread::Builder::new().name("signals".to_owned());
    builder.spawn(listen).map(drop).map_err(CliError::Signals)
}

fn handle(job: &Job, signal: i32) {
    let first = job.note(signal);
    let ended = job.with_host(|host| {
        if first {
            eprintln!(
                "everwarp: {}: the processes end",
                exit_code::signal_name(signal)
            );
            // If the engine has failed, the threads that wait report it.
            drop(host.kill_all());
        }
    });
    if !first || ended.is_none() {
        std::process::exit(exit_code::of_signal(signal).into());
    }
}
