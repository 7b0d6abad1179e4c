//! An interpreter for the part of PTX that the compiler emits. Several threads take turns at random.
//!
//! It checks the compiler's semantics on machines without a GPU, so it is stricter than a GPU. These are errors: a
//! register that is read before it is written, an access that is not aligned or not in an allocation, operands of the
//! wrong size, and parameters that do not match. Where PTX leaves the bits of a NaN open, it chooses the least
//! convenient ones.

mod alu;
mod atomic;
mod exec;
mod memory;
mod parse;

pub(crate) use exec::Interpreter;
pub(crate) use memory::Memory;

use std::collections::HashMap;

/// The type of an instruction or register: its letter and size in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    pub(crate) bits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bits,
    Unsigned,
    Signed,
    Float,
    Pred,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Reg(usize),
    Value(u64),
    /// A special register such as `%tid.x`, by number.
    Special(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Address {
    /// A register and an offset.
    Memory(usize, i64),
    /// A parameter and an offset.
    Param(usize, usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Computes a register from operands; the instruction's parts say how.
    Compute {
        name: alu::Name,
        to: usize,
        args: [Operand; 4],
        count: usize,
    },
    /// Splits a number of 64 bits into its halves, the lower one first.
    Split {
        to: [usize; 2],
        from: usize,
    },
    Join {
        to: usize,
        from: [usize; 2],
    },
    Load {
        ty: Type,
        to: usize,
        at: Address,
    },
    Store {
        ty: Type,
        at: Address,
        value: Operand,
    },
    Atomic {
        action: atomic::Action,
        bits: u32,
        to: usize,
        at: Address,
        args: [Operand; 2],
    },
    /// A fence. It does nothing, because the interpreter's threads take turns.
    Fence,
    Declare {
        param: usize,
        bytes: usize,
    },
    Branch(usize),
    Table {
        index: usize,
        targets: Vec<usize>,
    },
    Call {
        result: Option<usize>,
        /// The number of a function.
        target: usize,
        args: Vec<usize>,
    },
    Return,
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    /// A predicate register, and whether it must be clear.
    pub(crate) guard: Option<(usize, bool)>,
    pub(crate) op: Op,
    /// The line in the source.
    pub(crate) line: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Sizes in bytes of all parameters that the text names; the formal ones come first.
    pub(crate) param_count: usize,
    pub(crate) result: Option<(usize, usize)>,
    pub(crate) formals: Vec<(usize, usize)>,
    pub(crate) registers: Vec<Type>,
    pub(crate) code: Vec<Instruction>,
}

/// A parsed image.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) functions: Vec<Function>,
    pub(crate) by_name: HashMap<String, usize>,
}

impl Image {
    /// Parses more text into the image. The text may call functions that are already in the image.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), String> {
        parse::add(self, text)
    }
}
