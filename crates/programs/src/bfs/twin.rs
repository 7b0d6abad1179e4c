//! The CPU twin of `bfs.cu`.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp::TaskCx;

use super::{DevBfs, HUB, LANE_EDGES, PART_EDGES, VISIT};
use crate::element;

/// # Safety
/// - `v` is a vertex of the graph in `p`.
unsafe fn best<'a>(p: &DevBfs, v: u32) -> &'a AtomicU64 {
    // SAFETY: the caller vouches for the index; the words are aligned and only accessed atomically.
    unsafe { AtomicU64::from_ptr(std::ptr::from_ref(element(p.best, v.into())).cast_mut()) }
}

/// Offers level + 1 to the neighbours on edges `first..end`.
fn offer(t: &mut dyn TaskCx, p: &DevBfs, v: u32, level: u64, first: u32, end: u32) {
    for edge in first..end {
        // SAFETY: the graph was validated when the instance was made.
        let (u, word) = unsafe {
            let u = *element(p.columns, edge.into());
            (u, best(p, u))
        };
        let mine = (level + 1) << 32 | u64::from(v);
        // Most neighbours were reached before: a look is cheaper than an exchange.
        if word.load(Ordering::Relaxed) > mine
            && word.fetch_min(mine, Ordering::Relaxed) >> 32 > level + 1
        {
            t.spawn(VISIT, 0, (level + 1) << 32 | u64::from(u));
        }
    }
}

pub(super) fn visit(t: &mut dyn TaskCx) {
    // SAFETY: the instance was made with these parameters.
    let p = *unsafe { t.params::<DevBfs>() };
    let (v, level) = (t.lo(), u64::from(t.hi()));
    // SAFETY: tasks name vertices.
    let (word, first, end) = unsafe {
        (
            best(&p, v),
            *element(p.rows, v.into()),
            *element(p.rows, u64::from(v) + 1),
        )
    };
    if word.load(Ordering::Relaxed) >> 32 != level {
        return; // lowered since: whoever did so has spawned another visit
    }
    if end - first <= LANE_EDGES {
        return offer(t, &p, v, level, first, end);
    }
    let parts = (end - first)
        .div_ceil(PART_EDGES)
        .next_power_of_two()
        .trailing_zeros();
    t.spawn(
        HUB,
        level as u8,
        u64::from(parts << 26) << 32 | u64::from(v),
    );
}

pub(super) fn hub(t: &mut dyn TaskCx) {
    // SAFETY: the instance was made with these parameters.
    let p = *unsafe { t.params::<DevBfs>() };
    let (v, tag) = (t.lo(), t.tag());
    let (part, parts) = (t.hi() & ((1 << 26) - 1), t.hi() >> 26);
    // SAFETY: tasks name vertices.
    let (word, first, end) = unsafe {
        (
            best(&p, v),
            *element(p.rows, v.into()),
            *element(p.rows, u64::from(v) + 1),
        )
    };
    let level = word.load(Ordering::Relaxed) >> 32;
    let begin = u64::from(first) + u64::from(part) * u64::from(PART_EDGES);
    if level as u8 != tag || begin >= u64::from(end) {
        return;
    }
    if parts > 0 {
        for half in [part, part + (1 << (parts - 1))] {
            t.spawn(
                HUB,
                tag,
                u64::from((parts - 1) << 26 | half) << 32 | u64::from(v),
            );
        }
        return;
    }
    offer(
        t,
        &p,
        v,
        level,
        begin as u32,
        end.min(begin as u32 + PART_EDGES),
    );
}
