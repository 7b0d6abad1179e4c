//! The CPU engine: host threads with work stealing behind the same rings as a GPU engine.
//!
//! This crate is **internal** to everwarp. It is the embedded default, where there is no GPU, and the
//! reference that the other engines are compared with: the same groups, priorities, shapes and counters.

#[cfg(not(loom))]
mod deques;
#[cfg(not(loom))]
mod engine;
mod group;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod ingress;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod shared;
mod sleep;
mod slot;
mod sync;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub use engine::CpuEngine;
