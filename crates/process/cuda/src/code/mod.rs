//! The code of modules in the image of an engine. Hosts share it: the same bytes, compiled in the same way, are there once.

mod ahead;
mod compiled;
mod joining;
mod key;
mod set;
mod stack;
mod supplied;
#[cfg(test)]
mod tests;
mod text;

pub use ahead::{
    BatchTimes, addition_to, batch_times, image, image_and_module_next_to_it,
    image_lacking_functions,
};
pub(crate) use compiled::{CompiledCode, LoadedCode};
pub(crate) use key::CodeKey;
pub(crate) use set::{CodeSet, LoadTimes};
pub(crate) use stack::{BRIDGE_FRAME, stack_use, stack_wanted};
pub(crate) use supplied::Supplied;
#[cfg(test)]
pub(crate) use tests::lacking_functions;
