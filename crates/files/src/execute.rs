//! Doing what a request asks for.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use everwarp_contract::files::{FILE_KIND_DIRECTORY, FILE_KIND_OTHER, FILE_KIND_REGULAR};
use everwarp_contract::{DevFileList, DevFileStat, Layout};

use crate::errno::FileErrno;
use crate::grants::{Grant, How};
use crate::handles::Handles;
use crate::memory::Range;
use crate::open_file::OpenFile;
use crate::request::Op;
use crate::system::System;

/// The longest path.
const PATH_MOST: usize = 4096;

/// Opens a file.
pub(crate) fn open_file(grant: Option<Grant>, path: &Range, how: How) -> Result<File, FileErrno> {
    let grant = grant.ok_or(FileErrno::NOTCAPABLE)?;
    grant.open(&text(path)?, how)
}

/// Opens a file and gives it a handle.
pub(crate) fn open(
    grant: Option<Grant>,
    path: &Range,
    how: How,
    handles: &Handles,
) -> Result<u32, FileErrno> {
    let file = open_file(grant, path, how)?;
    let handle = handles.insert(Arc::new(OpenFile::new(file, how)));
    handle.ok_or(FileErrno::MFILE)
}

/// Lists a directory.
pub(crate) fn list(grant: Option<Grant>, path: &Range, to: &Range) -> Result<u32, FileErrno> {
    let grant = grant.ok_or(FileErrno::NOTCAPABLE)?;
    if to.len() < size_of::<DevFileList>() {
        return Err(FileErrno::INVAL);
    }
    let listing = grant.list(&text(path)?)?;
    if listing.len() > to.len() {
        to.copy_in(&listing[..size_of::<DevFileList>()])?;
        return Err(FileErrno::NOBUFS);
    }
    to.copy_in(&listing)?;
    Ok(listing.len() as u32)
}

/// A path.
fn text(path: &Range) -> Result<String, FileErrno> {
    if path.len() >= PATH_MOST {
        return Err(FileErrno::NAMETOOLONG);
    }
    String::from_utf8(path.copy_out()?).map_err(|_| FileErrno::INVAL)
}

/// Does what is asked of an open file.
pub(crate) fn of_file(system: &System, file: &OpenFile, op: &Op) -> Result<u32, FileErrno> {
    let count = |count: usize| count as u32;
    match op {
        // The cache may have newer bytes.
        Op::Read { .. } | Op::Write { .. } | Op::Append { .. } if file.cached.is_some() => {
            Err(FileErrno::INVAL)
        }
        Op::Read { from, to } => to.read(system, file.may_read()?, *from).map(count),
        Op::Write { to, from } => from.write(system, file.may_write()?, Some(*to)).map(count),
        Op::Append { from } => from.write(system, file.may_write()?, None).map(count),
        Op::Truncate { size } => system.truncate(file.may_write()?, *size).map(|()| 0),
        Op::Stat { to } => {
            let stat = system.metadata(&file.file)?;
            let kind = stat.file_type();
            let seconds = u64::try_from(stat.mtime()).unwrap_or(0);
            let nanos = u64::try_from(stat.mtime_nsec()).unwrap_or(0);
            let record = DevFileStat {
                size: stat.size(),
                modified: seconds.saturating_mul(1_000_000_000).saturating_add(nanos),
                kind: match () {
                    () if kind.is_file() => FILE_KIND_REGULAR,
                    () if kind.is_dir() => FILE_KIND_DIRECTORY,
                    () => FILE_KIND_OTHER,
                },
                links: u32::try_from(stat.nlink()).unwrap_or(u32::MAX),
                inode: stat.ino(),
            };
            to.copy_in(record.bytes()).map(|()| 0)
        }
        Op::Sync => file.synced(system.sync(&file.file)).map(|()| 0),
        // The handle is gone, and the file is closed with its last request.
        Op::Close(_) => Ok(0),
        #[cfg(test)]
        Op::Nothing => Ok(0),
    }
}
