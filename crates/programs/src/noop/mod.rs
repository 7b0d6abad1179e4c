//! `noop`: a task that does nothing; what remains is the engine's own cost.

use everwarp::{Engine, Error, Instance, TaskCx, program};

program! {
    /// The program.
    pub static PROGRAM: noop(), "noop.cu" {
        /// Returns at once.
        NOTHING: lane(nothing),
    }
}

fn nothing(_: &mut dyn TaskCx) {}

/// An instance on an engine that holds the program.
///
/// # Errors
/// As [`Engine::plain_instance`].
pub fn instance(engine: &Engine) -> Result<Instance, Error> {
    engine.plain_instance(&PROGRAM)
}
