//! Which functions an image gets before it is known which ones are called.

use std::collections::{BTreeSet, VecDeque};

use crate::facts::calls::CallGraph;

/// Which modules are compiled in part, and how much of them at first ([`CompileOptions::first`](crate::CompileOptions::first)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstFunctions {
    /// A module whose functions have fewer bytes together is compiled as a whole.
    pub least: usize,
    /// The most bytes of the functions that are compiled at first. An entry is compiled even if it has more.
    pub most: usize,
}

/// The functions that direct calls lead to, up to `most` bytes of code: those with the fewest calls on the way first, and of
/// these the ones with lower numbers. The functions `from` are found in any case. Functions in `present` are not found, and
/// calls that they make are not followed. A function that is too large is left out, and smaller ones after it are not.
pub(crate) fn reached(
    graph: &CallGraph,
    bytes: &[usize],
    from: impl IntoIterator<Item = u32>,
    present: &BTreeSet<u32>,
    most: usize,
) -> BTreeSet<u32> {
    let size = |function: u32| bytes.get(function as usize).copied().unwrap_or(0);
    let mut found = BTreeSet::new();
    let mut queue = VecDeque::new();
    let mut taken = 0;
    for function in from {
        if !present.contains(&function) && found.insert(function) {
            taken += size(function);
            queue.push_back(function);
        }
    }
    while let Some(function) = queue.pop_front() {
        let calls = graph.functions.get(function as usize);
        for &callee in calls.into_iter().flat_map(|calls| &calls.direct) {
            let fits = taken + size(callee) <= most;
            if fits && !present.contains(&callee) && found.insert(callee) {
                taken += size(callee);
                queue.push_back(callee);
            }
        }
    }
    found
}

/// All functions, those first that direct calls lead to from `from`, the nearest first; then the others by their numbers, each
/// followed by those that only calls from it lead to.
pub(crate) fn by_distance(graph: &CallGraph, from: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let count = graph.functions.len();
    let (mut seen, mut order) = (vec![false; count], Vec::with_capacity(count));
    let mut walk = |from: &mut dyn Iterator<Item = u32>| {
        let mut next = order.len();
        let mut reach = |function: u32, order: &mut Vec<u32>| {
            let first = seen.get_mut(function as usize);
            if first.is_some_and(|seen| !std::mem::replace(seen, true)) {
                order.push(function);
            }
        };
        from.for_each(|function| reach(function, &mut order));
        while let Some(&function) = order.get(next) {
            for &callee in &graph.functions[function as usize].direct {
                reach(callee, &mut order);
            }
            next += 1;
        }
    };
    walk(&mut from.into_iter());
    (0..count as u32).for_each(|function| walk(&mut std::iter::once(function)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(from: &[u32], present: &[u32], most: usize) -> Vec<u32> {
        // 0 calls 1 and 4, 1 calls 2 and 0, 2 calls 3.
        let graph = CallGraph::of(&[&[1, 4], &[0, 2], &[3], &[], &[]]);
        let bytes = [10, 10, 10, 10, 50];
        let present = present.iter().copied().collect();
        let found = reached(&graph, &bytes, from.iter().copied(), &present, most);
        found.into_iter().collect()
    }

    #[test]
    fn the_nearest_functions_come_first() {
        assert_eq!(found(&[0], &[], 1000), [0, 1, 2, 3, 4]);
        assert_eq!(found(&[0], &[], 80), [0, 1, 2, 4]);
        assert_eq!(found(&[0], &[], 20), [0, 1]);
    }

    #[test]
    fn all_functions_are_ordered_by_their_distance() {
        // 4 calls 1 and 3, 1 calls 0 and 4, and no direct call leads to 2, which calls 5.
        let graph = CallGraph::of(&[&[], &[0, 4], &[5], &[], &[3, 1], &[2]]);
        assert_eq!(by_distance(&graph, [4]), [4, 1, 3, 0, 2, 5]);
        assert_eq!(by_distance(&graph, [5, 9]), [5, 2, 0, 1, 4, 3]);
    }

    #[test]
    fn a_large_function_is_left_out_and_smaller_ones_are_not() {
        assert_eq!(found(&[0], &[], 40), [0, 1, 2, 3]);
    }

    #[test]
    fn functions_that_are_asked_for_are_found_however_large() {
        assert_eq!(found(&[4, 2], &[], 0), [2, 4]);
    }

    #[test]
    fn present_functions_are_not_found_again() {
        assert_eq!(found(&[0, 2], &[2], 1000), [0, 1, 4]);
    }
}
