//! The standard native programs, each one folder: device source, CPU twin under the same names, plain
//! reference, tests.
//!
//! This crate is **internal** to everwarp; read it to learn how a program is written.

pub mod bfs;
pub mod fib;
pub mod heap_probe;
pub mod noop;
pub mod operators;
pub mod pagerank;
pub mod pairs;
pub mod pingpong;
pub mod probe;
pub mod range;
pub mod tree;

use everwarp::{DevPtr, Program};

/// All programs, in the order in which `everwarp programs` lists them. `probe` and `heap_probe` serve the
/// tests.
pub const ALL: [&Program; 6] = [
    &bfs::PROGRAM,
    &pagerank::PROGRAM,
    &fib::PROGRAM,
    &tree::PROGRAM,
    &pingpong::PROGRAM,
    &noop::PROGRAM,
];

/// Programs that only `everwarp bench` runs: apart, so that other images need not carry them.
pub const BENCH: [&Program; 3] = [&pairs::PROGRAM, &range::PROGRAM, &operators::PROGRAM];

/// An element of an array in the CPU engine's memory, for twins.
///
/// # Safety
/// - `at` points to at least `index + 1` live elements, aligned for `T`.
unsafe fn element<'a, T>(at: DevPtr<T>, index: u64) -> &'a T {
    // SAFETY: the caller vouches.
    unsafe { &*(at.address() as *const T).add(index as usize) }
}

/// Brings what a later task reads closer to the core, where the processor can be told to.
fn prefetch<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint about a live reference; every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
            std::ptr::from_ref(at).cast(),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
