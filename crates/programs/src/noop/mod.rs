//! `noop`: a task that does nothing; what remains is the engine's own cost.

use everwarp::{Engine, Error, Function, Instance, Layout, Program};

use crate::{DevNone, lane};

/// Function number of the task.
pub const NOTHING: u32 = 0;

/// The program.
pub static PROGRAM: Program = Program {
    name: "noop",
    functions: &[Function {
        ..lane("nothing", |_| {})
    }],
    device_source: include_str!("noop.cu"),
    write_params: DevNone::write_struct,
    params_name: DevNone::NAME,
};

/// An instance on an engine that holds the program.
///
/// # Errors
/// As [`Engine::instance`].
pub fn instance(engine: &Engine) -> Result<Instance, Error> {
    // SAFETY: there are no parameters, so nothing that they point to.
    unsafe { engine.instance(&PROGRAM, &DevNone::NEW) }
}
