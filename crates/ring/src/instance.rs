//! Instances of the programs of kernels.

use everwarp_runtime::{Engine, Error, Instance, ProgramRef};

/// Makes an instance of a program, which an engine that does not hold it loads before.
pub(crate) fn instance_of(
    engine: &Engine,
    program: &ProgramRef,
    make: impl Fn() -> Result<Instance, Error>,
) -> Result<Instance, Error> {
    match make() {
        Err(Error::UnknownProgram { .. }) => {
            engine.park()?;
            let loaded = engine.load(program.clone());
            engine.resume()?;
            loaded?;
            make()
        }
        instance => instance,
    }
}
