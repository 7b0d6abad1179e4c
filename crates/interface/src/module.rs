//! Which modules are programs: the same on every engine.

use wasmparser::{Validator, WasmFeatures};

/// What a module may use: WebAssembly 2.0 with tail calls and constants that are computed.
///
/// Left out are external references, which a process could only have null ones of, and for which wasmtime would need a
/// garbage collector; and threads, because a process is one.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .difference(WasmFeatures::GC_TYPES);

/// Why bytes are no module of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Where in the bytes.
    pub offset: usize,
    /// What is wrong there.
    pub message: String,
}

/// Whether bytes are a module that every engine takes, but for what it imports and exports.
///
/// # Errors
///
/// What is wrong with them, and where.
pub fn validate(bytes: &[u8]) -> Result<(), Invalid> {
    let mut validator = Validator::new_with_features(FEATURES);
    validator
        .validate_all(bytes)
        .map(|_| ())
        .map_err(|e| Invalid {
            offset: e.offset(),
            message: e.message().to_owned(),
        })
}
