//! Lines that become the standard inputs of many processes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// Where lines are kept: in this program, or in a service.
pub trait LineSource: Send + Sync {
    /// How many lines there are.
    fn count(&self) -> u64;
    /// The bytes of all lines together.
    fn bytes(&self) -> u64;
    /// The line with this number, from 0, with its line feed; `None` if it is not in this program's memory.
    fn line(&self, number: u32) -> Option<Bytes>;
    /// Lets an engine find its own type.
    fn as_any(&self) -> &dyn Any;
}

/// The lines of a file, each with its line feed. [`StartWriter::stdin_line`](crate::StartWriter::stdin_line) gives one
/// to a process. Clones share them.
#[derive(Clone)]
pub struct InputLines(Arc<dyn LineSource>);

impl InputLines {
    /// Wraps an engine's lines.
    #[doc(hidden)]
    pub fn new(source: impl LineSource + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// How many lines there are.
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// The bytes of all lines together.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Where they are kept.
    #[doc(hidden)]
    pub fn source(&self) -> &dyn LineSource {
        &*self.0
    }
}

impl fmt::Debug for InputLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputLines({} lines)", self.count())
    }
}
