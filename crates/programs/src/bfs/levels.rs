//! The search by levels, and the CPU twin of `levels.cu`.
//!
//! Graphs whose vertices have many edges have few levels, and most of their edges lead to what has been
//! reached. A level is a group; while the frontier is small its vertices offer the next level to their
//! neighbours (`down`, and `wide` for those with very many), and once it is large the unreached look for a
//! neighbour in it (`up`; Beamer, Asanovic, Patterson: "Direction-optimizing breadth-first search", SC 2012).
//!
//! What has been reached is a bitmap. `up` reads the one of the level before and writes another: an unreached
//! vertex whose neighbour was reached before the last level would have been reached itself, so any reached
//! neighbour lies in the last level, and the first in ascending order is the smallest.
//!
//! When few are left, or a search has many levels after all, the vertices of the last level become
//! visits, which need no levels and are as exact.

use std::sync::atomic::{AtomicU32, Ordering};

use everwarp::TaskCx;

use super::consts::{
    BFS_BITMAP, BFS_DOWN_ENTRIES, BFS_FAN, BFS_LEAVE, BFS_NARROW, BFS_PATIENCE, BFS_START,
    BFS_TAIL, BFS_UP_SHARE, BFS_UP_VERTICES, BFS_UPWARDS, BFS_WIDE_EDGES,
};
use super::twin::best;
use super::{DOWN, DevBfs, LEVEL, UP, VISIT, WIDE};
use crate::element;

/// The tags as a task carries them.
const BITMAP: u8 = BFS_BITMAP as u8;
const UPWARDS: u8 = BFS_UPWARDS as u8;
const LEAVE: u8 = BFS_LEAVE as u8;
pub(super) const START: u8 = BFS_START as u8;

/// The edges that lead to each vertex, by where they come from in ascending order.
pub(super) fn transpose(rows: &[u32], columns: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut to = vec![0; rows.len()];
    columns.iter().for_each(|&u| to[u as usize + 1] += 1);
    for v in 1..to.len() {
        to[v] += to[v - 1];
    }
    let (mut next, mut from) = (to.clone(), vec![0; columns.len()]);
    for (v, row) in rows.windows(2).enumerate() {
        for &u in &columns[row[0] as usize..row[1] as usize] {
            from[next[u as usize] as usize] = v as u32;
            next[u as usize] += 1;
        }
    }
    (to, from)
}

fn params(t: &dyn TaskCx) -> DevBfs {
    // SAFETY: the instance was made with these parameters.
    *unsafe { t.params::<DevBfs>() }
}

/// The memory of one search, as its tasks share it.
pub(super) struct Shared(pub(super) DevBfs);

impl Shared {
    fn atomic<'a>(&self, word: &u32) -> &'a AtomicU32 {
        // SAFETY: words of buffers that live as long as the instance; all tasks access them atomically.
        unsafe { AtomicU32::from_ptr(std::ptr::from_ref(word).cast_mut()) }
    }
    fn found(&self, level: u32) -> &AtomicU32 {
        // SAFETY: there is one state.
        self.atomic(&unsafe { element(self.0.state, 0) }.found[level as usize % 2])
    }
    fn level(&self) -> &AtomicU32 {
        // SAFETY: there is one state.
        self.atomic(&unsafe { element(self.0.state, 0) }.level)
    }
    fn reached(&self) -> &AtomicU32 {
        // SAFETY: there is one state.
        self.atomic(&unsafe { element(self.0.state, 0) }.reached)
    }
    pub(super) fn word(&self, bitmap: u8, word: u32) -> &AtomicU32 {
        let at = u64::from(bitmap & BITMAP) * u64::from(self.0.words) + u64::from(word);
        // SAFETY: there are two bitmaps of so many words; callers name words of theirs.
        self.atomic(unsafe { element(self.0.bits, at) })
    }
    fn has(&self, bitmap: u8, v: u32) -> bool {
        self.word(bitmap, v / 32).load(Ordering::Relaxed) >> (v % 32) & 1 != 0
    }
    /// Place `i` of the frontier of a level.
    fn entry(&self, level: u32, i: u32) -> &AtomicU32 {
        let at = u64::from(level % 2) * u64::from(self.0.vertices) + u64::from(i);
        // SAFETY: each of the two queues has room for all vertices, and none holds one twice.
        self.atomic(unsafe { element(self.0.queue, at) })
    }
    fn edges(&self, v: u32) -> std::ops::Range<u32> {
        // SAFETY: `v` is a vertex; there is one row more.
        unsafe { *element(self.0.rows, v.into())..*element(self.0.rows, u64::from(v) + 1) }
    }
    fn column(&self, edge: u32) -> u32 {
        // SAFETY: the graph was validated when the instance was made.
        unsafe { *element(self.0.columns, edge.into()) }
    }
    /// The first vertex on an edge to `v` that has been reached, the smallest.
    fn parent(&self, bitmap: u8, v: u32) -> Option<u32> {
        // SAFETY: `v` is a vertex; there is one row more; the rows were made with the columns.
        let from = |e: u32| unsafe { *element(self.0.in_columns, e.into()) };
        // SAFETY: as above.
        let row = |v: u64| unsafe { *element(self.0.in_rows, v) };
        let mut edges = row(v.into())..row(u64::from(v) + 1);
        edges.find(|&e| self.has(bitmap, from(e))).map(from)
    }
    /// Offers the level after `level` to the far ends of some edges of `v`, and queues what was unreached.
    fn offer(&self, level: u32, bitmap: u8, v: u32, edges: std::ops::Range<u32>) {
        let offer = u64::from(level + 1) << 32 | u64::from(v);
        for u in edges.map(|e| self.column(e)) {
            // SAFETY: columns name vertices.
            let best = unsafe { best(&self.0, u) };
            if best.load(Ordering::Relaxed) <= offer
                || best.fetch_min(offer, Ordering::Relaxed) != u64::MAX
            {
                continue;
            }
            let at = self.found(level + 1).fetch_add(1, Ordering::Relaxed);
            self.entry(level + 1, at).store(u, Ordering::Relaxed);
            self.word(bitmap, u / 32)
                .fetch_or(1 << (u % 32), Ordering::Relaxed);
        }
    }
}

/// The arguments of up to 64 tasks that share a range, each a multiple of `grain`.
fn fan(first: u32, count: u32, grain: u32) -> impl Iterator<Item = u64> {
    let each = count.div_ceil(BFS_FAN).next_multiple_of(grain);
    (0..count).step_by(each as usize).map(move |begin| {
        let n = each.min(count - begin);
        u64::from(n) << 32 | u64::from(first + begin)
    })
}

pub(super) fn level(t: &mut dyn TaskCx) {
    let s = Shared(params(t));
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
    let s = Shared(params(t));
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
    let s = Shared(params(t));
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
    let s = Shared(params(t));
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
                unsafe { best(&s.0, v) }.store(word, Ordering::Relaxed);
                found |= 1 << bit;
            }
        }
        s.word(tag ^ BITMAP, at)
            .store(reached | found, Ordering::Relaxed);
        // The first of them are queued too: if they are all, the search goes on from there.
        let n = found.count_ones();
        let to = s.found(level + 1).fetch_add(n, Ordering::Relaxed);
        let bits = (0..32).filter(|bit| found >> bit & 1 != 0);
        for (to, bit) in (to..BFS_TAIL).zip(bits) {
            s.entry(level + 1, to)
                .store(at * 32 + bit, Ordering::Relaxed);
        }
    }
}
