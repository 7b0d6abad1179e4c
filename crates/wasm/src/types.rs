//! Types of values and functions, as far as they are supported.

use crate::CompileError;

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
    /// A reference to a function, or null.
    FuncRef,
    /// A reference that only the host understands, or null.
    ExternRef,
}

impl ValueType {
    /// Whether a value takes a 64-bit register rather than a 32-bit one.
    pub const fn is_wide(self) -> bool {
        !matches!(self, Self::I32 | Self::F32)
    }

    pub(crate) fn new(ty: wasmparser::ValType, offset: usize) -> Result<Self, CompileError> {
        use wasmparser::{RefType, ValType};
        Ok(match ty {
            ValType::I32 => Self::I32,
            ValType::I64 => Self::I64,
            ValType::F32 => Self::F32,
            ValType::F64 => Self::F64,
            ValType::Ref(RefType::FUNCREF) => Self::FuncRef,
            ValType::Ref(RefType::EXTERNREF) => Self::ExternRef,
            other => {
                let what = format!("the value type {other}");
                return Err(CompileError::Unsupported { offset, what });
            }
        })
    }

    /// The PTX type of a register or parameter that holds such a value.
    pub(crate) const fn ptx(self) -> &'static str {
        if self.is_wide() { "b64" } else { "b32" }
    }
}

/// The type of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionType {
    /// What it takes.
    pub params: Vec<ValueType>,
    /// What it gives.
    pub results: Vec<ValueType>,
}

impl FunctionType {
    /// Bytes of a call's return value: the fuel, then 8 bytes for each result.
    pub(crate) fn return_bytes(&self) -> usize {
        8 + 8 * self.results.len()
    }

    /// The head of a PTX function of this type.
    pub(crate) fn signature(&self, name: &str) -> String {
        use core::fmt::Write;
        let mut out = format!(
            "(.param .align 8 .b8 ret[{}]) {name} (.param .b64 inst, .param .b64 fuel, .param .b32 depth",
            self.return_bytes()
        );
        for (i, param) in self.params.iter().enumerate() {
            let _ = write!(out, ", .param .{} a{i}", param.ptx());
        }
        out.push(')');
        out
    }
}
