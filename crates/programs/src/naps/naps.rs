//! The CPU twin of `naps.cu`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use everwarp::files::{self, FileEnd, FileTask, Then};
use everwarp::{DevPtr, TaskCx};

use super::{BEGIN, DOOR, DevNaps, WOKEN};
use crate::element;

fn params(t: &dyn TaskCx) -> DevNaps {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevNaps>() }
}

fn word<'a>(words: DevPtr<u64>, index: u32) -> &'a AtomicU64 {
    // SAFETY: there is one for each nap, and two of the plan; tasks access them atomically.
    unsafe { element(DevPtr::new(words.address()), index.into()) }
}

/// Nanoseconds of a clock that all tasks share. No time is 0.
fn clock_ns() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

pub(super) fn clock(t: &mut dyn TaskCx) {
    t.report_add(clock_ns());
}

pub(super) fn begin(t: &mut dyn TaskCx) {
    let p = params(t);
    let (first, last) = (t.lo(), t.lo() + t.hi());
    for nap in first..last {
        let now = clock_ns();
        let [begin, gap] = [0, 1].map(|at| word(p.plan, at).load(Ordering::Relaxed));
        let end = begin + u64::from(nap) * gap;
        word(p.asked, nap).store(now, Ordering::Relaxed);
        // SAFETY: the tables are those of the instance's files.
        let mut files = unsafe { FileTask::new(&mut *t, &p.files, DOOR) };
        if !files.sleep(end.saturating_sub(now), Then::new(WOKEN, 0, nap)) {
            let left = u64::from(last - nap) << 32 | u64::from(nap);
            return t.spawn(BEGIN, 0, left);
        }
    }
}

pub(super) fn woken(t: &mut dyn TaskCx) {
    let end = FileEnd::of(t.arg());
    if end.result.is_ok() {
        word(params(t).woken, end.note).store(clock_ns(), Ordering::Relaxed);
        t.report_add(1);
    }
}

pub(super) fn door(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: the tables are those of the instance's files.
    unsafe { files::door(t, &p.files, DOOR) };
}
