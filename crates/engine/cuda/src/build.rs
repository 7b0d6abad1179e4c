//! Images for an architecture, made without a GPU and without its driver.

use everwarp_assembler::{Assembler, Estimate, split::split};
use everwarp_engine::{Addition, EngineError, Frames, Image};

use crate::cache::{Cache, linked_key};
use crate::elf::{Elf, has_constants};
use crate::image::source;
use crate::parts::{Made, objects, objects_apart, target};

/// An image that was made ahead of its use.
#[derive(Debug)]
pub struct BuiltImage {
    /// The hash of all that it was made from: an engine of the same version looks for the same.
    pub key: String,
    /// The machine code.
    pub code: Vec<u8>,
    /// The stack frames of its functions.
    pub frames: Frames,
    /// The registers that each thread of its kernel has.
    pub registers: u32,
}

/// Compiles, assembles and links an image with linked parts.
///
/// # Errors
/// NVRTC, ptxas or nvlink is missing, or one of them fails.
pub fn build(image: &Image, arch: u32, cache: &Cache) -> Result<BuiltImage, EngineError> {
    image.check()?;
    let (source, linked) = (source(image), &image.linked);
    let unit = cache.compile(&source, arch);
    let unit = unit.map_err(|e| EngineError::Compile(Box::new(e)))?;
    let unit = unit.into_image();
    let failed = |e| EngineError::Assemble(e);
    let assembler = Assembler::find().map_err(|e| failed(Box::new(e)))?;
    let objects = objects(
        &assembler,
        &linked.parts,
        &target(arch),
        cache,
        &Made::default(),
    );
    let objects = objects.map_err(|e| failed(Box::new(e)))?;
    let mut all = vec![unit.as_slice()];
    all.extend(
        objects
            .iter()
            .flat_map(|part| part.iter())
            .map(Vec::as_slice),
    );
    let name = linked.parts.last().map_or("the image", |part| &*part.name);
    let code = assembler.link(name, &all, &target(arch));
    let code = code.map_err(|e| failed(Box::new(e)))?;
    let elf = Elf::new(&code).ok_or(EngineError::Frames)?;
    Ok(BuiltImage {
        key: linked_key(&source, linked, arch),
        frames: elf.frames().ok_or(EngineError::Frames)?,
        registers: elf
            .registers_of("everwarp_engine")
            .ok_or(EngineError::Frames)?,
        code,
    })
}

/// An addition that was made without a GPU.
#[derive(Debug)]
pub struct BuiltAddition {
    /// The machine code.
    pub code: Vec<u8>,
    /// The stack frames of its functions.
    pub frames: Frames,
    /// The most registers that a function has.
    pub registers: u32,
    /// Whether functions need constants of their own: then it cannot be loaded next to an image.
    pub has_constants: bool,
}

/// Assembles and links an addition.
///
/// # Errors
/// ptxas or nvlink is missing, or one of them fails.
pub fn build_addition(
    addition: &Addition,
    arch: u32,
    cache: &Cache,
) -> Result<BuiltAddition, EngineError> {
    let failed = |e| EngineError::Assemble(e);
    let assembler = Assembler::find().map_err(|e| failed(Box::new(e)))?;
    let objects = objects_apart(&assembler, &addition.parts, arch, cache, &Made::default());
    let objects = objects.map_err(|e| failed(Box::new(e)))?;
    let objects: Vec<_> = objects.iter().flat_map(|part| part.iter()).collect();
    let has_constants = has_constants(&objects).ok_or(EngineError::Frames)?;
    let all: Vec<_> = objects.iter().map(|object| object.as_slice()).collect();
    let code = assembler.link("an addition", &all, &target(arch));
    let code = code.map_err(|e| failed(Box::new(e)))?;
    let elf = Elf::new(&code).ok_or(EngineError::Frames)?;
    Ok(BuiltAddition {
        frames: elf.frames().ok_or(EngineError::Frames)?,
        registers: elf.registers().ok_or(EngineError::Frames)?,
        has_constants,
        code,
    })
}

/// About how long it takes to assemble the parts of an image for one architecture.
pub fn estimate(image: &Image) -> Estimate {
    let parts = image.linked.parts.iter();
    let estimates = parts.map(|part| split(&part.ptx).estimate);
    estimates
        .reduce(|all, part| all.and(&part))
        .unwrap_or_default()
}
