//! Why something was refused.

use core::fmt;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The other side of the channel has no ends left, and nothing is left to be received.
    Closed,
    /// It would have to wait: the channel is full, or empty.
    Again,
    /// This end is not open, or one of the other direction.
    Handle,
    /// A message, a channel or arguments of a size that is not possible.
    Size,
    /// A quota is used up: handles, channels, children, places for them.
    Limit,
    /// No module has this name.
    Name,
    /// This child has been waited for.
    Process,
    /// A number that this crate does not know.
    Other(i32),
}

impl Error {
    fn of(number: i32) -> Self {
        match number {
            -1 => Self::Closed,
            -2 => Self::Again,
            -3 => Self::Handle,
            -5 => Self::Size,
            -6 => Self::Limit,
            -7 => Self::Name,
            -8 => Self::Process,
            other => Self::Other(other),
        }
    }
}

/// What an import answers: a number that is not negative, or an error.
pub(crate) fn answer(number: i32) -> Result<u32, Error> {
    u32::try_from(number).map_err(|_| Error::of(number))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the other side of the channel is closed",
            Self::Again => "the channel is full, or empty",
            Self::Handle => "no such end of a channel",
            Self::Size => "too long",
            Self::Limit => "a quota is used up",
            Self::Name => "no module has this name",
            Self::Process => "no such child",
            Self::Other(number) => return write!(f, "error {number}"),
        })
    }
}

impl core::error::Error for Error {}
