//! A kit for the tests of several crates: child processes with a time limit ([`run`], [`output`], [`Running`]), tests that
//! need a GPU ([`Needed`]), lists of named cases ([`cases!`]), and circles of imports ([`circular_modules`]).
//!
//! Only tests depend on this crate; it is never published, and no shipped crate uses it.

mod cases;
mod child;
mod layers;
mod needs;

pub use child::{Finished, Outcome, Running, output, output_with_input, run};
pub use layers::circular_modules;
pub use needs::{Needed, needs_gpu, run_on_gpu};
