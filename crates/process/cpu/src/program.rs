//! Modules that can run as processes.

use std::sync::Arc;

use everwarp_process::threads::Threads;
use everwarp_process::{Invalid, gpu, validate, validate_language};
use wasmparser::{Parser, Payload, TypeRef};
use wasmtime::{Engine, ExternType, FuncType, InstancePre, Linker, Module};

use crate::engines::{Engines, Table};
use crate::limits::ELEMENT_BYTES;
use crate::run::{Guest, ProcExit};
use crate::threads;

/// The module name under which host calls are imported.
pub(crate) const WASI: &str = "wasi_snapshot_preview1";

/// Why bytes are no program.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Not a module that [`everwarp_process::validate`] takes.
    #[error("the module is not valid at offset {offset:#x}: {message}")]
    Invalid {
        /// Where in the bytes.
        offset: usize,
        /// What is wrong there.
        message: String,
    },
    /// An import that no host call answers.
    #[error("at offset {offset:#x} the module imports `{module}.{name}`, which nobody provides")]
    Import {
        /// Where in the bytes.
        offset: usize,
        /// The module that it is imported from.
        module: String,
        /// Its name.
        name: String,
    },
    /// An import that is provided, as something else.
    #[error(
        "at offset {offset:#x} the module imports `{module}.{name}` with another type than it has"
    )]
    ImportType {
        /// Where in the bytes.
        offset: usize,
        /// The module that it is imported from.
        module: String,
        /// Its name.
        name: String,
    },
    /// There is no function `_start` without parameters and results.
    #[error("the module is no command: it exports no function `_start` () -> ()")]
    NoStart,
    /// The module is valid, but wasmtime cannot compile or link it.
    #[error("the module cannot be compiled: {0}")]
    Compile(String),
    /// wasmtime does not generate code for this machine.
    #[error("no code can be generated for this machine: {0}")]
    Machine(String),
}

/// A module whose memory is shared: each process links it with a memory of its own.
pub(crate) struct Sharing {
    pub(crate) module: Module,
    pub(crate) linker: Linker<Guest>,
    pub(crate) threads: Threads,
    /// How many functions the module imports by itself; others were added behind them.
    imported: u32,
}

/// What processes are made from.
pub(crate) enum Code {
    /// All of it.
    Linked(InstancePre<Guest>),
    /// All but the memory.
    Sharing(Box<Sharing>),
}

pub(crate) struct Inner {
    pub(crate) code: Code,
    /// Bytes of memory and tables at the start.
    pub(crate) start_bytes: u64,
}

/// A module, validated and compiled. Clones share the code.
#[derive(Clone)]
pub struct Program(pub(crate) Arc<Inner>);

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} bytes at the start)", self.0.start_bytes)
    }
}

/// What one pass over the module finds.
#[derive(Default)]
struct Found {
    threads: Option<Threads>,
    /// How many functions are imported.
    functions: u32,
    start_bytes: u64,
    tables: Vec<Table>,
    imports: Vec<(usize, String, String)>,
}

/// Validates a module, and finds what is asked of the engine.
fn examine(bytes: &[u8]) -> Result<Found, LoadError> {
    let threads = validate(bytes).map_err(refused)?;
    let found = find(bytes).map_err(invalid)?;
    let shared = threads.as_ref().map_or(0, |threads| threads.initial << 16);
    Ok(Found {
        threads,
        start_bytes: found.start_bytes + shared,
        ..found
    })
}

fn find(bytes: &[u8]) -> Result<Found, wasmparser::BinaryReaderError> {
    let mut found = Found::default();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::MemorySection(memories) => {
                for memory in memories {
                    found.start_bytes += memory?.initial << 16;
                }
            }
            Payload::TableSection(tables) => {
                for table in tables {
                    let ty = table?.ty;
                    found.start_bytes += ty.initial * ELEMENT_BYTES;
                    found.tables.push(Table {
                        maximum: ty.maximum,
                    });
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports_with_offsets() {
                    let (offset, import) = import?;
                    let (module, name) = (import.module.to_owned(), import.name.to_owned());
                    found.functions += u32::from(matches!(import.ty, TypeRef::Func(_)));
                    found.imports.push((offset, module, name));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn invalid(e: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Invalid {
        offset: e.offset(),
        message: e.message().to_owned(),
    }
}

/// Whether a module is in the language of programs, for tests that run modules by other means.
///
/// # Errors
///
/// [`LoadError::Invalid`].
#[doc(hidden)]
pub fn check_module(bytes: &[u8]) -> Result<(), LoadError> {
    validate_language(bytes).map_err(refused)
}

fn refused(e: Invalid) -> LoadError {
    LoadError::Invalid {
        offset: e.offset,
        message: e.message,
    }
}

/// The engine that programs run on, for the same tests.
///
/// # Errors
///
/// [`LoadError::Machine`].
#[doc(hidden)]
pub fn bare_engine() -> Result<Engine, LoadError> {
    let engines = Engines::get().map_err(LoadError::Machine)?;
    Ok(engines.mapped().clone())
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p1::add_to_linker_async(&mut linker, |guest: &mut Guest| guest.wasi.get())?;
    linker.allow_shadowing(true);
    crate::paths::add(&mut linker)?;
    // The library's own refuses codes from 126 on, which programs do use.
    crate::gpu::add(&mut linker)?;
    linker.func_wrap(WASI, "proc_exit", |code: u32| -> wasmtime::Result<()> {
        Err(ProcExit(code).into())
    })?;
    Ok(linker)
}

impl Inner {
    /// The number of a function in the module as it was given, of one in the module as it runs.
    pub(crate) fn number(&self, function: u32) -> u32 {
        match &self.code {
            Code::Sharing(sharing) if function >= sharing.imported + threads::ADDED => {
                function - threads::ADDED
            }
            _ => function,
        }
    }
}

impl Program {
    /// Validates and compiles a module in the binary format.
    ///
    /// # Errors
    ///
    /// What is wrong with it, with the offset where there is one.
    pub fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        let engines = Engines::get().map_err(LoadError::Machine)?;
        let found = examine(bytes)?;
        let mut refused = None;
        let waits =
            found.threads.is_some() || found.imports.iter().any(|(_, m, _)| m == gpu::MODULE);
        for engine in engines.of(&found.tables, waits) {
            match Self::compile(engine, bytes, &found) {
                Err(LoadError::Compile(why)) => refused = Some(why),
                decided => return decided,
            }
        }
        Err(LoadError::Compile(refused.unwrap_or_default()))
    }

    fn compile(engine: &Engine, bytes: &[u8], found: &Found) -> Result<Self, LoadError> {
        let compile = |e: wasmtime::Error| LoadError::Compile(format!("{e:#}"));
        let mut linker = linker(engine).map_err(compile)?;
        if found.threads.is_some() {
            threads::add(&mut linker).map_err(compile)?;
        }
        let is_shared = |module: &str, name: &str| {
            let threads = found.threads.as_ref();
            threads.is_some_and(|t| (t.module.as_str(), t.name.as_str()) == (module, name))
        };
        let mut store = wasmtime::Store::new(engine, Guest::bare());
        for (offset, module, name) in &found.imports {
            let provided = linker.get(&mut store, module, name).is_ok() && !threads::is_own(module);
            if !provided && !is_shared(module, name) {
                return Err(LoadError::Import {
                    offset: *offset,
                    module: module.clone(),
                    name: name.clone(),
                });
            }
        }
        let rewritten = match &found.threads {
            Some(_) => threads::rewrite(bytes, found.functions).map_err(LoadError::Compile)?,
            None => Vec::new(),
        };
        let code = match &found.threads {
            Some(_) => &rewritten,
            None => bytes,
        };
        let module = Module::from_binary(engine, code).map_err(compile)?;
        for ((offset, from, name), import) in found.imports.iter().zip(module.imports()) {
            if is_shared(from, name) {
                continue;
            }
            let provided = linker.get(&mut store, from, name).map_err(compile)?;
            let same = match (provided.into_func(), import.ty()) {
                (Some(f), ExternType::Func(wanted)) => FuncType::eq(&f.ty(&store), &wanted),
                _ => false,
            };
            if !same {
                return Err(LoadError::ImportType {
                    offset: *offset,
                    module: from.clone(),
                    name: name.clone(),
                });
            }
        }
        let start = module.get_export("_start");
        let start = start.as_ref().and_then(|e| e.func());
        if !start.is_some_and(|f| f.params().len() == 0 && f.results().len() == 0) {
            return Err(LoadError::NoStart);
        }
        let code = match &found.threads {
            Some(threads) => Code::Sharing(Box::new(Sharing {
                module,
                linker,
                threads: threads.clone(),
                imported: found.functions,
            })),
            None => Code::Linked(linker.instantiate_pre(&module).map_err(compile)?),
        };
        Ok(Self(Arc::new(Inner {
            code,
            start_bytes: found.start_bytes,
        })))
    }

    /// Whether its memory is shared by threads.
    pub(crate) fn has_threads(&self) -> bool {
        matches!(self.0.code, Code::Sharing(_))
    }

    /// Bytes of linear memory and tables that a process of it starts with.
    pub fn start_bytes(&self) -> u64 {
        self.0.start_bytes
    }
}
