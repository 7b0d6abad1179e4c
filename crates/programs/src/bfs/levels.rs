//! The search by levels: the CPU twin of `levels.cu`.
//!
//! Graphs whose vertices have many edges have few levels, and most of their edges lead to vertices that have been
//! reached. A level is a group. While the frontier is small, its vertices offer the next level to their neighbours
//! (`down`, and `wide` for vertices with very many edges). Once the frontier is large, each unreached vertex looks for a
//! neighbour in it (`up`; Beamer, Asanovic, Patterson: "Direction-optimizing breadth-first search", SC 2012).
//!
//! A bitmap holds the reached vertices. `up` reads the bitmap of the level before and writes the other: an unreached
//! vertex whose neighbour was reached before the last level would have been reached itself, so any reached neighbour
//! is in the last level, and the first in ascending order is the smallest.
//!
//! When the frontier becomes small again, or a search has many levels after all, the vertices of the last level become
//! visits, which need no levels and are as exact.

use std::sync::atomic::Ordering;

use everwarp::TaskCx;

use super::consts::{
    BFS_BITMAP, BFS_DOWN_ENTRIES, BFS_FAN, BFS_LEAVE, BFS_NARROW, BFS_PATIENCE, BFS_START,
    BFS_TAIL, BFS_UP_SHARE, BFS_UP_VERTICES, BFS_UPWARDS, BFS_WIDE_EDGES,
};
use super::memory::SearchMemory;
use super::{DOWN, LEVEL, UP, VISIT, WIDE};

/// The tags as a task carries them.
const BITMAP: u8 = BFS_BITMAP as u8;
const UPWARDS: u8 = BFS_UPWARDS as u8;
const LEAVE: u8 = BFS_LEAVE as u8;
const START: u8 = BFS_START as u8;

/// The arguments of up to 64 tasks that share a range, each a multiple of `grain`.
fn fan(first: u32, count: u32, grain: u32) -> impl Iterator<Item = u64> {
    let each = count.div_ceil(BFS_FAN).next_multiple_of(grain);
    (0..count).step_by(each as usize).map(move |begin| {
        let n = each.min(count - begin);
        u64::from(n) << 32 | u64::from(first + begin)
    })
}

pub(super) fn level(t: &mut dyn TaskCx) {
    let s = SearchMemory::of(t);
    let p = s.0;
    let (mut tag, mut level, mut n, mut reached) = (t.tag(), 0, 1, 0);
    if tag & START != 0 {
        let source = t.lo();
        tag = 0;
        s.entry(0, 0).store(source, Ordering::Relaxed);
        s.word(0, source / 32)
            .store(1 << (source % 32), Ordering::Relaxed);
    } else {
        level = t.lo();
        n = s.found(level).load(Ordering::Relaxed);
        reached = s.reached().load(Ordering::Relaxed);
    }
    if n == 0 {
        return;
    }
    reached += n;
    s.level().store(level, Ordering::Relaxed);
    s.reached().store(reached, Ordering::Relaxed);
    s.found(level + 1).store(0, Ordering::Relaxed);
    let was_up = tag & UPWARDS != 0;
    let up = was_up || n > (p.vertices - reached) / BFS_UP_SHARE;
    let few = n <= if was_up { BFS_TAIL } else { BFS_NARROW };
    if few && (was_up || (!up && level >= BFS_PATIENCE)) {
        fan(0, n, BFS_DOWN_ENTRIES).for_each(|arg| t.spawn(DOWN, tag | LEAVE, arg));
    } else if up {
        t.fork(LEVEL, (tag ^ BITMAP) | UPWARDS, u64::from(level) + 1);
        fan(0, p.vertices.div_ceil(BFS_UP_VERTICES), 1).for_each(|arg| t.spawn_child(UP, tag, arg));
    } else {
        t.fork(LEVEL, tag, u64::from(level) + 1);
        let source = t.lo();
        if level == 0 && s.edges(source).len() as u32 > BFS_WIDE_EDGES {
            let part = |i: u32| u64::from(6 << 26 | i) << 32 | u64::from(source);
            return (0..BFS_FAN).for_each(|i| t.spawn_child(WIDE, tag, part(i)));
        }
        fan(0, n, BFS_DOWN_ENTRIES).for_each(|arg| t.spawn_child(DOWN, tag, arg));
    }
}

pub(super) fn down(t: &mut dyn TaskCx) {
    let s = SearchMemory::of(t);
    let (first, count, tag) = (t.lo(), t.hi(), t.tag());
    if count > BFS_DOWN_ENTRIES {
        return fan(first, count, BFS_DOWN_ENTRIES).for_each(|arg| t.spawn(DOWN, tag, arg));
    }
    let level = s.level().load(Ordering::Relaxed);
    for i in first..first + count {
        let v = s.entry(level, i).load(Ordering::Relaxed);
        if tag & LEAVE != 0 {
            t.spawn(VISIT, 0, u64::from(level) << 32 | u64::from(v));
            continue;
        }
        let edges = s.edges(v);
        match edges.len() as u32 > BFS_WIDE_EDGES {
            true => t.spawn(WIDE, tag, v.into()),
            false => s.offer(level, tag, v, edges),
        }
    }
}

pub(super) fn wide(t: &mut dyn TaskCx) {
    let s = SearchMemory::of(t);
    let (v, tag) = (t.lo(), t.tag());
    let (part, power) = (t.hi() & ((1 << 26) - 1), t.hi() >> 26);
    let edges = s.edges(v);
    let place = |part: u32| edges.start + ((edges.len() as u64 * u64::from(part)) >> power) as u32;
    let (begin, end) = (place(part), place(part + 1));
    if end - begin > BFS_WIDE_EDGES && power <= 18 {
        for i in 0..BFS_FAN {
            let hi = (power + 6) << 26 | part << 6 | i;
            t.spawn(WIDE, tag, u64::from(hi) << 32 | u64::from(v));
        }
        return;
    }
    s.offer(s.level().load(Ordering::Relaxed), tag, v, begin..end);
}

pub(super) fn up(t: &mut dyn TaskCx) {
    let s = SearchMemory::of(t);
    let (first, count, tag) = (t.lo(), t.hi(), t.tag());
    if count > 1 {
        return fan(first, count, 1).for_each(|arg| t.spawn(UP, tag, arg));
    }
    let level = s.level().load(Ordering::Relaxed);
    let words = BFS_UP_VERTICES / 32;
    for at in first * words..(first + 1) * words {
        let reached = s.word(tag, at).load(Ordering::Relaxed);
        let mut found = 0u32;
        for bit in (0..32).filter(|bit| reached >> bit & 1 == 0) {
            let v = at * 32 + bit;
            if v >= s.0.vertices {
                break;
            }
            if let Some(parent) = s.parent(tag, v) {
                let word = u64::from(level + 1) << 32 | u64::from(parent);
                // SAFETY: `v` is a vertex.
                unsafe { s.best(v) }.store(word, Ordering::Relaxed);
                found |= 1 << bit;
            }
        }
        s.word(tag ^ BITMAP, at)
            .store(reached | found, Ordering::Relaxed);
        // The first vertices of the level are queued too: if the queue holds all of them, the search goes on from it.
        let n = found.count_ones();
        let to = s.found(level + 1).fetch_add(n, Ordering::Relaxed);
        let bits = (0..32).filter(|bit| found >> bit & 1 != 0);
        for (to, bit) in (to..BFS_TAIL).zip(bits) {
            s.entry(level + 1, to)
                .store(at * 32 + bit, Ordering::Relaxed);
        }
    }
}
