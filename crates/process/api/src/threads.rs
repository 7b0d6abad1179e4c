//! Threads of one process, after the wasi-threads proposal: what a module imports and exports for them, and which
//! modules may have them.
//!
//! Each thread is an instance of the process's module with its own globals and tables. All of them import the same
//! memory. Some rules for modules follow from this that the proposal leaves open; they are checked here, once for all
//! engines.

use wasmparser::types::Types;
use wasmparser::{
    DataKind, ExternalKind, MemoryType, Parser, Payload, TypeRef, ValType, WasmFeatures,
};

use crate::gpu;
use crate::validate::Invalid;

/// The features that threads need: atomic instructions and shared memories.
pub(crate) const FEATURES: WasmFeatures = WasmFeatures::THREADS;

/// The module that [`SPAWN`] is imported from.
pub const MODULE: &str = "wasi";
/// Starts a thread: `(start_arg: i32) -> i32`. It returns the thread's number or [`AGAIN`].
pub const SPAWN: &str = "thread-spawn";
/// The exported function that a new thread calls: `(tid: i32, start_arg: i32)`.
pub const START: &str = "wasi_thread_start";
/// The result of [`SPAWN`] if the process may have no further thread: WASI's `EAGAIN`, negated.
pub const AGAIN: i32 = -6;
/// The threads that a process may have at the same time besides its first one, by default.
pub const THREADS: u32 = 64;
/// The largest value of this limit.
pub const THREADS_MOST: u32 = 1024;

/// The shared memory of a module, and whether the module starts threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threads {
    /// The module that the memory is imported from.
    pub module: String,
    /// The memory's name there.
    pub name: String,
    /// The pages that the memory starts with.
    pub initial: u64,
    /// The most pages that it may have.
    pub maximum: u64,
    /// Whether the module starts threads.
    pub spawns: bool,
}

/// What one pass over a module finds.
#[derive(Default)]
struct Found {
    memory: Option<Threads>,
    /// The offset of a shared memory that is declared and not imported.
    own: Option<usize>,
    /// The offset of the first active data segment.
    active: Option<usize>,
    /// The offset of an import of `everwarp:gpu`.
    gpu: Option<usize>,
    /// The offset of the import of [`SPAWN`].
    spawn: Option<usize>,
    starts: bool,
}

impl Found {
    fn import(&mut self, offset: usize, import: &wasmparser::Import<'_>) {
        match import.ty {
            TypeRef::Memory(MemoryType {
                shared: true,
                initial,
                maximum,
                ..
            }) => {
                self.memory = Some(Threads {
                    module: import.module.to_owned(),
                    name: import.name.to_owned(),
                    initial,
                    maximum: maximum.unwrap_or(initial),
                    spawns: false,
                });
            }
            _ if import.module == gpu::MODULE => self.gpu = Some(offset),
            _ if (import.module, import.name) == (MODULE, SPAWN) => self.spawn = Some(offset),
            _ => {}
        }
    }

    fn payload(
        &mut self,
        payload: Payload<'_>,
        types: &Types,
    ) -> Result<(), wasmparser::BinaryReaderError> {
        match payload {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports_with_offsets() {
                    let (offset, import) = import?;
                    self.import(offset, &import);
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories.into_iter_with_offsets() {
                    let (offset, memory) = memory?;
                    self.own = Some(offset).filter(|_| memory.shared).or(self.own);
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    if export.name == START && export.kind == ExternalKind::Func {
                        let ty = &types[types.as_ref().core_function_at(export.index)];
                        let ty = ty.unwrap_func();
                        self.starts = ty.params() == [ValType::I32; 2] && ty.results().is_empty();
                    }
                }
            }
            Payload::DataSection(segments) => {
                for segment in segments {
                    let segment = segment?;
                    if matches!(segment.kind, DataKind::Active { .. }) {
                        self.active.get_or_insert(segment.range.start);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Threads {
    /// Finds the shared memory of a valid module; `None` if its memory is not shared.
    ///
    /// # Errors
    /// * The module declares a shared memory instead of importing it: each thread would have its own.
    /// * The module starts threads without a shared memory, or does not export [`START`].
    /// * The memory is shared and a data segment is active: it would be copied again whenever a thread starts. Compilers
    ///   that emit threads make data segments passive.
    /// * The memory is shared and the module imports `everwarp:gpu`, whose channel ends and children belong to one
    ///   thread.
    pub(crate) fn find(bytes: &[u8], types: &Types) -> Result<Option<Self>, Invalid> {
        let invalid = |offset, message: &str| {
            Err(Invalid {
                offset,
                message: message.to_owned(),
            })
        };
        let mut found = Found::default();
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.and_then(|payload| found.payload(payload, types));
            payload.map_err(Invalid::from)?;
        }
        if let Some(offset) = found.own {
            return invalid(
                offset,
                "a shared memory must be imported: link with `--import-memory`",
            );
        }
        let Some(memory) = found.memory else {
            return match found.spawn {
                Some(offset) => invalid(
                    offset,
                    "threads need a shared memory that is imported: link with `--shared-memory --import-memory`",
                ),
                None => Ok(None),
            };
        };
        if let Some(offset) = found.active {
            let message = "data segments of a shared memory must be passive, because an active one would be copied again \
                           for each thread";
            return invalid(offset, message);
        }
        if let Some(offset) = found.gpu {
            return invalid(
                offset,
                "a module with a shared memory cannot import `everwarp:gpu`",
            );
        }
        match found.spawn {
            Some(offset) if !found.starts => invalid(
                offset,
                "threads need an exported function `wasi_thread_start` (i32, i32) -> ()",
            ),
            spawn => Ok(Some(Self {
                spawns: spawn.is_some(),
                ..memory
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::validate::{Invalid, validate};

    fn found(text: &str) -> Result<Option<super::Threads>, String> {
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let bytes = wat.encode().expect("it can be encoded");
        let types = validate(&bytes).map_err(|e| e.to_string())?;
        super::Threads::find(&bytes, &types).map_err(|e: Invalid| e.message)
    }

    const MEMORY: &str = r#"(import "env" "memory" (memory 1 9 shared))"#;
    const SPAWN: &str = r#"(import "wasi" "thread-spawn" (func (param i32) (result i32)))"#;
    const START: &str = r#"(func (export "wasi_thread_start") (param i32 i32))"#;

    #[test]
    fn the_shared_memory_of_a_module_is_found() {
        let all = found(&format!("(module {MEMORY} {SPAWN} {START})"));
        let threads = all.expect("it may").expect("its memory is shared");
        assert_eq!(
            (threads.module.as_str(), threads.name.as_str()),
            ("env", "memory")
        );
        assert_eq!((threads.initial, threads.maximum), (1, 9));
        assert!(threads.spawns);
        let alone = found(&format!("(module {MEMORY})")).expect("it may");
        assert!(!alone.expect("its memory is shared").spawns);
        assert_eq!(
            found("(module (memory 1) (data (i32.const 0) \"a\"))"),
            Ok(None)
        );
    }

    #[test]
    fn modules_whose_threads_could_not_share_are_refused() {
        for (text, part) in [
            (
                "(module (memory 1 1 shared))".to_owned(),
                "must be imported",
            ),
            (
                format!("(module {SPAWN} (memory 1) {START})"),
                "need a shared memory",
            ),
            (format!("(module {MEMORY} {SPAWN})"), "wasi_thread_start"),
            (
                format!(
                    "(module {MEMORY} {SPAWN} (func (export \"wasi_thread_start\") (param i32)))"
                ),
                "wasi_thread_start",
            ),
            (
                format!("(module {MEMORY} (data (i32.const 0) \"a\"))"),
                "must be passive",
            ),
            (
                format!("(module {MEMORY} (import \"everwarp:gpu\" \"lane\" (func (result i32))))"),
                "everwarp:gpu",
            ),
        ] {
            let refused = found(&text).expect_err(&text);
            assert!(refused.contains(part), "{refused}");
        }
    }
}
