//! The CPU twin of `gather.cu`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp::files::{self, FileEnd, FileErrno, FileTask, Page, Then};
use everwarp::{DevPtr, TaskCx};

use super::{AGAIN, DOOR, DevGather, FETCH, FETCHED, checksum, sample_of};
use crate::element;

fn params(t: &dyn TaskCx) -> DevGather {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevGather>() }
}
fn node<'a>(p: &DevGather, at: u32) -> &'a AtomicU32 {
    // SAFETY: the table has a node for each place of all slots.
    unsafe { element(DevPtr::new(p.nodes.address()), at.into()) }
}

pub(super) fn sample(t: &mut dyn TaskCx) {
    let (p, seed, batch) = (params(t), t.lo(), t.hi());
    // SAFETY: a graph in compressed rows: each vertex has two offsets, and they are inside the columns.
    let offset = |v: u32| -> u32 { *unsafe { element(p.offsets, v.into()) } };
    // SAFETY: as above.
    let column = |at: u32| -> u32 { *unsafe { element(p.columns, at.into()) } };
    sample_of(
        (batch, seed % p.seeds),
        (p.vertices, &p.fanouts[..p.hops as usize]),
        |v| (offset(v), offset(v + 1)),
        column,
        |at, vertex| {
            let place = seed * p.each + at;
            node(&p, place).store(vertex, Ordering::Relaxed);
            t.spawn(FETCH, 0, place.into());
        },
    );
}

fn offset(p: &DevGather, place: u32) -> u64 {
    u64::from(node(p, place).load(Ordering::Relaxed)) * u64::from(p.row)
}
fn failed(p: &DevGather, error: FileErrno) {
    // SAFETY: the table has one word.
    let first: &AtomicU64 = unsafe { element(DevPtr::new(p.error.address()), 0) };
    let _ = first.compare_exchange(0, error.0.into(), Ordering::Relaxed, Ordering::Relaxed);
}

/// Copies a row from a page that the task holds, and releases the page.
fn copy(t: &mut dyn TaskCx, p: &DevGather, place: u32, from: DevPtr<u8>) {
    let to = p.rows.address() + u64::from(place) * u64::from(p.row);
    // SAFETY: a row does not cross pages, and the page is held; the target is this task's.
    let (from, to) = unsafe {
        (
            std::slice::from_raw_parts(from.address() as *const u8, p.row as usize),
            std::slice::from_raw_parts_mut(to as *mut u8, p.row as usize),
        )
    };
    to.copy_from_slice(from);
    t.report_add(checksum(to, place % (p.seeds * p.each)));
    // SAFETY: the tables are those of the instance's files.
    let files = unsafe { FileTask::new(t, &p.files, DOOR) };
    files.release(p.handle, offset(p, place));
}

pub(super) fn fetch(t: &mut dyn TaskCx) {
    let (p, place) = (params(t), t.lo());
    // SAFETY: the tables are those of the instance's files.
    let mut files = unsafe { FileTask::new(&mut *t, &p.files, DOOR) };
    let then = Then::new(FETCHED, 0, place);
    match files.acquire(p.handle, offset(&p, place), then) {
        Page::Here(from) => copy(t, &p, place, from),
        Page::Later => {}
        Page::Full => t.spawn(AGAIN, 0, place.into()),
        Page::Failed(error) => failed(&p, error),
    }
}

pub(super) fn again(t: &mut dyn TaskCx) {
    fetch(t);
}

pub(super) fn fetched(t: &mut dyn TaskCx) {
    let (p, end) = (params(t), FileEnd::of(t.arg()));
    if let Err(error) = end.result {
        return failed(&p, error);
    }
    // SAFETY: the tables are those of the instance's files.
    let files = unsafe { FileTask::new(&mut *t, &p.files, DOOR) };
    let from = files.held(p.handle, offset(&p, end.note));
    copy(t, &p, end.note, from);
}

pub(super) fn door(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    unsafe { files::door(t, &p.files, DOOR) };
}
