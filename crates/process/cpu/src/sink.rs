//! The standard output or standard error of one process: captured, passed on in whole lines, or passed on byte for byte.

use std::io;
use std::mem::take;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use everwarp_process::{
    Captured, HostBudgets, LINE_LIMIT, Lines, Output, OutputErrors, Pid, tagged,
};
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::host_stream::HostStream;
use crate::lock::lock;

/// "No space left on device", which the process receives as `ENOSPC`.
const NO_SPACE: i32 = if cfg!(windows) { 112 } else { 28 };

/// One stream of one process; clones are the same stream.
#[derive(Clone)]
pub(crate) struct OutputSink {
    target: Arc<Mutex<Target>>,
    /// The errors of the process's host.
    errors: Arc<OutputErrors>,
}

enum Target {
    Capture {
        kept: Captured,
        limit: usize,
        budgets: Option<Arc<HostBudgets>>,
    },
    Lines {
        tag: String,
        stream: Arc<HostStream>,
        line: Lines,
    },
    Direct(Arc<HostStream>),
}

impl Target {
    fn lines(tag: bool, pid: Pid, stream: Arc<HostStream>) -> Self {
        let tag = match tag {
            true => format!("[{pid}] "),
            false => String::new(),
        };
        let line = Lines::default();
        Self::Lines { tag, stream, line }
    }
}

impl OutputSink {
    fn new(target: Target, errors: &Arc<OutputErrors>) -> Self {
        Self {
            target: Arc::new(Mutex::new(target)),
            errors: Arc::clone(errors),
        }
    }

    /// The standard output or standard error of a process, which leads to `output`.
    /// `streams` are those of its host.
    pub(crate) fn open(
        output: Output,
        pid: Pid,
        is_stderr: bool,
        streams: &[Arc<HostStream>; 2],
        errors: &Arc<OutputErrors>,
        budgets: Option<&Arc<HostBudgets>>,
    ) -> Self {
        let stream = |stderr: bool| Arc::clone(&streams[usize::from(stderr)]);
        let target = match output {
            Output::Inherit => Target::Direct(stream(is_stderr)),
            Output::Capture { limit } => Target::Capture {
                kept: Captured::default(),
                limit,
                budgets: budgets.cloned(),
            },
            Output::Lines { tag, to_stderr } => {
                Target::lines(tag, pid, stream(to_stderr || is_stderr))
            }
        };
        Self::new(target, errors)
    }

    /// The stream of a child. The child has lines of its own; captured bytes are captured with the parent's.
    pub(crate) fn of_child(&self, pid: Pid) -> Self {
        match &*lock(&self.target) {
            Target::Capture { .. } | Target::Direct(_) => self.clone(),
            Target::Lines { tag, stream, .. } => {
                let stream = Arc::clone(stream);
                Self::new(Target::lines(!tag.is_empty(), pid, stream), &self.errors)
            }
        }
    }

    /// Ends the stream: passes its last line on. Returns what was captured if the stream is the process's own
    /// (`owned`) and not its ancestor's.
    pub(crate) fn finish(&self, owned: bool) -> Option<Captured> {
        match &mut *lock(&self.target) {
            Target::Direct(_) => None,
            Target::Capture { kept, .. } => owned.then(|| take(kept)),
            Target::Lines { tag, stream, line } => {
                if let Some(line) = line.rest() {
                    // The process has ended, and the host has recorded the error.
                    drop(stream.write_lines(&tagged(tag, &line), &self.errors));
                }
                None
            }
        }
    }

    /// Takes all bytes, or as many as there is room for and an error.
    fn write_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        match &mut *lock(&self.target) {
            Target::Direct(stream) => stream.write(bytes, &self.errors),
            Target::Capture {
                kept,
                limit,
                budgets,
            } => {
                let fits = bytes.len().min(*limit - kept.bytes.len());
                let fits = HostBudgets::take_output(budgets.as_deref(), fits);
                kept.bytes.extend_from_slice(&bytes[..fits]);
                if fits < bytes.len() {
                    kept.refused = true;
                    return Err(io::Error::from_raw_os_error(NO_SPACE));
                }
                Ok(())
            }
            Target::Lines { tag, stream, line } => match line.add(bytes) {
                None => Ok(()),
                Some(whole) => stream.write_lines(&tagged(tag, &whole), &self.errors),
            },
        }
    }
}

fn failed(error: io::Error) -> StreamError {
    StreamError::LastOperationFailed(error.into())
}

#[async_trait]
impl Pollable for OutputSink {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for OutputSink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.write_bytes(&bytes).map_err(failed)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(LINE_LIMIT)
    }

    /// The provided method asks for room again after the last write, and would report a stream that has just become
    /// full as one that has refused bytes.
    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.write(bytes)
    }
}

impl AsyncWrite for OutputSink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.write_bytes(bytes).map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl IsTerminal for OutputSink {
    fn is_terminal(&self) -> bool {
        match &*lock(&self.target) {
            Target::Direct(stream) => stream.is_terminal(),
            Target::Capture { .. } | Target::Lines { .. } => false,
        }
    }
}

impl StdoutStream for OutputSink {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}
