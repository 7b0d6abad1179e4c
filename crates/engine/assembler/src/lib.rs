//! PTX to machine code, on all cores, without a GPU.
//!
//! This crate is **internal** to everwarp. It divides a module's PTX into pieces ([`split`]), assembles each by a child
//! process of ptxas, the pieces that take longest first ([`Assembler::assemble`]), and links machine code by a child process
//! of nvlink ([`Assembler::link`]). The children run at low priority and with limits of memory and time ([`Limits`]), so
//! that no module can take the caller down. The programs are found where NVRTC is found ([`toolkit`]).

mod assemble;
mod bridge;
mod child;
mod cost;
pub mod entries;
mod error;
pub mod library;
pub mod progress;
pub mod split;
#[cfg(test)]
mod testing;
pub mod toolkit;
mod tools;

pub use assemble::{Assembler, Part, Target};
pub use child::Limits;
pub use cost::Estimate;
pub use error::{AssembleError, Cause};
pub use tools::{Tool, ToolError};
