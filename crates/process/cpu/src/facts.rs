//! What wasmtime has to know of a module before it compiles it.

use everwarp_process::threads::Threads;
use everwarp_process::{LoadError, Module};
use wasmparser::{BinaryReaderError, Parser, Payload, TypeRef};

use crate::engines::TableBound;
use crate::rewrite::ADDED_IMPORTS;

/// What a module needs.
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
    /// Whether its processes may wait for each other.
    pub(crate) waits: bool,
}

impl ModuleFacts {
    /// Reads a module.
    pub(crate) fn read(module: &Module) -> Result<Self, LoadError> {
        let mut facts = Self {
            threads: module.threads().cloned(),
            imported_functions: 0,
            start_bytes: module.start_bytes(),
            start_elements: 0,
            tables: Vec::new(),
            waits: module.uses_gpu() || module.threads().is_some(),
        };
        let read = facts.add_sections(module.bytes());
        read.map_err(|e| LoadError::Invalid {
            offset: e.offset(),
            message: e.message().to_owned(),
        })?;
        Ok(facts)
    }

    fn add_sections(&mut self, bytes: &[u8]) -> Result<(), BinaryReaderError> {
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
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
                    for import in imports.into_imports() {
                        let is_function = matches!(import?.ty, TypeRef::Func(_));
                        self.imported_functions += u32::from(is_function);
                    }
                }
                _ => {}
            }
        }
        Ok(())
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
