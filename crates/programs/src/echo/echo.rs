//! The CPU twin of `echo.cu`.

use std::sync::atomic::{AtomicU32, Ordering};

use everwarp::files::{self, FileEnd, FileErrno, FileTask, Then};
use everwarp::{DevPtr, TaskCx};

use super::{ACCEPTED, BEGIN, CLOSED, DOOR, DevEcho, PAUSE_NANOS, RECEIVED, SENT};
use crate::element;

fn params(t: &dyn TaskCx) -> DevEcho {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevEcho>() }
}

fn connection<'a>(p: &DevEcho, slot: u32) -> &'a AtomicU32 {
    // SAFETY: there is one for each slot, and all accesses are atomic.
    unsafe { element(DevPtr::new(p.connections.address()), slot.into()) }
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
            connection(&params(t), slot).store(handle, Ordering::Relaxed);
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

pub(super) fn received(t: &mut dyn TaskCx) {
    let FileEnd { note: slot, result } = FileEnd::of(t.arg());
    match result {
        Ok(0) | Err(_) => close(t, RECEIVED, slot),
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
