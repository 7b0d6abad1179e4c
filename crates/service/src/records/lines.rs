//! Lines of a file that the service has read.

use std::any::Any;

use everwarp_process::{Bytes, LineSource};

/// A set of lines in the service.
pub(crate) struct RemoteLines {
    /// Its number on the connection.
    pub(crate) set: u32,
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

impl LineSource for RemoteLines {
    fn count(&self) -> u64 {
        self.lines
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn line(&self, _: u32) -> Option<Bytes> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
