//! The native programs, each in one folder: the device source `NAME.cu`, the CPU twin `NAME.rs` with the same function
//! names, and in `mod.rs` the table that joins them, the host's side and the plain reference.
//!
//! To add a program, add its folder and one line in the [`REGISTRY`]: the command, the conformance suite and the
//! documents' tables follow from it.
//!
//! This crate is **internal** to everwarp; read it to learn how a program is written.

pub mod actor_broker;
pub mod actor_faults;
pub mod actor_groups;
pub mod actor_probe;
pub mod actor_services;
pub mod actor_shapes;
pub mod arrivals;
pub mod asks;
pub mod bank;
pub mod bfs;
pub mod big;
pub mod chameneos;
pub mod chat;
pub mod counting;
pub mod echo;
pub mod epidemic;
pub mod fib;
pub mod file_probe;
pub mod gather;
pub mod heap_probe;
pub mod naps;
pub mod noop;
pub mod operators;
pub mod page_probe;
pub mod pagerank;
pub mod pairs;
pub mod philosophers;
pub mod pingpong;
pub mod probe;
pub mod range;
pub mod reads;
pub mod ring;
pub mod ring_kernels;
pub mod sieve;
pub mod skynet;
pub mod tree;
pub mod words;

mod input;
mod native;
mod option;
mod registry;

use everwarp::actor::{BatchFn, Kind};
use everwarp::{DevPtr, Params};

pub use input::{InputError, Progress};
pub use native::{Facts, Finished, NativeProgram, OUTPUT, Prepared, Registered, RunError};
pub use option::{OptionKind, OptionValue, OptionValues, ProgramOption};
pub use registry::{REGISTRY, benchmarks, find, standard};

/// [`Kind::warp`] or [`Kind::block`].
type WideKind = fn(&'static str, Params, usize, BatchFn) -> Kind;

/// An element of an array in the CPU engine's memory, for twins.
///
/// # Safety
/// - `at` points to at least `index + 1` live elements, aligned for `T`.
unsafe fn element<'a, T>(at: DevPtr<T>, index: u64) -> &'a T {
    // SAFETY: the caller vouches.
    unsafe { &*(at.address() as *const T).add(index as usize) }
}

/// A random number for a number: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Brings the data of a later task closer to the core, on processors with an instruction for that.
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
