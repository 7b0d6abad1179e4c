//! The types of `socket.rs` where there are no sockets for processes yet: no value of them exists.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use crate::address::ListenAddress;

/// An open socket.
#[derive(Debug)]
pub struct Socket(Infallible);

impl Socket {
    /// Whether the process that it was given to is asked for it.
    pub fn is_asked_back(&self) -> bool {
        match self.0 {}
    }
}

/// What a caller waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// To read.
    pub read: bool,
    /// To write.
    pub write: bool,
}

/// What can be done with a socket without waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Reading.
    pub readable: bool,
    /// Writing.
    pub writable: bool,
    /// The peer sends no more.
    pub hung_up: bool,
}

/// Which directions of a connection end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing more is received.
    Read,
    /// Nothing more is sent.
    Write,
    /// Both.
    Both,
}

/// A listener that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{address}: sockets for processes need Linux")]
pub struct ListenError {
    address: String,
}

/// A socket that accepts connections.
#[derive(Clone, Debug)]
pub struct Listener(Infallible);

impl Listener {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn bind(address: &ListenAddress) -> Result<Self, ListenError> {
        let address = address.to_string();
        Err(ListenError { address })
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn from_std(_: TcpListener) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The address that it listens on.
    pub fn local_address(&self) -> SocketAddr {
        match self.0 {}
    }

    /// The socket.
    pub fn socket(&self) -> &Arc<Socket> {
        match self.0 {}
    }
}

/// A connected socket.
#[derive(Clone, Debug)]
pub struct Connection(Infallible);

/// What processes may ask for besides timers.
#[derive(Debug, Default)]
pub struct EventSources {
    /// The controlling terminal.
    pub terminal: bool,
    /// Signals.
    pub signals: bool,
    /// Events of an input device.
    pub recording: Option<Recording>,
}

/// Events of an input device.
#[derive(Debug)]
pub struct Recording(Infallible);

impl Recording {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &std::path::Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The streams of events of processes.
#[derive(Debug)]
pub struct Events(Infallible);

impl Events {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: EventSources) -> io::Result<Arc<Self>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A stream of events.
    ///
    /// # Errors
    /// None.
    pub fn open(&self) -> io::Result<Connection> {
        match self.0 {}
    }

    /// Passes a signal on.
    pub fn signal(&self, _: i32) -> bool {
        match self.0 {}
    }

    /// Gives the terminal its settings from before.
    pub fn suspend(&self) {
        match self.0 {}
    }

    /// Takes the terminal again.
    pub fn resume(&self) {
        match self.0 {}
    }
}
