//! `fib`: Fibonacci numbers by their definition; every call is a task, there is no cut-off.

mod entry;
#[path = "fib.rs"]
mod twin;

use everwarp::{Engine, Error, Instance, program};

use twin::{call, sum};

pub use entry::Fibonacci;

program! {
    /// The program.
    pub static PROGRAM: fib(), "fib.cu"; wgsl "fib.wgsl" {
        /// Argument n; reports fib(n) into the slot that the task's tag names.
        CALL: lane(call).forks(2),
        /// Adds the results of two calls, after both.
        SUM: lane(sum),
    }
}

/// The largest n whose result fits the 32 bits that a call reports.
pub const MAX_N: u32 = 47;

/// An instance on an engine that holds the program.
///
/// # Errors
/// As [`Engine::plain_instance`].
pub fn instance(engine: &Engine) -> Result<Instance, Error> {
    engine.plain_instance(&PROGRAM)
}

/// Computes fib(n) on the engine.
///
/// # Errors
/// Whatever ends the engine.
pub fn run(engine: &Engine, instance: &Instance, n: u32) -> Result<u64, Error> {
    Ok(engine.run(instance.task(CALL).arg(n.into()))?.value)
}

/// fib(n), computed plainly.
pub fn reference(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// How many calls the definition makes: 2 fib(n + 1) - 1.
pub fn calls(n: u32) -> u64 {
    2 * reference(n + 1) - 1
}
