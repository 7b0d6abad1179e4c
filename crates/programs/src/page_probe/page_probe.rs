//! The CPU twin of `page_probe.cu`.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp::files::{self, FileEnd, FileErrno, FileTask, Got, Page, Then};
use everwarp::{DevPtr, TaskCx};

use super::{ASK, BUMP, BUMPED, CLOSE, DOOR, DevPageProbe, HOLD, HOLDING, READ, SUM, SYNC, choice};
use crate::element;

/// Steps that a task makes before it spawns the next one.
const STEPS: u32 = 8;

fn params(t: &dyn TaskCx) -> DevPageProbe {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevPageProbe>() }
}
fn files<'t>(t: &'t mut dyn TaskCx, p: &'t DevPageProbe) -> FileTask<'t> {
    // SAFETY: the tables are those of the instance's files.
    unsafe { FileTask::new(t, &p.files, DOOR) }
}
fn left<'a>(p: &DevPageProbe, walker: u32) -> &'a AtomicU64 {
    // SAFETY: the table has a word for each walker.
    unsafe { element(DevPtr::new(p.left.address()), walker.into()) }
}
fn error(t: &mut dyn TaskCx, error: FileErrno) {
    t.report_add(u64::from(error.0) << 32);
}

/// The offset of a walker's next number, if it has steps left.
fn next(p: &DevPageProbe, walker: u32) -> Option<u64> {
    let left = left(p, walker).load(Ordering::Relaxed);
    (left > 0).then(|| 8 * choice(p.seed, walker, left, p.count))
}

/// Adds 1 to a number in a page that the walker holds, and releases the page.
fn add(t: &mut dyn TaskCx, p: &DevPageProbe, walker: u32, offset: u64) {
    let files = files(t, p);
    let at = files.held(p.handle, offset).address() as *mut u64;
    // SAFETY: the number is in the page, which the task holds, and aligned. Tasks only change it atomically.
    let number = unsafe { AtomicU64::from_ptr(at) };
    number.fetch_add(1, Ordering::Relaxed);
    let written = files.wrote(p.handle, offset, 8);
    files.release(p.handle, offset);
    left(p, walker).fetch_sub(1, Ordering::Relaxed);
    if written {
        t.report_add(1);
    } else {
        error(t, FileErrno::BADF);
    }
}

pub(super) fn bump(t: &mut dyn TaskCx) {
    let (p, walker) = (params(t), t.lo());
    for _ in 0..STEPS {
        let Some(offset) = next(&p, walker) else {
            return;
        };
        match files(t, &p).acquire(p.handle, offset, Then::new(BUMPED, 0, walker)) {
            Page::Here(_) => add(t, &p, walker, offset),
            Page::Later => return,
            Page::Full => break,
            Page::Failed(why) => return error(t, why),
        }
    }
    t.spawn(BUMP, 0, walker.into());
}

pub(super) fn bumped(t: &mut dyn TaskCx) {
    let (p, end) = (params(t), FileEnd::of(t.arg()));
    if let Err(why) = end.result {
        return error(t, why);
    }
    if let Some(offset) = next(&p, end.note) {
        add(t, &p, end.note, offset);
        t.spawn(BUMP, 0, end.note.into());
    }
}

fn page(p: &DevPageProbe, page: u32) -> u64 {
    u64::from(page) << p.files.pages.page_bits
}

pub(super) fn hold(t: &mut dyn TaskCx) {
    let (p, number) = (params(t), t.lo());
    let then = Then::new(HOLDING, 0, number);
    match files(t, &p).acquire(p.handle, page(&p, number), then) {
        Page::Here(_) => t.report_add(1),
        Page::Later => {}
        Page::Full => t.spawn(HOLD, 0, number.into()),
        Page::Failed(why) => error(t, why),
    }
}

pub(super) fn holding(t: &mut dyn TaskCx) {
    match FileEnd::of(t.arg()).result {
        Ok(_) => t.report_add(1),
        Err(why) => error(t, why),
    }
}

pub(super) fn let_go(t: &mut dyn TaskCx) {
    let (p, number) = (params(t), t.lo());
    files(t, &p).release(p.handle, page(&p, number));
}

pub(super) fn sum(t: &mut dyn TaskCx) {
    let (p, number) = (params(t), t.lo());
    let offset = 8 * u64::from(number);
    match files(t, &p).get::<u64>(p.handle, offset, Then::new(READ, 0, number)) {
        Got::Value(value) => t.report_add(value),
        Got::Later => {}
        Got::Full => t.spawn(SUM, 0, number.into()),
        Got::Failed(why) => error(t, why),
    }
}

pub(super) fn read(t: &mut dyn TaskCx) {
    let (p, end) = (params(t), FileEnd::of(t.arg()));
    match end.result {
        Ok(_) => {
            let value: u64 = files(t, &p).take(p.handle, 8 * u64::from(end.note));
            t.report_add(value);
        }
        Err(why) => error(t, why),
    }
}

pub(super) fn ask(t: &mut dyn TaskCx) {
    let (p, handle, size) = (params(t), t.lo(), t.hi());
    let what = t.tag();
    let then = Then::new(HOLDING, 0, 0);
    let mut files = files(t, &p);
    let asked = match what {
        SYNC => files.sync(handle, then),
        CLOSE => files.close(handle, then),
        _ => files.truncate(handle, size.into(), then),
    };
    if !asked {
        t.spawn(ASK, what, u64::from(size) << 32 | u64::from(handle));
    }
}

pub(super) fn door(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    unsafe { files::door(t, &p.files, DOOR) };
}
