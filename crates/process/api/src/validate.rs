//! Whether bytes are a module that everwarp runs, and if not, why, in words that say what to do.
//!
//! Compilers enable proposals by default that everwarp does not have, so most refused modules are valid WebAssembly. The
//! validator then says that a feature "is not enabled", which does not help: users of a language do not enable
//! features. So a refused module is validated again with everything that the parser knows. If it is valid then, the
//! feature that it cannot do without is named, together with the compiler flag that turns it off.

use wasmparser::types::Types;
use wasmparser::{BinaryReaderError, Parser, ValidPayload, Validator, WasmFeatures};

use crate::error::LoadError;
use crate::{threads, validate_functions};

/// The features that a module may use: WebAssembly 2.0 with tail calls, extended constant expressions and threads.
///
/// External references are left out: a process could only have null ones, and wasmtime would need a garbage collector
/// for them.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(threads::FEATURES)
    .difference(WasmFeatures::GC_TYPES);

/// A proposal that everwarp does not run.
struct Proposal {
    features: WasmFeatures,
    name: &'static str,
    advice: &'static str,
}

const fn proposal(features: WasmFeatures, name: &'static str, advice: &'static str) -> Proposal {
    Proposal {
        features,
        name,
        advice,
    }
}

/// The proposals by which a refused module is explained. A proposal that others build upon comes after these.
const PROPOSALS: &[Proposal] = &[
    proposal(
        WasmFeatures::EXCEPTIONS.union(WasmFeatures::LEGACY_EXCEPTIONS),
        "exceptions",
        "compile it without them (C++: `-fno-exceptions`, and no `-mllvm -wasm-enable-sjlj`; Rust: \
         `-C panic=abort`)",
    ),
    proposal(
        WasmFeatures::MEMORY64,
        "a 64-bit memory (memory64)",
        "compile it for wasm32 instead of wasm64",
    ),
    proposal(
        WasmFeatures::MULTI_MEMORY,
        "several memories (multi-memory)",
        "link it with a single memory",
    ),
    proposal(
        WasmFeatures::RELAXED_SIMD,
        "relaxed SIMD",
        "compile it with `-mno-relaxed-simd`",
    ),
    proposal(
        WasmFeatures::WIDE_ARITHMETIC,
        "wide arithmetic",
        "compile it with `-mno-wide-arithmetic`",
    ),
    proposal(
        WasmFeatures::SHARED_EVERYTHING_THREADS,
        "shared-everything threads",
        "compile it for wasm32-wasip1-threads",
    ),
    proposal(
        WasmFeatures::STACK_SWITCHING,
        "stack switching",
        "compile it without this proposal",
    ),
    proposal(
        WasmFeatures::CUSTOM_PAGE_SIZES,
        "custom page sizes",
        "link it with pages of 64 KiB",
    ),
    proposal(
        WasmFeatures::GC.union(WasmFeatures::FUNCTION_REFERENCES),
        "garbage collection or typed function references",
        "only languages with a linear memory, such as C, C++, Rust, Zig and TinyGo, can be compiled for everwarp",
    ),
    proposal(
        WasmFeatures::GC_TYPES,
        "external references (externref)",
        "compile it without them (C and C++: no `__externref_t`; Rust: no wasm-bindgen)",
    ),
];

/// The place and the reason for which bytes are not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The offset in the bytes.
    pub offset: usize,
    /// The reason.
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

impl From<Invalid> for LoadError {
    fn from(e: Invalid) -> Self {
        Self::Invalid {
            offset: e.offset,
            message: e.message,
        }
    }
}

/// As [`Validator::validate_all`], which uses one core.
fn validate_with(features: WasmFeatures, bytes: &[u8]) -> Result<Types, BinaryReaderError> {
    let mut validator = Validator::new_with_features(features);
    let (mut functions, mut types) = (Vec::new(), None);
    let mut parser = Parser::new(0);
    parser.set_features(features);
    for payload in parser.parse_all(bytes) {
        match validator.payload(&payload?)? {
            ValidPayload::Func(function, body) => functions.push((function, body)),
            // The last one is of the module itself.
            ValidPayload::End(of_module) => types = Some(of_module),
            _ => {}
        }
    }
    validate_functions::validate(functions)?;
    Ok(types.expect("a parser reports the end of what is whole"))
}

/// Whether bytes are a module in the language that every engine runs. Its imports and exports are not looked at, so it
/// may be one that can never be a process.
///
/// # Errors
/// The place and the reason.
#[doc(hidden)]
pub fn validate_language(bytes: &[u8]) -> Result<(), Invalid> {
    validate_with(FEATURES, bytes)?;
    Ok(())
}

pub(crate) fn validate_types(bytes: &[u8]) -> Result<Types, Invalid> {
    Ok(validate_with(FEATURES, bytes)?)
}

/// The types of a module that everwarp's engines can run.
pub(crate) fn validate(bytes: &[u8]) -> Result<Types, LoadError> {
    check_header(bytes)?;
    validate_with(FEATURES, bytes).map_err(|refused| explain(bytes, refused))
}

/// Names the proposal that a module needs, if it is valid with all proposals.
fn explain(bytes: &[u8], refused: BinaryReaderError) -> LoadError {
    let all = WasmFeatures::all();
    if let Err(invalid) = validate_with(all, bytes) {
        // The module may use a proposal and be wrong at a later place, which is then the one to report.
        let later = invalid.offset() > refused.offset();
        return Invalid::from(if later { invalid } else { refused }).into();
    }
    for proposal in PROPOSALS {
        if let Err(e) = validate_with(all.difference(proposal.features), bytes) {
            return LoadError::Unsupported {
                offset: e.offset(),
                feature: proposal.name.to_owned(),
                advice: proposal.advice.to_owned(),
            };
        }
    }
    Invalid::from(refused).into()
}

/// Says what bytes are that do not begin as a module does.
fn check_header(bytes: &[u8]) -> Result<(), LoadError> {
    let found = match bytes {
        [] => "it is empty",
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => return Ok(()),
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => {
            "it is a component: compile it as a core module, such as with Rust's target wasm32-wasip1 instead of \
             wasm32-wasip2"
        }
        [0, b'a', b's', b'm', _, _, _, _, ..] => "it has a version of the format that is not 1",
        [0, b'a', b's', b'm', ..] => "it ends within its first 8 bytes",
        [0x7f, b'E', b'L', b'F', ..] => {
            "it is a native program (ELF): compile it for WebAssembly, such as with Rust's target wasm32-wasip1 or \
             wasi-sdk's clang"
        }
        [0x1f, 0x8b, ..] => "it is compressed with gzip: unpack it first",
        text if is_text_form(text) => {
            "it is the text form (.wat): convert it with `wat2wasm` or `wasm-tools parse`"
        }
        text if is_text(text) => "it is a text file",
        _ => "it does not begin with the bytes `\\0asm`",
    };
    Err(LoadError::NotAModule {
        found: found.to_owned(),
    })
}

fn is_text(bytes: &[u8]) -> bool {
    let control = |c: char| c.is_control() && !c.is_whitespace();
    std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(control))
}

fn is_text_form(bytes: &[u8]) -> bool {
    let first = bytes.trim_ascii_start();
    is_text(bytes) && (first.starts_with(b"(") || first.starts_with(b";;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        let error = validate(bytes).map(drop);
        error.expect_err("it is refused").to_string()
    }

    #[test]
    fn bytes_that_are_no_module_are_named() {
        for (bytes, says) in [
            (&b""[..], "it is empty"),
            (b"\0asm", "ends within"),
            (b"\0asm\x02\0\0\0", "a version"),
            (b"\0asm\x0d\0\x01\0", "a component"),
            (b"\x7fELF\x02\x01\x01\0", "a native program"),
            (b"\x1f\x8b\x08\0", "gzip"),
            (b"\n(module)", "the text form (.wat)"),
            (b";; a module\n(module)", "the text form (.wat)"),
            (b"#!/bin/sh\n", "a text file"),
            (b"\xff\xfe\0\0", "does not begin"),
        ] {
            let error = refused(bytes);
            assert!(
                error.starts_with("this is no WebAssembly module: "),
                "{error}"
            );
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn proposals_are_named_with_a_way_out() {
        for (text, feature, advice) in [
            ("(tag)", "exceptions", "-fno-exceptions"),
            ("(memory i64 1)", "memory64", "wasm32 instead"),
            ("(memory 1) (memory 1)", "multi-memory", "a single memory"),
            ("(func (param externref))", "externref", "wasm-bindgen"),
            ("(type (struct))", "garbage collection", "linear memory"),
            (
                "(func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))",
                "relaxed SIMD",
                "-mno-relaxed-simd",
            ),
            (
                "(func (drop (drop (i64.add128 (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1)))))",
                "wide arithmetic",
                "-mno-wide-arithmetic",
            ),
        ] {
            let text = format!("(module {text})");
            let buffer = wast::parser::ParseBuffer::new(&text).expect("it is text");
            let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
            let error = refused(&wat.encode().expect("it can be encoded"));
            assert!(error.starts_with("at offset 0x"), "{error}");
            assert!(error.contains(feature) && error.contains(advice), "{error}");
        }
    }

    #[test]
    fn an_invalid_module_is_not_blamed_on_a_proposal() {
        let text = "(module (tag) (func (result i32)))";
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let error = refused(&wat.encode().expect("it can be encoded"));
        assert!(error.contains("not valid at offset 0x"), "{error}");
        assert!(!error.contains("enabled"), "{error}");
    }
}
