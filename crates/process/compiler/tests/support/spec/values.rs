//! Arguments and expected results of the suite.

use wast::core::{NanPattern, V128Pattern, WastArgCore, WastRetCore};
use wast::token::{F32, F64};
use wast::{WastArg, WastRet};

use super::Miss;

/// The external reference with this number. A zero would be null.
pub(crate) fn external(number: u32) -> u64 {
    u64::from(number) + 1
}

/// The number of 8-byte slots that an expected result takes.
pub(crate) fn slots(expected: &WastRet<'_>) -> usize {
    match expected {
        WastRet::Core(WastRetCore::V128(_)) => 2,
        _ => 1,
    }
}

/// In a canonical NaN only the highest bit of the payload is set; in an arithmetic NaN at least that bit is set.
fn float32(value: u64, expected: &NanPattern<F32>) -> bool {
    match expected {
        NanPattern::CanonicalNan => value & 0x7fff_ffff == 0x7fc0_0000,
        NanPattern::ArithmeticNan => value & 0x7fc0_0000 == 0x7fc0_0000,
        NanPattern::Value(v) => value == u64::from(v.bits),
    }
}

fn float64(value: u64, expected: &NanPattern<F64>) -> bool {
    match expected {
        NanPattern::CanonicalNan => value << 1 == 0x7ff8_0000_0000_0000 << 1,
        NanPattern::ArithmeticNan => value << 1 >> 52 == 0x7ff8_0000_0000_0000 << 1 >> 52,
        NanPattern::Value(v) => value == v.bits,
    }
}

/// Whether each lane of a vector is as expected; the number of lanes gives their width.
fn lanes<T>(value: u128, expected: &[T], holds: impl Fn(u64, &T) -> bool) -> bool {
    let bits = 128 / expected.len();
    let mask = u64::MAX >> (64 - bits);
    let lanes = (0..expected.len()).map(|i| (value >> (bits * i)) as u64 & mask);
    lanes.zip(expected).all(|(lane, e)| holds(lane, e))
}

fn vector(value: u128, expected: &V128Pattern) -> bool {
    match expected {
        V128Pattern::I8x16(e) => lanes(value, e, |lane, e| lane as i8 == *e),
        V128Pattern::I16x8(e) => lanes(value, e, |lane, e| lane as i16 == *e),
        V128Pattern::I32x4(e) => lanes(value, e, |lane, e| lane as i32 == *e),
        V128Pattern::I64x2(e) => lanes(value, e, |lane, e| lane as i64 == *e),
        V128Pattern::F32x4(e) => lanes(value, e, float32),
        V128Pattern::F64x2(e) => lanes(value, e, float64),
    }
}

/// Whether a result, in its slots, is the expected one.
pub(crate) fn check(places: &[u64], expected: &WastRet<'_>) -> Result<(), Miss> {
    let WastRet::Core(expected) = expected else {
        return Err(Miss::Unsupported("a component's value".to_owned()));
    };
    let value = places[0];
    let holds = match expected {
        WastRetCore::I32(v) => value == u64::from(*v as u32),
        WastRetCore::I64(v) => value == *v as u64,
        WastRetCore::F32(e) => float32(value, e),
        WastRetCore::F64(e) => float64(value, e),
        WastRetCore::V128(e) => vector(u128::from(places[1]) << 64 | u128::from(value), e),
        WastRetCore::RefNull(_) => value == 0,
        WastRetCore::RefExtern(Some(v)) => value == external(*v),
        WastRetCore::RefExtern(None) | WastRetCore::RefFunc(_) => value != 0,
        other => return Err(Miss::Unsupported(format!("the result {other:?}"))),
    };
    if holds {
        Ok(())
    } else {
        Err(Miss::Failed(format!("{places:x?}, not {expected:?}")))
    }
}

/// The slots of an argument.
pub(crate) fn argument(arg: &WastArg<'_>) -> Result<Vec<u64>, Miss> {
    Ok(vec![match arg {
        WastArg::Core(WastArgCore::I32(v)) => u64::from(*v as u32),
        WastArg::Core(WastArgCore::I64(v)) => *v as u64,
        WastArg::Core(WastArgCore::F32(v)) => u64::from(v.bits),
        WastArg::Core(WastArgCore::F64(v)) => v.bits,
        WastArg::Core(WastArgCore::V128(v)) => {
            let bytes = v.to_le_bytes();
            let halves = bytes.as_chunks().0.iter();
            return Ok(halves.map(|half| u64::from_le_bytes(*half)).collect());
        }
        WastArg::Core(WastArgCore::RefNull(_)) => 0,
        WastArg::Core(WastArgCore::RefExtern(v)) => external(*v),
        other => return Err(Miss::Unsupported(format!("the argument {other:?}"))),
    }])
}
