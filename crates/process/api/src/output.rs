//! Errors of writes to the host's standard streams.
//!
//! A process whose write fails learns it from its own errno, and often ignores it. A line may also be written later, by
//! the thread that happens to write at that moment, when its process can no longer be told. So an engine records the
//! first error of each stream here. The host checks it when its processes have exited, and may stop earlier: nothing
//! that writes to a closed pipe needs to run on.

use std::fmt;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use everwarp_engine::sync::{ignore_poison, lock};

/// One of the host's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl fmt::Display for OutputStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
        })
    }
}

/// Output of processes that could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{stream}: output of processes was lost: {message}")]
pub struct OutputError {
    /// The stream that was written to.
    pub stream: OutputStream,
    /// The kind of the system's error; [`io::ErrorKind::BrokenPipe`] means that the reader has closed the pipe.
    pub kind: io::ErrorKind,
    /// The system's message.
    pub message: String,
}

#[derive(Debug, Default)]
struct Recorded {
    first: Option<OutputError>,
    closed: bool,
}

/// The first failed write to one of the host's output streams, if any write has failed.
#[derive(Debug, Default)]
pub struct OutputErrors {
    recorded: Mutex<Recorded>,
    changed: Condvar,
}

impl OutputErrors {
    /// No error yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        lock(&self.recorded)
    }

    /// Records a failed write. Only the first one is kept.
    pub fn report(&self, stream: OutputStream, error: &io::Error) {
        self.recorded().first.get_or_insert_with(|| OutputError {
            stream,
            kind: error.kind(),
            message: error.to_string(),
        });
        self.changed.notify_all();
    }

    /// The first error, if any write has failed.
    pub fn first(&self) -> Option<OutputError> {
        self.recorded().first.clone()
    }

    /// Waits up to `timeout` for a write to fail.
    pub fn wait(&self, timeout: Duration) -> Option<OutputError> {
        let waits = |recorded: &mut Recorded| recorded.first.is_none() && !recorded.closed;
        let waited = (self.changed).wait_timeout_while(self.recorded(), timeout, waits);
        let (recorded, _) = ignore_poison(waited);
        recorded.first.clone()
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.recorded().closed
    }

    /// Ends all present and future calls of [`wait`](Self::wait) at once.
    pub fn close(&self) {
        self.recorded().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_kept_and_wakes_a_waiter() {
        let errors = OutputErrors::new();
        assert_eq!(errors.wait(Duration::ZERO), None);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| errors.wait(Duration::from_secs(60)));
            errors.report(OutputStream::Stdout, &io::ErrorKind::StorageFull.into());
            errors.report(OutputStream::Stderr, &io::ErrorKind::BrokenPipe.into());
            let found = waiter.join().expect("the waiter does not panic");
            let found = found.expect("the error was reported");
            assert_eq!(found.stream, OutputStream::Stdout);
            assert_eq!(found.kind, io::ErrorKind::StorageFull);
        });
    }

    #[test]
    fn close_ends_a_wait_without_an_error() {
        let errors = OutputErrors::new();
        errors.close();
        assert_eq!(errors.wait(Duration::from_secs(60)), None);
    }
}
