//! The memory of a search, as the CPU twins of `bfs.cu` and `levels.cu` use it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use everwarp::TaskCx;

use super::DevBfs;
use super::consts::BFS_BITMAP;
use crate::element;

/// The memory of one search, which all its tasks use.
pub(super) struct SearchMemory(pub(super) DevBfs);

impl SearchMemory {
    /// The memory that a task's parameters name.
    pub(super) fn of(t: &dyn TaskCx) -> Self {
        // SAFETY: instances of this program are made with these parameters.
        Self(*unsafe { t.params::<DevBfs>() })
    }
    /// The best offer to a vertex so far: its level and parent.
    ///
    /// # Safety
    /// - `v` is a vertex of the graph.
    pub(super) unsafe fn best(&self, v: u32) -> &AtomicU64 {
        // SAFETY: the caller vouches for the index; the words are aligned, and tasks only access them atomically.
        unsafe {
            AtomicU64::from_ptr(std::ptr::from_ref(element(self.0.best, v.into())).cast_mut())
        }
    }
    fn atomic<'a>(&self, word: &u32) -> &'a AtomicU32 {
        // SAFETY: words of buffers that live as long as the instance; all tasks access them atomically.
        unsafe { AtomicU32::from_ptr(std::ptr::from_ref(word).cast_mut()) }
    }
    /// How many vertices were found so far for a level.
    pub(super) fn found(&self, level: u32) -> &AtomicU32 {
        // SAFETY: there is one state.
        self.atomic(&unsafe { element(self.0.state, 0) }.found[level as usize % 2])
    }
    /// The level whose neighbours are looked for.
    pub(super) fn level(&self) -> &AtomicU32 {
        // SAFETY: there is one state.
        self.atomic(&unsafe { element(self.0.state, 0) }.level)
    }
    /// How many vertices have been reached.
    pub(super) fn reached(&self) -> &AtomicU32 {
        // SAFETY: there is one state.
        self.atomic(&unsafe { element(self.0.state, 0) }.reached)
    }
    /// A word of a bitmap.
    pub(super) fn word(&self, bitmap: u8, word: u32) -> &AtomicU32 {
        let at = u64::from(bitmap & BFS_BITMAP as u8) * u64::from(self.0.words) + u64::from(word);
        // SAFETY: there are two bitmaps of `words` words each, and callers name words of a bitmap.
        self.atomic(unsafe { element(self.0.bits, at) })
    }
    fn has(&self, bitmap: u8, v: u32) -> bool {
        self.word(bitmap, v / 32).load(Ordering::Relaxed) >> (v % 32) & 1 != 0
    }
    /// Place `i` of the frontier of a level.
    pub(super) fn entry(&self, level: u32, i: u32) -> &AtomicU32 {
        let at = u64::from(level % 2) * u64::from(self.0.vertices) + u64::from(i);
        // SAFETY: each of the two queues has room for all vertices, and none holds one twice.
        self.atomic(unsafe { element(self.0.queue, at) })
    }
    pub(super) fn edges(&self, v: u32) -> std::ops::Range<u32> {
        // SAFETY: `v` is a vertex; there is one row more.
        unsafe { *element(self.0.rows, v.into())..*element(self.0.rows, u64::from(v) + 1) }
    }
    fn column(&self, edge: u32) -> u32 {
        // SAFETY: the graph was validated when the instance was made.
        unsafe { *element(self.0.columns, edge.into()) }
    }
    /// The smallest reached vertex with an edge to `v`: edges are in ascending order.
    pub(super) fn parent(&self, bitmap: u8, v: u32) -> Option<u32> {
        // SAFETY: `v` is a vertex; there is one row more; the rows were made with the columns.
        let from = |e: u32| unsafe { *element(self.0.in_columns, e.into()) };
        // SAFETY: as above.
        let row = |v: u64| unsafe { *element(self.0.in_rows, v) };
        let mut edges = row(v.into())..row(u64::from(v) + 1);
        edges.find(|&e| self.has(bitmap, from(e))).map(from)
    }
    /// Offers the level after `level` to the far ends of some edges of `v`, and queues the unreached ones.
    pub(super) fn offer(&self, level: u32, bitmap: u8, v: u32, edges: std::ops::Range<u32>) {
        let offer = u64::from(level + 1) << 32 | u64::from(v);
        for u in edges.map(|e| self.column(e)) {
            // SAFETY: columns name vertices.
            let best = unsafe { self.best(u) };
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
