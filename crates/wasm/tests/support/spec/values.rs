//! Values that the suite expects.

use wast::WastRet;
use wast::core::{NanPattern, WastRetCore};

use super::Miss;

/// The external reference with this number. Zero would be null.
pub(crate) fn external(number: u32) -> u64 {
    u64::from(number) + 1
}

/// Whether a result is the expected one.
pub(crate) fn check(value: u64, expected: &WastRet<'_>) -> Result<(), Miss> {
    let WastRet::Core(expected) = expected else {
        return Err(Miss::Unsupported("a component's value".to_owned()));
    };
    let holds = match expected {
        WastRetCore::I32(v) => value == u64::from(*v as u32),
        WastRetCore::I64(v) => value == *v as u64,
        // A canonical NaN has only the highest bit of the payload; an arithmetic one has it at least.
        WastRetCore::F32(NanPattern::CanonicalNan) => value & 0x7fff_ffff == 0x7fc0_0000,
        WastRetCore::F32(NanPattern::ArithmeticNan) => value & 0x7fc0_0000 == 0x7fc0_0000,
        WastRetCore::F32(NanPattern::Value(v)) => value == u64::from(v.bits),
        WastRetCore::F64(NanPattern::CanonicalNan) => value << 1 == 0x7ff8_0000_0000_0000 << 1,
        WastRetCore::F64(NanPattern::ArithmeticNan) => {
            value << 1 >> 52 == 0x7ff8_0000_0000_0000 << 1 >> 52
        }
        WastRetCore::F64(NanPattern::Value(v)) => value == v.bits,
        WastRetCore::RefNull(_) => value == 0,
        WastRetCore::RefExtern(Some(v)) => value == external(*v),
        WastRetCore::RefExtern(None) | WastRetCore::RefFunc(_) => value != 0,
        other => return Err(Miss::Unsupported(format!("the result {other:?}"))),
    };
    if holds {
        Ok(())
    } else {
        Err(Miss::Failed(format!("{value:#x}, not {expected:?}")))
    }
}
