//! What decides the code of a module in an image.

use std::sync::Arc;

use everwarp_process::{Bytes, Module};
use sha2::{Digest, Sha256};

use crate::likely::likely;
use crate::module::{CompileChoice, Likely};
use crate::program;

/// A module as it was compiled.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CodeKey {
    pub(super) name: Arc<str>,
    pub(super) bytes: ModuleBytes,
    pub(super) choice: CompileChoice,
    /// The functions that an image has at first, if it does not have all.
    pub(super) likely: Arc<Likely>,
}

/// The bytes of a module. Those that are the same memory are equal without a look at them.
#[derive(Clone)]
pub(crate) struct ModuleBytes(Bytes);

impl ModuleBytes {
    pub(crate) fn of(module: &Module) -> Self {
        Self(module.bytes().clone())
    }
}

impl ModuleBytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for ModuleBytes {
    fn eq(&self, other: &Self) -> bool {
        let same = self.0.as_ptr() == other.0.as_ptr() && self.0.len() == other.0.len();
        same || self.0 == other.0
    }
}
impl Eq for ModuleBytes {}

impl CodeKey {
    pub(crate) fn of(module: &Module, choice: CompileChoice) -> Self {
        let mut choice = choice.for_module(module);
        let likely = choice.begins_with_likely().then(|| likely(module));
        if likely == Some(None) {
            choice = choice.whole();
        }
        Self::with(module, choice, likely.flatten().unwrap_or_default())
    }

    pub(super) fn with(module: &Module, choice: CompileChoice, likely: Arc<Likely>) -> Self {
        Self {
            name: module.name().into(),
            bytes: ModuleBytes::of(module),
            choice,
            likely,
        }
    }

    /// Code with this key does for processes that are to have code with the `wanted` one: it is the same, or has more functions, or
    /// has others first.
    pub(super) fn serves(&self, wanted: &Self) -> bool {
        let part_of_any = wanted.choice.begins_with_likely();
        let choice = match part_of_any && self.choice.first.is_none() {
            true => wanted.choice.whole(),
            false => wanted.choice,
        };
        // How it comes is no difference between processes.
        let choice = CompileChoice {
            apart: self.choice.apart,
            ..choice
        };
        let begins_alike = part_of_any || self.likely.functions == wanted.likely.functions;
        let same = self.name == wanted.name && self.bytes == wanted.bytes;
        same && self.choice == choice && begins_alike
    }

    /// The beginning of the module's names in an image. Modules with different keys have different ones.
    pub(super) fn prefix(&self) -> String {
        program::prefix(&self.hash())
    }

    /// The hash of all that decides what the code of the module is, but which functions it has at a time.
    pub(super) fn hash(&self) -> [u8; 32] {
        let Self {
            name,
            bytes,
            choice:
                CompileChoice {
                    interleaved,
                    contract,
                    apart,
                    first,
                },
            likely,
        } = self;
        let contract_and_apart = u8::from(*contract) | u8::from(*apart) << 1;
        let mut hash = Sha256::new()
            .chain_update([u8::from(*interleaved), contract_and_apart])
            .chain_update((name.len() as u64).to_le_bytes())
            .chain_update(name.as_bytes())
            .chain_update(bytes.as_slice());
        if let Some(first) = first {
            hash.update((first.least as u64).to_le_bytes());
            hash.update((first.most as u64).to_le_bytes());
            let functions = likely.functions.iter();
            functions.for_each(|f| hash.update(f.to_le_bytes()));
        }
        hash.finalize().into()
    }
}
