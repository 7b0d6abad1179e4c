//! Sorting in parts, each by a thread, which are then merged.

use std::thread;

/// Sorts with up to `threads` threads.
pub(crate) fn sort(numbers: &mut [u32], threads: usize) {
    let size = numbers.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        for part in numbers.chunks_mut(size) {
            scope.spawn(|| part.sort_unstable());
        }
    });
    let mut size = size;
    while size < numbers.len() {
        thread::scope(|scope| {
            for pair in numbers.chunks_mut(2 * size) {
                scope.spawn(move || merge(pair, size));
            }
        });
        size *= 2;
    }
}

/// Merges two sorted parts. The first has `size` numbers.
fn merge(pair: &mut [u32], size: usize) {
    let (first, second) = pair.split_at(size.min(pair.len()));
    let mut merged = Vec::with_capacity(pair.len());
    let (mut a, mut b) = (first.iter().peekable(), second.iter().peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        let next = if x <= y { a.next() } else { b.next() };
        merged.extend(next);
    }
    merged.extend(a);
    merged.extend(b);
    pair.copy_from_slice(&merged);
}
