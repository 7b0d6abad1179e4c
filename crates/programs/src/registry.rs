//! The list of native programs. The command, the conformance suite and the documents are made from it.

use everwarp::{EngineKind, Program};

use crate::bfs::BreadthFirstSearch;
use crate::big::ManyToMany;
use crate::counting::Counting;
use crate::fib::Fibonacci;
use crate::native::Registered;
use crate::noop::Nothing;
use crate::operators::OperatorPipeline;
use crate::pagerank::PageRanks;
use crate::pairs::DependentPairs;
use crate::pingpong::PingPong;
use crate::range::CountedRange;
use crate::ring::TokenRing;
use crate::skynet::Skynet;
use crate::tree::BinaryTree;

/// All programs that the command runs, in the order in which `everwarp programs` lists them. (`probe`, `heap_probe`
/// and `actor_probe` only serve tests.)
pub static REGISTRY: [&dyn Registered; 9] = [
    &BreadthFirstSearch,
    &PageRanks,
    &Fibonacci,
    &BinaryTree,
    &PingPong,
    &Nothing,
    &DependentPairs,
    &CountedRange,
    &OperatorPipeline,
];

/// The programs of actors. The command does not run them before actors run on every engine.
pub static ACTOR_PROGRAMS: [&dyn Registered; 4] = [&Skynet, &TokenRing, &Counting, &ManyToMany];

/// The entry of the program with this name.
pub fn find(name: &str) -> Option<&'static dyn Registered> {
    REGISTRY.into_iter().find(|entry| entry.name() == name)
}

/// The standard programs: those that are not only there for a benchmark.
pub fn standard() -> impl Iterator<Item = &'static Program> {
    programs(false)
}

/// The programs that exist for benchmarks and run on a GPU, too. Other images need not carry them.
pub fn benchmarks() -> impl Iterator<Item = &'static Program> {
    programs(true)
}

fn programs(benchmark: bool) -> impl Iterator<Item = &'static Program> {
    let chosen = REGISTRY.into_iter();
    chosen
        .filter(move |entry| entry.is_benchmark() == benchmark && entry.runs_on(EngineKind::Cuda))
        .map(|entry| entry.program())
}
