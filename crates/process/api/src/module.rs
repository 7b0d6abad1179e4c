//! Which modules are programs: the same on every engine.

use std::sync::Arc;

use bytes::Bytes;
use wasmparser::types::Types;
use wasmparser::{BinaryReaderError, Validator, WasmFeatures};

use crate::error::LoadError;
use crate::threads::{self, Threads};

/// What a module may use: WebAssembly 2.0 with tail calls, constants that are computed, and threads.
///
/// Left out are external references, which a process could only have null ones of, and for which wasmtime would need a
/// garbage collector.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(threads::FEATURES)
    .difference(WasmFeatures::GC_TYPES);

/// Why bytes are no module of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Where in the bytes.
    pub offset: usize,
    /// What is wrong there.
    pub message: String,
}

impl From<BinaryReaderError> for Invalid {
    fn from(e: BinaryReaderError) -> Self {
        Self {
            offset: e.offset(),
            message: e.message().to_owned(),
        }
    }
}

/// Whether bytes are a module that every engine takes, but for what it imports and exports; and what it has to do
/// with threads, if its memory is shared.
///
/// # Errors
///
/// What is wrong with them, and where.
pub fn validate(bytes: &[u8]) -> Result<Option<Threads>, Invalid> {
    Threads::find(bytes, &types(bytes)?)
}

fn types(bytes: &[u8]) -> Result<Types, Invalid> {
    let mut validator = Validator::new_with_features(FEATURES);
    Ok(validator.validate_all(bytes)?)
}

/// Whether bytes are a module of the language that every engine takes, also one that no process could be.
///
/// # Errors
///
/// What is wrong with them, and where.
#[doc(hidden)]
pub fn validate_language(bytes: &[u8]) -> Result<(), Invalid> {
    types(bytes).map(drop)
}

/// A WebAssembly module with the name that messages and `spawn` of other processes have for it. It has been validated,
/// so that every engine takes it, unless the engine's compiler has a limit. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct Module {
    name: Arc<str>,
    bytes: Bytes,
    threads: Option<Arc<Threads>>,
}

impl Module {
    /// A module from its binary form.
    ///
    /// # Errors
    /// [`LoadError`]: the bytes are no module that can be a process.
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Result<Self, LoadError> {
        let (name, bytes) = (Arc::from(name.into()), bytes.into());
        let invalid = |e: Invalid| LoadError::Invalid {
            offset: e.offset,
            message: e.message,
        };
        let threads = validate(&bytes).map_err(invalid)?.map(Arc::new);
        Ok(Self {
            name,
            bytes,
            threads,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its binary form.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What it needs of threads, if its memory is shared.
    pub fn threads(&self) -> Option<&Threads> {
        self.threads.as_deref()
    }
}
