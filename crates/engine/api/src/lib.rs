//! What a program is, and what an engine must do.
//!
//! This crate is **internal** to everwarp. The host library is written against [`Backend`] and the
//! layouts of `everwarp-contract` alone; the CPU and the CUDA engine implement it.

mod backend;
mod context;
mod declare;
mod error;
mod heap;
mod linked;
mod program;
pub mod sync;

#[doc(hidden)] // `program!` names it
pub use everwarp_contract::Layout;

pub use backend::{
    Backend, EngineKind, Footprint, HostCallMemory, PoolState, Pools, Prepared, SharedMemory,
};
pub use context::{TaskCx, TwinFn};
pub use declare::DevNone;
pub use error::BackendError;
pub use heap::{
    HEAP_STEP, Heap, HeapConfig, HeapError, HeapErrorKind, HeapMode, HeapOwner, HeapStats,
};
pub use linked::{Linked, LinkedPart};
pub use program::{Function, Image, MAX_SPAWN, Order, Program, Shape};
