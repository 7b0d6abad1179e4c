//! Generates modules, and the arguments of their calls.

use arbitrary::Unstructured;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wasm_smith::{Config, Module};

use crate::loops;

/// The number of loop rounds and calls that an instance may spend in all its calls; after that each loop and each call
/// traps. It is less than the depth of calls, which the two implementations count differently.
const ROUNDS: u32 = 300;
/// The number of random bytes from which a module is made.
const ENTROPY: usize = 32 << 10;
/// The number of calls of each function.
const CALLS: usize = 2;

/// Modules of features that the compiler supports, small enough to be compared completely.
fn config(random: &mut ChaCha8Rng) -> Config {
    Config {
        allow_start_export: true,
        allow_floats: random.random_ratio(7, 8),
        bulk_memory_enabled: true,
        custom_page_sizes_enabled: false,
        // An early trap would keep the code after it from running.
        disallow_traps: random.random_ratio(2, 3),
        exceptions_enabled: false,
        export_everything: true,
        extended_const_enabled: true,
        gc_enabled: false,
        max_data_segments: 4,
        max_element_segments: 4,
        max_elements: 16,
        max_funcs: 12,
        max_globals: 12,
        max_imports: 0,
        max_instructions: random.random_range(20..400),
        max_memories: 1,
        max_memory32_bytes: 4 << 16,
        max_nesting_depth: 8,
        max_table_elements: 64,
        max_tables: 2,
        max_values: 6,
        memory64_enabled: false,
        memory_max_size_required: true,
        min_funcs: 5,
        multi_value_enabled: true,
        reference_types_enabled: random.random_ratio(1, 16),
        relaxed_simd_enabled: false,
        shared_everything_threads_enabled: false,
        simd_enabled: random.random_ratio(1, 3),
        table_max_size_required: true,
        tail_call_enabled: random.random_ratio(1, 4),
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..Config::default()
    }
}

/// The module of a seed.
pub(crate) fn module(seed: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    if random.random_ratio(1, 4) {
        return loops::module(&mut random);
    }
    let config = config(&mut random);
    let mut bytes = vec![0; ENTROPY];
    random.fill_bytes(&mut bytes);
    let mut module = Module::new(config, &mut Unstructured::new(&bytes)).expect("there are bytes");
    let bounded = module.ensure_termination(ROUNDS);
    bounded.expect("no function body is given as bytes");
    module.to_bytes()
}

/// A number that is often a boundary value, as one or two slots.
pub(crate) fn number(random: &mut ChaCha8Rng) -> u64 {
    let any = random.next_u64();
    match random.random_range(0..6) {
        0 => any,
        1 => any % 64,
        2 => 1u64 << (any % 64),
        3 => (any % 16).wrapping_neg(),
        4 => f64::from_bits(any).to_bits() & 0xfff0_0000_0000_0000,
        _ => (any % 5) << 16,
    }
}

/// The order of the calls: each entry is a function's number among the exported functions.
pub(crate) fn order(seed: u64, functions: usize) -> (Vec<usize>, ChaCha8Rng) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let order = (0..functions * CALLS).map(|_| random.random_range(0..functions));
    (order.collect(), random)
}
