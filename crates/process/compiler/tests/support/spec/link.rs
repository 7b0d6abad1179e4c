//! The imports of the suite's modules: the `spectest` module, and registered instances.

use std::collections::HashMap;

use everwarp_compiler::{
    Export, FunctionType, Limits, Link, ProvidedImport, Provider, SharedMemory, ValueType,
};

use super::super::instance::Process;

/// Functions of `spectest`, which print.
pub(crate) const SPECTEST_PRINTS: [&str; 7] = [
    "print",
    "print_i32",
    "print_i64",
    "print_f32",
    "print_f64",
    "print_i32_f32",
    "print_f64_f64",
];

/// An export of a registered instance.
pub(crate) enum Item {
    /// Its type, and its name in the image.
    Function(FunctionType, String),
    Global(ValueType, bool, u128),
    /// Its size, and its address if it is shared.
    Memory(Limits, Option<SharedMemory>),
    Table(ValueType, Limits),
}

/// A registered instance.
pub(crate) struct Registered {
    pub(crate) instance: usize,
    block: u64,
    pub(crate) exports: HashMap<String, Item>,
}

impl Registered {
    pub(crate) fn new(instance: usize, process: &mut Process) -> Result<Self, String> {
        let compiled = process.compiled;
        let mut exports = HashMap::new();
        for (name, export) in compiled.exports() {
            let item = match export {
                Export::Function(f) => {
                    Item::Function(compiled.function_type(f).clone(), compiled.symbol(f))
                }
                Export::Global(g) => {
                    let (ty, mutable) = compiled.global_type(g);
                    Item::Global(ty, mutable, process.global(g)?)
                }
                Export::Memory => {
                    let limits = compiled.memory().ok_or("no memory")?;
                    let min = process.memory_pages()?;
                    Item::Memory(Limits { min, ..limits }, process.shared_memory()?)
                }
                Export::Table(t) => {
                    let (ty, limits) = compiled.table(t);
                    let min = process.table_len(t)?;
                    Item::Table(ty, Limits { min, ..limits })
                }
                other => return Err(format!("the export {other:?}")),
            };
            exports.insert(name.to_owned(), item);
        }
        Ok(Self {
            instance,
            block: process.block,
            exports,
        })
    }
}

/// All functions that registered instances export.
pub(crate) fn provided(registered: &HashMap<String, Registered>) -> Vec<ProvidedImport> {
    let mut provided = Vec::new();
    for (module, registered) in registered {
        for (name, item) in &registered.exports {
            if let Item::Function(_, symbol) = item {
                provided.push(ProvidedImport {
                    module: module.clone(),
                    name: name.clone(),
                    symbol: symbol.clone(),
                    provider: Provider::Module,
                    suspends: false,
                });
            }
        }
    }
    provided
}

/// Resolves imports.
pub(crate) struct Linker<'r> {
    pub(crate) registered: &'r HashMap<String, Registered>,
    /// The suite's own shared memory.
    pub(crate) shared: SharedMemory,
}

impl Linker<'_> {
    fn item(&self, module: &str, name: &str) -> Option<&Item> {
        self.registered.get(module)?.exports.get(name)
    }
}

impl Link for Linker<'_> {
    fn function(&self, module: &str, name: &str) -> Option<FunctionType> {
        use ValueType::{F32, F64, I32, I64};
        if let Some(Item::Function(ty, _)) = self.item(module, name) {
            return Some(ty.clone());
        }
        let params = match (module, name) {
            ("spectest", "print") => vec![],
            ("spectest", "print_i32") => vec![I32],
            ("spectest", "print_i64") => vec![I64],
            ("spectest", "print_f32") => vec![F32],
            ("spectest", "print_f64") => vec![F64],
            ("spectest", "print_i32_f32") => vec![I32, F32],
            ("spectest", "print_f64_f64") => vec![F64, F64],
            _ => return None,
        };
        let results = vec![];
        Some(FunctionType { params, results })
    }

    fn provider(&self, module: &str, _: &str) -> Option<u64> {
        self.registered.get(module).map(|r| r.block)
    }

    fn global(&self, module: &str, name: &str) -> Option<(ValueType, bool, u128)> {
        if let Some(Item::Global(ty, mutable, bits)) = self.item(module, name) {
            return Some((*ty, *mutable, *bits));
        }
        let (ty, bits) = match (module, name) {
            ("spectest", "global_i32") => (ValueType::I32, 666),
            ("spectest", "global_i64") => (ValueType::I64, 666),
            ("spectest", "global_f32") => (ValueType::F32, 666.6f32.to_bits().into()),
            ("spectest", "global_f64") => (ValueType::F64, 666.6f64.to_bits().into()),
            _ => return None,
        };
        Some((ty, false, bits))
    }

    fn memory(&self, module: &str, name: &str) -> Option<Limits> {
        if let Some(Item::Memory(limits, _)) = self.item(module, name) {
            return Some(*limits);
        }
        let shared = match (module, name) {
            ("spectest", "memory") => false,
            ("spectest", "shared_memory") => true,
            _ => return None,
        };
        let (min, max) = (1, Some(2));
        Some(Limits { min, max, shared })
    }

    fn shared_memory(&self, module: &str, name: &str) -> Option<SharedMemory> {
        match self.item(module, name) {
            Some(Item::Memory(_, shared)) => *shared,
            _ => Some(self.shared),
        }
    }

    fn table(&self, module: &str, name: &str) -> Option<(ValueType, Limits)> {
        if let Some(Item::Table(ty, limits)) = self.item(module, name) {
            return Some((*ty, *limits));
        }
        let found = (module, name) == ("spectest", "table");
        let (min, max, shared) = (10, Some(20), false);
        found.then_some((ValueType::FuncRef, Limits { min, max, shared }))
    }
}
