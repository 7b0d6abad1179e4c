//! A compiled module: its code, and what a host has to know about it.

use std::collections::BTreeSet;

use everwarp_contract::TrapKind;

use crate::divide::Places;
use crate::emit::carried;
use crate::facts::calls::CallGraph;
use crate::facts::first::{by_distance, reached};
use crate::facts::layout::InstanceLayout;
use crate::facts::module::{Export, Import, Limits, Module};
use crate::facts::referenced::Referenced;
use crate::facts::suspending::SaveNeed;
use crate::facts::types::{Convention, FunctionType, ValueType};
use crate::stack_need::StackNeed;

/// A compiled module.
#[derive(Debug)]
pub struct Compiled {
    /// The code, from the `.version` line to the kernel.
    pub ptx: String,
    /// The functions that the code lacks ([`missing`](Self::missing)), as they are in an image that has them. They are assembled
    /// apart from the code, in any number of files.
    pub left_out: String,
    /// The offsets of an instance's parts.
    pub layout: InstanceLayout,
    pub(crate) module: Module,
    pub(crate) entries: Vec<u32>,
    pub(crate) prefix: String,
    pub(crate) referenced: Referenced,
    pub(crate) graph: CallGraph,
    pub(crate) names: Vec<Option<String>>,
    /// Offset of each function's body in the module's bytes; 0 for imports.
    pub(crate) bodies: Vec<usize>,
    /// The bytes of each function's body; 0 for imports.
    pub(crate) sizes: Vec<usize>,
    pub(crate) places: Places,
    /// For each function whether it may be suspended.
    pub(crate) suspending: Vec<bool>,
    pub(crate) missing: Vec<u32>,
    pub(crate) save_need: SaveNeed,
}

impl Compiled {
    /// The module's exports, in its order.
    pub fn exports(&self) -> impl Iterator<Item = (&str, Export)> {
        self.module.exports.iter().map(|(n, e)| (n.as_str(), *e))
    }

    /// The item that an export names.
    pub fn export(&self, name: &str) -> Option<Export> {
        self.exports().find(|(n, _)| *n == name).map(|(_, e)| e)
    }

    /// The module's imports, in its order.
    pub fn imports(&self) -> &[Import] {
        &self.module.imports
    }

    /// The number under which the kernel knows a function, if the host may call it: an exported
    /// function, or the start function.
    pub fn entry(&self, function: u32) -> Option<u32> {
        let at = self.entries.binary_search(&function).ok()?;
        Some(at as u32)
    }

    /// Whether a call of a function may be suspended, to be resumed later.
    pub fn may_suspend(&self, function: u32) -> bool {
        let found = self.suspending.get(function as usize);
        found.is_some_and(|suspends| *suspends)
    }

    /// The largest frame that is saved while an instance is suspended, in bytes; 0 if it cannot be. Only
    /// functions that are on the stack then, and can be suspended, save one.
    pub fn largest_frame(&self) -> u64 {
        self.save_need.largest
    }

    /// How many bytes a save area must have, so that every suspension fits in it when calls may nest this
    /// deep: the most that the frames of a chain of calls take together.
    pub fn save_bytes(&self, depth: u32) -> u64 {
        // One more than the depth: a function that calls nothing does not count.
        self.save_need.chains.most(u64::from(depth) + 1)
    }

    /// What calls take of the device's stack, given the names of the image's functions and the bytes of their frames, as
    /// the machine code says. Names that are not this module's do not count.
    pub fn stack_need<'n>(&self, frames: impl Iterator<Item = (&'n str, u32)>) -> StackNeed {
        let own = frames.filter_map(|(name, bytes)| {
            let name = name.strip_prefix(&*self.prefix)?;
            Some((name, bytes))
        });
        StackNeed::new(
            &self.graph,
            &self.referenced,
            own,
            self.layout.deep.is_some(),
        )
    }

    /// How deep calls may nest so that every suspension fits in a save area of this many bytes
    /// ([`save_bytes`](Self::save_bytes)), up to `most`.
    pub fn depth_in(&self, save_bytes: u64, most: u32) -> u32 {
        let functions = self
            .save_need
            .chains
            .longest(save_bytes, most.saturating_add(1));
        functions.saturating_sub(1)
    }

    /// The functions that were not compiled ([`CompileOptions::only`](crate::CompileOptions::only)), in ascending order.
    pub fn missing(&self) -> &[u32] {
        &self.missing
    }

    /// How many functions the image has, imported ones and parts of divided ones included.
    pub fn function_count(&self) -> u32 {
        self.module.functions.len() as u32
    }

    /// The functions `from` that are not in `present`, with others that direct calls lead to from them, the nearest first, as
    /// long as the bytes of all their bodies are `most` or less.
    pub fn reached(
        &self,
        from: impl IntoIterator<Item = u32>,
        present: &BTreeSet<u32>,
        most: usize,
    ) -> BTreeSet<u32> {
        reached(&self.graph, &self.sizes, from, present, most)
    }

    /// All functions, those first that direct calls lead to from the entries, in the order of the number of calls on the way. Each
    /// function that no such way leads to is followed by those that it calls.
    pub fn by_distance(&self) -> Vec<u32> {
        by_distance(&self.graph, self.entries.iter().copied())
    }

    /// These functions, with all functions that direct calls lead to from them.
    pub fn with_callees(&self, functions: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let mut work: Vec<u32> = functions.into_iter().collect();
        while let Some(function) = work.pop() {
            if found.insert(function) {
                let calls = self.graph.functions.get(function as usize);
                work.extend(calls.into_iter().flat_map(|calls| &calls.direct));
            }
        }
        found
    }

    /// The start function, which must be called once before any other.
    pub fn start(&self) -> Option<u32> {
        self.module.start
    }

    /// The type of a function.
    pub fn function_type(&self, function: u32) -> &FunctionType {
        self.module.function_type(function)
    }

    /// Type and mutability of a global.
    pub fn global_type(&self, global: u32) -> (ValueType, bool) {
        let global = &self.module.globals[global as usize];
        (global.ty, global.mutable)
    }

    /// The declared size of the memory, if there is one.
    pub fn memory(&self) -> Option<Limits> {
        self.module.memory
    }

    /// Whether it runs with interleaved memories ([`CompileOptions::interleaved`](crate::CompileOptions::interleaved)).
    pub fn interleaved(&self) -> bool {
        self.module.interleaved
    }

    /// How many tables there are, imported ones included.
    pub fn table_count(&self) -> u32 {
        self.module.tables.len() as u32
    }

    /// Element type and declared size of a table.
    pub fn table(&self, table: u32) -> (ValueType, Limits) {
        let table = &self.module.tables[table as usize];
        (table.ty, table.limits)
    }

    /// The reference to a function, as globals and tables hold it. Only functions that are exported, in
    /// an element segment or in a global's initial value can be referred to.
    pub(crate) fn reference(&self, function: u32) -> u64 {
        self.referenced.reference(&self.module, function)
    }

    /// The function that a reference names. Zero, the null reference, names no function.
    pub fn referenced_function(&self, reference: u64) -> Option<u32> {
        self.referenced.function(reference)
    }

    /// The name of a function in the image, for another module to import it.
    pub fn symbol(&self, function: u32) -> String {
        if self.module.convention == Convention::PLAIN {
            return format!("{}f{function}", self.prefix);
        }
        carried::outer_name(&self.prefix, function)
    }

    /// The name of a function, if the module has one for it.
    pub fn function_name(&self, function: u32) -> Option<&str> {
        self.names.get(function as usize)?.as_deref()
    }

    /// The module's own function for a function of the image, and the offset in the module for one in the code: a function that
    /// the compiler has divided ([`CompileOptions::divide`](crate::CompileOptions::divide)) has parts with numbers of their own.
    pub fn place(&self, function: u32, offset: u32) -> (u32, u32) {
        let at = self.places.offset(offset as usize);
        (self.places.function(function), at as u32)
    }

    /// A trap as a sentence: what happened, in which function, and at which distance from the beginning of its body.
    pub fn describe_trap(&self, trap: TrapKind, function: u32, offset: u32) -> String {
        let (function, offset) = self.place(function, offset);
        let body = self.bodies.get(function as usize).copied().unwrap_or(0);
        let distance = (offset as usize).saturating_sub(body);
        match self.function_name(function) {
            Some(name) => format!("{trap} in `{name}` +{distance:#x}"),
            None => format!("{trap} in function {function} +{distance:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::options::CompileOptions;
    use crate::stack_need::DEPTH_MOST;

    fn compiled(text: &str) -> Compiled {
        let buffer = wast::parser::ParseBuffer::new(text).expect("it is text");
        let mut wat: wast::Wat<'_> = wast::parser::parse(&buffer).expect("it is a module");
        let options = CompileOptions {
            prefix: "p_".to_owned(),
            ..CompileOptions::default()
        };
        let bytes = wat.encode().expect("it can be encoded");
        crate::compile(&bytes, &options).expect("it is supported")
    }

    /// A large function calls a small one, which calls itself, also through the table.
    const TEXT: &str = r#"(module (table funcref (elem $small))
      (func $large (export "go") (param i64) (call $small (i32.const 1)))
      (func $small (param i32)
        (call_indirect (param i32) (local.get 0) (i32.const 0)) (call $small (local.get 0))))"#;

    #[test]
    fn a_large_frame_counts_as_often_as_it_can_be_on_the_stack() {
        let compiled = compiled(TEXT);
        let frames = [
            ("p_f0", 5000),
            ("p_f1", 100),
            ("p_i1_0", 30),
            ("p_enter", 40),
            ("p_memory_grow", 24),
            ("q_f1", 1 << 20),
            ("everwarp_engine", 1 << 20),
        ];
        let need = compiled.stack_need(frames.into_iter());
        assert_eq!(need.bytes(0), 5000 + 80);
        // The last one may have made an indirect call that reaches nothing.
        assert_eq!(need.bytes(10), 5000 + 10 * 130 + 80);
        assert_eq!(need.depth(need.bytes(10)), Some(10));
        assert_eq!(need.depth(need.bytes(10) - 1), Some(9));
        assert_eq!(need.depth(79), None);
        assert_eq!(need.depth(5079), None);
    }

    #[test]
    fn functions_without_a_known_frame_count_as_the_largest() {
        let compiled = compiled(TEXT);
        let need = compiled.stack_need([("p_f1", 200)].into_iter());
        assert_eq!(need.bytes(1), 2 * (200 + 200) + 32);
        // Nothing is known: some bytes for each.
        let need = compiled.stack_need(std::iter::empty());
        assert!(need.bytes(100) >= 100 * 16);
        assert!(need.depth(1 << 40).expect("it fits") <= DEPTH_MOST);
    }

    #[test]
    fn calls_that_end_nest_as_deep_as_they_can() {
        let text = r#"(module (func (export "a") (call 1)) (func (call 2)) (func))"#;
        let compiled = compiled(text);
        let frames = [("p_f0", 64), ("p_f1", 64), ("p_f2", 64)];
        let need = compiled.stack_need(frames.into_iter());
        assert_eq!(need.depth(3 * 64 + 32), Some(DEPTH_MOST));
        assert_eq!(need.depth(3 * 64 + 31), Some(1));
    }
}
