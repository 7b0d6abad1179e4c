//! Counts of requests and answers.

use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use everwarp_contract::hostcall::{self, NUMBERS};

use crate::request::Reply;

/// Counters that many threads add to.
pub(crate) struct Counters {
    pub(crate) calls: [AtomicU64; NUMBERS],
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

/// Counters at some moment. They are read one after another, while other threads may add to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Requests of known processes, by the number of the call.
    pub calls: [u64; NUMBERS],
    /// Requests that were answered with an error number.
    pub failed: u64,
    /// Requests that no process can have meant: an unknown process or call, or a payload larger than its slot or area.
    pub refused: u64,
    /// Requests that had to wait.
    pub waited: u64,
    /// Bytes of payloads.
    pub bytes_in: u64,
    /// Bytes of replies.
    pub bytes_out: u64,
    /// Entries of the submission queue that name no slot, or one that was being served.
    pub bad_entries: u64,
}

impl Counts {
    /// The calls that have been made, by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let made = self.calls.iter().zip(0..).filter(|(count, _)| **count > 0);
        made.filter_map(|(count, number)| Some((hostcall::name(number)?, *count)))
    }
}

impl Counters {
    /// Counts a call and its payload.
    pub(crate) fn called(&self, number: u32, payload: usize) {
        Self::add(&self.calls[number as usize], 1);
        Self::add(&self.bytes_in, payload);
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, reply: &Reply) {
        if reply.errno != 0 {
            Self::add(&self.failed, 1);
        }
        Self::add(&self.bytes_out, reply.data.len());
    }

    pub(crate) fn add(counter: &AtomicU64, more: usize) {
        // Most calls carry no bytes, and an addition to a word that other threads write is not free.
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
