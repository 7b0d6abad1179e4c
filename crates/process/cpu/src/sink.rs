//! The standard output or standard error of one process: captured, passed on in whole lines, or passed on byte for byte.

use std::io;
use std::mem::take;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use everwarp_process::{Captured, LINE_LIMIT, Lines, Output, Pid, tagged};
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::host_stream::{Delivery, HostStream, LostLines, STDERR, STDOUT};
use crate::lock::lock;
use crate::worker_load::WorkerLoad;

/// "No space left on device", which the process receives as `ENOSPC`.
const NO_SPACE: i32 = if cfg!(windows) { 112 } else { 28 };

/// One stream of one process; clones are the same stream.
#[derive(Clone)]
pub(crate) struct OutputSink(Arc<Mutex<Target>>);

enum Target {
    Capture {
        kept: Captured,
        limit: usize,
    },
    Lines {
        tag: String,
        stream: &'static HostStream,
        line: Lines,
        delivery: Arc<Delivery>,
    },
    Direct(&'static HostStream),
}

/// What is known of a stream when its process has ended.
#[derive(Default)]
pub(crate) struct FinishedOutput {
    /// What was captured, for the process that the stream belongs to.
    pub(crate) captured: Option<Captured>,
    /// Why lines were lost, if any were.
    pub(crate) lost: Option<LostLines>,
}

impl OutputSink {
    fn new(target: Target) -> Self {
        Self(Arc::new(Mutex::new(target)))
    }

    fn lines(tag: String, stream: &'static HostStream) -> Self {
        Self::new(Target::Lines {
            tag,
            stream,
            line: Lines::default(),
            delivery: Arc::default(),
        })
    }

    /// The stream of a process that leads to `output`.
    pub(crate) fn open(output: Output, pid: Pid, is_stderr: bool) -> Self {
        let stream = |stderr| if stderr { &STDERR } else { &STDOUT };
        match output {
            Output::Inherit => Self::new(Target::Direct(stream(is_stderr))),
            Output::Capture { limit } => {
                let kept = Captured::default();
                Self::new(Target::Capture { kept, limit })
            }
            Output::Lines { tag, to_stderr } => {
                let tag = match tag {
                    true => format!("[{pid}] "),
                    false => String::new(),
                };
                Self::lines(tag, stream(to_stderr || is_stderr))
            }
        }
    }

    /// The stream of a child. The child has lines of its own; captured bytes are captured with the parent's.
    pub(crate) fn of_child(&self, pid: Pid) -> Self {
        match &*lock(&self.0) {
            Target::Capture { .. } | Target::Direct(_) => self.clone(),
            Target::Lines { tag, stream, .. } => {
                let tag = match tag.is_empty() {
                    true => String::new(),
                    false => format!("[{pid}] "),
                };
                Self::lines(tag, stream)
            }
        }
    }

    /// Ends the stream: passes its last line on, and waits until all its lines were written. `owns` says whether the
    /// captured bytes are this process's own. While it waits, the worker thread may run another process.
    pub(crate) async fn finish(&self, owns: bool, load: &WorkerLoad) -> FinishedOutput {
        let (stream, delivery) = match &mut *lock(&self.0) {
            Target::Direct(_) => return FinishedOutput::default(),
            Target::Capture { kept, .. } => {
                return FinishedOutput {
                    captured: owns.then(|| take(kept)),
                    lost: None,
                };
            }
            Target::Lines {
                tag,
                stream,
                line,
                delivery,
            } => {
                if let Some(line) = line.rest() {
                    // The delivery keeps the error.
                    drop(stream.write_lines(&tagged(tag, &line), delivery));
                }
                (*stream, Arc::clone(delivery))
            }
        };
        let _blocked = HostStream::is_pending(&delivery).then(|| load.block());
        FinishedOutput {
            captured: None,
            lost: stream.delivered(&delivery).await,
        }
    }

    /// Takes all bytes, or as many as there is room for and an error.
    fn write_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        match &mut *lock(&self.0) {
            Target::Direct(stream) => stream.write(bytes),
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
                stream,
                line,
                delivery,
            } => match line.add(bytes) {
                None => Ok(()),
                Some(whole) => stream.write_lines(&tagged(tag, &whole), delivery),
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
        use std::io::IsTerminal as _;
        match &*lock(&self.0) {
            Target::Direct(stream) if std::ptr::eq(*stream, &STDOUT) => io::stdout().is_terminal(),
            Target::Direct(_) => io::stderr().is_terminal(),
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
