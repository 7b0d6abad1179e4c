//! The calls on open files and on descriptors in general, but for reads.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

use cap_std::fs::Metadata;
use everwarp_contract::hostcall::Fd;
use everwarp_engine::sync::lock;
use everwarp_process::sockets;
use rustix::fs::{Advice, fadvise, futimens};
use rustix::io::{ReadWriteFlags, pwritev2};

use crate::errno::{Errno, Result};
use crate::open::{Descriptor, OpenFile};
use crate::process::Process;
use crate::request::Reply;
use crate::stat::{Time, filestat, stream_filestat, stream_type, timestamps};
use crate::wasi::{self, rights};

pub(crate) fn advise(
    process: &Process,
    fd: Fd,
    (offset, length): (u64, u64),
    advice: u32,
) -> Result {
    let descriptor = process.descriptor(fd)?;
    let advice = match advice {
        0 => Advice::Normal,
        1 => Advice::Sequential,
        2 => Advice::Random,
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        5 => Advice::NoReuse,
        _ => return Err(Errno::INVAL),
    };
    let file = &descriptor.file()?.file;
    Ok(fadvise(file, offset, NonZeroU64::new(length), advice)?)
}

/// Refuses: not every file system can do it, which is why WASI has given the call up. The CPU engine refuses too.
pub(crate) fn allocate(process: &Process, fd: Fd) -> Result {
    process.descriptor(fd)?.file()?;
    Err(Errno::NOTSUP)
}

pub(crate) fn close(process: &Process, fd: Fd) -> Result {
    // Dropped outside the lock, because closing a file can take a while.
    let closed = lock(&process.table).remove(fd)?;
    drop(closed);
    Ok(())
}

pub(crate) fn renumber(process: &Process, from: Fd, to: Fd) -> Result {
    let closed = lock(&process.table).renumber(from, to)?;
    drop(closed);
    Ok(())
}

pub(crate) fn sync(process: &Process, fd: Fd, of: fn(&File) -> std::io::Result<()>) -> Result {
    Ok(of(&process.descriptor(fd)?.file()?.file)?)
}

/// The rights of an opened file or directory, without those that its mode does not allow.
fn rights_of(all: u64, readable: bool) -> u64 {
    match readable {
        true => all,
        false => all & !(rights::READ | rights::READDIR),
    }
}

pub(crate) fn fdstat(process: &Process, fd: Fd, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(fd)?;
    let (kind, flags, base, inheriting) = match &*descriptor {
        Descriptor::Input => (
            stream_type(process.stdin.is_terminal()),
            0,
            rights::READ,
            rights::READ,
        ),
        Descriptor::Output | Descriptor::Error => {
            let terminal = process
                .sink(&descriptor)
                .is_some_and(|sink| sink.is_terminal());
            (stream_type(terminal), 0, rights::WRITE, rights::WRITE)
        }
        Descriptor::Directory(dir) if dir.given.is_some() => {
            (wasi::TYPE_DIRECTORY, 0, rights::GIVEN, rights::INHERITED)
        }
        Descriptor::Directory(dir) => {
            let of_directory = rights::ALL
                & !(rights::SEEK | rights::SET_SIZE | rights::PATH_SET_SIZE | rights::WRITE);
            let all = rights_of(of_directory, dir.readable);
            (wasi::TYPE_DIRECTORY, 0, all, all)
        }
        Descriptor::File(file) => {
            let mut all = rights_of(rights::ALL, file.readable);
            if !file.writable {
                all &= !rights::WRITE;
            }
            let flag = |set: bool, flag: u32| if set { flag } else { 0 };
            let flags = flag(file.append.load(Relaxed), wasi::APPEND)
                | flag(file.nonblock.load(Relaxed), wasi::NONBLOCK);
            let kind = crate::stat::filetype(Metadata::from_file(&file.file)?.file_type());
            (kind, flags, all, all)
        }
        Descriptor::Listener(open) => {
            let flags = if open.nonblock.load(Relaxed) {
                wasi::NONBLOCK
            } else {
                0
            };
            let (own, of_connections) = (sockets::LISTENER_RIGHTS, sockets::CONNECTION_RIGHTS);
            (sockets::FILETYPE, flags, own, of_connections)
        }
        Descriptor::Connection(open) => {
            let flags = if open.nonblock.load(Relaxed) {
                wasi::NONBLOCK
            } else {
                0
            };
            (sockets::FILETYPE, flags, sockets::CONNECTION_RIGHTS, 0)
        }
        Descriptor::Endpoint(open) => {
            let flags = if open.nonblock.load(Relaxed) {
                wasi::NONBLOCK
            } else {
                0
            };
            let kind = sockets::filetype_of(open.endpoint.transport());
            let (own, of_connections) = (sockets::ENDPOINT_RIGHTS, sockets::CONNECTION_RIGHTS);
            (kind, flags, own, of_connections)
        }
    };
    reply.values = [u64::from(kind) | u64::from(flags) << 16, base, inheriting];
    Ok(())
}

pub(crate) fn set_flags(process: &Process, fd: Fd, flags: u32) -> Result {
    let flags = wasi::flags(flags, wasi::FDFLAGS)?;
    let descriptor = process.descriptor(fd)?;
    if let Some(nonblock) = descriptor.nonblock() {
        if flags & !wasi::NONBLOCK != 0 {
            return Err(Errno::INVAL);
        }
        nonblock.store(flags & wasi::NONBLOCK != 0, Relaxed);
        return Ok(());
    }
    let file = descriptor.file()?;
    if flags & (wasi::DSYNC | wasi::RSYNC | wasi::SYNC) != 0 {
        return Err(Errno::INVAL);
    }
    file.append.store(flags & wasi::APPEND != 0, Relaxed);
    file.nonblock.store(flags & wasi::NONBLOCK != 0, Relaxed);
    Ok(())
}

/// Rights are reported and not enforced; the CPU engine does the same.
pub(crate) fn set_rights(process: &Process, fd: Fd) -> Result {
    match &*process.descriptor(fd)? {
        Descriptor::File(_) | Descriptor::Directory(_) => Err(Errno::NOTSUP),
        _ => Err(Errno::BADF),
    }
}

pub(crate) fn filestat_get(process: &Process, fd: Fd, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(fd)?;
    match &*descriptor {
        Descriptor::File(file) => filestat(&Metadata::from_file(&file.file)?, &mut reply.data),
        Descriptor::Directory(dir) => filestat(&dir.dir.dir_metadata()?, &mut reply.data),
        Descriptor::Listener(_) | Descriptor::Connection(_) => {
            reply.data.resize(64, 0);
            reply.data[16] = sockets::FILETYPE;
        }
        Descriptor::Endpoint(open) => {
            reply.data.resize(64, 0);
            reply.data[16] = sockets::filetype_of(open.endpoint.transport());
        }
        Descriptor::Input => stream_filestat(process.stdin.is_terminal(), &mut reply.data),
        Descriptor::Output => stream_filestat(process.stdout.is_terminal(), &mut reply.data),
        Descriptor::Error => stream_filestat(process.stderr.is_terminal(), &mut reply.data),
    }
    Ok(())
}

pub(crate) fn set_size(process: &Process, fd: Fd, size: u64) -> Result {
    let descriptor = process.descriptor(fd)?;
    let file = descriptor.file()?;
    if file.read_only {
        return Err(Errno::PERM);
    }
    Ok(file.file.set_len(size)?)
}

/// Sets the times of access and modification.
pub(crate) fn set_times(process: &Process, fd: Fd, times: (Time, Time)) -> Result {
    let times = timestamps(times);
    match &*process.descriptor(fd)? {
        Descriptor::File(file) if !file.read_only => Ok(futimens(&file.file, &times)?),
        Descriptor::Directory(dir) if !dir.read_only => Ok(futimens(&*dir.dir, &times)?),
        Descriptor::File(_) | Descriptor::Directory(_) => Err(Errno::PERM),
        _ => Err(Errno::BADF),
    }
}

/// Writes after the end, wherever that is at the time.
fn append(file: &File, bytes: &[u8]) -> Result<usize> {
    Ok(pwritev2(
        file,
        &[std::io::IoSlice::new(bytes)],
        0,
        ReadWriteFlags::APPEND,
    )?)
}

pub(crate) fn write(process: &Process, fd: Fd, bytes: &[u8], reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(fd)?;
    let written = match (&*descriptor, process.sink(&descriptor)) {
        (_, Some(sink)) => {
            sink.write(bytes)?;
            bytes.len()
        }
        (Descriptor::File(file), None) => write_at_offset(file, bytes)?,
        _ => return Err(Errno::BADF),
    };
    reply.values[0] = written as u64;
    Ok(())
}

fn write_at_offset(file: &OpenFile, bytes: &[u8]) -> Result<usize> {
    let mut offset = lock(&file.offset);
    if file.append.load(Relaxed) {
        let written = append(&file.file, bytes)?;
        *offset = file.file.metadata()?.len();
        return Ok(written);
    }
    let written = file.file.write_at(bytes, *offset)?;
    *offset = offset.checked_add(written as u64).ok_or(Errno::OVERFLOW)?;
    Ok(written)
}

/// Writes at an offset. As on Linux, a file that is open for appending is appended to, whatever the offset.
pub(crate) fn pwrite(
    process: &Process,
    fd: Fd,
    offset: u64,
    bytes: &[u8],
    reply: &mut Reply,
) -> Result {
    let descriptor = process.descriptor(fd)?;
    let file = match &*descriptor {
        Descriptor::Output
        | Descriptor::Error
        | Descriptor::Listener(_)
        | Descriptor::Connection(_)
        | Descriptor::Endpoint(_) => Err(Errno::SPIPE),
        other => other.file(),
    }?;
    let written = match file.append.load(Relaxed) {
        true => append(&file.file, bytes)?,
        false => file.file.write_at(bytes, offset)?,
    };
    reply.values[0] = written as u64;
    Ok(())
}

pub(crate) fn seek(
    process: &Process,
    fd: Fd,
    delta: i64,
    whence: u32,
    reply: &mut Reply,
) -> Result {
    let descriptor = process.descriptor(fd)?;
    let file = descriptor.seekable()?;
    let mut offset = lock(&file.offset);
    let from = match whence {
        0 => 0,
        1 => *offset,
        2 => file.file.metadata()?.len(),
        _ => return Err(Errno::INVAL),
    };
    *offset = from.checked_add_signed(delta).ok_or(Errno::INVAL)?;
    reply.values[0] = *offset;
    Ok(())
}

pub(crate) fn tell(process: &Process, fd: Fd, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(fd)?;
    reply.values[0] = *lock(&descriptor.seekable()?.offset);
    Ok(())
}
