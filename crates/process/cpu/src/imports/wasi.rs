//! WASI preview 1 but for the calls on any descriptor (`descriptors.rs`): wasmtime's library with the arguments checked
//! before each call, and functions of this crate's own.

use std::sync::Arc;

use everwarp_process::imports::WASI_MODULE;
use everwarp_telemetry::processes::host_call_is;
use wasmtime::{Caller, Extern, Linker, Result};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as p1, WasiSnapshotPreview1};
use wiggle::{GuestMemory, GuestPtr};

use super::HostCall;
use super::arguments::{Argument, FILESTAT, PRESTAT, U32, U64, as_errno, refused, size};
use super::descriptors;
use super::files;
use super::sockets;
use crate::cached_file::Attempt;
use crate::guest::Guest;
use crate::numbers::Numbered;
use crate::status::ProcExit;
use Argument::{Bytes, Result as Out, Vectors};

/// Bytes that the library may copy for one call, unless the memory is larger.
const COPIED_LEAST: usize = 128 << 20;
/// "No more descriptors".
const TOO_MANY_DESCRIPTORS: i32 = 33;

/// Binds the memory and the data of a caller.
macro_rules! memory_and_guest {
    ($caller:ident => $memory:ident, $guest:ident) => {
        let exported = match $caller.data().exported {
            Some(memory) => Some(Extern::Memory(memory)),
            None => $caller.get_export("memory"),
        };
        let shared;
        let (mut $memory, $guest) = match exported {
            Some(Extern::Memory(memory)) => {
                let (bytes, guest) = memory.data_and_store_mut(&mut $caller);
                (GuestMemory::Unshared(bytes), guest)
            }
            Some(Extern::SharedMemory(memory)) => {
                shared = memory;
                (GuestMemory::Shared(shared.data()), $caller.data_mut())
            }
            _ => wasmtime::bail!("the module exports no memory"),
        };
    };
}

pub(super) use memory_and_guest;

/// The descriptors of a guest, ready for a call.
pub(super) fn ready<'g>(guest: &'g mut Guest, memory: &GuestMemory<'_>) -> &'g mut WasiP1Ctx {
    let wasi = guest.wasi.get();
    wasi.set_hostcall_fuel(size(memory).max(COPIED_LEAST));
    wasi
}

/// Adds functions of the library that return at once: the name, the parameters, which of these are descriptors, and the
/// memory that they name.
macro_rules! add_immediate {
    ($linker:ident: $($name:ident($($arg:ident: $ty:ty),*) $({$($fd:ident),*})? [$($check:expr),*];)*) => {$(
        $linker.func_wrap(
            WASI_MODULE,
            stringify!($name),
            |mut caller: Caller<'_, Guest>, $($arg: $ty),*| -> Result<i32> {
                host_call_is(stringify!($name));
                memory_and_guest!(caller => memory, guest);
                let arguments: &[Argument] = &[$($check),*];
                if let Some(errno) = refused(&memory, arguments) {
                    return Ok(errno);
                }
                $($(let $fd = match sockets::inner(guest, $fd, stringify!($name)) {
                    Ok(number) => number,
                    Err(errno) => return Ok(errno),
                };)*)?
                let wasi = ready(guest, &memory);
                as_errno(p1::$name(wasi, &mut memory, $($arg),*))
            },
        )?;
    )*};
}

/// The same for functions that may wait.
macro_rules! add_waiting {
    ($linker:ident: $($name:ident($($arg:ident: $ty:ty),*) $({$($fd:ident),*})? [$($check:expr),*];)*) => {$(
        $linker.func_wrap_async(
            WASI_MODULE,
            stringify!($name),
            |mut caller: Caller<'_, Guest>, ($($arg,)*): ($($ty,)*)| -> HostCall<'_, i32> {
                host_call_is(stringify!($name));
                Box::new(async move {
                    let arguments: &[Argument] = &[$($check),*];
                    let wrong = sockets::with_memory(&mut caller, |memory| refused(memory, arguments));
                    if let Some(errno) = wrong? {
                        return Ok(errno);
                    }
                    $($(if let Some(errno) = files::settle(&mut caller, $fd).await? {
                        return Ok(errno);
                    })*)?
                    memory_and_guest!(caller => memory, guest);
                    $($(let $fd = match sockets::inner(guest, $fd, stringify!($name)) {
                        Ok(number) => number,
                        Err(errno) => return Ok(errno),
                    };)*)?
                    let wasi = ready(guest, &memory);
                    as_errno(p1::$name(wasi, &mut memory, $($arg),*).await)
                })
            },
        )?;
    )*};
}

fn add_immediate(linker: &mut Linker<Guest>) -> Result<()> {
    add_immediate! { linker:
        args_get(argv: i32, buffer: i32) [];
        args_sizes_get(count: i32, bytes: i32) [Out(count, U32), Out(bytes, U32)];
        environ_get(variables: i32, buffer: i32) [];
        environ_sizes_get(count: i32, bytes: i32) [Out(count, U32), Out(bytes, U32)];
        clock_res_get(clock: i32, to: i32) [Out(to, U64)];
        clock_time_get(clock: i32, precision: i64, to: i32) [Out(to, U64)];
        fd_allocate(fd: i32, offset: i64, length: i64) {fd} [];
        fd_fdstat_set_rights(fd: i32, base: i64, inheriting: i64) {fd} [];
        fd_prestat_get(fd: i32, to: i32) {fd} [Out(to, PRESTAT)];
        fd_prestat_dir_name(fd: i32, path: i32, length: i32) {fd} [Bytes(path, length)];
        proc_raise(signal: i32) [];
        sched_yield() [];
        random_get(at: i32, length: i32) [Bytes(at, length)];
    }
    Ok(())
}

fn add_waiting(linker: &mut Linker<Guest>) -> Result<()> {
    add_waiting! { linker:
        fd_advise(fd: i32, offset: i64, length: i64, advice: i32) {fd} [];
        fd_datasync(fd: i32) {fd} [];
        fd_filestat_set_size(fd: i32, bytes: i64) {fd} [];
        fd_filestat_set_times(fd: i32, accessed: i64, modified: i64, flags: i32) {fd} [];
        fd_pwrite(fd: i32, at: i32, count: i32, offset: i64, to: i32) {fd} [Vectors(at, count), Out(to, U32)];
        fd_readdir(fd: i32, at: i32, length: i32, cookie: i64, to: i32) {fd} [Bytes(at, length), Out(to, U32)];
        fd_sync(fd: i32) {fd} [];
        path_create_directory(fd: i32, path: i32, length: i32) {fd} [Bytes(path, length)];
        path_filestat_set_times(fd: i32, lookup: i32, path: i32, length: i32, accessed: i64, modified: i64, flags: i32) {fd}
            [Bytes(path, length)];
        path_link(fd: i32, flags: i32, path: i32, length: i32, new_fd: i32, new_path: i32, new_length: i32) {fd, new_fd}
            [Bytes(path, length), Bytes(new_path, new_length)];
        path_readlink(fd: i32, path: i32, length: i32, at: i32, room: i32, to: i32) {fd}
            [Bytes(path, length), Bytes(at, room), Out(to, U32)];
        path_rename(fd: i32, path: i32, length: i32, new_fd: i32, new_path: i32, new_length: i32) {fd, new_fd}
            [Bytes(path, length), Bytes(new_path, new_length)];
        path_symlink(target: i32, target_length: i32, fd: i32, path: i32, length: i32) {fd}
            [Bytes(target, target_length), Bytes(path, length)];
        path_unlink_file(fd: i32, path: i32, length: i32) {fd} [Bytes(path, length)];
    }
    Ok(())
}

/// The length of a path without the slashes at its end, unless it is all slashes.
fn without_slashes(memory: &GuestMemory<'_>, path: i32, length: i32) -> i32 {
    let (path, length) = (path as u32, length as u32);
    let byte = |at: u32| memory.read(GuestPtr::<u8>::new(path.checked_add(at)?)).ok();
    let name = (0..length).rev().find(|&at| byte(at) != Some(b'/'));
    name.map_or(length, |last| last + 1) as i32
}

/// Removes a directory, also if its path ends with slashes, as `rmdir` does. The library takes a slash at the end for a
/// `.` in the directory, which cannot be removed.
async fn remove_directory(
    mut caller: Caller<'_, Guest>,
    (fd, path, length): (i32, i32, i32),
) -> Result<i32> {
    memory_and_guest!(caller => memory, guest);
    if let Some(errno) = refused(&memory, &[Bytes(path, length)]) {
        return Ok(errno);
    }
    let length = without_slashes(&memory, path, length);
    let fd = match sockets::inner(guest, fd, "path_remove_directory") {
        Ok(number) => number,
        Err(errno) => return Ok(errno),
    };
    let wasi = ready(guest, &memory);
    as_errno(p1::path_remove_directory(wasi, &mut memory, fd, path, length).await)
}

pub(super) type OpenArguments = (i32, i32, i32, i32, i32, i64, i64, i32, i32);

/// Opens a file, unless the process would have more descriptors than it may. The library gives the lowest free
/// descriptor, so the number says how many there are at least.
async fn open(mut caller: Caller<'_, Guest>, arguments: OpenArguments) -> Result<i32> {
    let (fd, lookup, path, length, how, base, inheriting, flags, to) = arguments;
    memory_and_guest!(caller => memory, guest);
    if let Some(errno) = refused(&memory, &[Bytes(path, length), Out(to, U32)]) {
        return Ok(errno);
    }
    let fd = match sockets::inner(guest, fd, "path_open") {
        Ok(number) => number,
        Err(errno) => return Ok(errno),
    };
    let numbers = guest.numbers.clone();
    if numbers.as_ref().is_some_and(|numbers| !numbers.has_room()) {
        return Ok(TOO_MANY_DESCRIPTORS);
    }
    let mut held = None;
    if let Some(numbers) = &numbers {
        match files::attempt(guest, &memory, numbers, fd, &arguments)? {
            Attempt::Opened(file) => {
                let number = numbers.insert(Numbered::File(Arc::new(file)));
                memory.write(GuestPtr::<u32>::new(to as u32), number)?;
                return Ok(0);
            }
            Attempt::Other(other) => held = Some(other),
            Attempt::No => {}
        }
    }
    let most = guest.descriptor_limit.filter(|_| numbers.is_none());
    let wasi = ready(guest, &memory);
    let opened = p1::path_open(
        wasi,
        &mut memory,
        fd,
        lookup,
        path,
        length,
        how,
        base,
        inheriting,
        flags,
        to,
    );
    let opened = opened.await;
    drop(held);
    let errno = as_errno(opened)?;
    if errno != 0 {
        return Ok(errno);
    }
    let opened = memory.read(GuestPtr::<u32>::new(to as u32))?;
    if let Some(numbers) = numbers {
        let number = numbers.insert(Numbered::Inner(opened));
        memory.write(GuestPtr::<u32>::new(to as u32), number)?;
        return Ok(0);
    }
    if most.is_none_or(|most| opened < most) {
        return Ok(0);
    }
    p1::fd_close(wasi, &mut memory, opened as i32).await?;
    Ok(TOO_MANY_DESCRIPTORS)
}

async fn path_filestat(
    mut caller: Caller<'_, Guest>,
    (fd, flags, path, length, to): (i32, i32, i32, i32, i32),
) -> Result<i32> {
    if let Some(errno) = files::settle(&mut caller, fd).await? {
        return Ok(errno);
    }
    memory_and_guest!(caller => memory, guest);
    if let Some(errno) = refused(&memory, &[Bytes(path, length), Out(to, FILESTAT)]) {
        return Ok(errno);
    }
    let fd = match sockets::inner(guest, fd, "path_filestat_get") {
        Ok(number) => number,
        Err(errno) => return Ok(errno),
    };
    if let Some(errno) = files::path_stat(guest, &mut memory, fd, (flags, path, length, to))? {
        return Ok(errno);
    }
    let wasi = ready(guest, &memory);
    as_errno(p1::path_filestat_get(wasi, &mut memory, fd, flags, path, length, to).await)
}

/// Adds all of WASI.
pub(super) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    add_immediate(linker)?;
    add_waiting(linker)?;
    linker.func_wrap_async(WASI_MODULE, "path_remove_directory", |caller, arguments| {
        host_call_is("path_remove_directory");
        Box::new(remove_directory(caller, arguments))
    })?;
    linker.func_wrap_async(WASI_MODULE, "path_open", |caller, arguments| {
        host_call_is("path_open");
        Box::new(open(caller, arguments))
    })?;
    linker.func_wrap_async(WASI_MODULE, "path_filestat_get", |caller, arguments| {
        Box::new(path_filestat(caller, arguments))
    })?;
    descriptors::add(linker)?;
    // The library refuses codes from 126 on, which programs do use.
    linker.func_wrap(WASI_MODULE, "proc_exit", |code: u32| -> Result<()> {
        host_call_is("proc_exit");
        Err(ProcExit(code).into())
    })?;
    Ok(())
}
