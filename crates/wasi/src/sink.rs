//! Standard output: passed on as it is, passed on in whole lines, or kept.

use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::Output;
use crate::errno::{Errno, Result};
use crate::exit::Captured;

/// Longer lines are passed on in several.
pub const LINE_LIMIT: usize = 64 << 10;

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
    Lines { tag: String, begun: Mutex<Vec<u8>> },
    Capture { kept: Mutex<Captured>, limit: usize },
}

impl Sink {
    /// The stream of a process called `name`, given the host's streams of number 1 and 2.
    pub(crate) fn new(
        output: Output,
        name: &str,
        own: &Arc<HostOutput>,
        stderr: &Arc<HostOutput>,
    ) -> Self {
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
                let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
                    Some(end) => {
                        let mut whole = take(&mut *begun);
                        whole.extend_from_slice(&bytes[..end]);
                        begun.extend_from_slice(&bytes[end + 1..]);
                        whole
                    }
                    None => {
                        begun.extend_from_slice(bytes);
                        if begun.len() < LINE_LIMIT {
                            return Ok(());
                        }
                        take(&mut *begun)
                    }
                };
                // The lock is kept, or the lines of two writes could change places.
                Ok(self.pass_on(tag, &whole)?)
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
                let line = take(&mut *lock(begun));
                if !line.is_empty() {
                    // The process has ended: there is nobody left to tell of a closed pipe.
                    drop(self.pass_on(tag, &line));
                }
                None
            }
            Target::Capture { kept, .. } => Some(take(&mut *lock(kept))),
        }
    }

    /// Writes lines in one piece, each behind the tag and before a line feed.
    fn pass_on(&self, tag: &str, lines: &[u8]) -> io::Result<()> {
        let mut text = Vec::with_capacity(lines.len() + tag.len() + 1);
        for line in lines.split(|byte| *byte == b'\n') {
            text.extend_from_slice(tag.as_bytes());
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        self.host.write(&text)
    }
}
