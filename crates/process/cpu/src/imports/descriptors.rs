//! The calls of WASI preview 1 that work on any descriptor, be it a socket, a file that the process reads on its own thread,
//! or one of wasmtime's.

use everwarp_process::imports::WASI_MODULE;
use everwarp_telemetry::processes::host_call_is;
use wasmtime::{Caller, Extern, Linker, Result};
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::GuestMemory;

use super::HostCall;
use super::arguments::{Argument, FDSTAT, FILESTAT, U32, U64, as_errno, refused};
use super::wasi::{memory_and_guest, ready};
use super::{files, poll, sockets};
use crate::guest::Guest;
use crate::numbers::{NoDescriptor, Numbered};
use Argument::{Poll, Result as Out, Vectors};

/// "Bad file descriptor".
const BAD_DESCRIPTOR: i32 = 8;

async fn close(mut caller: Caller<'_, Guest>, (fd,): (i32,)) -> Result<i32> {
    memory_and_guest!(caller => memory, guest);
    let fd = match &guest.numbers {
        None => fd,
        Some(numbers) => match numbers.remove(fd) {
            Some(Numbered::Inner(number)) => {
                numbers.forget_directory(number);
                number as i32
            }
            Some(Numbered::Socket(_) | Numbered::File(_)) => return Ok(0),
            None => return Ok(BAD_DESCRIPTOR),
        },
    };
    let wasi = ready(guest, &memory);
    as_errno(p1::fd_close(wasi, &mut memory, fd).await)
}

async fn renumber(mut caller: Caller<'_, Guest>, (from, to): (i32, i32)) -> Result<i32> {
    memory_and_guest!(caller => memory, guest);
    let Some(numbers) = guest.numbers.clone() else {
        let wasi = ready(guest, &memory);
        return as_errno(p1::fd_renumber(wasi, &mut memory, from, to).await);
    };
    match numbers.renumber(from, to) {
        Err(NoDescriptor) => Ok(BAD_DESCRIPTOR),
        Ok(Some(Numbered::Inner(replaced))) => {
            numbers.forget_directory(replaced);
            let wasi = ready(guest, &memory);
            as_errno(p1::fd_close(wasi, &mut memory, replaced as i32).await)
        }
        Ok(None | Some(Numbered::Socket(_) | Numbered::File(_))) => Ok(0),
    }
}

async fn fdstat(mut caller: Caller<'_, Guest>, (fd, to): (i32, i32)) -> Result<i32> {
    memory_and_guest!(caller => memory, guest);
    if let Some(errno) = refused(&memory, &[Out(to, FDSTAT)]) {
        return Ok(errno);
    }
    match sockets::find(guest, fd) {
        None => Ok(BAD_DESCRIPTOR),
        Some(Numbered::Socket(open)) => sockets::fdstat(&mut memory, &open, to),
        Some(Numbered::File(file)) => files::fdstat(&mut memory, &file, to),
        Some(Numbered::Inner(fd)) => {
            let wasi = ready(guest, &memory);
            as_errno(p1::fd_fdstat_get(wasi, &mut memory, fd as i32, to).await)
        }
    }
}

async fn set_flags(mut caller: Caller<'_, Guest>, (fd, flags): (i32, i32)) -> Result<i32> {
    if let Some(errno) = files::settle(&mut caller, fd).await? {
        return Ok(errno);
    }
    memory_and_guest!(caller => memory, guest);
    match sockets::find(guest, fd) {
        None | Some(Numbered::File(_)) => Ok(BAD_DESCRIPTOR),
        Some(Numbered::Socket(open)) => Ok(sockets::set_flags(&open, flags)),
        Some(Numbered::Inner(fd)) => {
            let wasi = ready(guest, &memory);
            as_errno(p1::fd_fdstat_set_flags(wasi, &mut memory, fd as i32, flags))
        }
    }
}

async fn filestat(mut caller: Caller<'_, Guest>, (fd, to): (i32, i32)) -> Result<i32> {
    memory_and_guest!(caller => memory, guest);
    if let Some(errno) = refused(&memory, &[Out(to, FILESTAT)]) {
        return Ok(errno);
    }
    match sockets::find(guest, fd) {
        None => Ok(BAD_DESCRIPTOR),
        Some(Numbered::Socket(open)) => sockets::filestat(&mut memory, &open, to),
        Some(Numbered::File(file)) => files::stat(&mut memory, &file, to),
        Some(Numbered::Inner(fd)) => {
            let wasi = ready(guest, &memory);
            as_errno(p1::fd_filestat_get(wasi, &mut memory, fd as i32, to).await)
        }
    }
}

async fn read(
    mut caller: Caller<'_, Guest>,
    (fd, list, count, to): (i32, i32, i32, i32),
) -> Result<i32> {
    let found = {
        memory_and_guest!(caller => memory, guest);
        if let Some(errno) = refused(&memory, &[Vectors(list, count), Out(to, U32)]) {
            return Ok(errno);
        }
        match sockets::find(guest, fd) {
            Some(Numbered::Inner(fd)) => {
                let wasi = ready(guest, &memory);
                return as_errno(p1::fd_read(wasi, &mut memory, fd as i32, list, count, to).await);
            }
            found => found,
        }
    };
    match found {
        Some(Numbered::Socket(open)) => {
            let received = sockets::receive(&mut caller, &open, (list, count), 0).await?;
            sockets::put_count(&mut caller, to, received)
        }
        Some(Numbered::File(file)) => files::read(&mut caller, &file, (list, count, to)).await,
        _ => Ok(BAD_DESCRIPTOR),
    }
}

async fn write(
    mut caller: Caller<'_, Guest>,
    (fd, list, count, to): (i32, i32, i32, i32),
) -> Result<i32> {
    let open = {
        memory_and_guest!(caller => memory, guest);
        if let Some(errno) = refused(&memory, &[Vectors(list, count), Out(to, U32)]) {
            return Ok(errno);
        }
        match sockets::find(guest, fd) {
            None => return Ok(BAD_DESCRIPTOR),
            Some(Numbered::Inner(fd)) => {
                let wasi = ready(guest, &memory);
                return as_errno(p1::fd_write(wasi, &mut memory, fd as i32, list, count, to).await);
            }
            Some(Numbered::Socket(open)) => open,
            // It was opened for reading alone.
            Some(Numbered::File(_)) => return Ok(BAD_DESCRIPTOR),
        }
    };
    let sent = sockets::send(&mut caller, &open, (list, count)).await?;
    sockets::put_count(&mut caller, to, sent)
}

async fn pread(
    mut caller: Caller<'_, Guest>,
    (fd, list, count, offset, to): (i32, i32, i32, i64, i32),
) -> Result<i32> {
    {
        memory_and_guest!(caller => memory, guest);
        if let Some(errno) = refused(&memory, &[Vectors(list, count), Out(to, U32)]) {
            return Ok(errno);
        }
        if files::file(guest, fd).is_none() {
            let fd = match sockets::inner(guest, fd, "fd_pread") {
                Ok(number) => number,
                Err(errno) => return Ok(errno),
            };
            let wasi = ready(guest, &memory);
            let read = p1::fd_pread(wasi, &mut memory, fd, list, count, offset, to);
            return as_errno(read.await);
        }
    }
    match files::file(caller.data(), fd) {
        Some(file) => files::read_from(&mut caller, &file, (list, count, offset, to)).await,
        None => Ok(BAD_DESCRIPTOR),
    }
}

async fn seek(
    mut caller: Caller<'_, Guest>,
    (fd, offset, whence, to): (i32, i64, i32, i32),
) -> Result<i32> {
    memory_and_guest!(caller => memory, guest);
    if let Some(errno) = refused(&memory, &[Out(to, U64)]) {
        return Ok(errno);
    }
    if let Some(file) = files::file(guest, fd) {
        return files::seek(&mut memory, &file, (offset, whence, to));
    }
    let fd = match sockets::inner(guest, fd, "fd_seek") {
        Ok(number) => number,
        Err(errno) => return Ok(errno),
    };
    let wasi = ready(guest, &memory);
    as_errno(p1::fd_seek(wasi, &mut memory, fd, offset, whence, to).await)
}

fn tell(mut caller: Caller<'_, Guest>, fd: i32, to: i32) -> Result<i32> {
    memory_and_guest!(caller => memory, guest);
    if let Some(errno) = refused(&memory, &[Out(to, U64)]) {
        return Ok(errno);
    }
    if let Some(file) = files::file(guest, fd) {
        const CURRENT: i32 = 1;
        return files::seek(&mut memory, &file, (0, CURRENT, to));
    }
    let fd = match sockets::inner(guest, fd, "fd_tell") {
        Ok(number) => number,
        Err(errno) => return Ok(errno),
    };
    let wasi = ready(guest, &memory);
    as_errno(p1::fd_tell(wasi, &mut memory, fd, to))
}

async fn poll_oneoff(
    mut caller: Caller<'_, Guest>,
    (from, to, count, events): (i32, i32, i32, i32),
) -> Result<i32> {
    {
        memory_and_guest!(caller => memory, guest);
        if let Some(errno) = refused(&memory, &[Poll(from, to, count), Out(events, U32)]) {
            return Ok(errno);
        }
        if guest.numbers.is_none() {
            let wasi = ready(guest, &memory);
            let polled = p1::poll_oneoff(wasi, &mut memory, from, to, count, events);
            return as_errno(polled.await);
        }
    }
    poll::poll(&mut caller, (from, to, count, events)).await
}

/// Adds the calls.
pub(super) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    macro_rules! add {
        ($($name:literal: $call:expr, ($($ty:ty),*);)*) => {$(
            linker.func_wrap_async(
                WASI_MODULE,
                $name,
                |caller, arguments: ($($ty,)*)| -> HostCall<'_, i32> {
                    host_call_is($name);
                    Box::new($call(caller, arguments))
                },
            )?;
        )*};
    }
    add! {
        "fd_close": close, (i32);
        "fd_renumber": renumber, (i32, i32);
        "fd_fdstat_get": fdstat, (i32, i32);
        "fd_fdstat_set_flags": set_flags, (i32, i32);
        "fd_filestat_get": filestat, (i32, i32);
        "fd_read": read, (i32, i32, i32, i32);
        "fd_write": write, (i32, i32, i32, i32);
        "fd_pread": pread, (i32, i32, i32, i64, i32);
        "fd_seek": seek, (i32, i64, i32, i32);
        "poll_oneoff": poll_oneoff, (i32, i32, i32, i32);
        "sock_accept": sockets::accept, (i32, i32, i32);
        "sock_recv": sockets::sock_recv, (i32, i32, i32, i32, i32, i32);
        "sock_send": sockets::sock_send, (i32, i32, i32, i32, i32);
    }
    linker.func_wrap(WASI_MODULE, "fd_tell", tell)?;
    linker.func_wrap(
        WASI_MODULE,
        "sock_shutdown",
        |mut caller: Caller<'_, Guest>, fd: i32, how: i32| -> i32 {
            host_call_is("sock_shutdown");
            sockets::sock_shutdown(&mut caller, fd, how)
        },
    )?;
    Ok(())
}
