//! The CPU twin of `arrivals.cu`.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp::files::{self, DevEvent, EVENT_END, EVENT_KEY, FileEnd, FileTask, Then};
use everwarp::{DevPtr, Layout, TaskCx};

use super::{ARRIVED, BEGIN, CLOSED, DOOR, DevArrivals, WATCHED};
use crate::element;

fn params(t: &dyn TaskCx) -> DevArrivals {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevArrivals>() }
}

/// Makes a request. Without room for it, a task of the same function tries again.
fn ask(
    t: &mut dyn TaskCx,
    function: u32,
    again: u64,
    request: impl FnOnce(&mut FileTask<'_>, &DevArrivals) -> bool,
) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    let taken = request(&mut unsafe { FileTask::new(&mut *t, &p.files, DOOR) }, &p);
    if !taken {
        t.spawn(function, 0, again);
    }
}

/// Waits for the next batch.
fn next(files: &mut FileTask<'_>, p: &DevArrivals) -> bool {
    files.events(p.handle, p.batch, p.most, Then::new(ARRIVED, 0, 0))
}

pub(super) fn begin(t: &mut dyn TaskCx) {
    let arg = t.arg();
    ask(t, BEGIN, arg, |files, p| {
        files.watch(p.handle, p.sources, p.signals, Then::new(WATCHED, 0, 0))
    });
}

pub(super) fn watched(t: &mut dyn TaskCx) {
    let arg = t.arg();
    if FileEnd::of(arg).result.is_ok() {
        ask(t, WATCHED, arg, next);
    }
}

/// Notes an event where the host reads it.
fn note(p: &DevArrivals, number: u64, event: &DevEvent) {
    let words = event.bytes().chunks_exact(8);
    for (at, word) in (0..).zip(words) {
        let at = number % u64::from(p.room) * 4 + at;
        // SAFETY: the log has `room` events of four words each, and all accesses are atomic.
        let to: &AtomicU64 = unsafe { element(DevPtr::new(p.log.address()), at) };
        let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        to.store(word, Ordering::Relaxed);
    }
}

/// Its argument is that of a request's end at first. When it tries again, the batch has been noted, and the note is 1.
pub(super) fn arrived(t: &mut dyn TaskCx) {
    let (p, arg) = (params(t), t.arg());
    let end = FileEnd::of(arg);
    let batch = end.result.unwrap_or(0);
    // SAFETY: there is one such word, and all accesses are atomic.
    let count: &AtomicU64 = unsafe { element(DevPtr::new(p.count.address()), 0) };
    let noted = count.load(Ordering::Relaxed);
    let mut last = batch == 0;
    for at in 0..u64::from(batch) {
        // SAFETY: the batch has that many events, and is this task's until the next request.
        let event: DevEvent = *unsafe { element(p.batch, at) };
        if end.note == 0 {
            note(&p, noted + at, &event);
        }
        // The program ends with this key, and when its sources have ended.
        let kind = u32::from(event.kind);
        last |= kind == EVENT_END || (kind == EVENT_KEY && event.id == p.last_key);
    }
    if end.note == 0 {
        count.store(noted + u64::from(batch), Ordering::Release);
        t.report_add(batch.into());
    }
    ask(t, ARRIVED, arg | 1, |files, p| match last {
        true => files.close(p.handle, Then::new(CLOSED, 0, 0)),
        false => next(files, p),
    });
}

pub(super) fn closed(_: &mut dyn TaskCx) {}

pub(super) fn door(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    unsafe { files::door(t, &p.files, DOOR) };
}
