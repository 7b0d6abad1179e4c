//! The results of instructions.

use super::parse::parse_type;
use super::{Kind, Type};

/// The action of an instruction, without its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Mov,
    /// Negates a predicate.
    Not,
    Add,
    Sub,
    MulLow,
    MulWide,
    MadLow,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    FunnelLeft,
    FunnelRight,
    /// A field of the first operand: the second operand is its lowest bit, the third its length.
    Field,
    Permute,
    Clz,
    Popc,
    Brev,
    Min,
    Max,
    Sqrt,
    Select,
    Compare(Comparison, bool),
    Convert(Rounding, Type),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    /// Not equal, or not comparable.
    Neu,
    Lt,
    Le,
    Gt,
    Ge,
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    None,
    Nearest,
    Up,
    Down,
    Zero,
    NearestInteger,
}

/// A parsed instruction name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    action: Action,
    ty: Type,
}

const fn ty(kind: Kind, bits: u32) -> Type {
    Type { kind, bits }
}

impl Name {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("the instruction {text}");
        let parts: Vec<_> = text.split('.').collect();
        let last = parse_type(parts[parts.len() - 1]).ok_or_else(bad)?;
        let float = last.kind == Kind::Float;
        let action = match parts[..parts.len() - 1] {
            ["mov"] => Action::Mov,
            ["not"] if last.kind == Kind::Pred => Action::Not,
            ["add"] if !float => Action::Add,
            ["sub"] if !float => Action::Sub,
            // Without an explicit rounding mode, PTX may round a product and a sum once; here each is rounded.
            ["add"] | ["add", "rn"] if float => Action::Add,
            ["sub"] | ["sub", "rn"] if float => Action::Sub,
            ["mul"] | ["mul", "rn"] if float => Action::MulLow,
            ["div", "rn"] if float => Action::Div,
            ["sqrt", "rn"] if float => Action::Sqrt,
            ["mul", "lo"] => Action::MulLow,
            ["mul", "wide"] => Action::MulWide,
            ["mad", "lo"] => Action::MadLow,
            ["div"] if !float => Action::Div,
            ["rem"] => Action::Rem,
            ["and"] => Action::And,
            ["or"] => Action::Or,
            ["xor"] => Action::Xor,
            ["shl"] => Action::Shl,
            ["shr"] => Action::Shr,
            ["shf", "l", "wrap"] => Action::FunnelLeft,
            ["shf", "r", "wrap"] => Action::FunnelRight,
            ["bfe"] if !float && last.kind != Kind::Bits => Action::Field,
            ["prmt"] if last.bits == 32 => Action::Permute,
            ["clz"] => Action::Clz,
            ["popc"] => Action::Popc,
            ["brev"] => Action::Brev,
            ["min"] => Action::Min,
            ["max"] => Action::Max,
            ["selp"] => Action::Select,
            ["setp", c] => Action::Compare(comparison(c).ok_or_else(bad)?, false),
            ["setp", c, "and"] => Action::Compare(comparison(c).ok_or_else(bad)?, true),
            ["cvt", ref modes @ .., to] => {
                let to = parse_type(to).ok_or_else(bad)?;
                let rounding = match modes {
                    [] => Rounding::None,
                    ["rn"] => Rounding::Nearest,
                    ["rpi"] => Rounding::Up,
                    ["rmi"] => Rounding::Down,
                    ["rzi"] => Rounding::Zero,
                    ["rni"] => Rounding::NearestInteger,
                    _ => return Err(bad()),
                };
                Action::Convert(rounding, to)
            }
            _ => return Err(bad()),
        };
        Ok(Self { action, ty: last })
    }

    /// Types of the target and of the operands; `None` where any size is valid.
    fn shape(&self) -> (Type, Vec<Type>) {
        let (t, narrow) = (self.ty, ty(Kind::Unsigned, 32));
        let wide = ty(t.kind, t.bits * 2);
        let pred = ty(Kind::Pred, 1);
        match self.action {
            Action::Mov | Action::Not | Action::Brev | Action::Sqrt => (t, vec![t]),
            Action::Clz | Action::Popc => (narrow, vec![t]),
            Action::MulWide => (wide, vec![t, t]),
            Action::MadLow | Action::Permute => (t, vec![t, t, t]),
            Action::Field => (t, vec![t, narrow, narrow]),
            Action::Shl | Action::Shr => (t, vec![t, narrow]),
            Action::FunnelLeft | Action::FunnelRight => (t, vec![t, t, narrow]),
            Action::Select => (t, vec![t, t, pred]),
            Action::Compare(_, false) => (pred, vec![t, t]),
            Action::Compare(_, true) => (pred, vec![t, t, pred]),
            Action::Convert(_, to) => (to, vec![t]),
            _ => (t, vec![t, t]),
        }
    }

    /// Whether registers of these types may be used.
    pub(crate) fn check(&self, to: Type, args: &[Option<Type>]) -> Result<(), String> {
        let (target, operands) = self.shape();
        // Only `cvt` takes registers that are wider than its types.
        let wider = matches!(self.action, Action::Convert(..));
        let fits = |register: Type, wanted: Type| {
            register.bits == wanted.bits || (wider && register.bits > wanted.bits)
        };
        if args.len() != operands.len() {
            return Err(format!("{} operands, not {}", operands.len(), args.len()));
        }
        let args_fit = (args.iter().zip(&operands)).all(|(a, w)| a.is_none_or(|a| fits(a, *w)));
        if !args_fit || !fits(to, target) {
            return Err(format!("registers {to:?} {args:?} do not fit {self:?}"));
        }
        Ok(())
    }

    /// Computes the result from bits; bits beyond the type's size are ignored.
    pub(crate) fn compute(&self, a: u64, b: u64, c: u64) -> Result<u64, String> {
        let bits = self.ty.bits;
        if let Action::Convert(rounding, to) = self.action {
            return convert(rounding, to, self.ty, a);
        }
        if self.ty.kind == Kind::Float {
            return if bits == 32 {
                float32(
                    self.action,
                    f32::from_bits(a as u32),
                    f32::from_bits(b as u32),
                    c,
                )
            } else {
                float64(self.action, f64::from_bits(a), f64::from_bits(b), c)
            };
        }
        let signed = self.ty.kind == Kind::Signed;
        // Both operands, as numbers of this type.
        let (x, y) = (extend(a, bits, signed), extend(b, bits, signed));
        let (ux, uy) = (extend(a, bits, false), extend(b, bits, false));
        let clamp = (b as u32).min(bits);
        let result = match self.action {
            Action::Mov => a,
            Action::Not => a ^ 1,
            Action::Add => a.wrapping_add(b),
            Action::Sub => a.wrapping_sub(b),
            Action::MulLow => a.wrapping_mul(b),
            Action::MadLow => a.wrapping_mul(b).wrapping_add(c),
            Action::MulWide => {
                return Ok((x as u128).wrapping_mul(y as u128) as u64);
            }
            Action::Div | Action::Rem => {
                let smallest = -(1i128 << (bits - 1));
                if y == 0 || (signed && x == smallest && y == -1) {
                    return Err("a division without a defined result".to_owned());
                }
                (if self.action == Action::Div {
                    x / y
                } else {
                    x % y
                }) as u64
            }
            Action::And => a & b,
            Action::Or => a | b,
            Action::Xor => a ^ b,
            Action::Shl => ((ux as u128) << clamp) as u64,
            Action::Shr => (x >> clamp) as u64,
            Action::FunnelLeft => funnel(true, a, b, c),
            Action::FunnelRight => funnel(false, a, b, c),
            Action::Field => {
                let (from, length) = (b as u32, c as u32);
                // The compiler never asks for a field that reaches beyond the operand.
                if length == 0 || from + length > bits {
                    return Err("a field beyond the operand".to_owned());
                }
                extend((ux as u64) >> from, length, signed) as u64
            }
            Action::Permute => permute(a as u32, b as u32, c as u32).into(),
            Action::Clz => (ux as u64).leading_zeros().into(),
            Action::Popc => (ux as u64).count_ones().into(),
            Action::Brev => a.reverse_bits() >> (64 - bits),
            Action::Min => x.min(y) as u64,
            Action::Max => x.max(y) as u64,
            Action::Select => {
                if c != 0 {
                    a
                } else {
                    b
                }
            }
            Action::Compare(comparison, and) => {
                let holds = match comparison {
                    Comparison::Eq => ux == uy,
                    Comparison::Ne => ux != uy,
                    Comparison::Lt => x < y,
                    Comparison::Le => x <= y,
                    Comparison::Gt => x > y,
                    Comparison::Ge => x >= y,
                    Comparison::Neu | Comparison::Nan => return Err("not of integers".to_owned()),
                };
                return Ok((holds && (!and || c != 0)).into());
            }
            Action::Sqrt | Action::Convert(..) => return Err("not of integers".to_owned()),
        };
        let result = if matches!(self.action, Action::Clz) {
            result - (64 - u64::from(bits))
        } else {
            result
        };
        Ok(extend(result, bits, false) as u64)
    }
}

fn comparison(text: &str) -> Option<Comparison> {
    Some(match text {
        "eq" => Comparison::Eq,
        "ne" => Comparison::Ne,
        "neu" => Comparison::Neu,
        "lt" => Comparison::Lt,
        "le" => Comparison::Le,
        "gt" => Comparison::Gt,
        "ge" => Comparison::Ge,
        "nan" => Comparison::Nan,
        _ => return None,
    })
}

/// Selects four of eight bytes, with the bytes of `b` above the bytes of `a`, by the selector's digits. If the highest
/// bit of a digit is set, the result byte is eight copies of the selected byte's sign.
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let all = (u64::from(b) << 32) | u64::from(a);
    let byte = |i: u32| {
        let digit = selector >> (4 * i) & 15;
        let byte = (all >> (8 * (digit & 7))) as u8;
        let sign = if byte >= 0x80 { 0xff } else { 0 };
        u32::from(if digit & 8 == 0 { byte } else { sign }) << (8 * i)
    };
    (0..4).map(byte).sum()
}

/// A funnel shift of the two numbers, with `b` above `a`, by at most 31 bits.
fn funnel(left: bool, a: u64, b: u64, count: u64) -> u64 {
    let both = (b << 32) | (a & 0xffff_ffff);
    let count = count & 31;
    if left {
        (both << count) >> 32
    } else {
        both >> count
    }
}

fn extend(value: u64, bits: u32, signed: bool) -> i128 {
    let value = (value << (64 - bits)) as i64;
    if signed {
        (value >> (64 - bits)).into()
    } else {
        ((value as u64) >> (64 - bits)).into()
    }
}

/// The NaN that 32-bit instructions return.
const NAN32: u64 = 0x7fff_ffff;
/// PTX leaves it unspecified, so the compiler must not depend on it.
const NAN64: u64 = 0xffff_ffff_ffff_ffff;

macro_rules! float {
    ($name:ident, $float:ty, $nan:expr) => {
        fn $name(action: Action, a: $float, b: $float, c: u64) -> Result<u64, String> {
            let number = match action {
                Action::Add => a + b,
                Action::Sub => a - b,
                Action::MulLow => a * b,
                Action::Div => a / b,
                Action::Sqrt => a.sqrt(),
                // If one operand is a NaN, the result is the other one; -0 is less than +0.
                Action::Min | Action::Max if a.is_nan() => b,
                Action::Min | Action::Max if b.is_nan() => a,
                Action::Min => {
                    if a.total_cmp(&b).is_le() {
                        a
                    } else {
                        b
                    }
                }
                Action::Max => {
                    if a.total_cmp(&b).is_ge() {
                        a
                    } else {
                        b
                    }
                }
                Action::Compare(comparison, and) => {
                    let holds = match comparison {
                        Comparison::Eq => a == b,
                        Comparison::Ne => a.partial_cmp(&b).is_some_and(|o| o.is_ne()),
                        Comparison::Neu => a != b,
                        Comparison::Lt => a < b,
                        Comparison::Le => a <= b,
                        Comparison::Gt => a > b,
                        Comparison::Ge => a >= b,
                        Comparison::Nan => a.is_nan() || b.is_nan(),
                    };
                    return Ok((holds && (!and || c != 0)).into());
                }
                _ => return Err("not of floating-point numbers".to_owned()),
            };
            Ok(if number.is_nan() {
                $nan
            } else {
                number.to_bits().into()
            })
        }
    };
}
float!(float32, f32, NAN32);
float!(float64, f64, NAN64);

fn convert(rounding: Rounding, to: Type, from: Type, value: u64) -> Result<u64, String> {
    let bad = || Err(format!("a conversion {rounding:?} of {from:?} to {to:?}"));
    let from_float = from.kind == Kind::Float;
    let to_float = to.kind == Kind::Float;
    let number = if from.bits == 32 {
        f64::from(f32::from_bits(value as u32))
    } else {
        f64::from_bits(value)
    };
    Ok(match (from_float, to_float) {
        (false, false) => {
            if rounding != Rounding::None {
                return bad();
            }
            let wide = extend(value, from.bits, from.kind == Kind::Signed);
            // A register that is wider than the target type receives the sign-extended result.
            let narrowed = extend(wide as u64, to.bits, to.kind == Kind::Signed);
            narrowed as u64
        }
        (false, true) => {
            if rounding != Rounding::Nearest {
                return bad();
            }
            let integer = extend(value, from.bits, from.kind == Kind::Signed);
            if to.bits == 32 {
                (integer as f32).to_bits().into()
            } else {
                (integer as f64).to_bits()
            }
        }
        (true, false) => {
            if rounding != Rounding::Zero {
                return bad();
            }
            if number.is_nan() {
                // Zero, unless either type has 64 bits.
                let wide = from.bits == 64 || to.bits == 64;
                return Ok(if wide { 1 << (to.bits - 1) } else { 0 });
            }
            match (to.kind, to.bits) {
                (Kind::Signed, 32) => u64::from(number as i32 as u32),
                (Kind::Unsigned, 32) => u64::from(number as u32),
                (Kind::Signed, 64) => number as i64 as u64,
                (Kind::Unsigned, 64) => number as u64,
                _ => return bad(),
            }
        }
        (true, true) => {
            let rounded = match (rounding, from.bits, to.bits) {
                (Rounding::None, 32, 64) | (Rounding::Nearest, 64, 32) => number,
                (Rounding::Up, f, t) if f == t => number.ceil(),
                (Rounding::Down, f, t) if f == t => number.floor(),
                (Rounding::Zero, f, t) if f == t => number.trunc(),
                (Rounding::NearestInteger, f, t) if f == t => number.round_ties_even(),
                _ => return bad(),
            };
            match (to.bits, rounded.is_nan()) {
                (32, true) => NAN32,
                (_, true) => NAN64,
                (32, false) => (rounded as f32).to_bits().into(),
                (_, false) => rounded.to_bits(),
            }
        }
    })
}
