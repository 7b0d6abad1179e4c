//! Modules that can be processes: the same on every engine.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use everwarp_engine::sync::lock;
use wasmparser::types::Types;
use wasmparser::{
    BinaryReaderError, ExternalKind, FuncType, Import, Parser, Payload, TypeRef, ValType,
};

use crate::error::LoadError;
use crate::gpu;
use crate::image_file::{ImageFile, NativeImage};
use crate::imports::{ImportType, ImportedFunction, WASI_MODULE, find_function};
use crate::threads::Threads;
use crate::validate::{Invalid, validate};

/// The bytes that an element of a table counts as memory.
const ELEMENT_BYTES: u64 = 8;
/// The bytes of a page of linear memory.
const PAGE: u64 = 1 << 16;
/// The function that a process runs.
const ENTRY: &str = "_start";

/// A WebAssembly module that has been validated: every engine runs it, unless the engine's compiler has a limit.
///
/// Other processes spawn the module by its name, and messages mention it. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct Module {
    name: Arc<str>,
    bytes: Bytes,
    facts: Arc<Facts>,
    kept: Arc<Kept>,
    /// Machine code that came with it and that the caller vouches for.
    native: Arc<[NativeImage]>,
}

/// What engines keep with a module, one value of each type.
#[derive(Default)]
struct Kept(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// What a module needs of its host.
#[derive(Debug, Default)]
struct Facts {
    threads: Option<Threads>,
    uses_gpu: bool,
    start_bytes: u64,
    is_command: bool,
}

impl Module {
    /// Reads a module from a file. The file's name, without its folder, becomes the module's name. A file that `everwarp
    /// compile` has made of a module and its images has a name inside; of such a file the module alone is taken.
    ///
    /// # Errors
    /// [`LoadError`]: the file cannot be read, or is no module that can be a process.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::read(path.as_ref()).map(|(module, _)| module)
    }

    /// Reads a file that `everwarp compile` has made of a module and its images, with the images: a GPU runs the one for
    /// its architecture if it was made by this version of everwarp with the same options. Otherwise, and on the CPU
    /// engine, the module in the file is compiled as always.
    ///
    /// # Safety
    /// * The caller trusts the file's author with everything that this program may do. The machine code is run as it is: on
    ///   the GPU it can read and change the memory of all processes, and everything else that the device can reach. The
    ///   file's hash finds damage, and does not name its author.
    ///
    /// # Errors
    /// As [`Module::from_file`]; and the file is a module without images.
    pub unsafe fn from_file_precompiled(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        match Self::read(path.as_ref())? {
            (_, None) => Err(LoadError::ImageFile {
                reason: "it is a module without images",
            }),
            (module, Some(images)) => Ok(Self {
                native: images.into(),
                ..module
            }),
        }
    }

    /// A module, without machine code, and the images in its file, if it is a file of images.
    fn read(path: &Path) -> Result<(Self, Option<Vec<NativeImage>>), LoadError> {
        let bytes = std::fs::read(path).map_err(|e| LoadError::File {
            path: path.to_owned(),
            kind: e.kind(),
            message: match e.kind() {
                ErrorKind::NotFound => format!("{e}; check the path"),
                ErrorKind::IsADirectory => "this is a folder; name a module in it".to_owned(),
                _ => e.to_string(),
            },
        })?;
        if ImageFile::is(&bytes) {
            let file = ImageFile::read(&bytes.into())?;
            return Ok((Self::new(file.name, file.module)?, Some(file.images)));
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok((Self::new(name.to_string_lossy(), bytes)?, None))
    }

    /// Makes a module from its binary form.
    ///
    /// # Errors
    /// [`LoadError`]: the bytes are no module that can be a process.
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Result<Self, LoadError> {
        let module = Self::library(name, bytes)?;
        match module.facts.is_command {
            true => Ok(module),
            false => Err(LoadError::NoEntry),
        }
    }

    /// Makes a module that may lack the function `_start`, which a process needs.
    ///
    /// # Errors
    /// As [`Module::new`], except for [`LoadError::NoEntry`].
    #[doc(hidden)]
    pub fn library(name: impl Into<String>, bytes: impl Into<Bytes>) -> Result<Self, LoadError> {
        let (name, bytes) = (Arc::from(name.into()), bytes.into());
        let facts = Arc::new(Facts::of(&bytes)?);
        let kept = Arc::default();
        Ok(Self {
            name,
            bytes,
            facts,
            kept,
            native: Arc::default(),
        })
    }

    /// The machine code that came with the module; none unless it was read by [`Module::from_file_precompiled`].
    pub fn images(&self) -> &[NativeImage] {
        &self.native
    }

    /// Whether two handles are clones of the same module.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts, &other.facts)
    }

    /// What an engine has made of the module, made by `make` unless it exists. It lives as long as the module does, so
    /// that a host which loads the same module later need not make it again.
    #[doc(hidden)]
    pub fn keep<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = lock(&self.kept.0);
        let value = kept
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(make()));
        let value = Arc::clone(value).downcast::<T>();
        value.expect("the key is the value's type")
    }

    /// The module's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The module's binary form.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The memory that the module's threads share, if its memory is shared.
    pub fn threads(&self) -> Option<&Threads> {
        self.facts.threads.as_ref()
    }

    /// Whether the module imports `everwarp:gpu`.
    pub fn uses_gpu(&self) -> bool {
        self.facts.uses_gpu
    }

    /// The bytes of linear memory and tables that a process of this module starts with.
    pub fn start_bytes(&self) -> u64 {
        self.facts.start_bytes
    }
}

impl Facts {
    /// Validates a module and collects the facts.
    fn of(bytes: &[u8]) -> Result<Self, LoadError> {
        let types = validate(bytes)?;
        let mut reading = Reading {
            facts: Self {
                threads: Threads::find(bytes, &types)?,
                ..Self::default()
            },
            functions: 0,
            types: &types,
        };
        for payload in Parser::new(0).parse_all(bytes) {
            reading.payload(payload.map_err(Invalid::from)?)?;
        }
        Ok(reading.facts)
    }
}

/// One pass over a valid module.
struct Reading<'t> {
    facts: Facts,
    /// How many functions have been imported so far; the next one has this number.
    functions: u32,
    types: &'t Types,
}

impl Reading<'_> {
    fn payload(&mut self, payload: Payload<'_>) -> Result<(), LoadError> {
        let invalid = |e: BinaryReaderError| LoadError::from(Invalid::from(e));
        match payload {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports_with_offsets() {
                    let (offset, import) = import.map_err(invalid)?;
                    self.import(offset, &import)?;
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    self.facts.start_bytes += memory.map_err(invalid)?.initial * PAGE;
                }
            }
            Payload::TableSection(tables) => {
                for table in tables {
                    self.facts.start_bytes += table.map_err(invalid)?.ty.initial * ELEMENT_BYTES;
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export.map_err(invalid)?;
                    if export.name == ENTRY && export.kind == ExternalKind::Func {
                        let ty = self.function_type(export.index);
                        self.facts.is_command = ty.params().is_empty() && ty.results().is_empty();
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn function_type(&self, function: u32) -> &FuncType {
        self.types[self.types.as_ref().core_function_at(function)].unwrap_func()
    }

    /// Checks that the engines provide an import.
    fn import(&mut self, offset: usize, import: &Import<'_>) -> Result<(), LoadError> {
        let (module, name) = (import.module, import.name);
        let is_function = matches!(import.ty, TypeRef::Func(_) | TypeRef::FuncExact(_));
        let number = self.functions;
        self.functions += u32::from(is_function);
        if let TypeRef::Memory(memory) = import.ty
            && let Some(threads) = &self.facts.threads
            && (threads.module.as_str(), threads.name.as_str()) == (module, name)
        {
            self.facts.start_bytes += memory.initial * PAGE;
            return Ok(());
        }
        let Some(provided) = find_function(module, name) else {
            return Err(LoadError::UnknownImport {
                offset,
                module: module.to_owned(),
                name: name.to_owned(),
                advice: advice(module, &import.ty),
            });
        };
        if !is_function || !has_type(self.function_type(number), &provided) {
            return Err(LoadError::ImportType {
                offset,
                module: module.to_owned(),
                name: name.to_owned(),
            });
        }
        self.facts.uses_gpu |= module == gpu::MODULE;
        Ok(())
    }
}

fn has_type(ty: &FuncType, provided: &ImportedFunction) -> bool {
    let value = |ty| match ty {
        ImportType::I32 => ValType::I32,
        ImportType::I64 => ValType::I64,
    };
    let params = ty.params().iter().copied();
    let results = ty.results().iter().copied();
    params.eq(provided.params().map(value)) && results.eq(provided.result().map(value))
}

/// What to do about an import that no engine provides, from its separator on.
fn advice(module: &str, ty: &TypeRef) -> &'static str {
    match module {
        WASI_MODULE => ": WASI preview 1 has no function of this name",
        "wasi_unstable" => {
            ": `wasi_unstable` is the older preview 0; compile the module for WASI preview 1 (wasm32-wasip1)"
        }
        _ if module.starts_with("wasi:") => {
            ": it belongs to WASI preview 2; compile the module for WASI preview 1 (wasm32-wasip1)"
        }
        _ if module.starts_with("wasix_") => {
            ": it belongs to WASIX; compile the module for WASI preview 1 (wasm32-wasip1)"
        }
        "wbg" | "__wbindgen_placeholder__" => {
            ": it belongs to wasm-bindgen and a browser; compile the module for wasm32-wasip1 without it"
        }
        "env" if matches!(ty, TypeRef::Memory(_)) => {
            ": link the module with a memory of its own (no `--import-memory`)"
        }
        "env" => {
            ": it was declared but not linked; add the library that defines it, or link without `--allow-undefined`"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Result<Module, LoadError> {
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        Module::new("m", wat.encode().expect("it can be encoded"))
    }

    const START: &str = r#"(func (export "_start"))"#;
    const WASI: &str = r#"(import "wasi_snapshot_preview1""#;

    #[test]
    fn a_command_says_what_it_starts_with() {
        let text = format!(
            r#"(module {WASI} "proc_exit" (func (param i32))) (import "everwarp:gpu" "lane" (func (result i32)))
               (memory 2) (table 10 funcref) {START})"#
        );
        let module = module(&text).expect("it is a command");
        assert_eq!(module.start_bytes(), 2 * 65536 + 80);
        assert!(module.uses_gpu() && module.threads().is_none());
        assert_eq!(module.name(), "m");
    }

    #[test]
    fn a_shared_memory_counts_as_memory_at_the_start() {
        let text = format!(r#"(module (import "env" "memory" (memory 3 9 shared)) {START})"#);
        let module = module(&text).expect("it is a command");
        assert_eq!(module.start_bytes(), 3 * 65536);
        assert!(module.threads().is_some() && !module.uses_gpu());
    }

    #[test]
    fn imports_that_no_engine_provides_are_refused_with_advice() {
        for (import, says) in [
            (r#"(import "env" "f" (func))"#, "declared but not linked"),
            (r#"(import "env" "m" (memory 1))"#, "--import-memory"),
            (r#"(import "wasi_unstable" "fd_read" (func))"#, "preview 0"),
            (r#"(import "wasi:cli/run" "run" (func))"#, "preview 2"),
            (r#"(import "wasix_32v1" "fork" (func))"#, "WASIX"),
            (r#"(import "wbg" "log" (func))"#, "wasm-bindgen"),
            (
                r#"(import "x" "f" (func))"#,
                "`x.f`, which everwarp does not provide",
            ),
            (
                r#"(import "wasi_snapshot_preview1" "fork" (func))"#,
                "no function of this name",
            ),
            (r#"(import "\1b[31m" "f" (func))"#, r"`\u{1b}[31m.f`"),
        ] {
            let error = module(&format!("(module {import} {START})"));
            let error = error.expect_err(import).to_string();
            assert!(error.starts_with("at offset 0x"), "{error}");
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn provided_imports_need_the_right_type() {
        for (import, right) in [
            (r#""fd_close" (func (param i32) (result i32))"#, true),
            (r#""fd_close" (func (param i64) (result i32))"#, false),
            (r#""fd_close" (func (param i32))"#, false),
            (r#""fd_close" (memory 1)"#, false),
            (r#""fd_close" (global i32)"#, false),
        ] {
            let loaded = module(&format!("(module {WASI} {import}) {START})"));
            match loaded {
                Ok(_) => assert!(right, "{import}"),
                Err(LoadError::ImportType { .. }) => assert!(!right, "{import}"),
                Err(other) => panic!("{import}: {other}"),
            }
        }
    }

    #[test]
    fn a_library_is_no_command() {
        for text in [
            "(module)",
            r#"(module (func (export "_start") (result i32) i32.const 1))"#,
            r#"(module (memory (export "_start") 1))"#,
        ] {
            assert_eq!(module(text).expect_err(text), LoadError::NoEntry);
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Module::from_file("no/such/file.wasm").expect_err("there is none");
        let text = error.to_string();
        assert!(
            text.starts_with("no/such/file.wasm: No such file")
                && text.ends_with("; check the path"),
            "{text}"
        );
        let folder = Module::from_file(env!("CARGO_MANIFEST_DIR")).expect_err("it is a folder");
        let text = folder.to_string();
        assert!(
            text.ends_with(": this is a folder; name a module in it"),
            "{text}"
        );
    }
}
