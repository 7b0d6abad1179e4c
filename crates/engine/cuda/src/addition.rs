//! Code that is loaded next to an image: it is linked alone, and finds the addresses of what it calls in a table of the image.
//!
//! The kernel that runs was linked without it, so what a linker gives a kernel for the functions that it calls is checked here: the
//! registers, and constants, which a function in another image does not have.

use std::collections::BTreeSet;

use cudarc::driver::sys;
use everwarp_engine::trace::{span, spanned};
use everwarp_engine::{Addition, EngineError, Frames, PreparedAddition};

use crate::cache::Cache;
use crate::driver::{Stream, call};
use crate::elf::{Elf, has_constants};
use crate::kernel::{Kernel, set_stack};
use crate::link::link_alone;
use crate::parts::{Made, objects_apart};
use crate::publish::Ready;
use crate::versions::not_loaded;

/// An addition that is loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    module: sys::CUmodule,
    /// They take addresses from tables of the image.
    takes: Vec<Ready>,
}
// SAFETY: handles of modules and functions may be used from any thread.
unsafe impl Send for Loaded {}

/// Links an addition; works while a kernel is resident. A context must be current. `None` if it can only come in an image: its
/// functions need constants, or more registers than the kernel has, or more stack than they were thought to need.
pub(crate) fn prepare(
    addition: &Addition,
    frames: &Frames,
    kernel: Kernel,
    arch: u32,
    made: &Made,
) -> Result<Option<PreparedAddition>, EngineError> {
    let Some(assembler) = made.assembler() else {
        return Ok(None);
    };
    let objects = objects_apart(assembler, &addition.parts, arch, &Cache::user(), made);
    let objects = objects.map_err(|e| EngineError::Assemble(Box::new(e)))?;
    let objects: Vec<_> = objects.iter().flat_map(|part| part.iter()).collect();
    if has_constants(&objects).ok_or(EngineError::Frames)? {
        return Ok(None);
    }
    let code = spanned("addition: link", || link_alone(&objects))?;
    let elf = Elf::new(&code).ok_or(EngineError::Frames)?;
    let registers = elf.registers().ok_or(EngineError::Frames)?;
    let own = elf.frames().ok_or(EngineError::Frames)?;
    let publishers = addition.gives.iter().chain(&addition.takes);
    let publishers: BTreeSet<_> = publishers.map(|p| &*p.kernel).collect();
    let is_own = |name: &str| {
        let mut prefixes = addition.prefixes.iter();
        !publishers.contains(name)
            && (addition.functions.contains(name) || prefixes.any(|p| name.starts_with(&**p)))
    };
    let is_bridge = |name: &str| !is_own(name) && !publishers.contains(name);
    // Registers are given to a warp in pieces of eight for each thread.
    if registers > kernel.registers()?.next_multiple_of(8)
        || own.largest_of(is_bridge) > addition.bridge_bytes
    {
        return Ok(None);
    }
    let frames = frames.and(own.iter().filter(|(name, _)| is_own(name)));
    Ok(Some(PreparedAddition {
        addition: addition.clone(),
        code,
        frames,
    }))
}

/// Loads an addition next to an image. Nothing may be resident.
pub(crate) fn load(
    prepared: &PreparedAddition,
    image: Kernel,
    earlier: &[Loaded],
    stream: &Stream,
) -> Result<Loaded, EngineError> {
    let addition = &prepared.addition;
    set_stack(addition.stack_bytes)?;
    let mut loaded = Loaded {
        module: std::ptr::null_mut(),
        takes: Vec::new(),
    };
    // SAFETY: a context is current; the code is complete; the out-pointer is valid.
    unsafe {
        spanned("addition: load the code", || {
            call!(cuModuleLoadData(
                &raw mut loaded.module,
                prepared.code.as_ptr().cast()
            ))
        })
        .map_err(not_loaded)?;
    }
    let _span = span("addition: publish");
    let published = || {
        // The latest first: an earlier one may be of a module that has been loaded again.
        let others = earlier.iter().rev().map(|earlier| earlier.module);
        let tables: Vec<_> = [loaded.module]
            .into_iter()
            .chain(others)
            .chain([image.module])
            .collect();
        let gives = Ready::all(&addition.gives, loaded.module, &tables)?;
        let takes = Ready::all(&addition.takes, loaded.module, &tables)?;
        gives.iter().try_for_each(|p| p.queue(stream))?;
        let all = earlier.iter().flat_map(|earlier| &earlier.takes);
        all.chain(&takes).try_for_each(|p| p.queue(stream))?;
        Ok(takes)
    };
    match published() {
        Ok(takes) => loaded.takes = takes,
        Err(error) => {
            loaded.unload();
            return Err(error);
        }
    }
    Ok(loaded)
}

impl Loaded {
    /// Gives the memory of the code back. Nothing may be resident, because the driver waits for that.
    pub(crate) fn unload(self) {
        // SAFETY: the module was loaded by `load` and is unloaded once; a failure leaves a leak.
        let _ = unsafe { call!(cuModuleUnload(self.module)) };
    }
}
