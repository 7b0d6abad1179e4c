//! Raw limits: what the hardware needs at least. Benchmarks show them next to the engine's figures.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use everwarp_engine::EngineError;

use crate::cache::Cache;
use crate::device::CudaDevice;
use crate::driver::{Pinned, Stream, call};
use crate::image::raw_source;

/// The measurements. Nothing else may be resident meanwhile.
#[derive(Debug)]
pub struct Raw {
    module: sys::CUmodule,
    stream: Stream,
    words: Pinned,
}

impl Raw {
    /// Loads the raw kernels.
    ///
    /// # Errors
    /// They do not compile, or the device refuses.
    pub fn new(device: &CudaDevice) -> Result<Self, EngineError> {
        device.context.enter()?;
        let cubin = Cache::user()
            .compile(&raw_source(), device.arch())
            .map_err(|e| EngineError::Compile(Box::new(e)))?
            .into_image();
        let mut module = std::ptr::null_mut();
        // SAFETY: `cubin` is a complete image; the out-pointer is valid.
        unsafe { call!(cuModuleLoadData(&raw mut module, cubin.as_ptr().cast())) }?;
        Ok(Self {
            module,
            stream: Stream::new()?,
            words: Pinned::new(4096)?,
        })
    }

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

    /// # Safety
    /// - `params` are pointers to the kernel's parameters.
    unsafe fn launch(
        &self,
        kernel: sys::CUfunction,
        grid: u32,
        block: u32,
        params: &mut [*mut c_void],
    ) -> Result<(), EngineError> {
        let (stream, params, none) = (self.stream.0, params.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the caller vouches for the parameters.
        unsafe {
            call!(cuLaunchKernel(
                kernel, grid, 1, 1, block, 1, 1, 0, stream, params, none
            ))
        }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a word of the pinned page, each on a line of its own, only accessed atomically.
        unsafe { AtomicU32::from_ptr(self.words.host.add(index * 128).cast()) }
    }

    /// Round trips through pinned memory, in seconds each; with `relay`, through a second multiprocessor.
    ///
    /// # Errors
    /// The device refuses.
    pub fn round_trips(&self, rounds: u32, relay: bool) -> Result<Vec<f64>, EngineError> {
        let kernel = self.kernel(if relay { c"raw_relay" } else { c"raw_pingpong" })?;
        let (mut ask, mut answer) = (self.words.device, self.words.device + 128);
        let (mut rounds, mut middle) = (rounds, 0u64);
        self.word(0).store(0, Ordering::Relaxed);
        self.word(1).store(0, Ordering::Relaxed);
        // SAFETY: the out-pointer is valid; the parameters are those of the kernel.
        unsafe {
            call!(cuMemAlloc_v2(&raw mut middle, 256))?;
            call!(cuMemsetD8_v2(middle, 0, 256))?;
            let mut params = [
                (&raw mut ask).cast(),
                (&raw mut answer).cast(),
                (&raw mut rounds).cast(),
                (&raw mut middle).cast(),
            ];
            self.launch(kernel, if relay { 2 } else { 1 }, 1, &mut params)?;
        }
        let mut times = Vec::with_capacity(rounds as usize);
        for i in 1..=rounds {
            let begin = Instant::now();
            self.word(0).store(i, Ordering::Release);
            while self.word(1).load(Ordering::Acquire) != i {
                std::hint::spin_loop();
            }
            times.push(begin.elapsed().as_secs_f64());
        }
        self.stream.synchronize()?;
        // SAFETY: the kernel has ended.
        unsafe { call!(cuMemFree_v2(middle)) }?;
        Ok(times)
    }

    /// Launching an empty kernel and synchronizing, in seconds each.
    ///
    /// # Errors
    /// The device refuses.
    pub fn launches(&self, rounds: u32) -> Result<Vec<f64>, EngineError> {
        let kernel = self.kernel(c"raw_nothing")?;
        let one = || {
            let begin = Instant::now();
            // SAFETY: the kernel has no parameters.
            unsafe { self.launch(kernel, 1, 32, &mut []) }?;
            self.stream.synchronize()?;
            Ok(begin.elapsed().as_secs_f64())
        };
        (0..rounds).map(|_| one()).collect()
    }

    /// Atomic additions with release and acquire on distinct addresses, a second, over the whole device.
    ///
    /// # Errors
    /// The device refuses.
    pub fn atomics(&self, multiprocessors: u32) -> Result<f64, EngineError> {
        let kernel = self.kernel(c"raw_atomics")?;
        let (mut cells, mut rounds, mut mask) = (0u64, 200u32, (1u32 << 21) - 1);
        let (grid, block) = (multiprocessors * 2, 1024);
        let mut best = Duration::MAX;
        // SAFETY: the out-pointer is valid; the parameters are those of the kernel; the table has `mask` + 1 cells.
        unsafe {
            call!(cuMemAlloc_v2(&raw mut cells, (mask as usize + 1) * 8))?;
            for _ in 0..5 {
                let begin = Instant::now();
                let mut params = [
                    (&raw mut cells).cast(),
                    (&raw mut rounds).cast(),
                    (&raw mut mask).cast(),
                ];
                self.launch(kernel, grid, block, &mut params)?;
                self.stream.synchronize()?;
                best = best.min(begin.elapsed());
            }
            call!(cuMemFree_v2(cells))?;
        }
        Ok(f64::from(grid) * f64::from(block) * f64::from(rounds) / best.as_secs_f64())
    }
}
