//! Permission to have a file or directory open.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::limits::FIRST_PLACES;

/// Receives the places of files that have been closed.
pub(crate) trait Places: fmt::Debug + Send + Sync {
    /// This many more places are free, perhaps none. `closed` runs under the lock that guards the places.
    fn give_back(&self, closed: &dyn Fn() -> u64);
}

/// Permission to have one file or directory open, as long as it lives.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) places: Arc<dyn Places>,
    /// How many permits the process has.
    pub(crate) held: Arc<AtomicU32>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.places
            .give_back(&|| match self.held.fetch_sub(1, SeqCst) {
                1 => FIRST_PLACES,
                // The second place stays kept for the process.
                2 => 0,
                _ => 1,
            });
    }
}
