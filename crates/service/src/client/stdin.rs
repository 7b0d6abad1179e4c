//! The client's standard input, which the client reads itself when a process in the service waits for it.
//!
//! So a terminal, job control and the flags of the descriptor work as they do without a service: a client in the
//! background that reads a terminal is stopped by the system, and the service is not.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use everwarp_engine::sync::lock;

use super::connection::Connection;
use crate::protocol::{SystemError, ToEngine};

/// The most bytes that are sent at a time.
const READ_MOST: usize = 64 << 10;

/// Reads standard input on a thread of its own, which the first request starts.
#[derive(Debug)]
pub(super) struct StdinForwarder {
    file: Mutex<Option<OwnedFd>>,
    wanted: Mutex<Option<Sender<usize>>>,
}

impl StdinForwarder {
    pub(super) fn new(file: OwnedFd) -> Self {
        Self {
            file: Mutex::new(Some(file)),
            wanted: Mutex::default(),
        }
    }

    /// Lets the thread read up to `most` bytes.
    pub(super) fn read(&self, connection: &Arc<Connection>, most: u32) {
        let most = (most as usize).clamp(1, READ_MOST);
        let mut wanted = lock(&self.wanted);
        if let Some(thread) = &*wanted {
            // A thread that has read the end needs no further request.
            let _ = thread.send(most);
            return;
        }
        let file = lock(&self.file).take();
        let Some(file) = file else { return };
        let (sender, requests) = channel();
        let target = Arc::downgrade(connection);
        let read = move || {
            for most in requests {
                if !forward(&file, most, &target) {
                    return;
                }
            }
        };
        let builder = std::thread::Builder::new().name("stdin".to_owned());
        match builder.spawn(read) {
            Ok(_) => {
                // The thread has just started, so it receives.
                let _ = sender.send(most);
                *wanted = Some(sender);
            }
            Err(error) => {
                let error = SystemError::from(&error);
                drop(connection.tell(&ToEngine::InputFailed { error }));
            }
        }
    }
}

/// Reads once and sends the bytes; `false` after the end.
fn forward(file: &OwnedFd, most: usize, target: &Weak<Connection>) -> bool {
    let mut buffer = vec![0; most];
    let message = loop {
        match rustix::io::read(file, &mut buffer) {
            Err(rustix::io::Errno::INTR) => {}
            // The descriptor is shared with programs that may have made it non-blocking.
            Err(rustix::io::Errno::AGAIN) => {
                let mut fds = [rustix::event::PollFd::new(
                    file,
                    rustix::event::PollFlags::IN,
                )];
                // A failure shows in the next read.
                let _ = rustix::event::poll(&mut fds, None);
            }
            Ok(0) => break ToEngine::InputEnd,
            Ok(count) => {
                break ToEngine::Input {
                    bytes: Bytes::copy_from_slice(&buffer[..count]),
                };
            }
            Err(error) => {
                let error = SystemError::from(&std::io::Error::from(error));
                break ToEngine::InputFailed { error };
            }
        }
    };
    let more = matches!(message, ToEngine::Input { .. });
    let sent = target.upgrade().map(|connection| connection.tell(&message));
    more && matches!(sent, Some(Ok(())))
}
