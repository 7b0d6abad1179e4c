//! Divides functions that are too long for the assembler.
//!
//! ptxas needs time with the square of a function's length: the interpreter loop of QuickJS takes it a hundred seconds on one
//! core, while others have nothing to do. So before a module is compiled, parts of such a function become functions of their
//! own, in WebAssembly: then everything that follows (suspension, traps, fuel, frames, missing functions) treats them as it
//! treats any function, and a divided module can be validated and run by other engines.
//!
//! A **part** is a range of operators within one block that begins and ends where the block has nothing on the operand stack.
//! Control enters it at its first operator only, because branches lead out of blocks and never into them. Its parameters are the
//! locals that it uses and that are live at its beginning; its results are the locals that it assigns and that are live after it,
//! and last the number of its exit. The function calls the part in its place, and branches by that number.
//!
//! The module's functions and types keep their numbers: those of parts follow. Offsets change, and [`Places`] finds the original
//! ones.

mod encode;
mod live;
mod module;
mod places;
mod regions;
mod scan;
mod write;

pub(crate) use module::{Divided, divide};
pub(crate) use places::Places;
