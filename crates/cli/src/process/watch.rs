//! Ends a run whose output is no longer read, as in `everwarp run ... | head -1`.
//!
//! A process that writes to a closed pipe gets an error, and many ignore it. So the first failed write of this kind ends
//! all processes, as SIGPIPE would end a program of the operating system.

use std::io::ErrorKind;
use std::time::Duration;

use everwarp::process::Host;
use signal_hook::consts::SIGPIPE;

use super::job::Job;
use crate::error::CliError;

/// A wait without a limit, in steps.
const STEP: Duration = Duration::from_secs(3600);

/// Runs `work` on the host, and ends the host's processes if their output is no longer read.
pub(super) fn while_output_is_read<T>(
    host: &Host,
    job: &Job,
    work: impl FnOnce() -> Result<T, CliError>,
) -> Result<T, CliError> {
    let errors = host.output_errors();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !errors.is_closed() {
                let Some(error) = errors.wait(STEP) else {
                    continue;
                };
                if error.kind == ErrorKind::BrokenPipe && job.note(SIGPIPE) {
                    if let Some(gate) = job.gate() {
                        gate.drain();
                    }
                    // If the engine has failed, the threads that wait report it.
                    drop(host.kill_all());
                }
                return;
            }
        });
        let done = work();
        errors.close();
        done
    })
}
