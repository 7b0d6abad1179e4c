//! `fib`: Fibonacci numbers by their definition; every call is a task, there is no cut-off.

mod twin;

use everwarp::{Engine, Error, Function, Instance, Layout, Program};

use crate::{DevNone, lane};

/// Function number of a call: argument n; reports fib(n) into the slot that its tag names.
pub const CALL: u32 = 0;
/// Function number of the addition that follows two calls.
pub const SUM: u32 = 1;

/// The program.
pub static PROGRAM: Program = Program {
    name: "fib",
    functions: &[
        Function {
            max_spawn: 2,
            forks: true,
            ..lane("call", twin::call)
        },
        lane("sum", twin::sum),
    ],
    device_source: include_str!("fib.cu"),
    write_params: DevNone::write_struct,
    params_name: DevNone::NAME,
};

/// The largest n whose result fits the 32 bits that a call reports.
pub const MAX_N: u32 = 47;

/// An instance on an engine that holds the program.
///
/// # Errors
/// As [`Engine::instance`].
pub fn instance(engine: &Engine) -> Result<Instance, Error> {
    // SAFETY: there are no parameters, so nothing that they point to.
    unsafe { engine.instance(&PROGRAM, &DevNone::NEW) }
}

/// Computes fib(n) on the engine.
///
/// # Errors
/// Whatever ends the engine.
pub fn run(engine: &Engine, instance: &Instance, n: u32) -> Result<u64, Error> {
    Ok(engine
        .submit(instance.task(CALL).arg(n.into()))?
        .wait()?
        .value)
}

/// fib(n), computed plainly.
pub fn reference(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// How many calls the definition makes: 2 fib(n + 1) - 1.
pub fn calls(n: u32) -> u64 {
    2 * reference(n + 1) - 1
}
