//! Standard input. A separate thread reads the host's, so that a process that waits for input holds up no other process.

use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::{Bytes, Input};

use crate::errno::{Errno, Result};
use crate::limits::DATA_BYTES;

/// A stream of the host that processes read from.
///
/// It is read only when a process asks for bytes, and one buffer ahead at most. The thread that reads it starts with the
/// first such request. It stays until the stream has ended, or the service has and the read has returned: a read of the
/// host's cannot be cancelled.
pub struct HostInput {
    state: Mutex<InputState>,
    wanted: Condvar,
    /// They have a lock of their own, because they take locks under which `state` is locked.
    listeners: Mutex<Vec<Listener>>,
    terminal: bool,
}

type Listener = Box<dyn Fn() + Send + Sync>;

struct InputState {
    /// The reader, until the thread has it.
    reader: Option<Box<dyn Read + Send>>,
    /// Bytes that the thread has read and no process has taken.
    ready: Vec<u8>,
    /// Why nothing more will come: the end, or an error, until a process has got it.
    ended: Option<Option<Errno>>,
    /// Whether a process waits for more.
    wanted: bool,
    /// No process will read any more.
    closed: bool,
}

/// Whether a process can read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It can read this many bytes.
    Bytes(usize),
    /// It can read the end of the stream.
    End,
    /// It has to wait.
    NotYet,
}

impl fmt::Debug for HostInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostInput").finish_non_exhaustive()
    }
}

impl HostInput {
    /// A stream; `terminal` says what processes that read from it learn about it.
    pub fn new(reader: impl Read + Send + 'static, terminal: bool) -> Self {
        Self {
            state: Mutex::new(InputState {
                reader: Some(Box::new(reader)),
                ready: Vec::new(),
                ended: None,
                wanted: false,
                closed: false,
            }),
            wanted: Condvar::new(),
            listeners: Mutex::default(),
            terminal,
        }
    }

    /// Calls `listener` whenever there are more bytes to read, or the stream has ended.
    pub(crate) fn listen(&self, listener: Listener) {
        lock(&self.listeners).push(listener);
    }

    /// Ends the thread, once its read of the host's stream has returned.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.wanted.notify_one();
    }

    /// Whether a process can read now; if not, the thread reads more.
    fn readiness(self: &Arc<Self>, state: &mut InputState) -> Readiness {
        if !state.ready.is_empty() {
            return Readiness::Bytes(state.ready.len());
        }
        if state.ended.is_some() {
            return Readiness::End;
        }
        state.wanted = true;
        match state.reader.take() {
            None => self.wanted.notify_one(),
            Some(reader) => {
                let this = Arc::clone(self);
                let spawned = thread::Builder::new()
                    .name("everwarp-stdin".into())
                    .spawn(move || this.read_on(reader));
                if let Err(error) = spawned {
                    state.ended = Some(Some(error.into()));
                    return Readiness::End;
                }
            }
        }
        Readiness::NotYet
    }

    /// The thread.
    fn read_on(&self, mut reader: Box<dyn Read + Send>) {
        let mut buffer = vec![0; DATA_BYTES];
        loop {
            let mut state = lock(&self.state);
            while !state.wanted && !state.closed {
                state = ignore_poison(self.wanted.wait(state));
            }
            if state.closed {
                return;
            }
            drop(state);
            let read = loop {
                match reader.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            let mut state = lock(&self.state);
            state.wanted = false;
            match read {
                Ok(0) => state.ended = Some(None),
                Ok(bytes) => state.ready.extend_from_slice(&buffer[..bytes]),
                Err(error) => state.ended = Some(Some(error.into())),
            }
            let ended = state.ended.is_some();
            drop(state);
            lock(&self.listeners).iter().for_each(|listener| listener());
            if ended {
                return;
            }
        }
    }
}

/// Standard input of one process.
#[derive(Debug)]
pub(crate) enum ProcessInput {
    /// Bytes of its own, and how many of them have been read.
    Bytes(Bytes, Mutex<usize>),
    /// The host's.
    Host(Arc<HostInput>),
}

impl ProcessInput {
    pub(crate) fn new(input: Input, host: &Arc<HostInput>) -> Self {
        match input {
            Input::Empty => Self::Bytes(Bytes::new(), Mutex::new(0)),
            Input::Bytes(bytes) => Self::Bytes(bytes, Mutex::new(0)),
            Input::Inherit => Self::Host(Arc::clone(host)),
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Host(host) if host.terminal)
    }

    /// Whether the process can read now.
    pub(crate) fn readiness(&self) -> Readiness {
        match self {
            Self::Bytes(bytes, read) => match bytes.len() - *lock(read) {
                0 => Readiness::End,
                left => Readiness::Bytes(left),
            },
            Self::Host(host) => host.readiness(&mut lock(&host.state)),
        }
    }

    /// Reads up to `limit` bytes into `data`; `false` if the process has to wait.
    pub(crate) fn read(&self, limit: usize, data: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Bytes(bytes, read) => {
                let mut read = lock(read);
                let end = bytes.len().min(*read + limit);
                data.extend_from_slice(&bytes[*read..end]);
                *read = end;
                Ok(true)
            }
            Self::Host(host) => {
                let mut state = lock(&host.state);
                if limit == 0 {
                    return Ok(true);
                }
                match host.readiness(&mut state) {
                    Readiness::NotYet => Ok(false),
                    Readiness::Bytes(ready) => {
                        data.extend(state.ready.drain(..ready.min(limit)));
                        Ok(true)
                    }
                    Readiness::End => match state.ended.as_mut().and_then(Option::take) {
                        Some(errno) => Err(errno),
                        None => Ok(true),
                    },
                }
            }
        }
    }
}
