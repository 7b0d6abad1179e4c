//! Standard output: passed on as it is, passed on in whole lines, or kept.

use std::io::{self, Write};
use std::mem::take;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everwarp_process::{Captured, Lines, Output, tagged};

use crate::errno::{Errno, Result};
use crate::streams::Streams;

/// A lock whose holder cannot leave things half done, so that a panic elsewhere does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream of the host that processes share.
pub struct HostOutput {
    state: Mutex<Stream>,
    /// How many threads are in the middle of requests that they serve together: what is written in whole lines may
    /// wait until they are through, because each write is a call of the system.
    deferring: AtomicUsize,
    terminal: bool,
}

struct Stream {
    writer: Box<dyn Write + Send>,
    /// What has been written and not been passed on.
    pending: Vec<u8>,
    /// Why it could not be passed on later, to be told to who writes next.
    failed: Option<io::Error>,
}

/// Bytes that wait at most.
const PENDING_MOST: usize = 64 << 10;

impl Stream {
    fn pass_on(&mut self) -> io::Result<()> {
        let passed = self.writer.write_all(&self.pending);
        self.pending.clear();
        passed?;
        self.writer.flush()
    }
}

/// As long as it lives, whole lines may wait to be passed on.
pub(crate) struct Deferred<'a>(&'a HostOutput);

impl Drop for Deferred<'_> {
    fn drop(&mut self) {
        self.0.deferring.fetch_sub(1, SeqCst);
        let mut state = lock(&self.0.state);
        if !state.pending.is_empty()
            && let Err(e) = state.pass_on()
        {
            state.failed = Some(e);
        }
    }
}

impl HostOutput {
    /// `terminal` is what processes that write to it directly are told.
    pub fn new(writer: impl Write + Send + 'static, terminal: bool) -> Self {
        Self {
            state: Mutex::new(Stream {
                writer: Box::new(writer),
                pending: Vec::new(),
                failed: None,
            }),
            deferring: AtomicUsize::new(0),
            terminal,
        }
    }

    /// Lets whole lines wait until the answer is dropped.
    pub(crate) fn defer(&self) -> Deferred<'_> {
        self.deferring.fetch_add(1, SeqCst);
        Deferred(self)
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = lock(&self.state);
        if let Some(e) = state.failed.take() {
            return Err(e);
        }
        if state.pending.is_empty() {
            state.writer.write_all(bytes)?;
            return state.writer.flush();
        }
        state.pending.extend_from_slice(bytes);
        state.pass_on()
    }

    /// Writes whole lines, perhaps a little later.
    pub(crate) fn write_lines(&self, bytes: &[u8]) -> io::Result<()> {
        if self.deferring.load(SeqCst) == 0 {
            return self.write(bytes);
        }
        let mut state = lock(&self.state);
        if let Some(e) = state.failed.take() {
            return Err(e);
        }
        state.pending.extend_from_slice(bytes);
        // Who deferred may have looked before this was added.
        if state.pending.len() < PENDING_MOST && self.deferring.load(SeqCst) > 0 {
            return Ok(());
        }
        state.pass_on()
    }
}

/// One stream of one process.
pub(crate) struct Sink {
    host: Arc<HostOutput>,
    target: Target,
}

enum Target {
    Direct,
    Lines {
        tag: String,
        begun: Mutex<Lines>,
    },
    Capture {
        kept: Arc<Mutex<Captured>>,
        limit: usize,
        /// Whether what was kept is this process's to hand over, and not its ancestor's.
        own: bool,
    },
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
                let kept = Arc::default();
                let target = Target::Capture {
                    kept,
                    limit,
                    own: true,
                };
                (own, target)
            }
        };
        let host = Arc::clone(host);
        Self { host, target }
    }

    /// The same stream, for a process called `name` that this one has spawned: its lines are its own, and what is
    /// kept is kept with this one's.
    pub(crate) fn shared(&self, name: &str) -> Self {
        let target = match &self.target {
            Target::Direct => Target::Direct,
            Target::Lines { tag, .. } => Target::Lines {
                tag: match tag.is_empty() {
                    true => String::new(),
                    false => format!("[{name}] "),
                },
                begun: Mutex::default(),
            },
            Target::Capture { kept, limit, .. } => Target::Capture {
                kept: Arc::clone(kept),
                limit: *limit,
                own: false,
            },
        };
        let host = Arc::clone(&self.host);
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
                Ok(self.host.write_lines(&tagged(tag, &whole))?)
            }
            Target::Capture { kept, limit, .. } => {
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
                    drop(self.host.write_lines(&tagged(tag, &line)));
                }
                None
            }
            Target::Capture { kept, own, .. } => own.then(|| take(&mut *lock(kept))),
        }
    }
}
