//! Which functions call which, read from the operators alone, before any code is emitted.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{FunctionBody, Operator};

use crate::facts::module::Module;
use crate::parallel;

/// Bodies that a thread reads at a time.
const TOGETHER: usize = 64;

/// What a function's operators call, dead ones included. The body may not be valid.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) direct: BTreeSet<u32>,
    /// Canonical types.
    pub(crate) indirect: BTreeSet<u32>,
    pub(crate) loops: bool,
    /// A call ends the function.
    pub(crate) tail: bool,
}

impl Calls {
    fn read(module: &Module, body: &FunctionBody<'_>) -> Self {
        let mut calls = Self::default();
        let Ok(mut operators) = body.get_operators_reader() else {
            return calls;
        };
        // The validator reports what cannot be read.
        while let Ok(operator) = operators.read() {
            calls.tail |= matches!(
                operator,
                Operator::ReturnCall { .. } | Operator::ReturnCallIndirect { .. }
            );
            match operator {
                Operator::Loop { .. } => calls.loops = true,
                Operator::Call { function_index: f }
                | Operator::ReturnCall { function_index: f }
                    if (f as usize) < module.functions.len() =>
                {
                    calls.direct.insert(f);
                }
                Operator::MemoryAtomicWait32 { .. } | Operator::MemoryAtomicWait64 { .. } => {
                    calls.direct.extend(module.waiting.wait);
                }
                Operator::MemoryAtomicNotify { .. } => {
                    calls.direct.extend(module.waiting.notify);
                }
                Operator::CallIndirect { type_index, .. }
                | Operator::ReturnCallIndirect { type_index, .. } => {
                    calls
                        .indirect
                        .extend(module.canonical.get(type_index as usize));
                }
                _ => {}
            }
            if operators.eof() {
                break;
            }
        }
        calls
    }

    pub(crate) fn none(&self) -> bool {
        self.direct.is_empty() && self.indirect.is_empty()
    }
}

/// The calls of all functions of a module.
#[derive(Debug, Default)]
pub(crate) struct CallGraph {
    pub(crate) functions: Vec<Calls>,
    /// The trampoline of each function that tail calls.
    pub(crate) trampolines: BTreeMap<u32, usize>,
    /// What each trampoline calls.
    pub(crate) targets: Vec<Vec<u32>>,
}

impl CallGraph {
    /// A graph in which each function calls these, for tests.
    #[cfg(test)]
    pub(crate) fn of(calls: &[&[u32]]) -> Self {
        let calls = calls.iter().map(|direct| Calls {
            direct: direct.iter().copied().collect(),
            ..Calls::default()
        });
        Self {
            functions: calls.collect(),
            ..Self::default()
        }
    }
    /// Reads the bodies. Imported functions come first, and last those that wait and notify.
    pub(crate) fn new<'b>(
        module: &Module,
        bodies: impl Iterator<Item = &'b FunctionBody<'b>>,
    ) -> Self {
        let mut functions = Vec::with_capacity(module.functions.len());
        functions.resize_with(module.imported_functions, Calls::default);
        let bodies: Vec<_> = bodies.collect();
        let read = |bodies: &[&FunctionBody<'_>]| -> Vec<_> {
            let bodies = bodies.iter();
            bodies.map(|body| Calls::read(module, body)).collect()
        };
        let some = bodies.chunks(TOGETHER).collect();
        functions.extend(parallel::map(some, read).into_iter().flatten());
        functions.resize_with(module.functions.len(), Calls::default);
        Self {
            functions,
            ..Self::default()
        }
    }
}
