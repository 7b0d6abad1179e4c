//! The CPU engine: host threads with work stealing, driven through the same rings as a GPU engine.
//!
//! This crate is **internal** to everwarp. It is the embedded default where there is no GPU, and the reference that the
//! other engines are compared with: it has the same groups, priorities, shapes and counters.
//!
//! Under `--cfg loom` only the protocols are built, for their models: the group count, the ring slots and the sleeping
//! workers.

mod group;
mod ring_slot;
mod sleep;
mod sync;

#[cfg(not(loom))]
mod copy;
#[cfg(not(loom))]
mod deques;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod finish;
#[cfg(not(loom))]
mod functions;
#[cfg(not(loom))]
mod group_pool;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod idle_wait;
#[cfg(not(loom))]
mod ingress;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod observe;
#[cfg(not(loom))]
mod reserve;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
mod running_task;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod steal;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub use engine::CpuEngine;
