//! Launches: ordinary, programmatic, cooperative.

use std::ffi::c_void;

use cudarc::driver::sys;
use everwarp_engine::EngineError;

use super::Baseline;
use crate::driver::call;

/// Pointers to the values of a kernel's parameters, in order: `args![a, b]`. The values must be mutable
/// variables that live until the launch has returned; the driver copies them.
macro_rules! args {
    ($($value:expr),* $(,)?) => {
        [$((&raw mut $value).cast::<std::ffi::c_void>()),*]
    };
}
pub(super) use args;

/// A kernel with the size of its grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) kernel: sys::CUfunction,
    pub(super) grid: u32,
    pub(super) block: u32,
}

/// Blocks of `block` threads that `threads` threads need.
pub(super) fn blocks(threads: u32, block: u32) -> u32 {
    threads.div_ceil(block).max(1)
}

impl Baseline {
    /// Launches on the stream.
    ///
    /// # Safety
    /// - `params` are pointers to the kernel's parameters, which point to live memory of sufficient size.
    pub(super) unsafe fn launch(
        &self,
        shape: Shape,
        params: &mut [*mut c_void],
    ) -> Result<(), EngineError> {
        let (stream, params, none) = (self.stream.0, params.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the caller vouches for the parameters; the kernel is loaded.
        unsafe {
            call!(cuLaunchKernel(
                shape.kernel,
                shape.grid,
                1,
                1,
                shape.block,
                1,
                1,
                0,
                stream,
                params,
                none
            ))
        }
    }

    /// Launches on the stream so that the kernel may be brought up before the one before it has ended; it
    /// waits for that by itself.
    ///
    /// # Safety
    /// - As for [`launch`](Self::launch).
    pub(super) unsafe fn launch_programmatic(
        &self,
        shape: Shape,
        params: &mut [*mut c_void],
    ) -> Result<(), EngineError> {
        let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
        value.programmaticStreamSerializationAllowed = 1;
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value,
        };
        let config = sys::CUlaunchConfig {
            gridDimX: shape.grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: self.stream.0,
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        let (params, none) = (params.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the caller vouches for the parameters; configuration and attribute outlive the call.
        unsafe {
            call!(cuLaunchKernelEx(
                &raw const config,
                shape.kernel,
                params,
                none
            ))
        }
    }

    /// Launches a grid whose blocks wait for each other.
    ///
    /// # Safety
    /// - As for [`launch`](Self::launch); the grid is no larger than [`resident`](Self::resident) allows.
    pub(super) unsafe fn launch_cooperative(
        &self,
        shape: Shape,
        params: &mut [*mut c_void],
    ) -> Result<(), EngineError> {
        // SAFETY: the caller vouches for grid and parameters.
        unsafe {
            call!(cuLaunchCooperativeKernel(
                shape.kernel,
                shape.grid,
                1,
                1,
                shape.block,
                1,
                1,
                0,
                self.stream.0,
                params.as_mut_ptr()
            ))
        }
    }

    /// Blocks of a kernel that one multiprocessor holds at once.
    pub(super) fn resident(&self, kernel: sys::CUfunction, block: u32) -> Result<u32, EngineError> {
        let mut count = 0;
        // SAFETY: the kernel is loaded; the out-pointer is valid.
        unsafe {
            call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut count,
                kernel,
                block as i32,
                0
            ))
        }?;
        Ok(count as u32)
    }
}
