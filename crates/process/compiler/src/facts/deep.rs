//! Calls that nest deeper than the device's stack: which functions frames can be divided at, and where an instance keeps
//! what it needs for that.
//!
//! When the stack is full the instance is suspended at the entry of the function that finds it so. The frames that were saved
//! are divided at a function: the inner ones go on by themselves on an empty stack, and the outer ones are moved to a part
//! of memory until the function returns. A chain of calls that is longer than there are functions goes in circles, so it is
//! enough to divide at functions that are in circles; all others cost nothing.

use std::collections::BTreeMap;

use crate::facts::abi::DevDeep;
use crate::facts::calls::CallGraph;
use crate::facts::module::Module;
use crate::facts::referenced::Referenced;
use crate::facts::types::slot_bytes;

/// The functions at which frames can be divided.
#[derive(Debug)]
pub(crate) struct Deep {
    /// In ascending order; a function's number is its place, plus one.
    pub(crate) functions: Vec<u32>,
    /// The most bytes of their results.
    results: usize,
}

impl Deep {
    /// None if no calls go in circles.
    pub(crate) fn new(module: &Module, graph: &CallGraph, referenced: &Referenced) -> Option<Self> {
        let functions = in_circles(graph, referenced);
        let results = functions
            .iter()
            .map(|&f| slot_bytes(&module.function_type(f).results));
        let results = results.max()?;
        Some(Self { functions, results })
    }

    /// Bytes of the record, with what follows it: a function's results, on their way to its caller.
    pub(crate) fn bytes(&self) -> usize {
        (size_of::<DevDeep>() + self.results).next_multiple_of(16)
    }

    /// The number by which a function is known, if frames can be divided there.
    pub(crate) fn number(&self, function: u32) -> Option<u32> {
        let place = self.functions.binary_search(&function).ok()?;
        Some(place as u32 + 1)
    }
}

/// The functions from which calls can lead back to them, in ascending order.
fn in_circles(graph: &CallGraph, referenced: &Referenced) -> Vec<u32> {
    // A node for each function, then one for each type of indirect calls.
    let own = graph.functions.len();
    let mut types = BTreeMap::new();
    for calls in &graph.functions {
        for &ty in &calls.indirect {
            let next = own + types.len();
            types.entry(ty).or_insert(next);
        }
    }
    let mut called: Vec<Vec<usize>> = (graph.functions.iter())
        .map(|calls| {
            let direct = calls.direct.iter().map(|&f| f as usize);
            direct
                .chain(calls.indirect.iter().map(|ty| types[ty]))
                .collect()
        })
        .collect();
    let mut by_place: Vec<_> = types.iter().collect();
    by_place.sort_unstable_by_key(|(_, place)| **place);
    called.extend(by_place.into_iter().map(|(&ty, _)| {
        let list = referenced.list(ty).iter();
        list.map(|&f| f as usize).collect::<Vec<_>>()
    }));
    let parts = components(&called);
    let mut sizes = vec![0; called.len()];
    for &part in &parts {
        sizes[part] += 1;
    }
    let circle = |f: &usize| sizes[parts[*f]] > 1 || called[*f].contains(f);
    (0..own).filter(circle).map(|f| f as u32).collect()
}

/// For each node the number of its strongly connected component, by Tarjan's algorithm.
fn components(called: &[Vec<usize>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let (mut order, mut low) = (vec![NONE; called.len()], vec![0; called.len()]);
    let (mut part, mut open) = (vec![NONE; called.len()], Vec::new());
    let (mut next, mut parts) = (0, 0);
    for first in 0..called.len() {
        if order[first] != NONE {
            continue;
        }
        // A stack of its own, because a module may nest calls as deep as it likes.
        let mut work = vec![(first, 0)];
        while let Some((node, at)) = work.pop() {
            if at == 0 {
                order[node] = next;
                low[node] = next;
                next += 1;
                open.push(node);
            } else {
                let callee = called[node][at - 1];
                low[node] = low[node].min(low[callee]);
            }
            let rest = called[node].iter().enumerate().skip(at);
            let mut deeper = None;
            for (i, &callee) in rest {
                if order[callee] == NONE {
                    deeper = Some((i + 1, callee));
                    break;
                }
                if part[callee] == NONE {
                    low[node] = low[node].min(order[callee]);
                }
            }
            if let Some((at, callee)) = deeper {
                work.push((node, at));
                work.push((callee, 0));
                continue;
            }
            if low[node] == order[node] {
                while let Some(member) = open.pop() {
                    part[member] = parts;
                    if member == node {
                        break;
                    }
                }
                parts += 1;
            }
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(calls: &[&[u32]]) -> Vec<u32> {
        in_circles(&CallGraph::of(calls), &Referenced::default())
    }

    #[test]
    fn functions_in_circles_are_found() {
        assert_eq!(circles(&[&[1], &[2], &[]]), []);
        assert_eq!(circles(&[&[1], &[1, 2], &[]]), [1]);
        assert_eq!(circles(&[&[1], &[2], &[3, 4], &[1], &[5], &[]]), [1, 2, 3]);
        assert_eq!(circles(&[&[0, 1], &[2], &[1], &[2]]), [0, 1, 2]);
    }

    #[test]
    fn random_graphs_have_the_circles_that_reachability_says() {
        let mut state = 1_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        for _ in 0..500 {
            let count = 1 + random() % 9;
            let mut some = || -> Vec<u32> {
                let edges = random() % 3;
                (0..edges).map(|_| (random() % count) as u32).collect()
            };
            let calls: Vec<_> = (0..count).map(|_| some()).collect();
            let mut reaches = vec![vec![false; count]; count];
            for (f, calls) in calls.iter().enumerate() {
                for &c in calls {
                    reaches[f][c as usize] = true;
                }
            }
            for via in 0..count {
                for from in 0..count {
                    for to in 0..count {
                        let through = reaches[from][via] && reaches[via][to];
                        reaches[from][to] |= through;
                    }
                }
            }
            let expected = (0..count).filter(|&f| reaches[f][f]).map(|f| f as u32);
            let slices: Vec<&[u32]> = calls.iter().map(Vec::as_slice).collect();
            assert_eq!(circles(&slices), expected.collect::<Vec<_>>());
        }
    }
}
