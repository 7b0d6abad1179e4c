//! What can go wrong with a ring kernel.

use std::fmt;
use std::time::Duration;

use everwarp_buffer::{BufferError, DType};
use everwarp_runtime::EngineKind;

/// Why a handler did not handle a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// A reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<S: Into<String>> From<S> for Failure {
    fn from(reason: S) -> Self {
        Self::new(reason)
    }
}

/// A ring kernel cannot be made or used like this.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The stream of messages has no room.
    #[error(
        "the ring kernel `{kernel}` has {capacity} messages waiting, as many as it takes: receive results first"
    )]
    Full {
        /// The kernel.
        kernel: String,
        /// The most messages that wait.
        capacity: usize,
    },
    /// There is no result yet.
    #[error("the ring kernel `{kernel}` has no result yet")]
    Empty {
        /// The kernel.
        kernel: String,
    },
    /// The time for a wait is over.
    #[error("the ring kernel `{kernel}` {what} after {after:?}{why}")]
    Timeout {
        /// The kernel.
        kernel: String,
        /// What has not happened.
        what: &'static str,
        /// How long was waited.
        after: Duration,
        /// A likely reason.
        why: &'static str,
    },
    /// It was terminated, and takes no messages; all its results were received.
    #[error("the ring kernel `{kernel}` was terminated: make and launch another one")]
    Ended {
        /// The kernel.
        kernel: String,
    },
    /// The handler failed for this message. Others are handled all the same.
    #[error("the ring kernel `{kernel}` failed for message {number}: {failure}")]
    Failed {
        /// The kernel.
        kernel: String,
        /// The number of the message, from 0.
        number: u64,
        /// The handler's reason.
        failure: Failure,
    },
    /// A message or a result of another size.
    #[error("a {what} of the ring kernel `{kernel}` is {wanted}, and {given} was given")]
    WrongMessage {
        /// The kernel.
        kernel: String,
        /// `message` or `result`.
        what: &'static str,
        /// Its type and shape.
        wanted: String,
        /// What was given.
        given: String,
    },
    /// A capacity that no stream has.
    #[error("a ring kernel holds 1 to {limit} messages, not {given}")]
    Capacity {
        /// The given capacity.
        given: usize,
        /// The largest.
        limit: usize,
    },
    /// The kernel has no handler for this kind of engine.
    #[error("the ring kernel `{kernel}` has no handler for an engine that is {engine}: {fix}")]
    NoHandler {
        /// The kernel.
        kernel: String,
        /// The engine.
        engine: EngineKind,
        /// What to do.
        fix: &'static str,
    },
    /// A buffer of another engine.
    #[error(
        "the ring kernel `{kernel}` runs on an engine that is {engine}, and the buffer belongs to one that is {buffer}: copy \
         it into a buffer of the kernel's engine"
    )]
    OtherEngine {
        /// The kernel.
        kernel: String,
        /// The kernel's engine.
        engine: EngineKind,
        /// The buffer's engine.
        buffer: EngineKind,
    },
    /// A buffer cannot be used.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] everwarp_runtime::Error),
}

/// A type and a number of elements, for messages.
pub(crate) fn sized(dtype: DType, elements: usize) -> String {
    format!("{elements} x {dtype}")
}
