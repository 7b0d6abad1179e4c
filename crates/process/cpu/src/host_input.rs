//! The standard input of a host, which its processes may share.
//!
//! A stream that the host was given is read by a thread of its own, and only when a process waits for bytes: what no
//! process wants is left in the stream. The thread starts with the first such process.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use everwarp_process::InputSource;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdinStream, stdin};
use wasmtime_wasi::p2::{InputStream, Pollable, StreamError, StreamResult};

use crate::lock::{lock, wait};

/// The most bytes that are read at a time.
const READ_MOST: usize = 64 << 10;

/// The standard input of a host; clones are the same stream.
#[derive(Clone)]
pub(crate) enum HostStdin {
    /// This program's own.
    OfProgram,
    /// A stream that the host was given.
    Given(Arc<GivenInput>),
}

impl HostStdin {
    pub(crate) fn given(source: &Arc<dyn InputSource>) -> Self {
        Self::Given(Arc::new(GivenInput {
            source: Arc::clone(source),
            state: Mutex::default(),
            wanted: Condvar::new(),
            changed: Notify::new(),
        }))
    }

    /// Ends the thread, once its read of the stream has returned.
    pub(crate) fn close(&self) {
        if let Self::Given(input) = self {
            lock(&input.state).closed = true;
            input.wanted.notify_one();
        }
    }
}

impl IsTerminal for HostStdin {
    fn is_terminal(&self) -> bool {
        match self {
            Self::OfProgram => IsTerminal::is_terminal(&stdin()),
            Self::Given(input) => input.source.is_terminal(),
        }
    }
}

impl StdinStream for HostStdin {
    fn p2_stream(&self) -> Box<dyn InputStream> {
        match self {
            Self::OfProgram => stdin().p2_stream(),
            Self::Given(input) => Box::new(GivenStream(Arc::clone(input))),
        }
    }

    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        match self {
            Self::OfProgram => stdin().async_stream(),
            // WASI preview 1 reads through `p2_stream` only.
            Self::Given(_) => Box::new(NoAsyncReads),
        }
    }
}

/// A stream that a host was given.
pub(crate) struct GivenInput {
    source: Arc<dyn InputSource>,
    state: Mutex<InputState>,
    /// A process waits, or the host has ended.
    wanted: Condvar,
    /// There is something to read.
    changed: Notify,
}

#[derive(Default)]
struct InputState {
    started: bool,
    /// A process waits for bytes.
    wanted: bool,
    /// Bytes that were read and that no process has taken.
    ready: Bytes,
    /// The stream has ended, by an error if there is one that no process has received.
    ended: bool,
    error: Option<io::Error>,
    /// No process will read any more.
    closed: bool,
}

impl GivenInput {
    /// Takes what there is; `None` if a process has to wait, and then the thread reads.
    fn take(self: &Arc<Self>, most: usize) -> Option<StreamResult<Bytes>> {
        let mut state = lock(&self.state);
        if !state.ready.is_empty() {
            let most = most.min(state.ready.len());
            return Some(Ok(state.ready.split_to(most)));
        }
        if let Some(error) = state.error.take() {
            return Some(Err(StreamError::LastOperationFailed(error.into())));
        }
        if state.ended {
            return Some(Err(StreamError::Closed));
        }
        state.wanted = true;
        self.wanted.notify_one();
        if !state.started {
            let input = Arc::clone(self);
            let builder = thread::Builder::new().name("stdin".to_owned());
            match builder.spawn(move || input.read_on()) {
                Ok(_) => state.started = true,
                Err(error) => return Some(Err(StreamError::LastOperationFailed(error.into()))),
            }
        }
        None
    }

    /// Whether a process need not wait.
    fn has_something(self: &Arc<Self>) -> bool {
        let state = lock(&self.state);
        !state.ready.is_empty() || state.ended
    }

    /// The thread.
    fn read_on(&self) {
        let mut buffer = vec![0; READ_MOST];
        loop {
            let mut state = lock(&self.state);
            while !state.wanted && !state.closed {
                state = wait(&self.wanted, state);
            }
            if state.closed {
                return;
            }
            drop(state);
            let read = loop {
                match self.source.read(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            let mut state = lock(&self.state);
            state.wanted = false;
            match read {
                Ok(0) => state.ended = true,
                Ok(count) => state.ready = Bytes::copy_from_slice(&buffer[..count]),
                Err(error) => (state.ended, state.error) = (true, Some(error)),
            }
            let ended = state.ended;
            drop(state);
            self.changed.notify_waiters();
            if ended {
                return;
            }
        }
    }
}

/// A process's view of a stream that its host was given.
struct GivenStream(Arc<GivenInput>);

#[async_trait]
impl Pollable for GivenStream {
    async fn ready(&mut self) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // From here on a change is not missed.
            changed.as_mut().enable();
            if self.0.has_something() || self.0.take(0).is_some() {
                return;
            }
            changed.await;
        }
    }
}

impl InputStream for GivenStream {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        self.0.take(size).unwrap_or_else(|| Ok(Bytes::new()))
    }
}

struct NoAsyncReads;

impl AsyncRead for NoAsyncReads {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(ErrorKind::Unsupported.into()))
    }
}
