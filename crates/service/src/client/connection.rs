//! Requests and their replies over one connection.

use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use everwarp_engine::sync::lock;
use everwarp_process::{HostError, Network, OutputErrors, OutputStream};

use super::stdin::StdinForwarder;
use super::waits::Waits;
use crate::protocol::{FromEngine, Reply, ToEngine, body};
use crate::wire::codec::decoded;
use crate::wire::socket::{FrameReceiver, FrameSender, shut_down};

/// A connection to an engine of the service.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Arc<OwnedFd>,
    sender: FrameSender,
    next: AtomicU32,
    /// Where the replies to each request go; `None` after the connection has ended.
    requests: Mutex<Option<HashMap<u32, Sender<Reply>>>>,
    /// Why the connection has ended.
    lost: OnceLock<String>,
    pub(super) waits: Waits,
    pub(super) errors: OutputErrors,
    stdin: StdinForwarder,
    /// Reports what processes are refused.
    network: Mutex<Option<Arc<Network>>>,
}

/// A request whose replies have not all come.
pub(super) struct Request<'c> {
    connection: &'c Connection,
    pub(super) number: u32,
    replies: Receiver<Reply>,
}

impl Request<'_> {
    /// The next reply.
    ///
    /// # Errors
    /// [`HostError::Lost`].
    pub(super) fn reply(&self) -> Result<Reply, HostError> {
        self.replies.recv().map_err(|_| self.connection.lost())
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if let Some(requests) = &mut *self.connection.requests() {
            requests.remove(&self.number);
        }
    }
}

impl Connection {
    /// Starts the thread that receives. Bytes that processes wait for are read from `stdin`.
    pub(super) fn start(socket: OwnedFd, stdin: OwnedFd) -> io::Result<Arc<Self>> {
        let socket = Arc::new(socket);
        let connection = Arc::new(Self {
            sender: FrameSender::new(Arc::clone(&socket)),
            socket: Arc::clone(&socket),
            next: AtomicU32::new(0),
            requests: Mutex::new(Some(HashMap::new())),
            lost: OnceLock::new(),
            waits: Waits::default(),
            errors: OutputErrors::new(),
            stdin: StdinForwarder::new(stdin),
            network: Mutex::default(),
        });
        let receiving = Arc::clone(&connection);
        std::thread::Builder::new()
            .name("service".to_owned())
            .spawn(move || receiving.receive(FrameReceiver::new(socket)))?;
        Ok(connection)
    }

    /// Has `network` report what processes are refused from now on, if it reports anything.
    pub(super) fn report_to(&self, network: &Arc<Network>) {
        if network.is_reporting() {
            *lock(&self.network) = Some(Arc::clone(network));
        }
    }

    fn requests(&self) -> MutexGuard<'_, Option<HashMap<u32, Sender<Reply>>>> {
        lock(&self.requests)
    }

    /// The error of every call after the connection has ended.
    pub(super) fn lost(&self) -> HostError {
        let reason = self.lost.get().cloned();
        HostError::Lost {
            reason: reason.unwrap_or_else(|| "the service has closed the connection".to_owned()),
        }
    }

    /// Sends a message that has no reply.
    ///
    /// # Errors
    /// [`HostError::Lost`].
    pub(super) fn tell(&self, message: &ToEngine) -> Result<(), HostError> {
        self.tell_with(message, &[])
    }

    fn tell_with(&self, message: &ToEngine, files: &[BorrowedFd<'_>]) -> Result<(), HostError> {
        self.sender
            .send(&body(message), files)
            .map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => HostError::Engine {
                    reason: error.to_string(),
                },
                _ => self.lost(),
            })
    }

    /// Sends a request, made with its number, and files with it.
    ///
    /// # Errors
    /// [`HostError::Lost`].
    pub(super) fn request(
        &self,
        make: impl FnOnce(u32) -> ToEngine,
        files: &[BorrowedFd<'_>],
    ) -> Result<Request<'_>, HostError> {
        // The number orders nothing else.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, replies) = channel();
        match &mut *self.requests() {
            Some(requests) => drop(requests.insert(number, sender)),
            None => return Err(self.lost()),
        }
        let request = Request {
            connection: self,
            number,
            replies,
        };
        self.tell_with(&make(number), files)?;
        Ok(request)
    }

    /// Sends a request and returns its first reply.
    ///
    /// # Errors
    /// [`HostError::Lost`].
    pub(super) fn ask(&self, make: impl FnOnce(u32) -> ToEngine) -> Result<Reply, HostError> {
        self.request(make, &[])?.reply()
    }

    /// The error of a reply that does not belong to its request. The connection ends: nothing else on it can be trusted.
    pub(super) fn garbled(&self, what: &str) -> HostError {
        drop(self.lost.set(format!("the service sent {what}")));
        self.close();
        self.lost()
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        shut_down(&self.socket);
    }

    /// The thread that receives. It waits for nothing but the service, and for this program's own reports.
    fn receive(self: Arc<Self>, mut receiver: FrameReceiver) {
        let reason = loop {
            let frame = match receiver.receive() {
                Ok(Some(frame)) => frame,
                Ok(None) => break "the service has closed the connection".to_owned(),
                // What it had not read when it died.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
                    ) =>
                {
                    break "the service has closed the connection".to_owned();
                }
                Err(error) => break format!("the connection to the service has failed: {error}"),
            };
            match decoded(&frame.body) {
                Ok(message) => self.dispatch(message),
                Err(error) => break format!("the service sent what is no message: {error}"),
            }
        };
        drop(self.lost.set(reason));
        self.close();
        // Dropping the senders wakes the threads that wait for replies.
        *self.requests() = None;
        self.waits.end(&self.lost());
    }

    fn dispatch(self: &Arc<Self>, message: FromEngine) {
        match message {
            FromEngine::Reply { request, reply } => {
                if let Reply::Exits { exits } = &reply {
                    debug_assert!(!exits.is_empty());
                }
                let requests = self.requests();
                let found = requests.as_ref().and_then(|all| all.get(&request));
                // No thread waits for the replies to a request that was given up.
                if let Some(replies) = found {
                    drop(replies.send(reply));
                }
            }
            FromEngine::Exited { pid, exit } => self.waits.exited(pid, exit),
            FromEngine::Captured { pid, stderr, bytes } => {
                self.waits.captured(pid, stderr, &bytes);
            }
            FromEngine::Refused { sentence } => {
                let network = lock(&self.network).clone();
                if let Some(network) = network {
                    network.pass_on(&sentence);
                }
            }
            FromEngine::ReadInput { most } => self.stdin.read(self, most),
            FromEngine::OutputFailed { stderr, error } => {
                let stream = match stderr {
                    true => OutputStream::Stderr,
                    false => OutputStream::Stdout,
                };
                self.errors.report(stream, &error.into());
            }
        }
    }
}
