//! The CPU twin of `words.cu`.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp::files::{self, FileEnd, FileTask, Then};
use everwarp::{DevPtr, TaskCx};

use super::{AGAIN, COUNT, DOOR, DevWordCount, SHORTER, is_space};
use crate::element;

fn params(t: &dyn TaskCx) -> DevWordCount {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevWordCount>() }
}

/// A word of the tables.
fn word<'a>(table: DevPtr<u64>, index: u32) -> &'a AtomicU64 {
    // SAFETY: the tables have that many words, which are aligned; see `Words::new`.
    unsafe { element(DevPtr::new(table.address()), index.into()) }
}

/// Where a piece begins, and how many bytes it and the byte before it have; `None` if it is after the file's end.
fn range(p: &DevWordCount, piece: u64) -> Option<(u64, u32, u32)> {
    let first = piece * u64::from(p.piece);
    let left = p.size.checked_sub(first).filter(|&left| left > 0)?;
    let before = u32::from(first > 0);
    Some((first, before, left.min(p.piece.into()) as u32))
}

fn ask(t: &mut dyn TaskCx, buffer: u32) {
    let p = params(t);
    let piece = word(p.pieces, buffer).load(Ordering::Relaxed);
    let Some((first, before, len)) = range(&p, piece) else {
        return;
    };
    let to = p.bytes.address() + u64::from(buffer) * u64::from(p.stride);
    // SAFETY: the tables are those of the instance's files.
    let mut files = unsafe { FileTask::new(&mut *t, &p.files, DOOR) };
    let then = Then::new(COUNT, 0, buffer);
    let from = first - u64::from(before);
    if !files.read(p.handle, from, DevPtr::new(to), before + len, then) {
        t.spawn(AGAIN, 0, buffer.into());
    }
}

fn go_on(t: &mut dyn TaskCx, buffer: u32) {
    let p = params(t);
    let piece = word(p.control, 0).fetch_add(1, Ordering::Relaxed);
    word(p.pieces, buffer).store(piece, Ordering::Relaxed);
    ask(t, buffer);
}

pub(super) fn next(t: &mut dyn TaskCx) {
    let buffer = t.lo();
    go_on(t, buffer);
}

pub(super) fn again(t: &mut dyn TaskCx) {
    let buffer = t.lo();
    ask(t, buffer);
}

pub(super) fn count(t: &mut dyn TaskCx) {
    let (p, end) = (params(t), FileEnd::of(t.arg()));
    let piece = word(p.pieces, end.note).load(Ordering::Relaxed);
    let Some((_, before, len)) = range(&p, piece) else {
        return t.fault(piece);
    };
    let wrong = match end.result {
        Ok(count) if count == before + len => 0,
        Ok(_) => SHORTER + piece,
        Err(error) => error.0.into(),
    };
    if wrong != 0 {
        let first = word(p.control, 1);
        let _ = first.compare_exchange(0, wrong, Ordering::Relaxed, Ordering::Relaxed);
        return;
    }
    let from = p.bytes.address() + u64::from(end.note) * u64::from(p.stride);
    // SAFETY: the buffer is this task's until it asks for the next piece, and has as many bytes as were read.
    let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, (before + len) as usize) };
    let (lead, own) = bytes.split_at(before as usize);
    let mut after_space = lead.first().is_none_or(|&byte| is_space(byte));
    let mut words = 0;
    for &byte in own {
        let space = is_space(byte);
        words += u64::from(after_space & !space);
        after_space = space;
    }
    t.report_add(words);
    go_on(t, end.note);
}

pub(super) fn door(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    unsafe { files::door(t, &p.files, DOOR) };
}
