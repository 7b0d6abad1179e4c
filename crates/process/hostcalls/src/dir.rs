//! The calls on paths, all of them beneath a directory that the process has.
//!
//! cap-std keeps a path beneath its directory: it resolves `..`, absolute paths and links without ever leaving the
//! directory, also while others rename what the path leads through. An attempt to leave gets `EPERM`.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use everwarp_contract::hostcall::{Fd, HostCall};
use everwarp_engine::sync::lock;
use rustix::fs::OFlags;

use crate::errno::{Errno, Result};
use crate::open::{Descriptor, OpenDir, OpenFile};
use crate::permit::Permit;
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::stat::{Time, filestat};
use crate::wasi::{self, rights};

/// Whether `lookupflags` say that a link at the end of the path is followed.
fn follows(lookup: u32) -> Result<bool> {
    Ok(wasi::flags(lookup, wasi::FOLLOW)? != 0)
}

pub(crate) fn prestat(process: &Process, fd: Fd, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(fd)?;
    let name = descriptor.directory()?.given.as_ref().ok_or(Errno::BADF)?;
    // The tag of a directory is 0, in the lower half.
    reply.values[0] = (name.len() as u64) << 32;
    Ok(())
}

/// Brings back the name of a directory that was given to the process, if it fits `length` bytes.
pub(crate) fn prestat_name(process: &Process, fd: Fd, length: usize, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(fd)?;
    let name = match &*descriptor {
        Descriptor::Directory(OpenDir {
            given: Some(name), ..
        }) => name,
        _ => return Err(Errno::NOTDIR),
    };
    if name.len() > length {
        return Err(Errno::NAMETOOLONG);
    }
    reply.data.extend_from_slice(name.as_bytes());
    reply.count();
    Ok(())
}

/// A call that changes what a path leads to.
pub(crate) fn change(
    process: &Process,
    fd: Fd,
    request: &Request<'_>,
    of: impl FnOnce(&Dir, &str) -> io::Result<()>,
) -> Result {
    let descriptor = process.descriptor(fd)?;
    let dir = descriptor.directory()?;
    let path = request.path()?;
    Ok(of(dir.writable()?, path)?)
}

/// Removes a directory, also if its path ends in slashes, as `rmdir` does: cap-std takes a slash at the end for a `.` in
/// the directory, which cannot be removed.
pub(crate) fn remove(dir: &Dir, path: &str) -> io::Result<()> {
    dir.remove_dir(match path.trim_end_matches('/') {
        "" => path,
        name => name,
    })
}

pub(crate) fn filestat_get(
    process: &Process,
    fd: Fd,
    lookup: u32,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result {
    let follow = follows(lookup)?;
    let descriptor = process.descriptor(fd)?;
    let dir = &descriptor.directory()?.dir;
    let metadata = match follow {
        true => dir.metadata(request.path()?)?,
        false => dir.symlink_metadata(request.path()?)?,
    };
    filestat(&metadata, &mut reply.data);
    Ok(())
}

/// Sets the times of access and modification.
pub(crate) fn set_times(
    process: &Process,
    fd: Fd,
    lookup: u32,
    (accessed, modified): (Time, Time),
    request: &Request<'_>,
) -> Result {
    let follow = follows(lookup)?;
    let (accessed, modified) = (accessed.spec(), modified.spec());
    change(process, fd, request, |dir, path| match follow {
        true => DirExt::set_times(dir, path, accessed, modified),
        false => dir.set_symlink_times(path, accessed, modified),
    })
}

/// Links the first path of a request, in one directory, under the second path in another.
pub(crate) fn link(
    process: &Process,
    (old_fd, lookup, old_length): (Fd, u32, u32),
    new_fd: Fd,
    request: &Request<'_>,
) -> Result {
    let follow = follows(lookup)?;
    let (from, to) = (process.descriptor(old_fd)?, process.descriptor(new_fd)?);
    let (from, to) = (from.directory()?, to.directory()?);
    let (old, new) = request.paths(old_length)?;
    let (from, to) = (from.writable()?, to.writable()?);
    if follow {
        return Err(Errno::INVAL);
    }
    Ok(from.hard_link(old, to, new)?)
}

/// Renames the first path of a request, in one directory, to the second path in another.
pub(crate) fn rename(
    process: &Process,
    (old_fd, old_length): (Fd, u32),
    new_fd: Fd,
    request: &Request<'_>,
) -> Result {
    let (from, to) = (process.descriptor(old_fd)?, process.descriptor(new_fd)?);
    let (from, to) = (from.directory()?, to.directory()?);
    let (old, new) = request.paths(old_length)?;
    Ok(from.writable()?.rename(old, to.writable()?, new)?)
}

/// Makes a link to the first path of a request under the second.
pub(crate) fn symlink(
    process: &Process,
    target_length: u32,
    fd: Fd,
    request: &Request<'_>,
) -> Result {
    let descriptor = process.descriptor(fd)?;
    let dir = descriptor.directory()?;
    let (target, path) = request.paths(target_length)?;
    Ok(dir.writable()?.symlink(target, path)?)
}

/// Brings back up to `length` bytes of what a link says.
pub(crate) fn readlink(
    process: &Process,
    fd: Fd,
    length: u32,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result {
    let descriptor = process.descriptor(fd)?;
    let target = descriptor.directory()?.dir.read_link(request.path()?)?;
    let target = target
        .into_os_string()
        .into_string()
        .map_err(|_| Errno::ILSEQ)?;
    let length = target.len().min(request.length(length));
    reply.data.extend_from_slice(&target.as_bytes()[..length]);
    reply.count();
    Ok(())
}

/// Serves a `PATH_OPEN` that has a permit.
pub(crate) fn open(
    process: &Process,
    request: &Request<'_>,
    reply: &mut Reply,
    permit: Permit,
) -> Result {
    let Ok(HostCall::PathOpen {
        fd,
        lookup,
        oflags,
        fdflags,
        base,
        inheriting,
    }) = request.call
    else {
        return Err(Errno::INVAL);
    };
    let path = request.path()?;
    let follow = follows(lookup)?;
    let oflags = wasi::flags(oflags, wasi::OFLAGS)?;
    let fdflags = wasi::flags(fdflags, wasi::FDFLAGS)?;
    if (base | inheriting) & !rights::ALL != 0 {
        return Err(Errno::INVAL);
    }
    let descriptor = process.descriptor(fd)?;
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
    // A file without the right to write is opened for reading; otherwise the system would not open it at all.
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
    // A pipe whose other end is not open would hold up the thread that opens it.
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    // Before anything is created: a call that fails for lack of a descriptor must not change anything.
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
    reply.values[0] = lock(&process.table).insert(opened)?.0.into();
    Ok(())
}
