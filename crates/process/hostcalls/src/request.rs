//! A request and its answer, outside the ring's memory.

use std::borrow::Cow;

use everwarp_contract::hostcall::{
    BadCall, EntryFields, HOSTCALL_PATIENT, HOSTCALL_WAKE, HostCall,
};
use everwarp_process::Pid;

use crate::errno::{Errno, Result};
use crate::limits::DATA_BYTES;

/// A request that has been copied out of the ring. What it says is an allegation.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The process that sends it.
    pub process: Pid,
    /// The call, if it is one.
    pub call: std::result::Result<HostCall, BadCall>,
    /// Whether no other process is held up until the call is answered.
    pub patient: bool,
    /// The bytes that it sends along.
    pub payload: Cow<'a, [u8]>,
    /// The most bytes that it may send along or be brought back: [`DATA_BYTES`] or fewer.
    pub room: usize,
}

/// The number of the call that an entry asks for, without its flags.
pub(crate) fn call_number(fields: &EntryFields) -> u32 {
    fields.call & !(HOSTCALL_WAKE | HOSTCALL_PATIENT)
}

impl Request<'static> {
    /// The request of an entry, without its payload.
    pub fn of_entry(fields: &EntryFields, room: usize) -> Self {
        Self {
            process: Pid::new(fields.process, fields.generation),
            call: HostCall::decode(call_number(fields), fields.args),
            patient: fields.call & HOSTCALL_PATIENT != 0,
            payload: Cow::Borrowed(&[]),
            room,
        }
    }
}

impl<'a> Request<'a> {
    /// The same request with a payload.
    pub fn with_payload(self, payload: &'a [u8]) -> Self {
        Self {
            payload: Cow::Borrowed(payload),
            ..self
        }
    }

    /// The same request with a payload of its own, so that it outlives the buffer.
    pub(crate) fn to_owned_payload(&self) -> Request<'static> {
        Request {
            process: self.process,
            call: self.call,
            patient: self.patient,
            payload: Cow::Owned(self.payload.to_vec()),
            room: self.room,
        }
    }

    /// The number of the call, if there is such a call.
    pub(crate) fn number(&self) -> Option<u32> {
        match self.call {
            Ok(call) => Some(call.number()),
            Err(BadCall::Argument { number }) => Some(number),
            Err(BadCall::Unknown { .. }) => None,
        }
    }

    /// How many bytes to bring back when the process asks for this many.
    pub(crate) fn length(&self, asked: u32) -> usize {
        (asked as usize).min(self.room).min(DATA_BYTES)
    }

    /// The payload as a path.
    pub(crate) fn path(&self) -> Result<&str> {
        std::str::from_utf8(&self.payload).map_err(|_| Errno::ILSEQ)
    }

    /// The payload as two paths; the first has this length.
    pub(crate) fn paths(&self, first: u32) -> Result<(&str, &str)> {
        let split = self.payload.split_at_checked(first as usize);
        let (first, second) = split.ok_or(Errno::INVAL)?;
        let utf8 = |bytes| std::str::from_utf8(bytes).map_err(|_| Errno::ILSEQ);
        Ok((utf8(first)?, utf8(second)?))
    }
}

/// An answer. Threads use one for many requests in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The WASI error number; 0 for success.
    pub errno: u32,
    /// The values that the call returns.
    pub values: [u64; 3],
    /// The bytes that the call brings back, up to [`DATA_BYTES`].
    pub data: Vec<u8>,
}

impl Reply {
    /// Makes it an empty answer.
    pub(crate) fn clear(&mut self) {
        self.errno = 0;
        self.values = [0; 3];
        self.data.clear();
    }

    /// Sets the error number. A failure brings nothing else back.
    pub(crate) fn set(&mut self, result: Result) {
        if let Err(errno) = result {
            self.clear();
            self.errno = errno.number();
        }
    }

    /// Makes the number of bytes in `data` the first value, as most calls do that bring bytes back.
    pub(crate) fn count(&mut self) {
        self.values[0] = self.data.len() as u64;
    }
}
