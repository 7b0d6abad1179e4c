//! The search of protocols, for tests: every order of their steps.

use std::collections::HashSet;
use std::hash::Hash;

/// Looks at every order of steps from these worlds on. `fault` says what is wrong in a world; its second argument says whether
/// nothing happens there any more. Returns the first fault, and how many worlds there are.
pub(crate) fn search<W: Clone + Eq + Hash>(
    first: impl IntoIterator<Item = W>,
    steps: impl Fn(&W) -> Vec<W>,
    fault: impl Fn(&W, bool) -> Option<&'static str>,
) -> (Option<&'static str>, usize) {
    let mut found = None;
    let mut seen = HashSet::new();
    for world in first {
        let mut open = vec![world];
        while let Some(world) = open.pop() {
            if !seen.insert(world.clone()) {
                continue;
            }
            let next = steps(&world);
            found = found.or(fault(&world, next.is_empty()));
            open.extend(next);
        }
    }
    (found, seen.len())
}
