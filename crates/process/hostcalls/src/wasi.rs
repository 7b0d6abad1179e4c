//! WASI preview 1's flags and types, by number.

use crate::errno::{Errno, Result};

/// `filetype` of a thing that is none of the others, such as a pipe.
pub(crate) const TYPE_UNKNOWN: u8 = 0;
pub(crate) const TYPE_BLOCK: u8 = 1;
pub(crate) const TYPE_CHARACTER: u8 = 2;
pub(crate) const TYPE_DIRECTORY: u8 = 3;
pub(crate) const TYPE_REGULAR: u8 = 4;
pub(crate) const TYPE_SOCKET_STREAM: u8 = 6;
pub(crate) const TYPE_LINK: u8 = 7;

/// `fdflags`.
pub(crate) const APPEND: u64 = 1;
pub(crate) const DSYNC: u64 = 2;
pub(crate) const NONBLOCK: u64 = 4;
pub(crate) const RSYNC: u64 = 8;
pub(crate) const SYNC: u64 = 16;
pub(crate) const FDFLAGS: u64 = 31;

/// `oflags`.
pub(crate) const CREAT: u64 = 1;
pub(crate) const DIRECTORY: u64 = 2;
pub(crate) const EXCL: u64 = 4;
pub(crate) const TRUNC: u64 = 8;
pub(crate) const OFLAGS: u64 = 15;

/// `lookupflags`: whether a link at the end of a path is followed.
pub(crate) const FOLLOW: u64 = 1;

/// `fstflags`.
pub(crate) const ATIM: u64 = 1;
pub(crate) const ATIM_NOW: u64 = 2;
pub(crate) const MTIM: u64 = 4;
pub(crate) const MTIM_NOW: u64 = 8;
pub(crate) const FSTFLAGS: u64 = 15;

/// `rights`.
pub(crate) mod rights {
    pub(crate) const READ: u64 = 1 << 1;
    pub(crate) const SEEK: u64 = 1 << 2;
    pub(crate) const WRITE: u64 = 1 << 6;
    pub(crate) const READDIR: u64 = 1 << 14;
    pub(crate) const PATH_SET_SIZE: u64 = 1 << 19;
    pub(crate) const SET_SIZE: u64 = 1 << 22;
    pub(crate) const ALL: u64 = (1 << 30) - 1;
    /// What programs expect of a directory that they are given: create, link, open, list, rename, look at, set
    /// times and remove.
    pub(crate) const GIVEN: u64 =
        (0b1_1111_1111 << 9) | (0b101 << 18) | (0b101 << 21) | (0b111 << 24);
    /// What they expect of that which they open in it: beside that, everything that one does with a file.
    pub(crate) const INHERITED: u64 = GIVEN | 0x1ff | SET_SIZE | (1 << 27);
}

/// The flags, if there are no others than those known.
pub(crate) fn flags(value: u64, known: u64) -> Result<u64> {
    if value & !known == 0 {
        Ok(value)
    } else {
        Err(Errno::INVAL)
    }
}
