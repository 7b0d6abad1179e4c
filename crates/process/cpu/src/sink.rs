//! Standard output that is kept, or that is passed on in whole lines.

use std::io;
use std::mem::take;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use everwarp_process::{Captured, LINE_LIMIT, Lines, Pid, tagged};
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::outlet::{STDERR, STDOUT};

/// "No space left on device", which the guest gets as `ENOSPC`.
const NO_SPACE: i32 = if cfg!(windows) { 112 } else { 28 };

/// One stream of one process; clones are the same stream.
#[derive(Clone)]
pub(crate) struct Sink(Arc<Mutex<Target>>);

enum Target {
    Capture {
        kept: Captured,
        limit: usize,
    },
    Lines {
        tag: String,
        to_stderr: bool,
        line: Lines,
    },
}

impl Sink {
    pub(crate) fn capture(limit: usize) -> Self {
        let kept = Captured::default();
        Self(Arc::new(Mutex::new(Target::Capture { kept, limit })))
    }

    pub(crate) fn lines(tag: String, to_stderr: bool) -> Self {
        let line = Lines::default();
        Self(Arc::new(Mutex::new(Target::Lines {
            tag,
            to_stderr,
            line,
        })))
    }

    /// The stream of a process that this one's has spawned: its lines are its own, what is kept is kept with this
    /// one's.
    pub(crate) fn shared(&self, pid: Pid) -> Self {
        match &*self.target() {
            Target::Capture { .. } => self.clone(),
            Target::Lines { tag, to_stderr, .. } => {
                let tag = match tag.is_empty() {
                    true => String::new(),
                    false => format!("[{pid}] "),
                };
                Self::lines(tag, *to_stderr)
            }
        }
    }

    fn target(&self) -> MutexGuard<'_, Target> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the stream: what was kept, if that is the caller's `own`, or the last line passed on.
    pub(crate) fn finish(&self, own: bool) -> Option<Captured> {
        match &mut *self.target() {
            Target::Capture { kept, .. } => own.then(|| take(kept)),
            Target::Lines {
                tag,
                to_stderr,
                line,
            } => {
                if let Some(line) = line.rest() {
                    // The process has ended: there is nobody left to tell of a closed pipe.
                    drop(pass_on(tag, *to_stderr, &line));
                }
                None
            }
        }
    }

    /// Takes all of the bytes, or as many as there is room for and an error.
    fn take_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        match &mut *self.target() {
            Target::Capture { kept, limit } => {
                let fits = bytes.len().min(*limit - kept.bytes.len());
                kept.bytes.extend_from_slice(&bytes[..fits]);
                if fits < bytes.len() {
                    kept.refused = true;
                    return Err(io::Error::from_raw_os_error(NO_SPACE));
                }
                Ok(())
            }
            Target::Lines {
                tag,
                to_stderr,
                line,
            } => match line.add(bytes) {
                None => Ok(()),
                Some(whole) => pass_on(tag, *to_stderr, &whole),
            },
        }
    }
}

/// Writes lines in one piece, each behind the tag and before a line feed.
fn pass_on(tag: &str, to_stderr: bool, lines: &[u8]) -> io::Result<()> {
    let outlet = if to_stderr { &STDERR } else { &STDOUT };
    outlet.add(&tagged(tag, lines))
}

fn failed(error: io::Error) -> StreamError {
    StreamError::LastOperationFailed(error.into())
}

#[async_trait]
impl Pollable for Sink {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Sink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take_bytes(&bytes).map_err(failed)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(LINE_LIMIT)
    }

    /// The provided one asks for room again after the last write, and would report a stream that has just
    /// become full as one that has refused something.
    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.write(bytes)
    }
}

impl AsyncWrite for Sink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.take_bytes(bytes).map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl IsTerminal for Sink {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Sink {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}
