//! Waiting without the interpreter's lock, such that Ctrl-C ends the wait.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How long a wait lasts before signals are looked at.
const SLICE: Duration = Duration::from_millis(50);

/// After this time everwarp says on a terminal what takes its time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts something that a GPU's compiler may work on for long; then it says so on a terminal.
pub(crate) fn with_a_word<T>(compiles: bool, what: &'static str, start: impl FnOnce() -> T) -> T {
    let (started, waits) = channel::<()>();
    let says = compiles && std::io::stderr().is_terminal();
    let teller = says.then(|| {
        std::thread::spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = waits.recv_timeout(PATIENCE) {
                eprintln!(
                    "everwarp: compiling {what} for the GPU, which takes some seconds once; later starts find them in the \
                     cache"
                );
            }
        })
    });
    let result = start();
    drop(started);
    // It ends at once, whatever it did.
    let _ = teller.map(std::thread::JoinHandle::join);
    result
}

/// A time to wait, as Python gives it: `None` waits without a limit.
pub(crate) fn seconds(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let wrong = || PyValueError::new_err("timeout must be a number of seconds from 0 up, or None");
    match timeout {
        None => Ok(None),
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map(Some)
            .map_err(|_| wrong()),
    }
}

/// Calls `attempt` with short times until it returns a value, the time is over (`None`) or a signal's handler raises an
/// exception.
pub(crate) fn in_slices<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut attempt: impl FnMut(Duration) -> PyResult<Option<T>> + Send,
) -> PyResult<Option<T>> {
    let begin = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if let Some(value) = py.detach(|| attempt(slice))? {
            return Ok(Some(value));
        }
        py.check_signals()?;
        if timeout.is_some_and(|timeout| begin.elapsed() >= timeout) {
            return Ok(None);
        }
    }
}
