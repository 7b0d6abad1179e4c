//! What a module needs, found in its bytes.

use everwarp_process::threads::Threads;
use everwarp_process::{LoadError, Module, gpu};
use wasmparser::{BinaryReaderError, Parser, Payload, TypeRef};

use crate::engines::TableBound;
use crate::limits::ELEMENT_BYTES;
use crate::threads::ADDED_IMPORTS;

/// An import and where it is declared.
pub(crate) struct ImportFact {
    pub(crate) offset: usize,
    pub(crate) module: String,
    pub(crate) name: String,
}

/// What a module needs.
#[derive(Default)]
pub(crate) struct ModuleFacts {
    /// What it needs of threads, if its memory is shared.
    pub(crate) threads: Option<Threads>,
    /// How many functions it imports.
    pub(crate) imported_functions: u32,
    /// Bytes of memory and tables at the start.
    pub(crate) start_bytes: u64,
    /// Elements of all tables at the start.
    pub(crate) start_elements: u64,
    pub(crate) tables: Vec<TableBound>,
    pub(crate) imports: Vec<ImportFact>,
}

impl ModuleFacts {
    /// Reads a validated module.
    pub(crate) fn read(module: &Module) -> Result<Self, LoadError> {
        let mut facts = Self::default();
        let read = facts.add_sections(module.bytes());
        read.map_err(|e| LoadError::Invalid {
            offset: e.offset(),
            message: e.message().to_owned(),
        })?;
        facts.threads = module.threads().cloned();
        let shared = facts.threads.as_ref().map_or(0, |threads| threads.initial << 16);
        facts.start_bytes += shared + facts.start_elements * ELEMENT_BYTES;
        Ok(facts)
    }

    fn add_sections(&mut self, bytes: &[u8]) -> Result<(), BinaryReaderError> {
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::MemorySection(memories) => {
                    for memory in memories {
                        self.start_bytes += memory?.initial << 16;
                    }
                }
                Payload::TableSection(tables) => {
                    for table in tables {
                        let ty = table?.ty;
                        self.start_elements += ty.initial;
                        self.tables.push(TableBound {
                            maximum: ty.maximum,
                        });
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports_with_offsets() {
                        let (offset, import) = import?;
                        self.imported_functions += u32::from(matches!(import.ty, TypeRef::Func(_)));
                        self.imports.push(ImportFact {
                            offset,
                            module: import.module.to_owned(),
                            name: import.name.to_owned(),
                        });
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether its processes may wait for each other.
    pub(crate) fn waits(&self) -> bool {
        self.threads.is_some() || self.imports.iter().any(|import| import.module == gpu::MODULE)
    }

    /// Whether an import is the shared memory, which each process makes for itself.
    pub(crate) fn is_shared_memory(&self, import: &ImportFact) -> bool {
        let threads = self.threads.as_ref();
        threads.is_some_and(|t| t.module == import.module && t.name == import.name)
    }

    /// The number of a function in the module as it was given, from its number in the module as it runs: modules with
    /// threads import more functions when they run.
    pub(crate) fn original_number(&self, function: u32) -> u32 {
        let shifted = self.threads.is_some() && function >= self.imported_functions + ADDED_IMPORTS;
        match shifted {
            true => function - ADDED_IMPORTS,
            false => function,
        }
    }
}
