//! The CPU twin of `probe.cu`.

use std::sync::atomic::{AtomicU32, Ordering};

use everwarp::{DevPtr, TaskCx};

use super::{
    CAUTIOUS, CHAIN, CHECK, DevProbe, ENDLESS, MARK, MARK_BLOCK, MARK_WARP, SPLIT, SPREAD,
};
use crate::element;

fn params(t: &dyn TaskCx) -> DevProbe {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevProbe>() }
}

/// A cell that tasks only access atomically.
fn cell<'a>(at: DevPtr<u32>, index: u64, p: &DevProbe) -> &'a AtomicU32 {
    assert!(index < p.places, "a task names a place that is not there");
    // SAFETY: inside the array, aligned.
    unsafe { AtomicU32::from_ptr(std::ptr::from_ref(element(at, index)).cast_mut()) }
}

fn count(t: &mut dyn TaskCx, places: u64) {
    let p = params(t);
    let first = u64::from(t.lo());
    for place in (first..first + places).take_while(|&place| place < p.places) {
        cell(p.marks, place, &p).fetch_add(1, Ordering::Relaxed);
    }
}

fn divide(t: &mut dyn TaskCx, own: u32) {
    let (first, n, tag) = (t.lo(), t.hi(), t.tag());
    let (leaf, size) = [(MARK, 1), (MARK_WARP, 32), (MARK_BLOCK, 256)][usize::from(tag)];
    let mut half = |first: u32, n: u32| match n {
        0 => {}
        n if n <= size => t.spawn(leaf, tag, first.into()),
        n => t.spawn(own, tag, u64::from(n) << 32 | u64::from(first)),
    };
    let left = (n / 2).next_multiple_of(size).min(n);
    half(first, left);
    half(first + left, n - left);
}

pub(super) fn split(t: &mut dyn TaskCx) {
    divide(t, SPLIT);
}
pub(super) fn spread(t: &mut dyn TaskCx) {
    divide(t, SPREAD);
}
pub(super) fn cautious(t: &mut dyn TaskCx) {
    divide(t, CAUTIOUS);
}
pub(super) fn mark(t: &mut dyn TaskCx) {
    count(t, 1);
}
pub(super) fn mark_warp(t: &mut dyn TaskCx) {
    count(t, 32);
}
pub(super) fn mark_block(t: &mut dyn TaskCx) {
    count(t, 256);
}
pub(super) fn chain(t: &mut dyn TaskCx) {
    count(t, 1);
    let (place, more) = (t.lo(), t.hi());
    if more > 0 {
        t.spawn(CHAIN, 0, u64::from(more - 1) << 32 | u64::from(place + 1));
    }
}
pub(super) fn join(t: &mut dyn TaskCx) {
    let (first, n) = (t.lo(), t.hi());
    t.fork(CHECK, 0, u64::from(first + n));
    t.spawn_child(SPLIT, 0, u64::from(n / 2) << 32 | u64::from(first));
    t.spawn_child(
        SPLIT,
        0,
        u64::from(n - n / 2) << 32 | u64::from(first + n / 2),
    );
}
pub(super) fn join_block(t: &mut dyn TaskCx) {
    let first = t.lo();
    t.fork(CHECK, 0, u64::from(first + 128));
    for i in 0..128 {
        t.spawn_child(MARK, 0, u64::from(first + i));
    }
}
pub(super) fn check(t: &mut dyn TaskCx) {
    let p = params(t);
    let sum = (0..u64::from(t.lo()))
        .map(|i| cell(p.marks, i, &p).load(Ordering::Relaxed))
        .fold(0, u32::wrapping_add);
    t.report_slot(0, sum);
}
pub(super) fn log(t: &mut dyn TaskCx) {
    let p = params(t);
    // SAFETY: one aligned word that tasks only access atomically.
    let next = unsafe { AtomicU32::from_ptr(std::ptr::from_ref(element(p.logged, 0)).cast_mut()) };
    let place = next.fetch_add(1, Ordering::Relaxed);
    cell(p.log, place.into(), &p).store(t.lo(), Ordering::Relaxed);
}
pub(super) fn endless(t: &mut dyn TaskCx) {
    t.spawn(ENDLESS, 0, 0);
    t.spawn(ENDLESS, 0, 0);
}
pub(super) fn hang(t: &mut dyn TaskCx) {
    let p = params(t);
    while cell(p.marks, 0, &p).load(Ordering::Relaxed) == 0 {
        std::hint::spin_loop();
    }
}
pub(super) fn greedy(t: &mut dyn TaskCx) {
    t.spawn(MARK, 0, 0);
    t.spawn(MARK, 0, 0);
}
pub(super) fn fault(t: &mut dyn TaskCx) {
    let detail = t.arg();
    t.fault(detail);
}
