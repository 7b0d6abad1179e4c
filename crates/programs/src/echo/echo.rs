//! The CPU twin of `echo.cu`.

use std::sync::atomic::{AtomicU32, Ordering};

use everwarp::files::{self, FileEnd, FileErrno, FileTask, Then};
use everwarp::{DevPtr, TaskCx};

use super::{ACCEPTED, ANSWER, BEGIN, CLOSED, DOOR, DevEcho, PAUSE_NANOS, RECEIVED, SENT};
use crate::element;

fn params(t: &dyn TaskCx) -> DevEcho {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevEcho>() }
}

fn connection<'a>(p: &DevEcho, slot: u32) -> &'a AtomicU32 {
    // SAFETY: there is one for each slot, and all accesses are atomic.
    unsafe { element(DevPtr::new(p.connections.address()), slot.into()) }
}

fn asked<'a>(p: &DevEcho, slot: u32) -> &'a AtomicU32 {
    // SAFETY: as above.
    unsafe { element(DevPtr::new(p.asked.address()), slot.into()) }
}

fn piece(p: &DevEcho, slot: u32) -> DevPtr<u8> {
    DevPtr::new(p.bytes.address() + u64::from(slot) * u64::from(p.piece))
}

/// Makes a request. Without room for it, a task of the same function tries again.
fn ask(
    t: &mut dyn TaskCx,
    function: u32,
    request: impl FnOnce(&mut FileTask<'_>, &DevEcho) -> bool,
) -> bool {
    let (p, arg) = (params(t), t.arg());
    // SAFETY: the tables are those of the instance's files.
    let taken = request(&mut unsafe { FileTask::new(&mut *t, &p.files, DOOR) }, &p);
    if !taken {
        t.spawn(function, 0, arg);
    }
    taken
}

fn receive(t: &mut dyn TaskCx, function: u32, slot: u32) -> bool {
    ask(t, function, |files, p| {
        let from = connection(p, slot).load(Ordering::Relaxed);
        files.receive(from, piece(p, slot), p.piece, Then::new(RECEIVED, 0, slot))
    })
}

fn close(t: &mut dyn TaskCx, function: u32, slot: u32) {
    ask(t, function, |files, p| {
        let handle = connection(p, slot).load(Ordering::Relaxed);
        files.close(handle, Then::new(CLOSED, 0, slot))
    });
}

fn accept(t: &mut dyn TaskCx, function: u32, slot: u32) {
    ask(t, function, |files, p| {
        files.accept(p.listener, DevPtr::new(0), Then::new(ACCEPTED, 0, slot))
    });
}

pub(super) fn begin(t: &mut dyn TaskCx) {
    let slot = t.lo();
    accept(t, BEGIN, slot);
}

pub(super) fn accepted(t: &mut dyn TaskCx) {
    let FileEnd { note: slot, result } = FileEnd::of(t.arg());
    match result {
        Ok(handle) => {
            let p = params(t);
            connection(&p, slot).store(handle, Ordering::Relaxed);
            asked(&p, slot).store(0, Ordering::Relaxed);
            receive(t, ACCEPTED, slot);
        }
        // The server ends.
        Err(FileErrno::CANCELED | FileErrno::BADF) => {}
        // Others may give descriptors back. The connection stays in the listener's queue.
        Err(_) => {
            let then = Then::new(BEGIN, 0, slot);
            ask(t, ACCEPTED, |files, _| files.sleep(PAUSE_NANOS, then));
        }
    }
}

/// Sends the reply to a request that has come, if there is one, and else receives more.
fn reply(t: &mut dyn TaskCx, slot: u32) {
    let p = params(t);
    let before = asked(&p, slot).load(Ordering::Relaxed);
    // SAFETY: the tables are those of the instance's files.
    let mut files = unsafe { FileTask::new(&mut *t, &p.files, DOOR) };
    let connection = connection(&p, slot).load(Ordering::Relaxed);
    let taken = if before >= 256 {
        // Before the request is made: the task after it may run at once.
        asked(&p, slot).store(before - 256, Ordering::Relaxed);
        let taken = files.send(connection, p.reply, p.reply_len, Then::new(SENT, 0, slot));
        if !taken {
            asked(&p, slot).store(before, Ordering::Relaxed);
        }
        taken
    } else {
        files.receive(
            connection,
            piece(&p, slot),
            p.piece,
            Then::new(RECEIVED, 0, slot),
        )
    };
    if !taken {
        t.spawn(ANSWER, 0, slot.into());
    }
}

/// Looks for the ends of requests in what has come.
fn scan(p: &DevEcho, slot: u32, bytes: u32) {
    let before = asked(p, slot).load(Ordering::Relaxed);
    let (mut ends, mut there) = (before / 256, before % 256);
    for at in 0..u64::from(bytes) {
        // SAFETY: the piece has that many bytes, and no one writes them before the next request.
        let byte = unsafe { *((piece(p, slot).address() + at) as *const u8) };
        there = match byte == if there % 2 == 0 { b'\r' } else { b'\n' } {
            true => there + 1,
            false => u32::from(byte == b'\r'),
        };
        if there == 4 {
            (ends, there) = (ends + 1, 0);
        }
    }
    asked(p, slot).store(ends * 256 + there, Ordering::Relaxed);
}

pub(super) fn answer(t: &mut dyn TaskCx) {
    let slot = t.lo();
    reply(t, slot);
}

pub(super) fn received(t: &mut dyn TaskCx) {
    let FileEnd { note: slot, result } = FileEnd::of(t.arg());
    let p = params(t);
    match result {
        Ok(0) | Err(_) => close(t, RECEIVED, slot),
        Ok(bytes) if p.reply_len > 0 => {
            scan(&p, slot, bytes);
            reply(t, slot);
        }
        Ok(bytes) => {
            let then = Then::new(SENT, 0, slot);
            ask(t, RECEIVED, |files, p| {
                let to = connection(p, slot).load(Ordering::Relaxed);
                files.send(to, piece(p, slot), bytes, then)
            });
        }
    }
}

pub(super) fn sent(t: &mut dyn TaskCx) {
    let FileEnd { note: slot, result } = FileEnd::of(t.arg());
    match result {
        Ok(bytes) if params(t).reply_len > 0 => {
            t.report_add(bytes.into());
            reply(t, slot);
        }
        Ok(bytes) => {
            if receive(t, SENT, slot) {
                t.report_add(bytes.into());
            }
        }
        Err(_) => close(t, SENT, slot),
    }
}

pub(super) fn closed(t: &mut dyn TaskCx) {
    let slot = FileEnd::of(t.arg()).note;
    accept(t, CLOSED, slot);
}

pub(super) fn door(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    unsafe { files::door(t, &p.files, DOOR) };
}
