//! The binary format, as far as it is written here.

use wasmparser::ValType;

pub(super) const UNREACHABLE: u8 = 0x00;
pub(super) const BLOCK: u8 = 0x02;
pub(super) const END: u8 = 0x0b;
pub(super) const BR: u8 = 0x0c;
pub(super) const BR_IF: u8 = 0x0d;
pub(super) const BR_TABLE: u8 = 0x0e;
pub(super) const RETURN: u8 = 0x0f;
pub(super) const CALL: u8 = 0x10;
pub(super) const LOCAL_GET: u8 = 0x20;
pub(super) const LOCAL_SET: u8 = 0x21;
pub(super) const LOCAL_TEE: u8 = 0x22;
pub(super) const I32_CONST: u8 = 0x41;
/// The type of a block without parameters and results.
pub(super) const EMPTY: u8 = 0x40;
/// The type `i32`.
pub(super) const I32: u8 = 0x7f;
/// The beginning of a function's type.
pub(super) const FUNCTION: u8 = 0x60;

/// Appends a number.
pub(super) fn number(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends an operator with a number.
pub(super) fn operator(out: &mut Vec<u8>, code: u8, with: u32) {
    out.push(code);
    number(out, with);
}

/// Appends `i32.const`, for a number below 2^31.
pub(super) fn constant(out: &mut Vec<u8>, value: u32) {
    out.push(I32_CONST);
    let mut rest = value;
    // The number is signed: its last byte must not have the sign.
    while rest >= 0x40 {
        out.push(rest as u8 & 0x7f | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The code of a value's type, if the compiler has it.
pub(super) fn value_type(ty: ValType) -> Option<u8> {
    Some(match ty {
        ValType::I32 => I32,
        ValType::I64 => 0x7e,
        ValType::F32 => 0x7d,
        ValType::F64 => 0x7c,
        ValType::V128 => 0x7b,
        ValType::Ref(ty) if ty == wasmparser::RefType::FUNCREF => 0x70,
        ValType::Ref(ty) if ty == wasmparser::RefType::EXTERNREF => 0x6f,
        ValType::Ref(_) => return None,
    })
}

/// Reads a number, and where it ends.
pub(super) fn read_number(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let (mut value, mut at) = (0_u64, at);
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, at));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for value in [0, 1, 63, 64, 127, 128, 300, 16_384, u32::MAX] {
            let mut out = vec![9];
            number(&mut out, value);
            assert_eq!(read_number(&out, 1), Some((value, out.len())));
            assert_eq!(read_number(&out[..out.len() - 1], 1), None);
        }
        assert_eq!(read_number(&[0xff; 5], 0), None);
    }

    #[test]
    fn constants_have_no_sign() {
        for (value, bytes) in [
            (63, vec![0x41, 63]),
            (64, vec![0x41, 0xc0, 0]),
            (200, vec![0x41, 0xc8, 1]),
        ] {
            let mut out = Vec::new();
            constant(&mut out, value);
            assert_eq!(out, bytes);
        }
    }
}
