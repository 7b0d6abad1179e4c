//! What can become of a message.

use crate::gpu;

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
