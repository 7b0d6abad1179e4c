//! What a host provides for a module's imports, and how the two are matched.

use crate::compiled::Compiled;
use crate::error::InstantiateError;
use crate::facts::module::{Import, ImportKind, Limits};
use crate::facts::types::{FunctionType, ValueType};

/// The place of a memory that instances share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// The address of its first byte.
    pub memory: u64,
    /// The address of its length, in the block of the instance whose memory it is: `memory_bytes` of its
    /// [`DevSharing`](crate::DevSharing).
    pub length: u64,
}

/// What a host provides for imports; each method provides nothing by default. Tables, mutable globals and memories
/// that are not declared as shared are copies: they belong to the new instance alone.
pub trait Link {
    /// The type of a function.
    fn function(&self, module: &str, name: &str) -> Option<FunctionType> {
        let _ = (module, name);
        None
    }
    /// The address of the block of the instance whose function is imported. Needed only for functions that
    /// are provided by another module ([`Provider::Module`](crate::Provider::Module)).
    fn provider(&self, module: &str, name: &str) -> Option<u64> {
        let _ = (module, name);
        None
    }
    /// Type, mutability and bits of a global.
    fn global(&self, module: &str, name: &str) -> Option<(ValueType, bool, u128)> {
        let _ = (module, name);
        None
    }
    /// Size and largest size of a memory, in pages.
    fn memory(&self, module: &str, name: &str) -> Option<Limits> {
        let _ = (module, name);
        None
    }
    /// The place of a shared memory. Needed only for memories that [`Link::memory`] declares as shared.
    fn shared_memory(&self, module: &str, name: &str) -> Option<SharedMemory> {
        let _ = (module, name);
        None
    }
    /// Element type, size and largest size of a table.
    fn table(&self, module: &str, name: &str) -> Option<(ValueType, Limits)> {
        let _ = (module, name);
        None
    }
}

/// Provides nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoImports;

impl Link for NoImports {}

/// What the imports turned out to be, in the order of their index spaces.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) providers: Vec<u64>,
    pub(super) globals: Vec<u128>,
    pub(super) memory: Option<Limits>,
    pub(super) shared: Option<SharedMemory>,
    pub(super) tables: Vec<Limits>,
}

impl Resolved {
    /// Asks the host for every import of a module.
    pub(super) fn new(compiled: &Compiled, link: &dyn Link) -> Result<Self, InstantiateError> {
        let mut resolved = Self::default();
        for import in compiled.imports() {
            resolved.add(import, link)?;
        }
        Ok(resolved)
    }

    fn add(&mut self, import: &Import, link: &dyn Link) -> Result<(), InstantiateError> {
        let (module, name) = (import.module.as_str(), import.name.as_str());
        let other = |reason: String| incompatible(import, reason);
        let missing = || missing(import, link);
        match &import.kind {
            ImportKind::Function(ty) => {
                let found = link.function(module, name).ok_or_else(missing)?;
                if found != *ty {
                    return Err(other(format!("wanted {ty}, found {found}")));
                }
                let provider = link.provider(module, name).unwrap_or(0);
                self.providers.push(provider);
            }
            ImportKind::Global { ty, mutable } => {
                let found = link.global(module, name).ok_or_else(missing)?;
                if (found.0, found.1) != (*ty, *mutable) {
                    let global = |mutable: bool, ty: ValueType| match mutable {
                        true => format!("a mutable global of {ty}"),
                        false => format!("a constant global of {ty}"),
                    };
                    let (wanted, found) = (global(*mutable, *ty), global(found.1, found.0));
                    return Err(other(format!("wanted {wanted}, found {found}")));
                }
                self.globals.push(found.2);
            }
            ImportKind::Memory(wanted) => {
                let found = link.memory(module, name).ok_or_else(missing)?;
                fits(found, *wanted).map_err(other)?;
                if wanted.shared {
                    let shared = link.shared_memory(module, name);
                    let unplaced = || other("the host does not say where it is".to_owned());
                    self.shared = Some(shared.ok_or_else(unplaced)?);
                }
                self.memory = Some(found);
            }
            ImportKind::Table { ty, limits } => {
                let (found, size) = link.table(module, name).ok_or_else(missing)?;
                if found != *ty {
                    return Err(other(format!("wanted {ty}, found {found}")));
                }
                fits(size, *limits).map_err(other)?;
                self.tables.push(size);
            }
        }
        Ok(())
    }
}

fn incompatible(import: &Import, reason: String) -> InstantiateError {
    InstantiateError::IncompatibleImport {
        module: import.module.clone(),
        name: import.name.clone(),
        reason,
    }
}

/// Why the host provides nothing of the import's kind: an item of another kind under that name is a mismatch, not an
/// absence.
fn missing(import: &Import, link: &dyn Link) -> InstantiateError {
    let (module, name) = (import.module.as_str(), import.name.as_str());
    let found = link.function(module, name).is_some()
        || link.global(module, name).is_some()
        || link.memory(module, name).is_some()
        || link.table(module, name).is_some();
    if found {
        return incompatible(import, "it is of another kind".to_owned());
    }
    InstantiateError::UnknownImport {
        module: module.to_owned(),
        name: name.to_owned(),
    }
}

/// Fails unless a memory or table of the size `found` can stand for an import of the size `wanted`.
fn fits(found: Limits, wanted: Limits) -> Result<(), String> {
    let small = found.min < wanted.min;
    let large = wanted
        .max
        .is_some_and(|most| found.max.is_none_or(|m| m > most));
    if small || large || found.shared != wanted.shared {
        return Err(format!("wanted {wanted}, found {found}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These errors used to show the structs of this crate.
    #[test]
    fn a_mismatch_is_said_in_words() {
        let limits = |min, max, shared| Limits { min, max, shared };
        let refused = |found, wanted| fits(found, wanted).expect_err("they differ");
        assert_eq!(
            refused(limits(1, None, false), limits(2, Some(4), false)),
            "wanted a size of 2 to 4, found a size of 1 or more"
        );
        assert_eq!(
            refused(limits(1, Some(1), false), limits(1, Some(1), true)),
            "wanted a shared size of 1 to 1, found a size of 1 to 1"
        );
        let ty = FunctionType {
            params: vec![ValueType::I32, ValueType::FuncRef],
            results: vec![],
        };
        assert_eq!(ty.to_string(), "function (i32, funcref) -> ()");
    }
}
