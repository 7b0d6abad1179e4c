//! A request and its answer, away from the ring's memory.

use everwarp_contract::hostcall::{HOSTCALL_DATA_BYTES, HOSTCALL_PATIENT, HOSTCALL_WAKE};

use crate::errno::{Errno, Result};

/// The most that one request sends or brings back.
pub const DATA_BYTES: usize = HOSTCALL_DATA_BYTES as usize;

/// Processes side by side are mostly begun together and do the same at about the same time: so many.
pub(crate) const NEIGHBOURS: u32 = 32;

/// A call without what says how it is waited for.
pub(crate) const fn kind(call: u32) -> u32 {
    call & !(HOSTCALL_WAKE | HOSTCALL_PATIENT)
}

/// A request that has been copied out of the ring. What it says is an allegation.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The process's slot in the process table.
    pub process: u32,
    /// Which of the slot's processes.
    pub generation: u32,
    /// `HOSTCALL_…`, and perhaps [`HOSTCALL_WAKE`] and [`HOSTCALL_PATIENT`].
    pub call: u32,
    /// Arguments.
    pub args: [u64; 6],
    /// What it sends along.
    pub payload: &'a [u8],
    /// The most that it may send along or be brought back: [`DATA_BYTES`] or less.
    pub room: usize,
}

impl<'a> Request<'a> {
    /// The call without what says how it is waited for.
    pub const fn kind(&self) -> u32 {
        kind(self.call)
    }

    /// Whether who asks holds up nobody until it is answered.
    pub(crate) const fn patient(&self) -> bool {
        self.call & HOSTCALL_PATIENT != 0
    }

    /// An argument of 32 bits.
    pub(crate) fn word(&self, index: usize) -> Result<u32> {
        u32::try_from(self.args[index]).map_err(|_| Errno::INVAL)
    }

    /// How many bytes the guest asked for, and no more than an answer holds.
    pub(crate) fn length(&self, index: usize) -> Result<usize> {
        Ok((self.word(index)? as usize).min(self.room).min(DATA_BYTES))
    }

    /// The payload as a path.
    pub(crate) fn path(&self) -> Result<&'a str> {
        std::str::from_utf8(self.payload).map_err(|_| Errno::ILSEQ)
    }

    /// The payload as two paths, of which the first is as long as the argument says.
    pub(crate) fn paths(&self, index: usize) -> Result<(&'a str, &'a str)> {
        let first = self.word(index)? as usize;
        let (first, second) = self.payload.split_at_checked(first).ok_or(Errno::INVAL)?;
        let utf8 = |bytes| std::str::from_utf8(bytes).map_err(|_| Errno::ILSEQ);
        Ok((utf8(first)?, utf8(second)?))
    }
}

/// An answer; reused from one request to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// 0 for success.
    pub errno: u32,
    /// What the call returns.
    pub values: [u64; 3],
    /// What it brings back, [`DATA_BYTES`] at most.
    pub data: Vec<u8>,
}

impl Reply {
    /// Forgets what it held.
    pub(crate) fn clear(&mut self) {
        self.errno = 0;
        self.values = [0; 3];
        self.data.clear();
    }

    /// Says how it went; a failure brings nothing else back.
    pub(crate) fn set(&mut self, result: Result) {
        if let Err(errno) = result {
            self.clear();
            self.errno = errno.number();
        }
    }

    /// Says how many bytes are in `data`, which is what most calls return that have any.
    pub(crate) fn count(&mut self) {
        self.values[0] = self.data.len() as u64;
    }
}
