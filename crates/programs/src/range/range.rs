//! The CPU twin of `range.cu`.

use everwarp::TaskCx;

use super::{ADD, DevRange, FAN, GRAIN, SPLIT, SPREAD};

fn params(t: &dyn TaskCx) -> DevRange {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevRange>() }
}

/// Adds 1 to each of `n` cells from `first` on, which are this task's alone.
fn add_to(t: &mut dyn TaskCx, first: u32, n: u32) {
    let p = params(t);
    assert!(
        u64::from(first) + u64::from(n) <= p.cells_len.into(),
        "a task names cells that are not there"
    );
    // SAFETY: inside the buffer, aligned; the ranges of tasks that run at once do not overlap.
    let cells = unsafe {
        let at = (p.cells.address() as *mut u32).add(first as usize);
        std::slice::from_raw_parts_mut(at, n as usize)
    };
    cells.iter_mut().for_each(|c| *c = c.wrapping_add(1));
}

fn range(first: u32, n: u32) -> u64 {
    u64::from(n) << 32 | u64::from(first)
}

fn halve(t: &mut dyn TaskCx, size: u32, leaf: u32, own: u32) {
    let (first, n) = (t.lo(), t.hi());
    let left = (n / 2).next_multiple_of(size).min(n);
    for (first, n) in [(first, left), (first + left, n - left)] {
        if n > 0 {
            t.spawn(if n <= size { leaf } else { own }, 0, range(first, n));
        }
    }
}

pub(super) fn add(t: &mut dyn TaskCx) {
    let cell = t.lo();
    add_to(t, cell, 1);
}
pub(super) fn spread(t: &mut dyn TaskCx) {
    halve(t, 1, ADD, SPREAD);
}
pub(super) fn split(t: &mut dyn TaskCx) {
    let grain = params(t).grain;
    halve(t, grain, GRAIN, SPLIT);
}
pub(super) fn fan(t: &mut dyn TaskCx) {
    let (first, n, grain) = (t.lo(), t.hi(), params(t).grain);
    let each = n.div_ceil(grain).div_ceil(64) * grain;
    for begin in (0..n).step_by(each.max(1) as usize) {
        let count = each.min(n - begin);
        let function = if count <= grain { GRAIN } else { FAN };
        t.spawn(function, 0, range(first + begin, count));
    }
}
pub(super) fn grain(t: &mut dyn TaskCx) {
    let (first, n) = (t.lo(), t.hi());
    add_to(t, first, n);
}
