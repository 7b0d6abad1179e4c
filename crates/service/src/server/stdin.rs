//! The standard input of a client.
//!
//! A regular file is read here: a read of it neither waits nor depends on who reads. The null device has nothing to read.
//! Everything else is read by the client when a process asks, because only the client takes part in its terminal's job control, and because a read that
//! waits ends when the client does.

use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytes::{Buf, Bytes};
use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::InputSource;

use crate::protocol::{FromEngine, SystemError, body};
use crate::wire::socket::FrameSender;

#[derive(Default)]
struct InputState {
    ready: Bytes,
    ended: bool,
    error: Option<SystemError>,
    /// The client was asked and has not sent anything since.
    asked: bool,
}

/// The standard input of a client.
pub(crate) struct ClientInput {
    file: OwnedFd,
    terminal: bool,
    regular: bool,
    sender: Arc<FrameSender>,
    state: Mutex<InputState>,
    changed: Condvar,
}

impl ClientInput {
    pub(crate) fn new(file: OwnedFd, sender: &Arc<FrameSender>) -> Self {
        let found = rustix::fs::fstat(&file);
        let kind = found.map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
        let null = rustix::fs::makedev(1, 3);
        let is_null = kind.is_ok_and(|kind| kind.is_char_device())
            && found.is_ok_and(|found| found.st_rdev == null);
        let state = InputState {
            ended: is_null,
            ..InputState::default()
        };
        Self {
            terminal: file.is_terminal(),
            regular: kind.is_ok_and(|kind| kind.is_file()),
            file,
            sender: Arc::clone(sender),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, InputState> {
        lock(&self.state)
    }

    fn change(&self, change: impl FnOnce(&mut InputState)) {
        let mut state = self.state();
        state.asked = false;
        change(&mut state);
        drop(state);
        self.changed.notify_all();
    }

    /// Bytes that the client has read. Bytes that no process has asked for are refused.
    pub(crate) fn add(&self, bytes: Bytes) -> bool {
        if !self.state().asked {
            return false;
        }
        self.change(|state| state.ready = bytes);
        true
    }

    /// The client's input has ended, or the client has gone.
    pub(crate) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    pub(crate) fn fail(&self, error: SystemError) {
        self.change(|state| (state.ended, state.error) = (true, Some(error)));
    }
}

impl InputSource for ClientInput {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.regular {
            return Ok(rustix::io::read(&self.file, buffer)?);
        }
        let mut state = self.state();
        loop {
            if !state.ready.is_empty() {
                let count = buffer.len().min(state.ready.len());
                state.ready.copy_to_slice(&mut buffer[..count]);
                return Ok(count);
            }
            if let Some(error) = state.error.take() {
                return Err(error.into());
            }
            if state.ended || buffer.is_empty() {
                return Ok(0);
            }
            if !state.asked {
                state.asked = true;
                drop(state);
                let most = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
                let asked = body(&FromEngine::ReadInput { most });
                self.sender.send(&asked, &[])?;
                state = self.state();
                continue;
            }
            state = ignore_poison(self.changed.wait(state));
        }
    }

    fn is_terminal(&self) -> bool {
        self.terminal
    }
}
