//! Kinds of actors whose handlers are WebAssembly modules, on the CPU engine. `docs/actor-modules.md` is the interface of
//! such a module: its exports and imports, its memory, and its description.
//!
//! [`RingModule`] is the handler of a ring kernel.
//!
//! This crate is **internal** to everwarp, which shows it as part of `everwarp::actor` and `everwarp::ring`.

mod assemble;
mod call;
mod cuda;
mod description;
mod error;
mod imports;
mod instance;
mod interface;
mod module;
mod names;
mod rewrite;
mod ring;

pub use assemble::{program_of, program_with};
pub use error::ModuleError;
pub use module::ActorModule;
pub use ring::RingModule;
