//! The CPU twin of `pairs.cu`.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp::{DevPtr, TaskCx};

use super::{CHAIN, DevPairs, FIRST, JOINED, LINK, PAIR, SECOND, SPREAD, first_value, folded};
use crate::element;

/// A word that tasks only access atomically.
fn word<'a>(p: &DevPairs, at: DevPtr<u64>, i: u32) -> &'a AtomicU64 {
    assert!(i < p.pairs, "a task names a pair that is not there");
    // SAFETY: inside the array, aligned.
    unsafe { AtomicU64::from_ptr(std::ptr::from_ref(element(at, i.into())).cast_mut()) }
}

fn params(t: &dyn TaskCx) -> DevPairs {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevPairs>() }
}

fn one(t: &dyn TaskCx) {
    let (p, i) = (params(t), t.lo());
    word(&p, p.firsts, i).store(first_value(i), Ordering::Relaxed);
}

fn two(t: &dyn TaskCx) {
    let (p, i) = (params(t), t.lo());
    let value = word(&p, p.firsts, i).load(Ordering::Relaxed);
    word(&p, p.seconds, i).fetch_add(folded(value), Ordering::Relaxed);
}

pub(super) fn first(t: &mut dyn TaskCx) {
    one(t);
}
pub(super) fn second(t: &mut dyn TaskCx) {
    two(t);
}
pub(super) fn pair(t: &mut dyn TaskCx) {
    one(t);
    t.spawn(SECOND, 0, t.lo().into());
}
pub(super) fn joined(t: &mut dyn TaskCx) {
    let i = u64::from(t.lo());
    t.fork(SECOND, 0, i);
    t.spawn_child(FIRST, 0, i);
}
pub(super) fn spread(t: &mut dyn TaskCx) {
    let (first, n, tag) = (t.lo(), t.hi(), t.tag());
    let leaf = if tag == 0 { PAIR } else { JOINED };
    let mut half = |first: u32, n: u32| match n {
        0 => {}
        1 => t.spawn(leaf, tag, first.into()),
        n => t.spawn(SPREAD, tag, u64::from(n) << 32 | u64::from(first)),
    };
    half(first, n / 2);
    half(first + n / 2, n - n / 2);
}
pub(super) fn chain(t: &mut dyn TaskCx) {
    one(t);
    t.spawn(LINK, 0, t.arg());
}
pub(super) fn link(t: &mut dyn TaskCx) {
    two(t);
    let (i, more) = (t.lo(), t.hi());
    if more > 0 {
        t.spawn(CHAIN, 0, u64::from(more - 1) << 32 | u64::from(i + 1));
    }
}
