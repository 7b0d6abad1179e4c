//! What has been asked and answered.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use everwarp_contract::hostcall::HOSTCALL_PATIENT;

/// The numbers of calls lie below this.
pub const CALLS: usize = HOSTCALL_PATIENT as usize;

/// Counters that many threads add to.
pub(crate) struct Counters {
    pub(crate) calls: [AtomicU64; CALLS],
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) bad_entries: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            calls: from_fn(|_| AtomicU64::new(0)),
            failed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            bad_entries: AtomicU64::new(0),
        }
    }
}

/// Counters at some moment. They are read one after the other, while others may add to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Requests of known processes, by the number of the call.
    pub calls: [u64; CALLS],
    /// Of all requests, those answered with an error number.
    pub failed: u64,
    /// Requests that no process can have meant: an unknown process or call, or a payload larger than its place.
    pub refused: u64,
    /// Requests that had to wait for time or input.
    pub waited: u64,
    /// Bytes of payloads.
    pub bytes_in: u64,
    /// Bytes of replies.
    pub bytes_out: u64,
    /// Entries of the submission queue that name no slot, or one that was being served.
    pub bad_entries: u64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, more: usize) {
        // Most calls carry no bytes, and an addition that others contend for is not free.
        if more != 0 {
            counter.fetch_add(more as u64, Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Counts {
        Counts {
            calls: from_fn(|call| self.calls[call].load(Relaxed)),
            failed: self.failed.load(Relaxed),
            refused: self.refused.load(Relaxed),
            waited: self.waited.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            bad_entries: self.bad_entries.load(Relaxed),
        }
    }
}
