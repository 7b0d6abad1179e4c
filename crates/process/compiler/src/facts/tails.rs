//! The tail calls of a module: which functions make them, and which trampolines call what they name.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{FunctionBody, Operator};

use crate::facts::calls::CallGraph;
use crate::facts::module::Module;
use crate::facts::referenced::Referenced;
use crate::facts::suspending::INDIRECT_FRAME;
use crate::facts::types::{ValueType, slot_bytes};

/// What a trampoline calls: functions with the same results.
#[derive(Debug, Default)]
pub(crate) struct Trampoline {
    pub(crate) results: Vec<ValueType>,
    /// Functions, each under its number.
    pub(crate) targets: Vec<u32>,
    pub(crate) direct: BTreeMap<u32, u32>,
    /// For each canonical type the number of the first function that references may name.
    indirect: BTreeMap<u32, u32>,
}

/// All tail calls of a module.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    pub(crate) callers: BTreeSet<u32>,
    pub(crate) trampolines: Vec<Trampoline>,
    argument_bytes: usize,
}

/// Offset of the arguments in the area; in front of them is the number of what is to be called.
pub(crate) const ARGUMENTS: usize = 8;

impl Tails {
    /// Finds them in the operators of the functions that have some. The bodies may not be valid.
    pub(crate) fn new<'b>(
        module: &Module,
        referenced: &Referenced,
        callers: impl Iterator<Item = (u32, &'b FunctionBody<'b>)>,
    ) -> Self {
        let mut this = Self::default();
        for (function, body) in callers {
            let Ok(mut operators) = body.get_operators_reader() else {
                continue;
            };
            // The validator reports what cannot be read.
            while let Ok(operator) = operators.read() {
                match operator {
                    Operator::ReturnCall { function_index: f }
                        if (f as usize) < module.functions.len() =>
                    {
                        this.add_caller(module, function).add(f);
                        this.reserve(&module.function_type(f).params);
                    }
                    Operator::ReturnCallIndirect { type_index, .. } => {
                        if let Some(&ty) = module.canonical.get(type_index as usize) {
                            let list = referenced.list(ty);
                            this.add_caller(module, function).add_list(ty, list);
                            this.reserve(&module.types[ty as usize].params);
                        }
                    }
                    _ => {}
                }
                if operators.eof() {
                    break;
                }
            }
        }
        this
    }

    fn add_caller(&mut self, module: &Module, function: u32) -> &mut Trampoline {
        let ty = module.function_type(function);
        self.callers.insert(function);
        self.reserve(&ty.params);
        let found = self.place(&ty.results).unwrap_or_else(|| {
            self.trampolines.push(Trampoline {
                results: ty.results.clone(),
                ..Trampoline::default()
            });
            self.trampolines.len() - 1
        });
        let trampoline = &mut self.trampolines[found];
        trampoline.add(function);
        trampoline
    }

    fn reserve(&mut self, params: &[ValueType]) {
        self.argument_bytes = self.argument_bytes.max(slot_bytes(params));
    }

    fn place(&self, results: &[ValueType]) -> Option<usize> {
        self.trampolines.iter().position(|t| t.results == results)
    }

    /// Adds to the graph of calls which trampoline runs which functions.
    pub(crate) fn add_to(&self, graph: &mut CallGraph, module: &Module) {
        let callers = self.callers.iter();
        graph.trampolines = callers.map(|&f| (f, self.of(module, f))).collect();
        let trampolines = self.trampolines.iter();
        graph.targets = trampolines.map(|t| t.targets.clone()).collect();
    }

    /// The trampoline of a function that calls at its end.
    pub(crate) fn of(&self, module: &Module, caller: u32) -> usize {
        let place = self.place(&module.function_type(caller).results);
        place.expect("every function that tail calls has one")
    }

    /// Whether a function tail calls.
    pub(crate) fn calls(&self, function: u32) -> bool {
        self.callers.contains(&function)
    }

    /// Whether no function does.
    pub(crate) fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    /// How many bytes the area in an instance's block takes.
    pub(crate) fn area_bytes(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        (ARGUMENTS + self.argument_bytes).next_multiple_of(16)
    }

    /// The number under which the caller's trampoline knows a function.
    pub(crate) fn direct(&self, module: &Module, caller: u32, function: u32) -> u32 {
        self.trampolines[self.of(module, caller)].direct[&function]
    }

    /// The number under which it knows the first function of a canonical type.
    pub(crate) fn indirect(&self, module: &Module, caller: u32, ty: u32) -> u32 {
        self.trampolines[self.of(module, caller)].indirect[&ty]
    }

    /// What a caller's frame grows by while its trampoline is suspended, too.
    pub(crate) fn frame(&self, function: u32) -> usize {
        if self.calls(function) {
            INDIRECT_FRAME
        } else {
            0
        }
    }
}

impl Trampoline {
    fn add(&mut self, function: u32) {
        let number = self.targets.len() as u32;
        self.direct.entry(function).or_insert_with(|| {
            self.targets.push(function);
            number
        });
    }

    fn add_list(&mut self, ty: u32, list: &[u32]) {
        let number = self.targets.len() as u32;
        self.indirect.entry(ty).or_insert_with(|| {
            self.targets.extend_from_slice(list);
            number
        });
    }
}
