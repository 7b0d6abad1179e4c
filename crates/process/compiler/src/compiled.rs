//! A compiled module: its code, and what a host has to know about it.

use everwarp_contract::TrapKind;

use crate::emit::carried;
use crate::facts::layout::InstanceLayout;
use crate::facts::module::{Export, Import, Limits, Module};
use crate::facts::referenced::Referenced;
use crate::facts::suspending::SaveNeed;
use crate::facts::types::{Convention, FunctionType, ValueType};

/// A compiled module.
#[derive(Debug)]
pub struct Compiled {
    /// The code, from the `.version` line to the kernel.
    pub ptx: String,
    /// The offsets of an instance's parts.
    pub layout: InstanceLayout,
    pub(crate) module: Module,
    pub(crate) entries: Vec<u32>,
    pub(crate) prefix: String,
    pub(crate) referenced: Referenced,
    pub(crate) names: Vec<Option<String>>,
    /// Offset of each function's body in the module's bytes; 0 for imports.
    pub(crate) bodies: Vec<usize>,
    /// For each function whether it may be suspended.
    pub(crate) suspending: Vec<bool>,
    pub(crate) save_need: SaveNeed,
    /// How many functions of groups an indirect call passes at most.
    pub(crate) indirect_groups: u32,
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
    /// deep: the frames of the longest chain of calls, or where calls can go in a circle as many of the
    /// largest.
    pub fn save_bytes(&self, depth: u32) -> u64 {
        // One more than the depth: a function that calls nothing does not count.
        let deepest = (u64::from(depth) + 1) * self.save_need.largest;
        let longest = self.save_need.longest.unwrap_or(deepest);
        deepest.min(longest)
    }

    /// The most frames on the device's stack that one level of the calls' depth takes: that of the function, and those of
    /// the functions that an indirect call passes.
    pub fn frames_for_each_call(&self) -> u32 {
        2 + self.indirect_groups
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

    /// A trap as a sentence: what happened, in which function, and at which distance from the beginning of its body.
    pub fn describe_trap(&self, trap: TrapKind, function: u32, offset: u32) -> String {
        let body = self.bodies.get(function as usize).copied().unwrap_or(0);
        let distance = (offset as usize).saturating_sub(body);
        match self.function_name(function) {
            Some(name) => format!("{trap} in `{name}` +{distance:#x}"),
            None => format!("{trap} in function {function} +{distance:#x}"),
        }
    }
}
