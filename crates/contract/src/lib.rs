//! The contract between host and engine: every layout that both sides read or write.
//!
//! This crate is **internal** to everwarp; it promises nothing to code outside the project. Host and
//! engine share nothing but memory, so each layout is declared here once, with [`dev_struct!`] or
//! [`dev_consts!`], and that one declaration generates the Rust struct, its offset assertions, the
//! CUDA C++ struct and the `static_assert`s of the device header ([`header::write_header`]), and the WGSL struct
//! ([`header::write_wgsl_header`]).
//! A layout that is written anywhere else is a defect.
#![no_std]

extern crate alloc;

pub mod actor;
pub mod control;
pub mod device;
pub mod errno;
pub mod fault;
pub mod files;
pub mod group;
pub mod header;
pub mod heap;
pub mod hostcall;
pub mod ids;
pub mod layout;
pub mod pages;
pub mod ring;
pub mod task;
pub mod telemetry;
pub mod trap;
pub mod wgpu;

pub use actor::{DevActor, DevActorControl, DevActors, DevMessage, DevTells};
pub use control::DevWords;
pub use files::{
    DevEvent, DevFileControl, DevFileCopy, DevFileDone, DevFileEntry, DevFileList, DevFileRequest,
    DevFileStat, DevFiles, DevNetAddress,
};
pub use group::DevGroup;
pub use heap::{DevHeap, DevHeapCounters, DevHeapError, DevHeapOwner, DevHeapPage};
pub use hostcall::{DevHostCall, DevHostCallEntry, DevHostCallRing};
pub use ids::{FunctionId, GroupId, HeapOwner, InstanceId, Priority, TokenId};
pub use layout::{DevPtr, DevType, DeviceText, Field, Language, Layout, Wgsl};
pub use pages::{DevPageFile, DevPageOrder, DevPages};
pub use ring::{DevCompletion, DevSubmission};
pub use task::{DevTask, TaskParent};
pub use telemetry::{DevWorker, WorkerState};
pub use trap::TrapKind;
