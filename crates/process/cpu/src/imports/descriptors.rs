//! The calls of WASI preview 1 that work on any descriptor, be it a socket or one of wasmtime's.

use everwarp_process::imports::WASI_MODULE;
use wasmtime::{Caller, Extern, Linker, Result};
use wasmtime_wasi::p1::wasi_snapshot_preview1 as p1;
use wiggle::GuestMemory;

use super::HostCall;
use super::arguments::{Argument, FDSTAT, FILESTAT, U32, as_errno, refused};
use super::wasi::{memory_and_guest, ready};
use super::{poll, sockets};
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
            Some(Numbered::Inner(number)) => number as i32,
            Some(Numbered::Socket(_)) => return Ok(0),
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
            let wasi = ready(guest, &memory);
            as_errno(p1::fd_close(wasi, &mut memory, replaced as i32).await)
        }
        Ok(None | Some(Numbered::Socket(_))) => Ok(0),
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
        Some(Numbered::Inner(fd)) => {
            let wasi = ready(guest, &memory);
            as_errno(p1::fd_fdstat_get(wasi, &mut memory, fd as i32, to).await)
        }
    }
}

async fn set_flags(mut caller: Caller<'_, Guest>, (fd, flags): (i32, i32)) -> Result<i32> {
    memory_and_guest!(caller => memory, guest);
    match sockets::find(guest, fd) {
        None => Ok(BAD_DESCRIPTOR),
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
    {
        memory_and_guest!(caller => memory, guest);
        if let Some(errno) = refused(&memory, &[Vectors(list, count), Out(to, U32)]) {
            return Ok(errno);
        }
        match sockets::find(guest, fd) {
            None => return Ok(BAD_DESCRIPTOR),
            Some(Numbered::Inner(fd)) => {
                let wasi = ready(guest, &memory);
                return as_errno(p1::fd_read(wasi, &mut memory, fd as i32, list, count, to).await);
            }
            Some(Numbered::Socket(_)) => {}
        }
    }
    let Some(Numbered::Socket(open)) = sockets::find(caller.data(), fd) else {
        return Ok(BAD_DESCRIPTOR);
    };
    let received = sockets::receive(&mut caller, &open, (list, count), 0).await?;
    sockets::put_count(&mut caller, to, received)
}

async fn write(
    mut caller: Caller<'_, Guest>,
    (fd, list, count, to): (i32, i32, i32, i32),
) -> Result<i32> {
    {
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
            Some(Numbered::Socket(_)) => {}
        }
    }
    let Some(Numbered::Socket(open)) = sockets::find(caller.data(), fd) else {
        return Ok(BAD_DESCRIPTOR);
    };
    let sent = sockets::send(&mut caller, &open, (list, count)).await?;
    sockets::put_count(&mut caller, to, sent)
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
                |caller, arguments: ($($ty,)*)| -> HostCall<'_, i32> { Box::new($call(caller, arguments)) },
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
        "poll_oneoff": poll_oneoff, (i32, i32, i32, i32);
        "sock_accept": sockets::accept, (i32, i32, i32);
        "sock_recv": sockets::sock_recv, (i32, i32, i32, i32, i32, i32);
        "sock_send": sockets::sock_send, (i32, i32, i32, i32, i32);
    }
    linker.func_wrap(
        WASI_MODULE,
        "sock_shutdown",
        |mut caller: Caller<'_, Guest>, fd: i32, how: i32| -> i32 {
            sockets::sock_shutdown(&mut caller, fd, how)
        },
    )?;
    Ok(())
}
