//! Standard output: passed on as it is, passed on in whole lines, or kept.

use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everwarp_interface::{Captured, Lines, Output, tagged};

use crate::errno::{Errno, Result};
use crate::streams::Streams;

/// A lock whose holder cannot leave things half done, so that a panic elsewhere does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream of the host that processes share.
pub struct HostOutput {
    writer: Mutex<Box<dyn Write + Send>>,
    terminal: bool,
}

impl HostOutput {
    /// `terminal` is what processes that write to it directly are told.
    pub fn new(writer: impl Write + Send + 'static, terminal: bool) -> Self {
        Self {
            writer: Mutex::new(Box::new(writer)),
            terminal,
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut writer = lock(&self.writer);
        writer.write_all(bytes)?;
        writer.flush()
    }
}

/// One stream of one process.
pub(crate) struct Sink {
    host: Arc<HostOutput>,
    target: Target,
}

enum Target {
    Direct,
    Lines { tag: String, begun: Mutex<Lines> },
    Capture { kept: Mutex<Captured>, limit: usize },
}

impl Sink {
    /// Standard output of a process called `name`.
    pub(crate) fn stdout(output: Output, name: &str, streams: &Streams) -> Self {
        Self::new(output, name, &streams.stdout, &streams.stderr)
    }

    /// Standard error.
    pub(crate) fn stderr(output: Output, name: &str, streams: &Streams) -> Self {
        Self::new(output, name, &streams.stderr, &streams.stderr)
    }

    /// The stream of a process called `name`, given the host's streams of number 1 and 2.
    fn new(output: Output, name: &str, own: &Arc<HostOutput>, stderr: &Arc<HostOutput>) -> Self {
        let (host, target) = match output {
            Output::Inherit => (own, Target::Direct),
            Output::Lines { tag, to_stderr } => {
                let tag = if tag {
                    format!("[{name}] ")
                } else {
                    String::new()
                };
                let begun = Mutex::default();
                (
                    if to_stderr { stderr } else { own },
                    Target::Lines { tag, begun },
                )
            }
            Output::Capture { limit } => {
                let kept = Mutex::default();
                (own, Target::Capture { kept, limit })
            }
        };
        let host = Arc::clone(host);
        Self { host, target }
    }

    /// Whether it is a terminal to the process.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.target, Target::Direct) && self.host.terminal
    }

    /// Takes all of the bytes, or as many as there is room for and an error.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result {
        match &self.target {
            Target::Direct => Ok(self.host.write(bytes)?),
            Target::Lines { tag, begun } => {
                let mut begun = lock(begun);
                let Some(whole) = begun.add(bytes) else {
                    return Ok(());
                };
                // The lock is kept, or the lines of two writes could change places.
                Ok(self.host.write(&tagged(tag, &whole))?)
            }
            Target::Capture { kept, limit } => {
                let mut kept = lock(kept);
                let fits = bytes.len().min(*limit - kept.bytes.len());
                kept.bytes.extend_from_slice(&bytes[..fits]);
                if fits < bytes.len() {
                    kept.refused = true;
                    return Err(Errno::NOSPC);
                }
                Ok(())
            }
        }
    }

    /// Ends the stream: what was kept, or the line that was begun passed on.
    pub(crate) fn finish(&self) -> Option<Captured> {
        match &self.target {
            Target::Direct => None,
            Target::Lines { tag, begun } => {
                if let Some(line) = lock(begun).rest() {
                    // The process has ended: there is nobody left to tell of a closed pipe.
                    drop(self.host.write(&tagged(tag, &line)));
                }
                None
            }
            Target::Capture { kept, .. } => Some(take(&mut *lock(kept))),
        }
    }
}
