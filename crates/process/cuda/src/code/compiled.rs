//! Modules as they are compiled for an image.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use everwarp_cache::Cache;
use everwarp_process::{LoadError, Module, StartError};
use everwarp_runtime::LinkedPart;

use crate::asked::AskedFunctions;
use crate::code::key::{CodeKey, ModuleBytes};
use crate::link::part;
use crate::module::{CompiledModule, compile_module};
use crate::partial::Partial;

/// A module that was compiled for an image.
pub(crate) struct CompiledCode {
    pub(super) key: CodeKey,
    pub(super) module: Arc<CompiledModule>,
    /// The parts that all its images have.
    pub(super) parts: Vec<LinkedPart>,
    pub(super) partial: Option<Partial>,
}

/// All parts of a module.
fn parts_of<'p>(
    parts: &'p [LinkedPart],
    partial: Option<&'p Partial>,
) -> impl Iterator<Item = LinkedPart> + use<'p> {
    let later = partial.map(Partial::parts);
    parts.iter().cloned().chain(later.into_iter().flatten())
}

impl CompiledCode {
    /// Compiles a module.
    ///
    /// # Errors
    /// The module is refused.
    pub(crate) fn of(module: &Module, key: CodeKey) -> Result<Self, StartError> {
        Self::with(module, key, Cache::user)
    }

    /// The same with this cache, in which the functions are noted that processes have asked for.
    pub(super) fn with(
        module: &Module,
        key: CodeKey,
        cache: impl FnOnce() -> Cache,
    ) -> Result<Self, StartError> {
        let compiled = compile_module(module, &key.prefix(), key.choice, &key.likely.functions);
        let mut compiled = compiled.map_err(|source: LoadError| StartError::Load {
            module: module.name().to_owned(),
            source,
        })?;
        let partial = key.choice.first.and_then(|_| {
            let asked = AskedFunctions::of(&key.hash(), cache());
            let (parts, partial) = Partial::of(key.choice, &mut compiled, asked)?;
            partial.begin_with(&key.likely.others);
            Some((parts, partial))
        });
        let (parts, partial) = match partial {
            Some((parts, partial)) => (parts, Some(partial)),
            None => (vec![part(&compiled)], None),
        };
        Ok(Self {
            key,
            parts,
            partial,
            module: Arc::new(compiled),
        })
    }

    /// What is linked for the module.
    pub(crate) fn parts(&self) -> impl Iterator<Item = LinkedPart> + use<'_> {
        parts_of(&self.parts, self.partial.as_ref())
    }

    pub(super) fn numbered(self, number: u32) -> LoadedCode {
        LoadedCode {
            key: self.key,
            number,
            module: self.module,
            parts: self.parts,
            partial: self.partial,
            depth: AtomicU32::new(0),
        }
    }
}

/// A module in the image. Its hosts hold it.
pub(crate) struct LoadedCode {
    pub(super) key: CodeKey,
    /// Its number in the image, which device code calls it by.
    pub(crate) number: u32,
    pub(crate) module: Arc<CompiledModule>,
    /// The parts that all its images have.
    pub(super) parts: Vec<LinkedPart>,
    /// Given if images may lack functions.
    pub(crate) partial: Option<Partial>,
    /// The deepest that calls of a host's processes nest on the device's stack.
    pub(super) depth: AtomicU32,
}

impl LoadedCode {
    /// Calls of processes of a host nest this deep on the device's stack.
    pub(crate) fn nests(&self, depth: u32) {
        self.depth.fetch_max(depth, Ordering::Relaxed);
    }

    pub(crate) fn all_parts(&self) -> impl Iterator<Item = LinkedPart> + use<'_> {
        parts_of(&self.parts, self.partial.as_ref())
    }

    /// Whether this is the code of a module, compiled in any way.
    pub(crate) fn is_of(&self, module: &Module) -> bool {
        self.key.name.as_ref() == module.name() && self.key.bytes == ModuleBytes::of(module)
    }
}
