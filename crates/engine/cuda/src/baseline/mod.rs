//! How a program without a resident engine does the same: launches, graphs, cooperative kernels. Benchmarks compare
//! the engine with these, so they are written to be fast: nothing is allocated, loaded or captured within a repetition.
//!
//! Nothing may be resident while they run.

mod device_graph;
mod graph;
mod heap;
mod launch;
mod memory;
mod operators;
mod pairs;
mod search;
mod tiny;

pub use device_graph::{DeviceGraphs, device_graph_source};
pub use heap::{HeapState, HeapTrial, HeapWay, Sizes};
pub use operators::{Operators, OperatorsWay};
pub use pairs::{Pairs, PairsWay};
pub use search::{Search, SearchWay};
pub use tiny::{Tiny, TinyWay};

use std::ffi::CStr;

use cudarc::driver::sys;
use everwarp_engine::EngineError;

use crate::cache::Cache;
use crate::device::CudaDevice;
use crate::driver::{Stream, call};
use crate::image::{Source, unit};

/// The kernels that benchmarks are compared with.
pub fn baseline_source() -> Source {
    unit(include_str!("../../device/baselines.cu"))
}

/// The kernels that fill and empty heaps.
pub fn heap_source() -> Source {
    unit(include_str!("../../device/heap/bench.cu"))
}

/// The loaded kernels and a stream to launch them on. It belongs to the thread that made it.
#[derive(Debug)]
pub struct Baseline {
    module: sys::CUmodule,
    stream: Stream,
    multiprocessors: u32,
    arch: u32,
}

impl Baseline {
    /// Loads the kernels.
    ///
    /// # Errors
    /// They do not compile, or the device refuses.
    pub fn new(device: &CudaDevice) -> Result<Self, EngineError> {
        Self::load(device, &baseline_source())
    }

    /// Loads the kernels of heaps; CUDA's own device allocator gets `bytes`.
    ///
    /// # Errors
    /// They do not compile, or the device refuses.
    pub fn heaps(device: &CudaDevice, bytes: usize) -> Result<Self, EngineError> {
        device.context.enter()?;
        let limit = sys::CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE;
        // SAFETY: a context is current, and no kernel that allocates has been loaded.
        unsafe { call!(cuCtxSetLimit(limit, bytes)) }?;
        Self::load(device, &heap_source())
    }

    fn load(device: &CudaDevice, source: &Source) -> Result<Self, EngineError> {
        device.context.enter()?;
        let cubin = Cache::user()
            .compile(source, device.arch())
            .map_err(|e| EngineError::Compile(Box::new(e)))?
            .into_image();
        Self::of_image(device, &cubin)
    }

    /// Loads machine code. The device's context is current.
    fn of_image(device: &CudaDevice, cubin: &[u8]) -> Result<Self, EngineError> {
        let mut module = std::ptr::null_mut();
        // SAFETY: `cubin` is a complete image; the out-pointer is valid. The module is never unloaded.
        unsafe { call!(cuModuleLoadData(&raw mut module, cubin.as_ptr().cast())) }?;
        Ok(Self {
            module,
            stream: Stream::new()?,
            multiprocessors: device.multiprocessors(),
            arch: device.arch(),
        })
    }

    /// Whether the device has programmatic dependent launch (Hopper or later).
    pub fn has_programmatic_launch(&self) -> bool {
        self.arch >= 90
    }

    /// A kernel of the module; asking for it loads it.
    fn kernel(&self, name: &CStr) -> Result<sys::CUfunction, EngineError> {
        let mut kernel = std::ptr::null_mut();
        // SAFETY: the module is loaded; the out-pointer is valid.
        unsafe {
            call!(cuModuleGetFunction(
                &raw mut kernel,
                self.module,
                name.as_ptr()
            ))
        }?;
        Ok(kernel)
    }
}
