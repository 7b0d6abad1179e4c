//! How much the functions of a chain of calls take together at most, where each takes what is known of it.
//!
//! A chain is a walk through the graph of calls. The most that walks of `n` functions take is found one function after the
//! other, for up to [`EXACT`] functions. A longer walk is several walks one behind the other, so it takes at most the sum.

use std::collections::BTreeMap;

use crate::facts::calls::CallGraph;
use crate::facts::referenced::Referenced;

/// The length up to which the most is found exactly.
const EXACT: usize = 64;

/// What the parts of a chain take.
pub(crate) struct Takes<F, B> {
    /// A function by its number.
    pub(crate) function: F,
    /// What an indirect call of a canonical type takes in addition.
    pub(crate) between: B,
    /// What a function takes in addition that a trampoline runs.
    pub(crate) trampoline: u64,
}

/// The most that chains of calls take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    /// By the number of functions in a chain, from none on.
    most: Vec<u64>,
    /// No chain is longer than the last of these.
    ends: bool,
}

/// A function; or a trampoline with all functions that it runs, one in the other's place.
#[derive(Default)]
struct Node {
    weight: u64,
    direct: Vec<usize>,
    /// Places among the types.
    indirect: Vec<usize>,
}

/// The functions of a type that references may name.
struct Called {
    /// What the functions between take that an indirect call passes.
    between: u64,
    nodes: Vec<usize>,
}

impl Chains {
    /// `takes` says how much is taken.
    pub(crate) fn new(
        graph: &CallGraph,
        referenced: &Referenced,
        takes: &Takes<impl Fn(u32) -> u64, impl Fn(u32) -> u64>,
    ) -> Self {
        let (nodes, called) = nodes(graph, referenced, takes);
        let mut last = vec![0; nodes.len()];
        let mut most = vec![0];
        for _ in 0..EXACT {
            let of = |called: &Called| {
                let deepest = called.nodes.iter().map(|&n| last[n]).max();
                deepest.map_or(0, |deepest| called.between + deepest)
            };
            let by_type: Vec<_> = called.iter().map(of).collect();
            let next = nodes.iter().map(|node| {
                let direct = node.direct.iter().map(|&n| last[n]);
                let indirect = node.indirect.iter().map(|&t| by_type[t]);
                node.weight + direct.chain(indirect).max().unwrap_or(0)
            });
            let next: Vec<_> = next.collect();
            let ends = next == last;
            last = next;
            if ends {
                return Self { most, ends };
            }
            most.push(last.iter().max().copied().unwrap_or(0));
        }
        Self { most, ends: false }
    }

    /// The most that a chain of up to this many functions takes.
    pub(crate) fn most(&self, functions: u64) -> u64 {
        let Some(exact) = self.most.len().checked_sub(1) else {
            return 0;
        };
        if self.ends || functions <= exact as u64 {
            let at = functions.min(exact as u64);
            return self.most[at as usize];
        }
        let exact = exact as u64;
        let whole = self.most[exact as usize].saturating_mul(functions / exact);
        whole.saturating_add(self.most[(functions % exact) as usize])
    }

    /// Whether there is a longest chain of calls, and it is short.
    pub(crate) fn end(&self) -> bool {
        self.ends
    }

    /// The longest chain that certainly takes no more than this, but not more than `limit` functions.
    pub(crate) fn longest(&self, bytes: u64, limit: u32) -> u32 {
        let (mut fits, mut too_long) = (0, limit + 1);
        while too_long - fits > 1 {
            let middle = fits + (too_long - fits) / 2;
            match self.most(middle.into()) <= bytes {
                true => fits = middle,
                false => too_long = middle,
            }
        }
        fits
    }
}

fn nodes(
    graph: &CallGraph,
    referenced: &Referenced,
    takes: &Takes<impl Fn(u32) -> u64, impl Fn(u32) -> u64>,
) -> (Vec<Node>, Vec<Called>) {
    // The trampolines come first.
    let own = graph.targets.len();
    let node_of = |f: u32| match graph.trampolines.get(&f) {
        Some(trampoline) => *trampoline,
        None => own + f as usize,
    };
    let (mut called, mut places) = (Vec::new(), BTreeMap::new());
    let mut node = |functions: &[u32], more: u64| {
        let mut node = Node::default();
        for &f in functions {
            let calls = &graph.functions[f as usize];
            node.weight = node.weight.max((takes.function)(f) + more);
            node.direct.extend(calls.direct.iter().map(|&c| node_of(c)));
            for &ty in &calls.indirect {
                let place = places.entry(ty).or_insert_with(|| {
                    let list = referenced.list(ty).iter();
                    called.push(Called {
                        between: (takes.between)(ty),
                        nodes: list.map(|&c| node_of(c)).collect(),
                    });
                    called.len() - 1
                });
                node.indirect.push(*place);
            }
        }
        node
    };
    let trampolines = graph.targets.iter();
    let mut nodes: Vec<_> = trampolines
        .map(|targets| node(targets, takes.trampoline))
        .collect();
    // Nothing leads to the nodes of functions that trampolines run, and those take no less.
    nodes.extend((0..graph.functions.len() as u32).map(|f| node(&[f], 0)));
    (nodes, called)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chains(calls: &[&[u32]], weights: &[u64]) -> Chains {
        let takes = Takes {
            function: |f: u32| weights[f as usize],
            between: |_: u32| 0,
            trampoline: 0,
        };
        Chains::new(&CallGraph::of(calls), &Referenced::default(), &takes)
    }

    #[test]
    fn chains_without_circles_end() {
        // 0 calls 1 and 2, and both call 3.
        let chains = chains(&[&[1, 2], &[3], &[3], &[]], &[10, 100, 1, 5]);
        let most: Vec<_> = [0, 1, 2, 3, 4, 1 << 40].map(|n| chains.most(n)).into();
        assert_eq!(most, [0, 100, 110, 115, 115, 115]);
        assert_eq!(chains.longest(114, 1000), 2);
        assert_eq!(chains.longest(115, 1000), 1000);
        assert_eq!(chains.longest(99, 1000), 0);
    }

    #[test]
    fn a_large_function_that_calls_go_through_once_counts_once() {
        // The large function calls the small one, which calls itself.
        let chains = chains(&[&[1], &[1]], &[1000, 8]);
        assert_eq!([1, 2, 3].map(|n| chains.most(n)), [1000, 1008, 1016]);
        // Beyond what is exact, the bound has the large function once in each part.
        let exact = 1000 + 63 * 8;
        assert_eq!(chains.most(64), exact);
        assert_eq!(chains.most(65), exact + 1000);
        assert_eq!(chains.most(6400), 100 * exact);
        let longest = chains.longest(20_000, u32::MAX - 1);
        assert!(chains.most(longest.into()) <= 20_000);
        assert!(chains.most(u64::from(longest) + 1) > 20_000);
    }

    #[test]
    fn functions_that_a_trampoline_runs_are_one_part_of_a_chain() {
        // 0 tail calls 1, which tail calls 2, which calls 3; 4 calls 0.
        let mut graph = CallGraph::of(&[&[1], &[2], &[3], &[], &[0]]);
        graph.trampolines = BTreeMap::from([(0, 0), (1, 0)]);
        graph.targets = vec![vec![0, 1, 2]];
        let takes = Takes {
            function: |f: u32| [1, 20, 300, 4000, 50_000][f as usize],
            between: |_: u32| 0,
            trampoline: 7,
        };
        let chains = Chains::new(&graph, &Referenced::default(), &takes);
        // The caller, whichever runs in the trampoline, and what that calls.
        assert_eq!(chains.most(3), 50_000 + 307 + 4000);
    }

    #[test]
    fn the_most_is_that_of_the_heaviest_walk() {
        // Random graphs, against a search of all walks.
        let mut state = 1_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        fn heaviest(calls: &[Vec<u32>], weights: &[u64], from: usize, left: u32) -> u64 {
            if left == 0 {
                return 0;
            }
            let next = calls[from].iter();
            let next = next.map(|&c| heaviest(calls, weights, c as usize, left - 1));
            weights[from] + next.max().unwrap_or(0)
        }
        for _ in 0..200 {
            let functions = 1 + random() % 6;
            let mut some = || -> Vec<u32> {
                let count = random() % 3;
                (0..count).map(|_| (random() % functions) as u32).collect()
            };
            let calls: Vec<_> = (0..functions).map(|_| some()).collect();
            let weights: Vec<_> = (0..functions).map(|_| 1 + random() as u64 % 100).collect();
            let slices: Vec<&[u32]> = calls.iter().map(Vec::as_slice).collect();
            let found = chains(&slices, &weights);
            for length in 0..8 {
                let all = (0..functions).map(|f| heaviest(&calls, &weights, f, length));
                assert_eq!(Some(found.most(length.into())), all.max());
            }
        }
    }
}
