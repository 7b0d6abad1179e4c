//! What distinguishes operators that are translated alike: widths and signs, each with its name in PTX.

use crate::facts::types::ValueType;

/// The width of an integer operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IntWidth {
    I32,
    I64,
}

impl IntWidth {
    pub(super) const fn bits(self) -> u32 {
        match self {
            Self::I32 => 32,
            Self::I64 => 64,
        }
    }

    pub(super) const fn is_wide(self) -> bool {
        matches!(self, Self::I64)
    }

    pub(super) const fn ty(self) -> ValueType {
        match self {
            Self::I32 => ValueType::I32,
            Self::I64 => ValueType::I64,
        }
    }
}

/// The width of a floating-point operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FloatWidth {
    F32,
    F64,
}

impl FloatWidth {
    /// The width of the numbers that a register of this size holds.
    pub(super) const fn of(is_wide: bool) -> Self {
        if is_wide { Self::F64 } else { Self::F32 }
    }

    pub(super) const fn is_wide(self) -> bool {
        matches!(self, Self::F64)
    }

    pub(super) const fn ty(self) -> ValueType {
        match self {
            Self::F32 => ValueType::F32,
            Self::F64 => ValueType::F64,
        }
    }

    /// The PTX type.
    pub(super) const fn ptx(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// The bits of the canonical NaN.
    pub(super) const fn nan(self) -> &'static str {
        match self {
            Self::F32 => "0x7fc00000",
            Self::F64 => "0x7ff8000000000000",
        }
    }

    /// The bit that holds the sign.
    pub(super) const fn sign_bit(self) -> u64 {
        match self {
            Self::F32 => 1 << 31,
            Self::F64 => 1 << 63,
        }
    }

    /// A number as a PTX literal of this width.
    pub(super) fn literal(self, number: f64) -> String {
        match self {
            Self::F32 => format!("0f{:08X}", (number as f32).to_bits()),
            Self::F64 => format!("0d{:016X}", number.to_bits()),
        }
    }
}

/// Whether an integer has a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signedness {
    Signed,
    Unsigned,
}

impl Signedness {
    /// The letter that begins the name of a PTX integer type.
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Signed => 's',
            Self::Unsigned => 'u',
        }
    }
}

/// Which way bits rotate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rotation {
    Left,
    Right,
}

/// A half of a vector's lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Half {
    Low,
    High,
}

/// What a comparison of lanes asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Equality {
    Equal,
    Unequal,
}

/// Addition or subtraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddKind {
    Add,
    Subtract,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_the_bits_of_the_number() {
        assert_eq!(FloatWidth::F32.literal(1.0), "0f3F800000");
        assert_eq!(FloatWidth::F64.literal(-1.0), "0dBFF0000000000000");
    }

    #[test]
    fn the_canonical_nan_has_only_the_highest_bit_of_the_payload() {
        assert_eq!(FloatWidth::F32.nan(), format!("{:#x}", 0x7fc0_0000_u32));
        let nan = u64::from_str_radix(&FloatWidth::F64.nan()[2..], 16).expect("a number");
        assert!(f64::from_bits(nan).is_nan());
        assert_eq!(FloatWidth::F64.sign_bit(), (-0.0_f64).to_bits());
    }
}
