//! The records of a stream of events, in both directions; `guests/EVENTS.md` says what each of them means.

use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of an event, and of a request.
pub const RECORD: usize = 32;

/// What the host reports.
pub(super) mod event {
    pub(crate) const TIMER: u16 = 1;
    pub(crate) const KEY: u16 = 2;
    pub(crate) const MOUSE: u16 = 3;
    pub(crate) const RESIZE: u16 = 4;
    pub(crate) const SIGNAL: u16 = 5;
    pub(crate) const INPUT: u16 = 6;
    pub(crate) const END: u16 = 7;
    pub(crate) const WATCHING: u16 = 8;
    pub(crate) const CANCELLED: u16 = 9;
    pub(crate) const REFUSED: u16 = 10;
}

/// What a process asks for.
pub(super) mod request {
    pub(crate) const SET_TIMER: u16 = 1;
    pub(crate) const CANCEL_TIMER: u16 = 2;
    pub(crate) const WATCH: u16 = 3;
}

/// Sources that a process watches, as bits.
pub(super) mod source {
    pub(crate) const KEYS: u32 = 1;
    pub(crate) const MOUSE: u32 = 2;
    pub(crate) const RESIZE: u32 = 4;
    pub(crate) const INPUT: u32 = 8;
    pub(crate) const TERMINAL: u32 = KEYS | MOUSE | RESIZE;
    pub(crate) const ALL: u32 = TERMINAL | INPUT;
}

/// Error numbers of WASI.
pub(super) mod errno {
    pub(crate) const INVAL: u32 = 28;
    pub(crate) const IO: u32 = 29;
    pub(crate) const NOBUFS: u32 = 42;
    pub(crate) const NOSYS: u32 = 52;
}

/// An event, or a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) id: u32,
    /// Nanoseconds since 1970.
    pub(super) time: u64,
    pub(super) a: i64,
    pub(super) b: i64,
}

impl Record {
    /// An event of this moment.
    pub(super) fn now(kind: u16, id: u32, a: i64, b: i64) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            kind,
            flags: 0,
            id,
            time: since.unwrap_or_default().as_nanos() as u64,
            a,
            b,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..2].copy_from_slice(&self.kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.time.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.a.to_le_bytes());
        bytes[24..].copy_from_slice(&self.b.to_le_bytes());
        bytes
    }

    pub(super) fn of_bytes(bytes: &[u8; RECORD]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let [head, time, a, b] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
        Self {
            kind: head as u16,
            flags: (head >> 16) as u16,
            id: (head >> 32) as u32,
            time,
            a: a as i64,
            b: b as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_layout_of_the_book() {
        let record = Record {
            kind: 0x0102,
            flags: 0x0304,
            id: 0x0506_0708,
            time: 9,
            a: -1,
            b: i64::MIN,
        };
        let bytes = record.to_bytes();
        assert_eq!(bytes[..9], [2, 1, 4, 3, 8, 7, 6, 5, 9]);
        assert_eq!(bytes[16..24], [0xff; 8]);
        assert_eq!((bytes[24], bytes[31]), (0, 0x80));
        assert_eq!(Record::of_bytes(&bytes), record);
    }
}
