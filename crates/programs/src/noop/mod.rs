//! `noop`: a task that does nothing; what remains is the engine's own cost.

mod entry;

use everwarp::{Engine, Error, Instance, TaskCx, program};

pub use entry::Nothing;

program! {
    /// The program.
    pub static PROGRAM: noop(), "noop.cu"; wgsl "noop.wgsl" {
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
