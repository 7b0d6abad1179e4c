//! Loom models of the protocols of the device sources: each file is the twin of one `.cuh`, statement for
//! statement with the same memory orders, and says which functions it mirrors.
//!
//! Limits of the twins: a warp is one thread here, and its lanes' votes and shuffles are gone, since they order the
//! data that they exchange. Scopes are gone too: a model says nothing about an atomic whose scope is too
//! narrow. Loom does not explore load buffering (a relaxed load that returns what depends on it), which
//! PTX allows only without dependencies. A failed compare-and-swap acquires, as PTX's does.
//!
//! Where memory orders matter, the twin takes them as fields, so that a test can weaken one and show that the model
//! fails: a check that cannot fail proves nothing.

mod answer;
mod channel;
mod children;
mod deque;
mod files;
mod finish;
mod gather;
mod idle;
mod ingress;
mod reply;
mod stack;
mod supply;
mod team;
mod turn;
mod wait;

use std::sync::atomic::{AtomicU32 as StdU32, Ordering as StdOrdering};

/// `NONE` of the device sources.
const NONE: u32 = u32::MAX;

/// Runs a model in every interleaving with at most three preemptions, which keeps the state spaces small.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_within(3, model);
}

/// The same with at most this many preemptions: two for models of four threads, whose mutants need no more.
fn explore_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// How often each of a few things arrived. Not loom's atomics: it must not order what the model checks.
struct Tally(Vec<StdU32>);

impl Tally {
    fn new(things: usize) -> Self {
        Self((0..things).map(|_| StdU32::new(0)).collect())
    }

    fn arrived(&self, thing: u32) {
        let before = self.0[thing as usize].fetch_add(1, StdOrdering::Relaxed);
        assert_eq!(before, 0, "taken twice: {thing}");
    }

    fn assert_all(&self) {
        for (thing, count) in self.0.iter().enumerate() {
            assert_eq!(count.load(StdOrdering::Relaxed), 1, "lost: {thing}");
        }
    }
}
