//! Standard input: a thread of its own reads the host's, so that a process that waits for it holds up nobody.

use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use everwarp_process::{Bytes, Input};

use crate::errno::{Errno, Result};
use crate::request::DATA_BYTES;
use crate::sink::lock;

/// A stream of the host that processes read from.
///
/// It is read only when a process wants some of it, one buffer ahead at most. The thread that reads it begins
/// with the first such wish, and stays until the stream has ended: a read of the host's cannot be called off.
pub struct HostInput {
    state: Mutex<State>,
    wanted: Condvar,
    /// Behind a lock of their own, because they take locks under which `state` is looked at.
    listeners: Mutex<Vec<Listener>>,
    terminal: bool,
}

type Listener = Box<dyn Fn() + Send + Sync>;

struct State {
    /// Until the thread has begun.
    reader: Option<Box<dyn Read + Send>>,
    /// What has been read and is nobody's yet.
    ready: Vec<u8>,
    /// Why nothing more will come: an error that has not been told to anybody, or the end.
    ended: Option<Option<Errno>>,
    /// Whether somebody waits for more.
    wanted: bool,
}

/// What there is to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// So many bytes.
    Bytes(usize),
    /// Nothing, for good.
    End,
    /// Nothing yet.
    NotYet,
}

impl fmt::Debug for HostInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostInput").finish_non_exhaustive()
    }
}

impl HostInput {
    /// `terminal` is what processes that read from it are told.
    pub fn new(reader: impl Read + Send + 'static, terminal: bool) -> Self {
        Self {
            state: Mutex::new(State {
                reader: Some(Box::new(reader)),
                ready: Vec::new(),
                ended: None,
                wanted: false,
            }),
            wanted: Condvar::new(),
            listeners: Mutex::default(),
            terminal,
        }
    }

    /// Has `listener` called whenever there is something new to read, or the end.
    pub(crate) fn listen(&self, listener: Listener) {
        lock(&self.listeners).push(listener);
    }

    /// What there is; if there is nothing yet, it is asked for.
    fn readiness(self: &Arc<Self>, state: &mut State) -> Readiness {
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
                let begun = thread::Builder::new()
                    .name("everwarp-stdin".into())
                    .spawn(move || this.read_on(reader));
                if let Err(error) = begun {
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
            while !state.wanted {
                state = self
                    .wanted
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
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
    /// Bytes of its own, of which the number have been read.
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

    /// What there is to read.
    pub(crate) fn readiness(&self) -> Readiness {
        match self {
            Self::Bytes(bytes, read) => match bytes.len() - *lock(read) {
                0 => Readiness::End,
                left => Readiness::Bytes(left),
            },
            Self::Host(host) => host.readiness(&mut lock(&host.state)),
        }
    }

    /// Reads up to `limit` bytes into `data`: whether that could be done yet.
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
