//! `filestat`, and times.

use cap_fs_ext::SystemTimeSpec;
use cap_std::fs::{FileType, FileTypeExt, Metadata, MetadataExt};
use cap_std::time::{Duration, SystemTime};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use crate::errno::{Errno, Result};
use crate::wasi;

/// WASI's number for a type of file.
pub(crate) fn filetype(of: FileType) -> u8 {
    if of.is_file() {
        wasi::TYPE_REGULAR
    } else if of.is_dir() {
        wasi::TYPE_DIRECTORY
    } else if of.is_symlink() {
        wasi::TYPE_LINK
    } else if of.is_char_device() {
        wasi::TYPE_CHARACTER
    } else if of.is_block_device() {
        wasi::TYPE_BLOCK
    } else if of.is_socket() {
        wasi::TYPE_SOCKET_STREAM
    } else {
        wasi::TYPE_UNKNOWN
    }
}

/// Nanoseconds since 1970. Earlier times become 1970, and times that 64 bits do not hold become the last that they do.
fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    let (seconds, nanoseconds) = (u64::try_from(seconds), u64::try_from(nanoseconds));
    match (seconds, nanoseconds) {
        (Ok(seconds), Ok(rest)) => seconds.saturating_mul(1_000_000_000).saturating_add(rest),
        _ => 0,
    }
}

/// Appends `filestat` as WASI lays it out in memory.
pub(crate) fn filestat(of: &Metadata, data: &mut Vec<u8>) {
    for word in [
        of.dev(),
        of.ino(),
        u64::from(filetype(of.file_type())),
        of.nlink(),
        of.size(),
        nanoseconds(of.atime(), of.atime_nsec()),
        nanoseconds(of.mtime(), of.mtime_nsec()),
        nanoseconds(of.ctime(), of.ctime_nsec()),
    ] {
        data.extend_from_slice(&word.to_le_bytes());
    }
}

/// Appends `filestat` of a standard stream: only its type is known.
pub(crate) fn stream_filestat(terminal: bool, data: &mut Vec<u8>) {
    data.resize(64, 0);
    data[16] = stream_type(terminal);
}

/// The type of a standard stream.
pub(crate) fn stream_type(terminal: bool) -> u8 {
    match terminal {
        true => wasi::TYPE_CHARACTER,
        false => wasi::TYPE_UNKNOWN,
    }
}

/// A change of one of a file's times.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    Keep,
    Now,
    At(u64),
}

impl Time {
    fn new(set: bool, now: bool, at: u64) -> Result<Self> {
        match (set, now) {
            (true, true) => Err(Errno::INVAL),
            (true, false) => Ok(Self::At(at)),
            (false, true) => Ok(Self::Now),
            (false, false) => Ok(Self::Keep),
        }
    }

    /// The changes of access and modification that two times and `fstflags` ask for.
    pub(crate) fn pair(accessed: u64, modified: u64, flags: u32) -> Result<(Self, Self)> {
        let flags = wasi::flags(flags, wasi::FSTFLAGS)?;
        let has = |flag| flags & flag != 0;
        let accessed = Self::new(has(wasi::ATIM), has(wasi::ATIM_NOW), accessed)?;
        let modified = Self::new(has(wasi::MTIM), has(wasi::MTIM_NOW), modified)?;
        Ok((accessed, modified))
    }

    /// The change, for a call on a path.
    pub(crate) fn spec(self) -> Option<SystemTimeSpec> {
        match self {
            Self::Keep => None,
            Self::Now => Some(SystemTimeSpec::SymbolicNow),
            Self::At(at) => {
                let at = SystemTime::from_std(std::time::UNIX_EPOCH) + Duration::from_nanos(at);
                Some(SystemTimeSpec::Absolute(at))
            }
        }
    }

    fn timespec(self) -> Timespec {
        let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        match self {
            Self::Keep => special(UTIME_OMIT),
            Self::Now => special(UTIME_NOW),
            // A 64-bit number of nanoseconds is fewer seconds than a signed 64-bit number holds.
            Self::At(at) => Timespec {
                tv_sec: (at / 1_000_000_000).cast_signed(),
                tv_nsec: (at % 1_000_000_000).cast_signed(),
            },
        }
    }
}

/// The changes, for a call on an open file.
pub(crate) fn timestamps((access, modified): (Time, Time)) -> Timestamps {
    Timestamps {
        last_access: access.timespec(),
        last_modification: modified.timespec(),
    }
}
