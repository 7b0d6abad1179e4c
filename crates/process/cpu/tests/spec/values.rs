//! Values that the suite passes and expects.

use wasmtime::Val;
use wast::core::{HeapType, NanPattern, V128Pattern, WastArgCore, WastRetCore};
use wast::{WastArg, WastRet};

use crate::counts::Miss;

/// An argument as the engine takes it.
pub(crate) fn argument(arg: &WastArg<'_>) -> Result<Val, Miss> {
    let is_function = |heap: &HeapType<'_>| format!("{heap:?}").contains("Func");
    Ok(match arg {
        WastArg::Core(WastArgCore::I32(v)) => Val::I32(*v),
        WastArg::Core(WastArgCore::I64(v)) => Val::I64(*v),
        WastArg::Core(WastArgCore::F32(v)) => Val::F32(v.bits),
        WastArg::Core(WastArgCore::F64(v)) => Val::F64(v.bits),
        WastArg::Core(WastArgCore::V128(v)) => {
            Val::V128(u128::from_le_bytes(v.to_le_bytes()).into())
        }
        WastArg::Core(WastArgCore::RefNull(heap)) if is_function(heap) => Val::FuncRef(None),
        other => return Err(Miss::Unsupported(format!("the argument {other:?}"))),
    })
}

/// A canonical NaN has only the highest bit of the payload; an arithmetic one has it at least.
fn holds32(value: u32, expected: &NanPattern<wast::token::F32>) -> bool {
    match expected {
        NanPattern::CanonicalNan => value & 0x7fff_ffff == 0x7fc0_0000,
        NanPattern::ArithmeticNan => value & 0x7fc0_0000 == 0x7fc0_0000,
        NanPattern::Value(v) => value == v.bits,
    }
}

fn holds64(value: u64, expected: &NanPattern<wast::token::F64>) -> bool {
    match expected {
        NanPattern::CanonicalNan => value << 1 == 0x7ff8_0000_0000_0000 << 1,
        NanPattern::ArithmeticNan => value & 0x7ff8_0000_0000_0000 == 0x7ff8_0000_0000_0000,
        NanPattern::Value(v) => value == v.bits,
    }
}

fn holds128(value: u128, expected: &V128Pattern) -> bool {
    let bytes = value.to_le_bytes();
    let lane32 = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[4 * i + k]));
    let lane64 = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[8 * i + k]));
    let lane16 = |i: usize| i16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
    match expected {
        V128Pattern::I8x16(v) => (0..16).all(|i| bytes[i] as i8 == v[i]),
        V128Pattern::I16x8(v) => (0..8).all(|i| lane16(i) == v[i]),
        V128Pattern::I32x4(v) => (0..4).all(|i| lane32(i) as i32 == v[i]),
        V128Pattern::I64x2(v) => (0..2).all(|i| lane64(i) as i64 == v[i]),
        V128Pattern::F32x4(v) => (0..4).all(|i| holds32(lane32(i), &v[i])),
        V128Pattern::F64x2(v) => (0..2).all(|i| holds64(lane64(i), &v[i])),
    }
}

fn holds(value: &Val, expected: &WastRetCore<'_>) -> bool {
    match (value, expected) {
        (Val::I32(v), WastRetCore::I32(e)) => v == e,
        (Val::I64(v), WastRetCore::I64(e)) => v == e,
        (Val::F32(v), WastRetCore::F32(e)) => holds32(*v, e),
        (Val::F64(v), WastRetCore::F64(e)) => holds64(*v, e),
        (Val::V128(v), WastRetCore::V128(e)) => holds128(v.as_u128(), e),
        (Val::FuncRef(v), WastRetCore::RefNull(_)) => v.is_none(),
        (Val::FuncRef(v), WastRetCore::RefFunc(_)) => v.is_some(),
        (v, WastRetCore::Either(all)) => all.iter().any(|one| holds(v, one)),
        _ => false,
    }
}

/// Whether a result is the expected one.
pub(crate) fn check(value: &Val, expected: &WastRet<'_>) -> Result<(), Miss> {
    match expected {
        WastRet::Core(expected) if holds(value, expected) => Ok(()),
        _ => Err(Miss::Failed(format!("{value:?}, not {expected:?}"))),
    }
}
