//! The numbers of WASI preview 1's flags and types.

use crate::errno::{Errno, Result};

/// `filetype` of anything that is none of the others, such as a pipe.
pub(crate) const TYPE_UNKNOWN: u8 = 0;
pub(crate) const TYPE_BLOCK: u8 = 1;
pub(crate) const TYPE_CHARACTER: u8 = 2;
pub(crate) const TYPE_DIRECTORY: u8 = 3;
pub(crate) const TYPE_REGULAR: u8 = 4;
pub(crate) const TYPE_SOCKET_STREAM: u8 = 6;
pub(crate) const TYPE_LINK: u8 = 7;

/// `fdflags`.
pub(crate) const APPEND: u32 = 1;
pub(crate) const DSYNC: u32 = 2;
pub(crate) const NONBLOCK: u32 = 4;
pub(crate) const RSYNC: u32 = 8;
pub(crate) const SYNC: u32 = 16;
pub(crate) const FDFLAGS: u32 = 31;

/// `oflags`.
pub(crate) const CREAT: u32 = 1;
pub(crate) const DIRECTORY: u32 = 2;
pub(crate) const EXCL: u32 = 4;
pub(crate) const TRUNC: u32 = 8;
pub(crate) const OFLAGS: u32 = 15;

/// `lookupflags`: whether a link at the end of a path is followed.
pub(crate) const FOLLOW: u32 = 1;

/// `fstflags`.
pub(crate) const ATIM: u32 = 1;
pub(crate) const ATIM_NOW: u32 = 2;
pub(crate) const MTIM: u32 = 4;
pub(crate) const MTIM_NOW: u32 = 8;
pub(crate) const FSTFLAGS: u32 = 15;

/// `rights`.
pub(crate) mod rights {
    pub(crate) const READ: u64 = 1 << 1;
    pub(crate) const SEEK: u64 = 1 << 2;
    pub(crate) const WRITE: u64 = 1 << 6;
    pub(crate) const READDIR: u64 = 1 << 14;
    pub(crate) const PATH_SET_SIZE: u64 = 1 << 19;
    pub(crate) const SET_SIZE: u64 = 1 << 22;
    pub(crate) const ALL: u64 = (1 << 30) - 1;
    /// The rights that programs expect of a directory that they are given: create, link, open, list, rename, stat, set
    /// times and remove.
    pub(crate) const GIVEN: u64 =
        (0b1_1111_1111 << 9) | (0b101 << 18) | (0b101 << 21) | (0b111 << 24);
    /// The rights that they expect of files and directories in it: the same, and all those on files.
    pub(crate) const INHERITED: u64 = GIVEN | 0x1ff | SET_SIZE | (1 << 27);
}

/// Returns `value` if it has no other flags than those of `known`.
pub(crate) fn flags(value: u32, known: u32) -> Result<u32> {
    if value & !known == 0 {
        Ok(value)
    } else {
        Err(Errno::INVAL)
    }
}
