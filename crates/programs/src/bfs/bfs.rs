//! The CPU twin of `bfs.cu`.

use std::sync::atomic::Ordering;

use everwarp::TaskCx;

use super::consts::{BFS_LANE_EDGES, BFS_PART_EDGES, BFS_RESET_VERTICES};
use super::memory::SearchMemory;
use super::{HUB, RESET, VISIT};
use crate::{element, prefetch};

/// Offers level + 1 to the neighbours on edges `first..end`.
fn offer(t: &mut dyn TaskCx, s: &SearchMemory, v: u32, level: u64, first: u32, end: u32) {
    let mine = (level + 1) << 32 | u64::from(v);
    let mut first = first;
    while first < end {
        // All loads come before the first exchange: a processor waits for many loads at once, but lets no load pass an
        // exchange. Most neighbours were reached before, so a load is usually the only access.
        let mut open = [0; BFS_LANE_EDGES as usize];
        let mut count = 0;
        let part = end.min(first + BFS_LANE_EDGES);
        for edge in first..part {
            // SAFETY: the graph was validated when the instance was made.
            let (u, word) = unsafe {
                let u = *element(s.0.columns, edge.into());
                (u, s.best(u))
            };
            open[count] = u;
            count += usize::from(word.load(Ordering::Relaxed) > mine);
        }
        for &u in &open[..count] {
            // SAFETY: as above.
            let word = unsafe { s.best(u) };
            if word.fetch_min(mine, Ordering::Relaxed) >> 32 > level + 1 {
                // SAFETY: as above; rows has one element more than there are vertices.
                prefetch(unsafe { element(s.0.rows, u.into()) });
                t.spawn(VISIT, 0, (level + 1) << 32 | u64::from(u));
            }
        }
        first = part;
    }
}

pub(super) fn reset(t: &mut dyn TaskCx) {
    let s = SearchMemory::of(t);
    let (part, parts) = (t.lo(), t.hi());
    if parts > 1 {
        let left = parts / 2;
        for (first, count) in [(part, left), (part + left, parts - left)] {
            t.spawn(RESET, 0, u64::from(count) << 32 | u64::from(first));
        }
        return;
    }
    let first = part * BFS_RESET_VERTICES;
    for v in first..s.0.vertices.min(first + BFS_RESET_VERTICES) {
        // SAFETY: `v` is a vertex.
        unsafe { s.best(v) }.store(u64::MAX, Ordering::Relaxed);
    }
    let word = first / 32;
    for word in word..s.0.words.min(word + BFS_RESET_VERTICES / 32) {
        for bitmap in [0, 1] {
            s.word(bitmap, word).store(0, Ordering::Relaxed);
        }
    }
}

pub(super) fn visit(t: &mut dyn TaskCx) {
    let s = SearchMemory::of(t);
    let arg = t.arg();
    let (v, level) = (arg as u32, arg >> 32);
    // SAFETY: tasks name vertices.
    let (word, first, end) = unsafe {
        (
            s.best(v),
            *element(s.0.rows, v.into()),
            *element(s.0.rows, u64::from(v) + 1),
        )
    };
    if word.load(Ordering::Relaxed) >> 32 != level {
        return; // lowered since, by a task that has spawned another visit
    }
    if end - first <= BFS_LANE_EDGES {
        return offer(t, &s, v, level, first, end);
    }
    let parts = (end - first)
        .div_ceil(BFS_PART_EDGES)
        .next_power_of_two()
        .trailing_zeros();
    t.spawn(
        HUB,
        level as u8,
        u64::from(parts << 26) << 32 | u64::from(v),
    );
}

pub(super) fn hub(t: &mut dyn TaskCx) {
    let s = SearchMemory::of(t);
    let (v, tag) = (t.lo(), t.tag());
    let (part, parts) = (t.hi() & ((1 << 26) - 1), t.hi() >> 26);
    // SAFETY: tasks name vertices.
    let (word, first, end) = unsafe {
        (
            s.best(v),
            *element(s.0.rows, v.into()),
            *element(s.0.rows, u64::from(v) + 1),
        )
    };
    let level = word.load(Ordering::Relaxed) >> 32;
    let begin = u64::from(first) + u64::from(part) * u64::from(BFS_PART_EDGES);
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
        &s,
        v,
        level,
        begin as u32,
        end.min(begin as u32 + BFS_PART_EDGES),
    );
}
