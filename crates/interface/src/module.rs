//! Which modules are programs: the same on every engine.

use wasmparser::types::Types;
use wasmparser::{BinaryReaderError, Validator, WasmFeatures};

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
