//! The calls on open files and on descriptors in general.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

use cap_std::fs::Metadata;
use everwarp_contract::hostcall::number;
use rustix::fs::{Advice, fadvise, futimens};
use rustix::io::{ReadWriteFlags, preadv2, pwritev2};

use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::request::{Reply, Request};
use crate::sink::lock;
use crate::stat::{Time, filestat, stream_filestat, stream_type, timestamps};
use crate::table::{Descriptor, OpenFile};
use crate::wasi::{self, rights};

pub(crate) fn advise(process: &Process, request: &Request<'_>) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let advice = match request.args[3] {
        0 => Advice::Normal,
        1 => Advice::Sequential,
        2 => Advice::Random,
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        5 => Advice::NoReuse,
        _ => return Err(Errno::INVAL),
    };
    let file = &descriptor.file()?.file;
    Ok(fadvise(
        file,
        request.args[1],
        NonZeroU64::new(request.args[2]),
        advice,
    )?)
}

/// Not every file system can, which is why WASI has given the call up; so does the CPU engine.
pub(crate) fn allocate(process: &Process, request: &Request<'_>) -> Result {
    process.descriptor(request.word(0)?)?.file()?;
    Err(Errno::NOTSUP)
}

pub(crate) fn close(process: &Process, request: &Request<'_>) -> Result {
    // Dropped outside the lock, because closing a file can take a while.
    let closed = lock(&process.table).remove(request.word(0)?)?;
    drop(closed);
    Ok(())
}

pub(crate) fn renumber(process: &Process, request: &Request<'_>) -> Result {
    let (from, to) = (request.word(0)?, request.word(1)?);
    let closed = lock(&process.table).renumber(from, to)?;
    drop(closed);
    Ok(())
}

pub(crate) fn sync(
    process: &Process,
    request: &Request<'_>,
    of: fn(&File) -> std::io::Result<()>,
) -> Result {
    Ok(of(&process.descriptor(request.word(0)?)?.file()?.file)?)
}

pub(crate) fn fdstat(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
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
            let mut all = rights::ALL
                & !(rights::SEEK | rights::SET_SIZE | rights::PATH_SET_SIZE | rights::WRITE);
            if !dir.readable {
                all &= !(rights::READ | rights::READDIR);
            }
            (wasi::TYPE_DIRECTORY, 0, all, all)
        }
        Descriptor::File(file) => {
            let mut all = rights::ALL;
            if !file.readable {
                all &= !(rights::READ | rights::READDIR);
            }
            if !file.writable {
                all &= !rights::WRITE;
            }
            let append = if file.append.load(Relaxed) {
                wasi::APPEND
            } else {
                0
            };
            let nonblock = if file.nonblock.load(Relaxed) {
                wasi::NONBLOCK
            } else {
                0
            };
            let kind = crate::stat::filetype(Metadata::from_file(&file.file)?.file_type());
            (kind, append | nonblock, all, all)
        }
    };
    reply.values = [u64::from(kind) | flags << 16, base, inheriting];
    Ok(())
}

pub(crate) fn set_flags(process: &Process, request: &Request<'_>) -> Result {
    let flags = wasi::flags(request.args[1], wasi::FDFLAGS)?;
    let descriptor = process.descriptor(request.word(0)?)?;
    let file = descriptor.file()?;
    if flags & (wasi::DSYNC | wasi::RSYNC | wasi::SYNC) != 0 {
        return Err(Errno::INVAL);
    }
    file.append.store(flags & wasi::APPEND != 0, Relaxed);
    file.nonblock.store(flags & wasi::NONBLOCK != 0, Relaxed);
    Ok(())
}

/// Rights are told and not kept; the CPU engine answers the same.
pub(crate) fn set_rights(process: &Process, request: &Request<'_>) -> Result {
    match &*process.descriptor(request.word(0)?)? {
        Descriptor::File(_) | Descriptor::Directory(_) => Err(Errno::NOTSUP),
        _ => Err(Errno::BADF),
    }
}

pub(crate) fn filestat_get(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    match &*descriptor {
        Descriptor::File(file) => filestat(&Metadata::from_file(&file.file)?, &mut reply.data),
        Descriptor::Directory(dir) => filestat(&dir.dir.dir_metadata()?, &mut reply.data),
        Descriptor::Input => stream_filestat(process.stdin.is_terminal(), &mut reply.data),
        Descriptor::Output => stream_filestat(process.stdout.is_terminal(), &mut reply.data),
        Descriptor::Error => stream_filestat(process.stderr.is_terminal(), &mut reply.data),
    }
    Ok(())
}

pub(crate) fn set_size(process: &Process, request: &Request<'_>) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let file = descriptor.file()?;
    if file.read_only {
        return Err(Errno::PERM);
    }
    Ok(file.file.set_len(request.args[1])?)
}

pub(crate) fn set_times(process: &Process, request: &Request<'_>) -> Result {
    let times = timestamps(Time::pair(request, 1)?);
    match &*process.descriptor(request.word(0)?)? {
        Descriptor::File(file) if !file.read_only => Ok(futimens(&file.file, &times)?),
        Descriptor::Directory(dir) if !dir.read_only => Ok(futimens(&*dir.dir, &times)?),
        Descriptor::File(_) | Descriptor::Directory(_) => Err(Errno::PERM),
        _ => Err(Errno::BADF),
    }
}

fn read_at(file: &File, length: usize, offset: u64, reply: &mut Reply) -> Result<usize> {
    reply.data.resize(length, 0);
    let read = file.read_at(&mut reply.data, offset)?;
    reply.data.truncate(read);
    Ok(read)
}

/// Whether the read could be done yet.
pub(crate) fn read(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result<bool> {
    let length = request.length(1)?;
    let descriptor = process.descriptor(request.word(0)?)?;
    match &*descriptor {
        Descriptor::Input => {
            if !process.stdin.read(length, &mut reply.data)? {
                return Ok(false);
            }
        }
        Descriptor::File(file) => {
            let mut offset = lock(&file.offset);
            let read = read_at(&file.file, length, *offset, reply)?;
            *offset = offset.checked_add(read as u64).ok_or(Errno::OVERFLOW)?;
        }
        _ => return Err(Errno::BADF),
    }
    reply.count();
    Ok(true)
}

pub(crate) fn pread(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let length = request.length(1)?;
    let descriptor = process.descriptor(request.word(0)?)?;
    let file = match &*descriptor {
        Descriptor::Input => Err(Errno::SPIPE),
        other => other.file(),
    }?;
    read_at(&file.file, length, request.args[2], reply)?;
    reply.count();
    Ok(())
}

/// Reads what is in the page cache, and only if that is all that was asked for; nothing otherwise.
fn read_cached(file: &File, length: usize, offset: u64, reply: &mut Reply) -> Option<()> {
    // To this call -1 is the file's own position, which nobody here goes by.
    i64::try_from(offset).ok()?;
    reply.data.resize(length, 0);
    let into = &mut [std::io::IoSliceMut::new(&mut reply.data)];
    let read = preadv2(file, into, offset, ReadWriteFlags::NOWAIT).ok()?;
    (read == length).then_some(())
}

/// An `FD_READ` or `FD_PREAD` that needs nothing from a disk, answered without waiting for anything. Where it cannot
/// be, or is wrong in some way, nothing has happened.
pub(crate) fn read_now(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Option<()> {
    let length = request.length(1).ok()?;
    let descriptor = process.descriptor(request.word(0).ok()?).ok()?;
    let file = descriptor.file().ok()?;
    if request.kind() == number::FD_PREAD {
        read_cached(&file.file, length, request.args[2], reply)?;
    } else {
        let mut offset = file.offset.try_lock().ok()?;
        let after = offset.checked_add(length as u64)?;
        read_cached(&file.file, length, *offset, reply)?;
        *offset = after;
    }
    reply.count();
    Some(())
}

/// Writes behind the end, wherever that is at the time.
fn append(file: &File, bytes: &[u8]) -> Result<usize> {
    Ok(pwritev2(
        file,
        &[std::io::IoSlice::new(bytes)],
        0,
        ReadWriteFlags::APPEND,
    )?)
}

pub(crate) fn write(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let written = match (&*descriptor, process.sink(&descriptor)) {
        (_, Some(sink)) => {
            sink.write(request.payload)?;
            request.payload.len()
        }
        (Descriptor::File(file), None) => write_on(file, request.payload)?,
        _ => return Err(Errno::BADF),
    };
    reply.values[0] = written as u64;
    Ok(())
}

fn write_on(file: &OpenFile, bytes: &[u8]) -> Result<usize> {
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

/// As on Linux, a file that is open for appending is appended to wherever one wants to write.
pub(crate) fn pwrite(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let file = match &*descriptor {
        Descriptor::Output | Descriptor::Error => Err(Errno::SPIPE),
        other => other.file(),
    }?;
    let written = match file.append.load(Relaxed) {
        true => append(&file.file, request.payload)?,
        false => file.file.write_at(request.payload, request.args[1])?,
    };
    reply.values[0] = written as u64;
    Ok(())
}

pub(crate) fn seek(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    let file = descriptor.seekable()?;
    let delta = request.args[1].cast_signed();
    let mut offset = lock(&file.offset);
    let from = match request.args[2] {
        0 => 0,
        1 => *offset,
        2 => file.file.metadata()?.len(),
        _ => return Err(Errno::INVAL),
    };
    *offset = from.checked_add_signed(delta).ok_or(Errno::INVAL)?;
    reply.values[0] = *offset;
    Ok(())
}

pub(crate) fn tell(process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
    let descriptor = process.descriptor(request.word(0)?)?;
    reply.values[0] = *lock(&descriptor.seekable()?.offset);
    Ok(())
}

/// No descriptor is a socket.
pub(crate) fn socket(process: &Process, request: &Request<'_>) -> Result {
    process.descriptor(request.word(0)?)?;
    Err(Errno::NOTSOCK)
}
