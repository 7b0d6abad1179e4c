//! Programs, and the interface of the engines that run them.
//!
//! This crate is **internal** to everwarp. The host library is written against [`TaskEngine`] and the
//! layouts of `everwarp-contract` alone; the CPU and the CUDA engine implement it.

mod context;
mod declare;
mod engine;
mod error;
mod frames;
mod heap;
mod image;
mod memory;
mod pools;
mod program;
mod relax;
pub mod sync;
pub mod table;
pub mod trace;

#[doc(hidden)] // `program!` names it
pub use everwarp_contract::Layout;

pub use context::{TaskCx, Twin, TwinClosure, TwinFn};
pub use declare::DevNone;
pub use engine::{DispatchTimes, EngineKind, EngineRings, MeasuredFunction, TaskEngine};
pub use error::EngineError;
pub use frames::Frames;
pub use heap::{
    HEAP_STEP, HeapConfig, HeapControl, HeapError, HeapErrorKind, HeapMode, HeapOwnerStats,
    HeapStats,
};
pub use image::{
    Addition, EngineLoader, Haste, HostCallMemory, Image, Linked, LinkedPart, Precompiled,
    PreparedAddition, PreparedImage, Publisher, StackRule,
};
pub use memory::{ElementSize, EngineMemory, NearMemory};
pub use pools::{Footprint, PoolState, Pools};
pub use program::{
    Declaration, Function, MAX_SPAWN, Order, Params, Program, ProgramRef, Shape, identifier,
    turn_name,
};
pub use relax::relax;
