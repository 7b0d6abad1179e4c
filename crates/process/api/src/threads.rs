//! Threads of one process: what a module imports and exports for them (the wasi-threads proposal), and which modules
//! may have them. The same on every engine.
//!
//! A thread is an instance of the process's module of its own, with globals and tables of its own, over the memory
//! that all of them import. So rules for modules follow that the proposal leaves open, and that both engines check
//! here.

use wasmparser::types::Types;
use wasmparser::{
    DataKind, ExternalKind, MemoryType, Parser, Payload, TypeRef, ValType, WasmFeatures,
};

use crate::gpu;
use crate::validate::Invalid;

/// What is allowed for threads: atomic instructions, and memories that are shared.
pub(crate) const FEATURES: WasmFeatures = WasmFeatures::THREADS;

/// The module that [`SPAWN`] is imported from.
pub const MODULE: &str = "wasi";
/// Begins a thread: `(start_arg: i32) -> i32`, its number or [`AGAIN`].
pub const SPAWN: &str = "thread-spawn";
/// What a module exports for threads to begin with: `(tid: i32, start_arg: i32)`.
pub const START: &str = "wasi_thread_start";
/// What [`SPAWN`] answers if there can be no further thread: WASI's `EAGAIN`, negative.
pub const AGAIN: i32 = -6;
/// Threads that a process may have at a time beside its first, if nobody says otherwise.
pub const THREADS: u32 = 64;
/// How many it may have at most.
pub const THREADS_MOST: u32 = 1024;

/// A module whose memory is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threads {
    /// The module that the memory is imported from.
    pub module: String,
    /// The memory's name there.
    pub name: String,
    /// Pages that the memory starts with.
    pub initial: u64,
    /// Pages that it has at most.
    pub maximum: u64,
    /// Whether the module may begin threads.
    pub spawns: bool,
}

/// What one pass finds.
#[derive(Default)]
struct Found {
    memory: Option<Threads>,
    /// Where a memory is declared as shared that is not imported.
    own: Option<usize>,
    /// Where a data segment is active.
    active: Option<usize>,
    /// Where `everwarp:gpu` is imported.
    gpu: Option<usize>,
    /// Where threads are.
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
    /// What a valid module has to do with threads; nothing if its memory is not shared.
    ///
    /// # Errors
    /// * It declares a shared memory instead of importing it: each thread would have one of its own.
    /// * It begins threads without a shared memory, or without saying where they begin ([`START`]).
    /// * Its memory is shared and it has active data segments, which would be copied again whenever a thread begins.
    ///   Compilers that emit threads make them passive.
    /// * Its memory is shared and it imports `everwarp:gpu`, whose ends of channels and children are one thread's.
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
            return invalid(offset, "a shared memory must be imported, as threads do");
        }
        let Some(memory) = found.memory else {
            return match found.spawn {
                Some(offset) => invalid(offset, "threads need a shared memory that is imported"),
                None => Ok(None),
            };
        };
        if let Some(offset) = found.active {
            let message = "data segments of a shared memory must be passive: an active one would be copied again for \
                           each thread";
            return invalid(offset, message);
        }
        if let Some(offset) = found.gpu {
            return invalid(
                offset,
                "a process with a shared memory has no `everwarp:gpu`",
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
    fn a_module_with_threads_says_what_they_share() {
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
    fn what_threads_could_not_share_is_refused() {
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
