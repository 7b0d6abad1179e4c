//! The CUDA engine: one cooperative grid, resident on all multiprocessors.
//!
//! This crate is **internal** to everwarp. The device sources are under `device/`, by scope: lane, warp,
//! block, grid, system; and the device heap. [`image`] joins them with the programs, [`nvrtc`] compiles the
//! result, [`cache`] keeps it, and [`CudaEngine`] runs it. The driver and NVRTC are opened at run time.

mod addition;
pub mod ahead;
pub mod baseline;
pub mod build;
pub mod cache;
mod copy;
mod device;
mod driver;
mod elf;
mod engine;
mod epoch;
mod heap;
mod hostcalls;
pub mod image;
mod kernel;
mod leaving;
mod link;
mod locked;
mod measured;
#[cfg(all(test, loom))]
mod models;
pub mod nvrtc;
mod parts;
mod pieces;
mod precompiled;
mod publish;
pub mod raw;
mod residency;
mod tables;
mod task_heap;
#[doc(hidden)]
pub mod testing;
mod traced;
mod versions;
mod vmm;

pub use everwarp_assembler as assembler;

pub use device::{CudaDevice, CudaUnavailable};
pub use engine::CudaEngine;
pub use leaving::leave;
pub use link::MAX_REGISTERS;
pub use locked::LockedBytes;
pub use parts::assembled_by_driver;
pub use versions::{driver_loads, driver_version};
