//! The list of native programs. The command, the conformance suite and the documents are made from it.

use everwarp::{EngineKind, Program};

use crate::asks::Asks;
use crate::bank::Bank;
use crate::bfs::BreadthFirstSearch;
use crate::big::ManyToMany;
use crate::chameneos::Chameneos;
use crate::chat::Chat;
use crate::counting::Counting;
use crate::epidemic::Epidemic;
use crate::fib::Fibonacci;
use crate::gather::GatherRows;
use crate::native::Registered;
use crate::noop::Nothing;
use crate::operators::OperatorPipeline;
use crate::pagerank::PageRanks;
use crate::pairs::DependentPairs;
use crate::philosophers::Philosophers;
use crate::pingpong::PingPong;
use crate::range::CountedRange;
use crate::ring::TokenRing;
use crate::sieve::Sieve;
use crate::skynet::Skynet;
use crate::tree::BinaryTree;
use crate::words::WordCount;

/// All programs that the command runs, in the order in which `everwarp programs` lists them. (`probe`, `heap_probe`,
/// `file_probe`, `page_probe`, `actor_probe`, `actor_broker`, `actor_faults`, `actor_services`, `actor_groups` and `actor_shapes` only serve tests, and `naps` and `reads`
/// benchmarks.)
pub static REGISTRY: [&dyn Registered; 22] = [
    &BreadthFirstSearch,
    &PageRanks,
    &Fibonacci,
    &BinaryTree,
    &PingPong,
    &Nothing,
    &WordCount,
    &GatherRows,
    &DependentPairs,
    &CountedRange,
    &OperatorPipeline,
    &Skynet,
    &TokenRing,
    &Counting,
    &ManyToMany,
    &Chameneos,
    &Philosophers,
    &Sieve,
    &Chat,
    &Epidemic,
    &Asks,
    &Bank,
];

/// The entry of the program with this name.
pub fn find(name: &str) -> Option<&'static dyn Registered> {
    REGISTRY.into_iter().find(|entry| entry.name() == name)
}

/// The standard programs: those that are not only there for a benchmark. Programs of actors are in neither of these lists,
/// because an image has one of them at a time.
pub fn standard() -> impl Iterator<Item = &'static Program> {
    programs(false)
}

/// The programs that exist for benchmarks and run on every engine. Other images need not carry them.
pub fn benchmarks() -> impl Iterator<Item = &'static Program> {
    programs(true)
}

fn programs(benchmark: bool) -> impl Iterator<Item = &'static Program> {
    let chosen = REGISTRY.into_iter();
    chosen
        .filter(move |entry| {
            let everywhere = [EngineKind::Cuda, EngineKind::Wgpu].map(|kind| entry.runs_on(kind));
            entry.is_benchmark() == benchmark
                && everywhere == [true; 2]
                && !entry.program().has_actors()
        })
        .map(|entry| entry.program())
}
