//! What a module declares, read from its sections in one pass, without the code.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::facts::types::{Convention, FunctionType, ValueType};

/// What a constant expression of more than one instruction does to its stack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Push(Constant),
    /// Of this many bits.
    Add(u32),
    Sub(u32),
    Mul(u32),
}

/// A constant expression.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Constant {
    /// The bits of a number or a vector, or of the null reference.
    Bits(u128),
    /// The value of a global.
    Global(u32),
    /// A reference to a function.
    Function(u32),
    /// The value of a longer expression, by its number in the module.
    Computed(u32),
}

/// The smallest and largest size of a table (in elements) or a memory (in pages).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size at the start.
    pub min: u64,
    /// The size that it may grow to, if that is limited.
    pub max: Option<u64>,
    /// Whether instances may share it; only memories can be.
    pub shared: bool,
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.shared {
            "a shared size"
        } else {
            "a size"
        };
        match self.max {
            Some(max) => write!(f, "{kind} of {} to {max}", self.min),
            None => write!(f, "{kind} of {} or more", self.min),
        }
    }
}

/// What an import is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportKind {
    /// A function.
    Function(FunctionType),
    /// A global variable.
    Global {
        /// Its type.
        ty: ValueType,
        /// Whether it may change.
        mutable: bool,
    },
    /// A linear memory.
    Memory(Limits),
    /// A table.
    Table {
        /// The type of its elements.
        ty: ValueType,
        /// Its size.
        limits: Limits,
    },
}

/// One import.
#[derive(Clone, Debug)]
pub struct Import {
    /// The module that it is imported from.
    pub module: String,
    /// The imported name.
    pub name: String,
    /// What it is.
    pub kind: ImportKind,
    /// Where it is declared, in the module's bytes.
    pub offset: usize,
}

/// What an export names: an index in the module's space of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Export {
    /// A function.
    Function(u32),
    /// A global variable.
    Global(u32),
    /// The memory.
    Memory,
    /// A table.
    Table(u32),
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) ty: ValueType,
    pub(crate) limits: Limits,
}

#[derive(Debug)]
pub(crate) struct Global {
    pub(crate) ty: ValueType,
    pub(crate) mutable: bool,
    /// None if it is imported.
    pub(crate) init: Option<Constant>,
}

/// Where a segment goes when an instance is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement {
    Passive,
    Active { table: u32, offset: Constant },
    Declared,
}

#[derive(Debug)]
pub(crate) struct Elements {
    pub(crate) place: Placement,
    pub(crate) items: Vec<Constant>,
}

#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) place: Placement,
    pub(crate) bytes: Vec<u8>,
}

/// A module without its code.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) types: Vec<FunctionType>,
    /// For each type the number of the first type that is equal to it.
    pub(crate) canonical: Vec<u32>,
    /// For each function, imported ones first, its type.
    pub(crate) functions: Vec<u32>,
    pub(crate) imported_functions: usize,
    pub(crate) imports: Vec<Import>,
    pub(crate) tables: Vec<Table>,
    pub(crate) memory: Option<Limits>,
    pub(crate) globals: Vec<Global>,
    pub(crate) exports: Vec<(String, Export)>,
    pub(crate) start: Option<u32>,
    pub(crate) elements: Vec<Elements>,
    pub(crate) data: Vec<Data>,
    pub(crate) names: HashMap<u32, String>,
    /// Constant expressions of more than one instruction.
    pub(crate) computed: Vec<Vec<Step>>,
    pub(crate) waiting: Waiting,
    /// It may use the threads proposal.
    pub(crate) threads: bool,
    /// Memories of instances are interleaved.
    pub(crate) interleaved: bool,
    /// A product and a sum may be rounded once.
    pub(crate) contract: bool,
    /// What its functions pass on.
    pub(crate) convention: Convention,
    /// The memory's length in bytes, if the memory can neither grow nor belong to another instance.
    pub(crate) fixed_memory: Option<u64>,
}

/// Functions that the compiler has added after the module's own: `memory.atomic.wait32`, `wait64` and `notify` call
/// them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) wait: Option<u32>,
    pub(crate) notify: Option<u32>,
}

impl Module {
    /// The type of a function.
    pub(crate) fn function_type(&self, function: u32) -> &FunctionType {
        &self.types[self.functions[function as usize] as usize]
    }

    /// The canonical number of a function's type.
    pub(crate) fn canonical_type(&self, function: u32) -> u32 {
        self.canonical[self.functions[function as usize] as usize]
    }

    /// Whether the module's memory may be shared with other instances.
    pub(crate) fn shares_memory(&self) -> bool {
        self.memory.is_some_and(|m| m.shared)
    }

    /// Functions that the host may call: exported ones and the start function, in ascending order.
    pub(crate) fn entries(&self) -> Vec<u32> {
        let exported = self.exports.iter().filter_map(|(_, e)| match e {
            Export::Function(f) => Some(*f),
            _ => None,
        });
        let all: BTreeSet<u32> = exported.chain(self.start).collect();
        all.into_iter().collect()
    }
}
