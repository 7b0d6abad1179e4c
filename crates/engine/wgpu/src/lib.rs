//! The wgpu engine: tasks on any GPU with Vulkan, Metal or Direct3D 12, as a chain of bounded dispatches.
//!
//! This crate is **internal** to everwarp. Nothing may stay resident through these interfaces, and no workgroup may wait for
//! another, so an epoch is a chain of dispatches that take a millisecond or two. All state is in buffers between them; the
//! rules of the device code are in `device/memory.wgsl`, and `docs/decisions` says why.

mod adapter;
mod cache;
mod engine;
mod exit;
mod gpu;
mod heap;
#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    windows
))]
mod host_writes;
mod image;
mod loops;
mod memory;
mod pump;
mod raw;
mod single;
mod sizes;
mod spirv;
mod times;
mod trials;
mod web;
mod window;

pub use adapter::{AdapterFacts, AdapterTests, WgpuDevice, WgpuUnavailable};
pub use engine::WgpuEngine;
pub use image::ImageText;
pub use raw::{RawCells, RawSearch, RawWay, RawWgpu};
pub use web::{WebFunction, WebImage};
