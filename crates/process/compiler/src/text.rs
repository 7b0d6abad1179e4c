//! PTX as text: registers, labels and operands, and one macro that writes a line.

use std::fmt;

use crate::facts::types::ValueType;

/// The decimal digits of a number after two characters. Names are half of all text, and the formatter of numbers
/// takes as long for each as for the rest of its line.
struct Digits {
    bytes: [u8; 12],
    from: usize,
}

impl Digits {
    fn new(mut number: u32) -> Self {
        let (mut bytes, mut from) = ([0; 12], 12);
        loop {
            from -= 1;
            bytes[from] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return Self { bytes, from };
            }
        }
    }

    fn behind(&mut self, characters: &[u8; 2]) -> &str {
        self.from -= 2;
        self.bytes[self.from..self.from + 2].copy_from_slice(characters);
        str::from_utf8(&self.bytes[self.from..]).expect("they are ASCII")
    }
}

/// A virtual register: `%r` for 32 bits, `%d` for 64. Floats live in the same registers as bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Reg {
    pub(crate) wide: bool,
    pub(crate) index: u32,
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Digits::new(self.index).behind(if self.wide { b"%d" } else { b"%r" }))
    }
}

impl Reg {
    /// The PTX type of untyped bits of this size.
    pub(crate) const fn bits(self) -> &'static str {
        if self.wide { "b64" } else { "b32" }
    }
}

/// A predicate register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pred(pub(crate) u32);

impl fmt::Display for Pred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Digits::new(self.0).behind(b"%p"))
    }
}

/// A label within the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(pub(crate) u32);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Digits::new(self.0).behind(b"$L"))
    }
}

/// An operand as PTX writes it: a register or a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    Reg(Reg),
    Number(i64),
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reg(reg) => reg.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// Writes one line of PTX.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        use std::fmt::Write as _;
        writeln!($text, $($format)*).expect("a String takes any text")
    }};
}
pub(crate) use line;

impl ValueType {
    /// The PTX type of a register or parameter that holds such a value.
    pub(crate) const fn ptx(self) -> &'static str {
        if self.is_wide() { "b64" } else { "b32" }
    }
}
