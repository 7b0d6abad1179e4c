//! An output stream of one process: written directly, written in whole lines, or captured.

use std::mem::take;
use std::sync::{Arc, Mutex};

use everwarp_engine::sync::lock;
use everwarp_process::{Captured, HostBudgets, Lines, Output, tagged};

use crate::errno::{Errno, Result};
use crate::output::{HostOutput, LostLines};
use crate::streams::Streams;

/// One stream of one process.
pub(crate) struct Sink {
    host: Arc<HostOutput>,
    target: Target,
}

enum Target {
    Direct,
    Lines {
        tag: String,
        line: Mutex<Lines>,
        lost: Arc<LostLines>,
    },
    Capture {
        kept: Arc<Mutex<Captured>>,
        limit: usize,
        budgets: Option<Arc<HostBudgets>>,
        /// Whether this process's exit gets the bytes; otherwise its ancestor's does.
        own: bool,
    },
}

impl Sink {
    /// Standard output of a process called `name`.
    pub(crate) fn stdout(output: Output, name: &str, streams: &Streams) -> Self {
        Self::new(output, name, &streams.stdout, streams)
    }

    /// Standard error.
    pub(crate) fn stderr(output: Output, name: &str, streams: &Streams) -> Self {
        Self::new(output, name, &streams.stderr, streams)
    }

    /// The stream of a process called `name`, given the host's stream of its number.
    fn new(output: Output, name: &str, own: &Arc<HostOutput>, streams: &Streams) -> Self {
        let (host, target) = match output {
            Output::Inherit => (own, Target::Direct),
            Output::Lines { tag, to_stderr } => {
                let tag = if tag {
                    format!("[{name}] ")
                } else {
                    String::new()
                };
                let target = Target::Lines {
                    tag,
                    line: Mutex::default(),
                    lost: Arc::default(),
                };
                (if to_stderr { &streams.stderr } else { own }, target)
            }
            Output::Capture { limit } => {
                let kept = Arc::default();
                let target = Target::Capture {
                    kept,
                    limit,
                    budgets: streams.budgets().cloned(),
                    own: true,
                };
                (own, target)
            }
        };
        let host = Arc::clone(host);
        Self { host, target }
    }

    /// The same stream for a process called `name` that this process has spawned. Its lines are its own; its captured
    /// bytes are kept with those of this process.
    pub(crate) fn shared(&self, name: &str) -> Self {
        let target = match &self.target {
            Target::Direct => Target::Direct,
            Target::Lines { tag, .. } => Target::Lines {
                tag: match tag.is_empty() {
                    true => String::new(),
                    false => format!("[{name}] "),
                },
                line: Mutex::default(),
                lost: Arc::default(),
            },
            Target::Capture {
                kept,
                limit,
                budgets,
                ..
            } => Target::Capture {
                kept: Arc::clone(kept),
                limit: *limit,
                budgets: budgets.clone(),
                own: false,
            },
        };
        let host = Arc::clone(&self.host);
        Self { host, target }
    }

    /// Whether it is a terminal to the process.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.target, Target::Direct) && self.host.is_terminal()
    }

    /// Takes all of the bytes. Fails if the host's stream does, or if lines that the process has written before could not
    /// be written since; and a captured stream takes as many bytes as fit.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result {
        match &self.target {
            Target::Direct => Ok(self.host.write(bytes)?),
            Target::Lines { tag, line, lost } => {
                if let Some(errno) = lost.take() {
                    return Err(errno);
                }
                let mut line = lock(line);
                let Some(whole) = line.add(bytes) else {
                    return Ok(());
                };
                // The lock is kept, or the lines of two writes could change places.
                Ok(self.host.write_lines(&tagged(tag, &whole), lost)?)
            }
            Target::Capture {
                kept,
                limit,
                budgets,
                ..
            } => {
                let mut kept = lock(kept);
                let fits = bytes.len().min(*limit - kept.bytes.len());
                let fits = HostBudgets::take_output(budgets.as_deref(), fits);
                kept.bytes.extend_from_slice(&bytes[..fits]);
                if fits < bytes.len() {
                    kept.refused = true;
                    return Err(Errno::NOSPC);
                }
                Ok(())
            }
        }
    }

    /// Ends the stream: returns captured bytes, or writes the last line if it has no line feed. An error of that write is
    /// recorded, because the process has ended and makes no further call.
    pub(crate) fn finish(&self) -> Option<Captured> {
        match &self.target {
            Target::Direct => None,
            Target::Lines { tag, line, lost } => {
                if let Some(line) = lock(line).rest() {
                    drop(self.host.write_lines(&tagged(tag, &line), lost));
                }
                None
            }
            Target::Capture { kept, own, .. } => own.then(|| take(&mut *lock(kept))),
        }
    }
}
