//! Kernels: images are compiled and loaded.

use std::time::{Duration, Instant};

use cudarc::driver::sys;
use everwarp_contract::device::{BLOCK_THREADS, DevEngine};
use everwarp_engine::trace::{span, spanned};
use everwarp_engine::{EngineError, Frames, Image, PreparedImage};

use crate::cache::{Cache, Compiled, linked_key};
use crate::device::CudaDevice;
use crate::driver::{Stream, call};
use crate::image::{KERNEL, SHARED_BYTES, TABLES, source};
use crate::parts::{self, Made};
use crate::precompiled;
use crate::publish::publish;
use crate::versions::not_loaded;

/// A loaded kernel, the dynamic shared memory of each of its blocks, and where it looks for its tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) module: sys::CUmodule,
    pub(crate) raw: sys::CUfunction,
    pub(crate) shared_bytes: u32,
    pub(crate) tables: sys::CUdeviceptr,
}

impl Kernel {
    /// Gives the memory of the code back. Nothing may be resident, because the driver waits for that.
    pub(crate) fn unload(self) {
        // SAFETY: the module was loaded by `load` and is unloaded once; a failure leaves a leak.
        let _ = unsafe { call!(cuModuleUnload(self.module)) };
    }

    /// The registers that each of its threads has.
    pub(crate) fn registers(&self) -> Result<u32, EngineError> {
        let (mut registers, what) = (0, sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS);
        // SAFETY: the kernel is loaded; the out-pointer is valid.
        unsafe { call!(cuFuncGetAttribute(&raw mut registers, what, self.raw))? };
        Ok(registers as u32)
    }

    /// Tells the kernel where its memory is. Nothing may be resident.
    pub(crate) fn install(&self, tables: &DevEngine) -> Result<(), EngineError> {
        // SAFETY: the module's constant has this type, which `load` has checked by its size.
        unsafe {
            call!(cuMemcpyHtoD_v2(
                self.tables,
                (&raw const *tables).cast(),
                size_of::<DevEngine>()
            ))
        }
    }
}
// SAFETY: handles of modules and functions may be used from any thread.
unsafe impl Send for Kernel {}

/// Compiles an image; works while a kernel is resident. A context must be current.
pub(crate) fn prepare(image: &Image, arch: u32, made: &Made) -> Result<PreparedImage, EngineError> {
    image.check()?;
    let (source, cache) = (source(image), Cache::user());
    let linked = &image.linked;
    let (compiled, frames) = if linked.is_empty() {
        let compiled = cache.compile(&source, arch);
        let compiled = compiled.map_err(|e| EngineError::Compile(Box::new(e)))?;
        (compiled, Frames::default())
    } else {
        let compiled = match given(image, arch) {
            Some(code) => Compiled {
                image: code,
                not_kept: None,
            },
            None => cache.linked(&source, linked, arch, |unit| {
                parts::link(unit, linked, arch, &cache, made)
            })?,
        };
        let frames = crate::elf::frames(&compiled.image);
        (compiled, frames.ok_or(EngineError::Frames)?)
    };
    Ok(PreparedImage {
        image: image.clone(),
        code: compiled.into_image(),
        frames,
    })
}

/// Machine code that came with an image and was made from the same. It is not kept in the cache, because only the user of
/// this run vouches for it.
fn given(image: &Image, arch: u32) -> Option<Vec<u8>> {
    let linked = &image.linked;
    if linked.precompiled.is_empty() {
        return None;
    }
    match precompiled::find(linked, arch, &linked_key(&source(image), linked, arch)) {
        Ok(code) => code.map(<[u8]>::to_vec),
        Err(reason) => {
            precompiled::warn(&reason);
            None
        }
    }
}

/// Gives each thread of the device this much stack. Nothing may be resident.
pub(crate) fn set_stack(bytes: u32) -> Result<(), EngineError> {
    let (limit, mut now) = (sys::CUlimit::CU_LIMIT_STACK_SIZE, 0);
    // SAFETY: a context is current, and nothing is resident in it; the out-pointer is valid.
    unsafe {
        call!(cuCtxGetLimit(&raw mut now, limit))?;
        if now == bytes as usize {
            return Ok(());
        }
        call!(cuCtxSetLimit(limit, bytes as usize))
    }
}

/// Loads an image. Nothing may be resident. What is queued on the stream later finds what the image's publishers have written.
pub(crate) fn load(prepared: &PreparedImage, stream: &Stream) -> Result<Kernel, EngineError> {
    let linked = &prepared.image.linked;
    if !linked.is_empty() {
        let _span = span("image: stack");
        let rule = linked.stack_rule.as_ref();
        let needed = rule.map_or(0, |rule| rule.bytes(&prepared.frames));
        set_stack(linked.stack_bytes.max(needed))?;
    }
    let cubin = &prepared.code;
    let (mut module, mut kernel) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: a context is current; `cubin` is a complete image; out-pointers are valid.
    unsafe {
        spanned("image: load the code", || {
            call!(cuModuleLoadData(&raw mut module, cubin.as_ptr().cast()))
        })
        .map_err(not_loaded)?;
        publish(&linked.publishers, module, stream)?;
        let _span = span("image: find the kernel");
        call!(cuModuleGetFunction(
            &raw mut kernel,
            module,
            KERNEL.as_ptr()
        ))?;
        let (mut at, mut size, mut shared_bytes) = (0, 0, 0u32);
        call!(cuModuleGetGlobal_v2(
            &raw mut at,
            &raw mut size,
            module,
            SHARED_BYTES.as_ptr()
        ))?;
        assert_eq!(
            size,
            size_of::<u32>(),
            "the kernel's own word on its shared memory"
        );
        call!(cuMemcpyDtoH_v2((&raw mut shared_bytes).cast(), at, size))?;
        let mut tables = 0;
        call!(cuModuleGetGlobal_v2(
            &raw mut tables,
            &raw mut size,
            module,
            TABLES.as_ptr()
        ))?;
        assert_eq!(size, size_of::<DevEngine>(), "the kernel's tables");
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        call!(cuFuncSetAttribute(kernel, attribute, shared_bytes as i32))?;
        Ok(Kernel {
            module,
            raw: kernel,
            shared_bytes,
            tables,
        })
    }
}

/// How many blocks of a kernel can be resident at the same time.
pub(crate) fn occupancy(kernel: Kernel, multiprocessors: u32) -> Result<u32, EngineError> {
    let mut per_sm = 0;
    // SAFETY: `kernel` is loaded; the out-pointer is valid.
    unsafe {
        call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &raw mut per_sm,
            kernel.raw,
            BLOCK_THREADS as i32,
            kernel.shared_bytes as usize
        ))?;
    }
    Ok(per_sm as u32 * multiprocessors)
}

/// Compiles or reads an image and loads it; and how long the first of the two took.
pub(crate) fn code(
    device: &CudaDevice,
    image: &Image,
    made: &Made,
    stream: &Stream,
) -> Result<(PreparedImage, Kernel, Duration), EngineError> {
    let begin = Instant::now();
    let prepared = spanned("image: read or compile", || {
        prepare(image, device.arch(), made)
    })?;
    let compiling = begin.elapsed();
    let kernel = spanned("image: load", || load(&prepared, stream))?;
    Ok((prepared, kernel, compiling))
}
