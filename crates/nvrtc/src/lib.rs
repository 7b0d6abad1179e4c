//! Internal to everwarp: compiles device sources to cubins with NVRTC, which is found and opened at run
//! time. No version of this crate's interface is promised to anyone outside the workspace.
//!
//! Three floors: `raw` (the foreign functions), `result` (their codes as errors, handles that free
//! themselves), and the safe [`Nvrtc`]. Beside them [`usage()`] says what each kernel of a [`Cubin`]
//! occupies, and [`cache`] keeps cubins on disk, so that a machine without NVRTC can run what was compiled
//! before.
//!
//! Why not link NVRTC? The same binary must start where there is neither toolkit nor GPU. Why not ship PTX
//! and leave the rest to the driver? Spills and stack frames would then be known only on the machine with
//! the GPU, and CI has none.

pub mod cache;
mod elf;
mod error;
mod find;
mod nvrtc;
mod raw;
mod result;
mod testing;
mod unit;
pub mod usage;

pub use cache::{Cache, CacheOutcome, compile_cached, compile_cached_with, key};
pub use error::{NvrtcError, Place, Places};
pub use nvrtc::Nvrtc;
pub use result::{Call, CallError, Code};
#[doc(hidden)]
pub use testing::open_for_tests;
pub use unit::{Arch, Cubin, Part, Unit};
pub use usage::{KernelUsage, UsageError, usage};
