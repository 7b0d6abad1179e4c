//! Calls on files that a process reads on its own thread ([`crate::cached_file`]). A call that is not here first makes the
//! file one of wasmtime's descriptors ([`settle`]), which has all calls.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use everwarp_contract::errno;
use everwarp_process::sockets::errno_of;
use wasmtime::{Caller, Result};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wiggle::{GuestMemory, GuestPtr};

use super::arguments::as_errno;
use super::sockets::{code, first_vector, put_count, with_memory};
use super::wasi::OpenArguments;
use crate::cached_file::{self, Attempt, CachedFile, OpenedAs, read_fully};
use crate::guest::Guest;
use crate::numbers::{Numbered, Numbers};

/// Bytes of a path that is attempted.
const PATH_MOST: u32 = 4096;
/// Bytes that the library may copy to open a file.
const OPEN_FUEL: usize = 1 << 16;
/// `fdflags`: reads do not wait, which means nothing for a file.
const NONBLOCK: u64 = 4;
/// The rights that the library reports for a file that is open for reading: all but to write.
const RIGHTS: u64 = 0x3fff_ffff & !(1 << 6);
const REGULAR_FILE: u64 = 4;

fn path_in(memory: &GuestMemory<'_>, path: i32, length: i32) -> Result<Option<Vec<u8>>> {
    if length as u32 > PATH_MOST {
        return Ok(None);
    }
    let path = memory.to_vec(GuestPtr::<[u8]>::new((path as u32, length as u32)))?;
    Ok(Some(path).filter(|path| std::str::from_utf8(path).is_ok()))
}

/// Attempts to open a file from memory; `inner` is wasmtime's number of the directory.
pub(super) fn attempt(
    guest: &Guest,
    memory: &GuestMemory<'_>,
    numbers: &Numbers,
    inner: i32,
    arguments: &OpenArguments,
) -> Result<Attempt> {
    let &(_, lookup, path, length, how, base, inheriting, flags, _) = arguments;
    if guest.threads.is_some() || !cached_file::only_reads(how, base, flags) {
        return Ok(Attempt::No);
    }
    let Some(directory) = numbers.directory(inner as u32) else {
        return Ok(Attempt::No);
    };
    let Some(path) = path_in(memory, path, length)? else {
        return Ok(Attempt::No);
    };
    let opened_as = OpenedAs {
        directory: inner as u32,
        lookup,
        path,
        base,
        inheriting,
        flags,
    };
    Ok(cached_file::attempt(&directory, opened_as))
}

/// Writes `filestat`.
fn put_stat(memory: &mut GuestMemory<'_>, words: [u64; 8], to: i32) -> Result<i32> {
    for (at, word) in (to as u32..).step_by(8).zip(words) {
        memory.write(GuestPtr::<u64>::new(at), word)?;
    }
    Ok(0)
}

/// Writes `filestat` of what a path leads to, if the kernel has that in memory.
pub(super) fn path_stat(
    guest: &Guest,
    memory: &mut GuestMemory<'_>,
    inner: i32,
    (flags, path, length, to): (i32, i32, i32, i32),
) -> Result<Option<i32>> {
    let numbers = guest.numbers.as_ref();
    let directory = numbers.and_then(|numbers| numbers.directory(inner as u32));
    let Some(directory) = directory else {
        return Ok(None);
    };
    let Some(path) = path_in(memory, path, length)? else {
        return Ok(None);
    };
    match cached_file::stat(&directory, &path, flags & 1 != 0) {
        None => Ok(None),
        Some(words) => put_stat(memory, words, to).map(Some),
    }
}

/// `filestat` of a file.
pub(super) fn stat(memory: &mut GuestMemory<'_>, file: &CachedFile, to: i32) -> Result<i32> {
    match file.stat() {
        Ok(words) => put_stat(memory, words, to),
        Err(error) => Ok(code(errno_of(&error))),
    }
}

/// `fdstat` of a file.
pub(super) fn fdstat(memory: &mut GuestMemory<'_>, file: &CachedFile, to: i32) -> Result<i32> {
    let first = REGULAR_FILE | (file.opened_as.flags as u64 & NONBLOCK) << 16;
    for (at, word) in [(0, first), (8, RIGHTS), (16, RIGHTS)] {
        memory.write(GuestPtr::<u64>::new(to as u32 + at), word)?;
    }
    Ok(0)
}

/// Reads into vectors that were checked, from a place in the file; returns the bytes.
async fn read_at(
    caller: &mut Caller<'_, Guest>,
    file: &CachedFile,
    (list, count): (i32, i32),
    from: u64,
) -> Result<std::result::Result<usize, i32>> {
    let (at, length) = with_memory(caller, |memory| first_vector(memory, list, count))??;
    if from.checked_add(length as u64).is_none() {
        return Ok(Err(code(errno::ERRNO_INVAL)));
    }
    let cached = with_memory(caller, |memory| -> Result<_> {
        let buffer = memory.as_slice_mut(GuestPtr::<[u8]>::new((at, length as u32)))?;
        Ok(buffer.and_then(|buffer| file.read(buffer, from)))
    })??;
    if let Some(bytes) = cached {
        return Ok(Ok(bytes));
    }
    let shared = Arc::clone(file.file());
    let read = tokio::task::spawn_blocking(move || read_fully(&shared, from, length));
    match read.await? {
        Err(error) => Ok(Err(code(errno_of(&error)))),
        Ok(bytes) => {
            let place = GuestPtr::<[u8]>::new((at, bytes.len() as u32));
            with_memory(caller, |memory| memory.copy_from_slice(&bytes, place))??;
            Ok(Ok(bytes.len()))
        }
    }
}

/// `fd_read` of a file, after its memory has been checked.
pub(super) async fn read(
    caller: &mut Caller<'_, Guest>,
    file: &CachedFile,
    (list, count, to): (i32, i32, i32),
) -> Result<i32> {
    let from = file.position.load(Relaxed);
    let read = read_at(caller, file, (list, count), from).await?;
    if let Ok(bytes) = read {
        file.position.store(from + bytes as u64, Relaxed);
    }
    put_count(caller, to, read)
}

/// `fd_pread` of a file, after its memory has been checked.
pub(super) async fn read_from(
    caller: &mut Caller<'_, Guest>,
    file: &CachedFile,
    (list, count, offset, to): (i32, i32, i64, i32),
) -> Result<i32> {
    let read = read_at(caller, file, (list, count), offset as u64).await?;
    put_count(caller, to, read)
}

/// `fd_seek` of a file; `fd_tell` is one by nothing from the current place.
pub(super) fn seek(
    memory: &mut GuestMemory<'_>,
    file: &CachedFile,
    (delta, whence, to): (i64, i32, i32),
) -> Result<i32> {
    match file.seek(delta, whence) {
        Err(error) => Ok(code(errno_of(&error))),
        Ok(None) => Ok(code(errno::ERRNO_INVAL)),
        Ok(Some(place)) => {
            memory.write(GuestPtr::<u64>::new(to as u32), place)?;
            Ok(0)
        }
    }
}

/// The file with this number, if the process reads it on its own thread.
pub(super) fn file(guest: &Guest, fd: i32) -> Option<Arc<CachedFile>> {
    match guest.numbers.as_ref()?.find(fd) {
        Some(Numbered::File(file)) => Some(file),
        _ => None,
    }
}

/// Makes a file one of wasmtime's descriptors, for a call that only wasmtime's library has. Returns an error number if that
/// cannot be done: the path leads to nothing any more, or to another file.
pub(super) async fn settle(caller: &mut Caller<'_, Guest>, fd: i32) -> Result<Option<i32>> {
    let Some(file) = file(caller.data(), fd) else {
        return Ok(None);
    };
    let OpenedAs {
        directory,
        lookup,
        path,
        base,
        inheriting,
        flags,
    } = &file.opened_as;
    // Results first, where they are aligned: the number, a place, and a `filestat`.
    const PATH: usize = 96;
    let mut scratch = vec![0; PATH];
    scratch.extend_from_slice(path);
    let guest = caller.data_mut();
    let wasi = guest.wasi.get();
    wasi.set_hostcall_fuel(OPEN_FUEL);
    let mut memory = GuestMemory::Unshared(&mut scratch);
    let (at, length) = (PATH as i32, path.len() as i32);
    let directory = *directory as i32;
    let opened = p1::path_open(
        wasi,
        &mut memory,
        directory,
        *lookup,
        at,
        length,
        0,
        *base,
        *inheriting,
        *flags,
        0,
    );
    let errno = as_errno(opened.await)?;
    if errno != 0 {
        return Ok(Some(errno));
    }
    let inner = memory.read(GuestPtr::<u32>::new(0))?;
    let statted = p1::fd_filestat_get(wasi, &mut memory, inner as i32, 32).await;
    let same = as_errno(statted)? == 0
        && file
            .stat()
            .is_ok_and(|words| memory.read(GuestPtr::<u64>::new(40)).ok() == Some(words[1]));
    let place = file.position.load(Relaxed) as i64;
    let sought = p1::fd_seek(wasi, &mut memory, inner as i32, place, 0, 8).await;
    if !same || as_errno(sought)? != 0 {
        as_errno(p1::fd_close(wasi, &mut memory, inner as i32).await)?;
        return Ok(Some(code(errno::ERRNO_NOENT)));
    }
    if let Some(numbers) = &caller.data().numbers {
        numbers.replace(fd, Numbered::Inner(inner));
    }
    Ok(None)
}
