//! The CPU twin of `fib.cu`.

use everwarp::TaskCx;

use super::{CALL, SUM};

pub(super) fn call(t: &mut dyn TaskCx) {
    let (n, tag) = (t.lo(), t.tag());
    if n < 2 {
        return t.report_slot(tag.into(), n);
    }
    t.fork_collect(SUM, tag);
    t.spawn_child(CALL, 0, (n - 1).into());
    t.spawn_child(CALL, 1, (n - 2).into());
}

pub(super) fn sum(t: &mut dyn TaskCx) {
    let (tag, value) = (t.tag(), t.lo().wrapping_add(t.hi()));
    t.report_slot(tag.into(), value);
}
