//! Types of values and functions, as far as they are supported.

use std::fmt;

use crate::error::CompileError;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueType {
    /// A 32-bit integer.
    I32,
    /// A 64-bit integer.
    I64,
    /// A single-precision number.
    F32,
    /// A double-precision number.
    F64,
    /// A vector of 128 bits.
    V128,
    /// A reference to a function, or null.
    FuncRef,
    /// A reference that only the host understands, or null.
    ExternRef,
}

impl ValueType {
    /// Whether a value takes a 64-bit register rather than a 32-bit one, or as a vector four of them.
    pub const fn is_wide(self) -> bool {
        !matches!(self, Self::I32 | Self::F32 | Self::V128)
    }

    /// How many registers and parameters hold a value of this type.
    pub const fn parts(self) -> usize {
        if matches!(self, Self::V128) { 4 } else { 1 }
    }

    /// How many places of 8 bytes it takes among arguments and results.
    pub const fn slots(self) -> usize {
        if matches!(self, Self::V128) { 2 } else { 1 }
    }

    pub(crate) fn new(ty: wasmparser::ValType, offset: usize) -> Result<Self, CompileError> {
        use wasmparser::{RefType, ValType};
        Ok(match ty {
            ValType::I32 => Self::I32,
            ValType::I64 => Self::I64,
            ValType::F32 => Self::F32,
            ValType::F64 => Self::F64,
            ValType::V128 => Self::V128,
            ValType::Ref(RefType::FUNCREF) => Self::FuncRef,
            ValType::Ref(RefType::EXTERNREF) => Self::ExternRef,
            other => {
                let what = format!("the value type {other}");
                return Err(CompileError::Unsupported { offset, what });
            }
        })
    }
}

impl fmt::Display for ValueType {
    /// Its name in the text format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::V128 => "v128",
            Self::FuncRef => "funcref",
            Self::ExternRef => "externref",
        })
    }
}

/// The type of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionType {
    /// The types of the parameters.
    pub params: Vec<ValueType>,
    /// The types of the results.
    pub results: Vec<ValueType>,
}

impl fmt::Display for FunctionType {
    /// `function (i32, i64) -> (i32)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[ValueType]| {
            let names: Vec<_> = types.iter().map(ValueType::to_string).collect();
            names.join(", ")
        };
        let (params, results) = (list(&self.params), list(&self.results));
        write!(f, "function ({params}) -> ({results})")
    }
}

/// What functions pass on in addition to arguments and results: see `carried.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Convention {
    /// A global, by its number, which they give back.
    pub(crate) global: Option<u32>,
    /// Where linear memory begins.
    pub(crate) memory: bool,
}

impl Convention {
    /// The convention of functions that other modules or device code provide or call.
    pub(crate) const PLAIN: Self = Self {
        global: None,
        memory: false,
    };
}

impl FunctionType {
    /// The signature of the PTX function of this type that device code provides under a name.
    pub fn provided(&self, symbol: &str) -> String {
        format!(".func {}", self.signature(symbol, Convention::PLAIN))
    }

    /// Bytes of a call's return value: the fuel, then 8 bytes for each result, 16 for a vector; then what is carried.
    pub(crate) fn return_bytes(&self, convention: Convention) -> usize {
        self.carried_at() + if convention.global.is_some() { 8 } else { 0 }
    }

    /// Where in it the carried global is, if functions carry one.
    pub(crate) fn carried_at(&self) -> usize {
        8 + slot_bytes(&self.results)
    }
}

/// The types of the registers that hold such values: four times that of a vector, for its quarters.
pub(crate) fn parts(types: &[ValueType]) -> Vec<ValueType> {
    let each = types.iter();
    each.flat_map(|&ty| std::iter::repeat_n(ty, ty.parts()))
        .collect()
}

/// The offset of each part among arguments or results: 8 bytes for each value, 4 for each quarter of a
/// vector.
pub(crate) fn placed(parts: &[ValueType]) -> impl Iterator<Item = (ValueType, usize)> {
    let mut next = 0;
    parts.iter().map(move |&ty| {
        let at = next;
        next += if ty == ValueType::V128 { 4 } else { 8 };
        (ty, at)
    })
}

/// How many bytes arguments or results of these types take.
pub(crate) fn slot_bytes(types: &[ValueType]) -> usize {
    types.iter().map(|ty| 8 * ty.slots()).sum()
}
