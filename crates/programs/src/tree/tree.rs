//! The CPU twin of `tree.cu`.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp::TaskCx;

use super::{DevTree, NODE, SUMS, node_sum};
use crate::element;

pub(super) fn node(t: &mut dyn TaskCx) {
    // SAFETY: the instance was made with these parameters.
    let p = *unsafe { t.params::<DevTree>() };
    let (node, below) = (t.lo(), t.hi());
    if below > 0 {
        let arg = |child: u32| u64::from(below - 1) << 32 | u64::from(child);
        t.spawn(NODE, 0, arg(2 * node + 1));
        t.spawn(NODE, 0, arg(2 * node + 2));
    }
    // SAFETY: the table has `TABLE` elements, `sums` has `SUMS`; both are aligned, and the sums are only
    // accessed atomically.
    unsafe {
        let sum = node_sum(node, |i| *element(p.table, i as u64));
        let at = std::ptr::from_ref(element(p.sums, u64::from(node) % SUMS as u64)).cast_mut();
        AtomicU64::from_ptr(at).fetch_add(sum, Ordering::Relaxed);
    }
}
