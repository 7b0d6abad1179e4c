//! The CPU twin of `pagerank.cu`.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp::TaskCx;

use super::{DAMPING, DevPageRank, GATHER, RANGE, SPLIT, STEP};
use crate::element;

/// The cell of an f64 that tasks add to.
fn add(cell: &f64, value: f64) {
    // SAFETY: aligned like a u64 and, while tasks run, only accessed atomically.
    let cell = unsafe { AtomicU64::from_ptr(std::ptr::from_ref(cell).cast_mut().cast()) };
    let more = |bits| Some((f64::from_bits(bits) + value).to_bits());
    let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

pub(super) fn step(t: &mut dyn TaskCx) {
    // SAFETY: the instance was made with these parameters.
    let p = *unsafe { t.params::<DevPageRank>() };
    let iteration = t.lo();
    if iteration == p.iterations {
        return;
    }
    t.fork(STEP, 0, (iteration + 1).into());
    t.spawn_child(SPLIT, iteration as u8, u64::from(p.vertices) << 32);
}

pub(super) fn split(t: &mut dyn TaskCx) {
    let (first, count, tag) = (t.lo(), t.hi(), t.tag());
    if count <= RANGE {
        return t.spawn(GATHER, tag, t.arg());
    }
    let half = (count / 2).next_multiple_of(RANGE);
    t.spawn(SPLIT, tag, u64::from(half) << 32 | u64::from(first));
    t.spawn(
        SPLIT,
        tag,
        u64::from(count - half) << 32 | u64::from(first + half),
    );
}

pub(super) fn gather(t: &mut dyn TaskCx) {
    // SAFETY: the instance was made with these parameters.
    let p = *unsafe { t.params::<DevPageRank>() };
    let (first, count) = (u64::from(t.lo()), u64::from(t.hi()));
    let n = u64::from(p.vertices);
    // The tag is the iteration's number: its parity names the array.
    let iteration = u64::from(t.tag());
    let (from, to) = (iteration % 2 * n, (1 - iteration % 2) * n);
    // SAFETY: the graph was validated when the instance was made, ranges are inside it, and no two tasks
    // of an iteration write the same vertex.
    unsafe {
        let base =
            (1.0 - DAMPING) / n as f64 + DAMPING * *element(p.dangling, iteration) / n as f64;
        let mut dangling = 0.0;
        for v in first..first + count {
            let edges = u64::from(*element(p.rows, v))..u64::from(*element(p.rows, v + 1));
            let sum: f64 = edges
                .map(|e| u64::from(*element(p.columns, e)))
                .map(|u| *element(p.ranks, from + u) / f64::from(*element(p.degrees, u)))
                .sum();
            let rank = base + DAMPING * sum;
            std::ptr::from_ref(element(p.ranks, to + v))
                .cast_mut()
                .write(rank);
            if *element(p.degrees, v) == 0 {
                dangling += rank;
            }
        }
        if dangling != 0.0 {
            add(element(p.dangling, iteration + 1), dangling);
        }
    }
}
