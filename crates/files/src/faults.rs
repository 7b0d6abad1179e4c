//! Faults on purpose: a system that moves as few bytes as it may, is as late as it may, and fails as it may.

use std::time::Duration;

use crate::error::FilesError;
use crate::setting::number_of;

/// Seeded faults of the system calls that serve requests. The numbers are chances in a thousand for each call.
///
/// Short transfers, interruptions, refusals for now and delays are hidden from tasks, so programs must give the same results
/// with any seed. Errors are not: tasks see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The seed.
    pub seed: u64,
    /// A read or write moves fewer bytes than it could, often one.
    pub short: u32,
    /// `EINTR`.
    pub interrupted: u32,
    /// `EAGAIN`. Of a socket: it is not ready although it was said to be.
    pub again: u32,
    /// The call takes some time first.
    pub delayed: u32,
    /// How long at most; it is half of that at least.
    pub delay: Duration,
    /// `EIO`.
    pub failed: u32,
    /// `ENOSPC` of writes and of sockets that are to be watched; `ENOBUFS` of sends; `EMFILE` or `ENOBUFS` of accepts.
    pub full: u32,
    /// A connection is reset, at a call that receives or sends. Its peer sees the reset, too.
    pub reset: u32,
}

/// The variable that turns faults on that tasks must not notice; its value is the seed.
pub(crate) const SETTING: &str = "EVERWARP_FILE_FAULTS";

impl Faults {
    /// Faults that tasks must not notice, about one in two calls.
    pub const fn hidden(seed: u64) -> Self {
        Self {
            seed,
            short: 300,
            interrupted: 100,
            again: 50,
            delayed: 50,
            delay: Duration::from_micros(500),
            failed: 0,
            full: 0,
            reset: 0,
        }
    }
    /// Those of the environment.
    ///
    /// # Errors
    /// The variable's value is not a number.
    pub(crate) fn of_environment() -> Result<Option<Self>, FilesError> {
        Ok(number_of(SETTING, "the seed")?.map(Self::hidden))
    }
}
