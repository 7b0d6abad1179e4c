//! Channels between the host and processes, as every engine offers them.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use crate::gpu;

/// One end of a channel, as an engine implements it. It is closed when it is dropped.
pub trait Endpoint: Debug + Send + Sync {
    /// Another end of the same side, which keeps the side open by itself.
    fn duplicate(&self) -> Box<dyn Endpoint>;
    /// Sends a message, and waits up to `timeout` while the channel is full; without a timeout for as long as it takes.
    ///
    /// # Errors
    /// [`ChannelError`].
    fn send(&self, message: &[u8], timeout: Option<Duration>) -> Result<(), ChannelError>;
    /// Receives a message, and waits up to `timeout` for one; without a timeout for as long as it takes.
    ///
    /// # Errors
    /// [`ChannelError`].
    fn receive(&self, timeout: Option<Duration>) -> Result<Vec<u8>, ChannelError>;
    /// The engine's own type, by which it recognizes its ends.
    fn as_any(&self) -> &dyn Any;
}

/// An end of a channel that a process is to have ([`Grants::ends`](crate::Grants::ends)); clones keep the side open too.
#[derive(Debug)]
pub struct ChannelEnd(Box<dyn Endpoint>);

impl ChannelEnd {
    /// An engine's end.
    pub fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self(endpoint)
    }

    /// What the engine made it from.
    pub fn endpoint(&self) -> &dyn Endpoint {
        &*self.0
    }
}

impl Clone for ChannelEnd {
    fn clone(&self) -> Self {
        Self(self.0.duplicate())
    }
}

/// The host's end of a channel to send to.
#[derive(Clone, Debug)]
pub struct Sender(ChannelEnd);

impl Sender {
    /// An engine's end.
    pub fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self(ChannelEnd(endpoint))
    }

    /// Sends a message, and waits while the channel is full.
    ///
    /// # Errors
    /// [`ChannelError`]: no receiver is left, or the message is too long.
    pub fn send(&self, message: &[u8]) -> Result<(), ChannelError> {
        self.0.0.send(message, None)
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// [`ChannelError`]: [`ChannelError::Again`] if there is no room.
    pub fn try_send(&self, message: &[u8]) -> Result<(), ChannelError> {
        self.0.0.send(message, Some(Duration::ZERO))
    }

    /// An end for a process.
    pub fn end(&self) -> ChannelEnd {
        self.0.clone()
    }
}

/// The host's end of a channel to receive from.
#[derive(Clone, Debug)]
pub struct Receiver(ChannelEnd);

impl Receiver {
    /// An engine's end.
    pub fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self(ChannelEnd(endpoint))
    }

    /// Receives a message, and waits for one.
    ///
    /// # Errors
    /// [`ChannelError`]: the channel is empty and no sender is left.
    pub fn receive(&self) -> Result<Vec<u8>, ChannelError> {
        self.0.0.receive(None)
    }

    /// Receives a message, and waits up to `timeout` for one.
    ///
    /// # Errors
    /// [`ChannelError`]: [`ChannelError::Again`] if none has come.
    pub fn receive_timeout(&self, timeout: Duration) -> Result<Vec<u8>, ChannelError> {
        self.0.0.receive(Some(timeout))
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// [`ChannelError`]: [`ChannelError::Again`] if there is none.
    pub fn try_receive(&self) -> Result<Vec<u8>, ChannelError> {
        self.0.0.receive(Some(Duration::ZERO))
    }

    /// An end for a process.
    pub fn end(&self) -> ChannelEnd {
        self.0.clone()
    }
}

/// Why nothing was sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelError {
    /// The other side has no ends left, and nothing is left to be received.
    Closed,
    /// It would have to wait.
    Again,
    /// The message is longer than the channel's may be, or no channel of this size is possible.
    Size,
    /// There is no room for another channel, or processes of this host have none: none of its modules imports
    /// `everwarp:gpu`.
    Limit,
    /// The engine has ended, for this reason.
    Lost(String),
}

impl ChannelError {
    /// The error of this number, if it is one of these.
    pub fn of(number: i32) -> Option<Self> {
        Some(match number {
            gpu::CLOSED => Self::Closed,
            gpu::AGAIN => Self::Again,
            gpu::SIZE => Self::Size,
            gpu::LIMIT => Self::Limit,
            _ => return None,
        })
    }
}

impl std::fmt::Display for ChannelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the other side of the channel is closed"),
            Self::Again => f.write_str("the channel is full, or empty"),
            Self::Size => write!(
                f,
                "a message has at most the bytes that its channel was made for, and at most {}; those of a channel take \
                 at most {} together",
                gpu::MESSAGE_BYTES,
                gpu::CHANNEL_BYTES
            ),
            Self::Limit => f.write_str("there is no room for another channel"),
            Self::Lost(reason) => write!(f, "the engine has ended: {reason}"),
        }
    }
}

impl std::error::Error for ChannelError {}
