//! Channels between the host and processes.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use crate::gpu;

/// One end of a channel, as an engine implements it. Dropping it closes the end.
pub trait Endpoint: Debug + Send + Sync {
    /// Makes another end of the same side. The side stays open until both are dropped.
    fn duplicate(&self) -> Box<dyn Endpoint>;
    /// Sends a message. While the channel is full it waits up to `timeout`, or without a limit if that is `None`.
    ///
    /// # Errors
    /// [`ChannelError`].
    fn send(&self, message: &[u8], timeout: Option<Duration>) -> Result<(), ChannelError>;
    /// Receives a message. While the channel is empty it waits up to `timeout`, or without a limit if that is `None`.
    ///
    /// # Errors
    /// [`ChannelError`].
    fn receive(&self, timeout: Option<Duration>) -> Result<Vec<u8>, ChannelError>;
    /// Lets an engine find its own type, and refuse the ends of another engine.
    fn as_any(&self) -> &dyn Any;
}

/// An end of a channel for a process ([`Grants::ends`](crate::Grants::ends)). Each clone keeps its side open too.
#[derive(Debug)]
pub struct ChannelEnd(Box<dyn Endpoint>);

impl ChannelEnd {
    /// Wraps an engine's end.
    pub fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self(endpoint)
    }

    /// The engine's end.
    #[doc(hidden)]
    pub fn endpoint(&self) -> &dyn Endpoint {
        &*self.0
    }
}

impl Clone for ChannelEnd {
    fn clone(&self) -> Self {
        Self(self.0.duplicate())
    }
}

/// The host's end of a channel for sending.
#[derive(Clone, Debug)]
pub struct Sender(ChannelEnd);

impl Sender {
    /// Wraps an engine's end.
    #[doc(hidden)]
    pub fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self(ChannelEnd(endpoint))
    }

    /// Sends a message. It waits while the channel is full.
    ///
    /// # Errors
    /// [`ChannelError::Closed`]: no receiver is left; [`ChannelError::Size`]: the message is too long.
    pub fn send(&self, message: &[u8]) -> Result<(), ChannelError> {
        self.0.0.send(message, None)
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// [`ChannelError::Again`]: there is no room; otherwise as [`send`](Self::send).
    pub fn try_send(&self, message: &[u8]) -> Result<(), ChannelError> {
        self.0.0.send(message, Some(Duration::ZERO))
    }

    /// An end of this side for a process.
    pub fn end(&self) -> ChannelEnd {
        self.0.clone()
    }
}

/// The host's end of a channel for receiving.
#[derive(Clone, Debug)]
pub struct Receiver(ChannelEnd);

impl Receiver {
    /// Wraps an engine's end.
    #[doc(hidden)]
    pub fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self(ChannelEnd(endpoint))
    }

    /// Receives a message. It waits while the channel is empty.
    ///
    /// # Errors
    /// [`ChannelError::Closed`]: the channel is empty and no sender is left.
    pub fn receive(&self) -> Result<Vec<u8>, ChannelError> {
        self.0.0.receive(None)
    }

    /// Receives a message. It waits up to `timeout` while the channel is empty.
    ///
    /// # Errors
    /// [`ChannelError::Again`]: no message came in time; otherwise as [`receive`](Self::receive).
    pub fn receive_timeout(&self, timeout: Duration) -> Result<Vec<u8>, ChannelError> {
        self.0.0.receive(Some(timeout))
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// [`ChannelError::Again`]: the channel is empty; otherwise as [`receive`](Self::receive).
    pub fn try_receive(&self) -> Result<Vec<u8>, ChannelError> {
        self.0.0.receive(Some(Duration::ZERO))
    }

    /// An end of this side for a process.
    pub fn end(&self) -> ChannelEnd {
        self.0.clone()
    }
}

/// Why no message was sent or received, or no channel was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelError {
    /// The other side has no ends left, and no message is left to be received.
    Closed,
    /// The call would have to wait.
    Again,
    /// The message is longer than the channel allows, or no channel of this size is possible.
    Size,
    /// There is no room for another channel, or this host has no channels because none of its modules imports
    /// `everwarp:gpu`.
    Limit,
    /// The engine has failed, for this reason.
    Lost(String),
}

impl ChannelError {
    /// The error with this number of [`gpu`], if it is one of a channel.
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
                "a message has up to as many bytes as its channel was made for, and up to {}; the messages of a channel \
                 take up to {} bytes together",
                gpu::MESSAGE_BYTES,
                gpu::CHANNEL_BYTES
            ),
            Self::Limit => f.write_str(
                "there is no room for another channel; a host has channels only if one of its modules imports \
                 `everwarp:gpu`",
            ),
            Self::Lost(reason) => write!(f, "the engine has failed: {reason}"),
        }
    }
}

impl std::error::Error for ChannelError {}
