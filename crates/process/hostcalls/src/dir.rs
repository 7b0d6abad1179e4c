//! The calls on paths, all of them beneath a directory that the process has.
//!
//! That a path stays beneath is cap-std's doing: it resolves `..`, absolute paths and links without ever leaving,
//! also while others rename what the path leads through. An attempt is answered with `EPERM`.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

use crate::errno::{Errno, Result};
use crate::openings::Permit;
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::sink::lock;
use crate::stat::{Time, filestat};
use crate::table::{Descriptor, OpenDir, OpenFile};
use crate::wasi::{self, rights};

impl OpenDir {
    /// The directory, if what is beneath it may be changed.
    fn changed(&self) -> Result<&Dir> {
        match self.read_only {
            true => Err(Errno::PERM),
            false => Ok(&self.dir),
        }
    }
}

fn follows(flags: u64) -> Result<bool> {
    Ok(wasi::flags(flags, wasi::FOLLOW)? != 0)
}

pub(crate) fn prestat(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let name = descriptor.directory()?.given.as_ref().ok_or(Errno::BADF)?;
    // The tag of a directory is 0 and stands in the lower half.
    reply.values[0] = (name.len() as u64) << 32;
    Ok(())
}

pub(crate) fn prestat_name(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let name = match &*descriptor {
        Descriptor::Directory(OpenDir {
            given: Some(name), ..
        }) => name,
        _ => return Err(Errno::NOTDIR),
    };
    if name.len() > request.length(1)? {
        return Err(Errno::NAMETOOLONG);
    }
    reply.data.extend_from_slice(name.as_bytes());
    reply.count();
    Ok(())
}

/// A call that takes a path and changes what is there.
pub(crate) fn change(
    process: &Process,
    request: &Request<'_>,
    of: impl FnOnce(&Dir, &str) -> std::io::Result<()>,
) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let dir = descriptor.directory()?;
    let path = request.path()?;
    Ok(of(dir.changed()?, path)?)
}

/// Removes a directory, also one whose path has slashes at its end, as `rmdir` does: cap-std takes them for a `.` in
/// the directory, which cannot be removed.
pub(crate) fn remove(dir: &Dir, path: &str) -> std::io::Result<()> {
    dir.remove_dir(match path.trim_end_matches('/') {
        "" => path,
        name => name,
    })
}

pub(crate) fn filestat_get(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let follow = follows(request.args[1])?;
    let descriptor = process.descriptor(request.word(0)?)?;
    let dir = &descriptor.directory()?.dir;
    let metadata = match follow {
        true => dir.metadata(request.path()?)?,
        false => dir.symlink_metadata(request.path()?)?,
    };
    filestat(&metadata, &mut reply.data);
    Ok(())
}

pub(crate) fn set_times(process: &Process, request: &Request<'_>) -> Result {
    let follow = follows(request.args[1])?;
    let (access, modified) = Time::pair(request, 2)?;
    let (access, modified) = (access.spec(), modified.spec());
    change(process, request, |dir, path| match follow {
        true => DirExt::set_times(dir, path, access, modified),
        false => dir.set_symlink_times(path, access, modified),
    })
}

pub(crate) fn link(process: &Process, request: &Request<'_>) -> Result {
    let follow = follows(request.args[1])?;
    let from = process.descriptor(request.word(0)?)?;
    let to = process.descriptor(request.word(3)?)?;
    let (from, to) = (from.directory()?, to.directory()?);
    let (old, new) = request.paths(2)?;
    let (from, to) = (from.changed()?, to.changed()?);
    if follow {
        return Err(Errno::INVAL);
    }
    Ok(from.hard_link(old, to, new)?)
}

pub(crate) fn rename(process: &Process, request: &Request<'_>) -> Result {
    let from = process.descriptor(request.word(0)?)?;
    let to = process.descriptor(request.word(2)?)?;
    let (from, to) = (from.directory()?, to.directory()?);
    let (old, new) = request.paths(1)?;
    Ok(from.changed()?.rename(old, to.changed()?, new)?)
}

pub(crate) fn symlink(process: &Process, request: &Request<'_>) -> Result {
    let descriptor = process.descriptor(request.word(1)?)?;
    let dir = descriptor.directory()?;
    let (target, path) = request.paths(0)?;
    Ok(dir.changed()?.symlink(target, path)?)
}

pub(crate) fn readlink(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let target = descriptor.directory()?.dir.read_link(request.path()?)?;
    let target = target
        .into_os_string()
        .into_string()
        .map_err(|_| Errno::ILSEQ)?;
    let length = target.len().min(request.length(1)?);
    reply.data.extend_from_slice(&target.as_bytes()[..length]);
    reply.count();
    Ok(())
}

pub(crate) fn open(
    process: &Process,
    request: &Request<'_>,
    reply: &mut Reply,
    permit: Permit,
) -> Result {
    let path = request.path()?;
    let follow = follows(request.args[1])?;
    let oflags = wasi::flags(request.args[2], wasi::OFLAGS)?;
    let fdflags = wasi::flags(request.args[3], wasi::FDFLAGS)?;
    let base = wasi::flags(request.args[4], rights::ALL)?;
    wasi::flags(request.args[5], rights::ALL)?;
    let descriptor = process.descriptor(request.word(0)?)?;
    let dir = match &*descriptor {
        Descriptor::Directory(dir) => dir,
        Descriptor::File(_) => return Err(Errno::NOTDIR),
        _ => return Err(Errno::BADF),
    };
    if fdflags & (wasi::DSYNC | wasi::RSYNC | wasi::SYNC) != 0 {
        return Err(Errno::NOTSUP);
    }
    let create = oflags & wasi::CREAT != 0;
    if oflags & wasi::DIRECTORY != 0 && oflags & (wasi::CREAT | wasi::EXCL | wasi::TRUNC) != 0 {
        return Err(Errno::INVAL);
    }
    // Without a right to write it is opened for reading, or the system would not open it at all.
    let readable = base & rights::READ != 0 || base & rights::WRITE == 0;
    let writable = base & rights::WRITE != 0 || create || oflags & wasi::TRUNC != 0;
    if writable && dir.read_only {
        return Err(Errno::PERM);
    }
    let mut options = OpenOptions::new();
    options.read(readable).write(writable);
    options.create(create && oflags & wasi::EXCL == 0);
    options.create_new(create && oflags & wasi::EXCL != 0);
    options.truncate(oflags & wasi::TRUNC != 0);
    options.follow(if follow {
        FollowSymlinks::Yes
    } else {
        FollowSymlinks::No
    });
    // A pipe whose other end nobody opens would hold up the thread that opens it.
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    // Before anything is created: without room for a descriptor nothing shall have happened.
    lock(&process.table).has_room()?;
    let file = dir.dir.open_with(path, &options)?;
    let kind = file.metadata()?.file_type();
    let opened = if kind.is_dir() {
        Descriptor::Directory(OpenDir {
            dir: Arc::new(Dir::from_std_file(file.into_std())),
            given: None,
            readable,
            read_only: dir.read_only,
            listing: Mutex::default(),
            _permit: Some(permit),
        })
    } else if oflags & wasi::DIRECTORY != 0 {
        return Err(Errno::NOTDIR);
    } else {
        Descriptor::File(OpenFile {
            file: file.into_std(),
            offset: Mutex::new(0),
            append: AtomicBool::new(fdflags & wasi::APPEND != 0),
            nonblock: AtomicBool::new(fdflags & wasi::NONBLOCK != 0),
            readable,
            writable,
            regular: kind.is_file(),
            read_only: dir.read_only,
            _permit: permit,
        })
    };
    reply.values[0] = u64::from(lock(&process.table).insert(opened)?);
    Ok(())
}
