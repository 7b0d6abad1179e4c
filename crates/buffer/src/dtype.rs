//! The types of elements.

use std::fmt;

use everwarp_runtime::Element;

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// A truth value in one byte, 0 or 1.
    Bool,
    /// A signed integer of 8 bits.
    I8,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
}

impl DType {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
    ];
    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
    /// The name, as everwarp's types in Python are called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
    /// The type with this [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
    /// The character for this type in Python's module `struct`, in native size.
    pub const fn code(self) -> u8 {
        match self {
            Self::Bool => b'?',
            Self::I8 => b'b',
            Self::I16 => b'h',
            Self::I32 => b'i',
            Self::I64 => b'q',
            Self::U8 => b'B',
            Self::U16 => b'H',
            Self::U32 => b'I',
            Self::U64 => b'Q',
            Self::F32 => b'f',
            Self::F64 => b'd',
        }
    }
    /// The kind of number in NumPy's array interface: `b`, `i`, `u` or `f`.
    pub const fn kind(self) -> char {
        match self {
            Self::Bool => 'b',
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => 'i',
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => 'u',
            Self::F32 | Self::F64 => 'f',
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number that a [`UnifiedBuffer`](crate::UnifiedBuffer) of Rust holds: every bit pattern is a value.
pub trait Number: Element {
    /// Its type.
    const DTYPE: DType;
}

macro_rules! numbers {
    ($($number:ty => $dtype:ident),*) => {$(
        impl Number for $number {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
numbers!(u8 => U8, u16 => U16, u32 => U32, u64 => U64, i32 => I32, i64 => I64, f32 => F32, f64 => F64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_name_and_has_its_size() {
        for dtype in DType::ALL {
            assert_eq!(DType::named(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::named("f16"), None);
        assert_eq!(<f64 as Number>::DTYPE.size(), size_of::<f64>());
        assert_eq!(<u16 as Number>::DTYPE.size(), size_of::<u16>());
    }
}
