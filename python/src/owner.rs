//! The process that has made an object.

use pyo3::prelude::*;

use crate::errors::ForkedError;

/// The process that has made an object. A child that was forked from it has none of the engine's threads.
#[derive(Clone, Copy)]
pub(crate) struct Owner(u32);

impl Owner {
    /// This process.
    pub(crate) fn here() -> Self {
        Self(std::process::id())
    }
    /// Whether this is the child of a fork.
    pub(crate) fn is_forked(self) -> bool {
        std::process::id() != self.0
    }
    /// The error of the child of a fork.
    pub(crate) fn check(self) -> PyResult<()> {
        match self.is_forked() {
            true => Err(forked()),
            false => Ok(()),
        }
    }
}

/// The error in the child of a fork.
fn forked() -> PyErr {
    ForkedError::new_err(
        "this engine belongs to the process that was forked: make an engine after the fork, or start workers \
         with multiprocessing.get_context(\"spawn\")",
    )
}
