//! Which NaN a value is, and when that matters.
//!
//! The device decides what a NaN looks like that an instruction makes: a NaN of 32 bits is 0x7fffffff, which
//! WebAssembly does not allow where all NaN operands are canonical, and a NaN of 64 bits may be an operand's.
//! Arithmetic and comparisons treat all NaNs alike, so results stay as they come ([`Nan::Raw`]) as long as only such
//! operators read them. They become the canonical NaN where their bits can be seen: in memory, in a call's arguments
//! and results, in globals, as an integer, and with another sign. Results are then the same as those of every engine
//! that canonicalizes after each operation.
//!
//! A local is *loose* if every value that is assigned to it is such a result, or is no NaN, or is the canonical one: it
//! holds raw results as well. Any other local (one that is assigned a parameter, or a value that was loaded or returned
//! by a call) keeps the bits of its NaNs. Whether a local is loose is known only at the function's end. So each is
//! taken for loose at first, and where that was wrong the function is translated once more, three times at most. Why
//! not find out beforehand? That would take a second reading of every function, and in most functions no assumption is
//! wrong.

use super::kinds::FloatWidth;
use crate::emit::body::{Body, Entry, Place, Value};
use crate::facts::types::ValueType;
use crate::text::{Operand, Reg, line};

/// The facts about a value in case it is a NaN. There are none about a value that is no floating-point number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nan {
    /// Its bits are already right.
    Exact,
    /// The same, and it is the canonical one, if it is a NaN at all.
    Canonical,
    /// Its bits are the device's own.
    Raw,
}

impl Nan {
    /// The facts about a value that was not computed from others.
    pub(super) fn of(ty: ValueType, place: Place) -> Self {
        match (ty, place) {
            (ValueType::F32, Place::Constant(bits)) => {
                Self::of_constant(f32::from_bits(bits as u32).is_nan())
            }
            (ValueType::F64, Place::Constant(bits)) => {
                Self::of_constant(f64::from_bits(bits).is_nan())
            }
            _ => Self::Exact,
        }
    }

    const fn of_constant(is_nan: bool) -> Self {
        if is_nan { Self::Exact } else { Self::Canonical }
    }
}

impl Body<'_> {
    /// Takes these locals for such as keep the bits of a NaN.
    pub(crate) fn tighten(&mut self, locals: &[u32]) {
        for &local in locals {
            self.locals.loose[local as usize] = false;
        }
    }

    /// How many locals there are.
    pub(crate) fn local_count(&self) -> u32 {
        self.locals.values.len() as u32
    }

    /// Locals that were taken for loose and are not: then the translation is void, and has to be made once more.
    pub(crate) fn tightened(&self) -> &[u32] {
        &self.locals.tightened
    }

    /// Pushes a floating-point number, with what is known about its NaNs.
    pub(super) fn push_float(&mut self, reg: Reg, nan: Nan) {
        let (ty, place) = (FloatWidth::of(reg.wide).ty(), Place::Reg(reg));
        self.stack.push(Entry { ty, place, nan });
    }

    /// A register with the canonical NaN if the value is one, else with the value.
    pub(super) fn canonical(&mut self, entry: Entry) -> Reg {
        let number = self.number(entry);
        let from = self.in_register(number, entry.ty);
        let width = FloatWidth::of(from.wide);
        let (f, nan) = (width.ptx(), width.nan());
        let (pred, reg) = (self.fresh_pred(), self.fresh(from.wide));
        line!(self.text, "  setp.nan.{f} {pred}, {from}, {from};");
        let bits = reg.bits();
        line!(self.text, "  selp.{bits} {reg}, {nan}, {from}, {pred};");
        reg
    }

    /// Pushes the value of a local, with the facts about it.
    pub(super) fn push_local(&mut self, index: u32) {
        let Value { ty, reg } = self.locals.values[index as usize];
        let nan = match self.locals.loose[index as usize] {
            true => Nan::Raw,
            false => Nan::Exact,
        };
        let place = Place::Reg(reg);
        self.stack.push(Entry { ty, place, nan });
    }

    /// A value as a local takes it.
    pub(super) fn for_local(&mut self, index: u32, entry: Entry) -> Operand {
        if !self.locals.loose[index as usize] {
            return self.operand(entry);
        }
        if entry.nan == Nan::Exact && !self.locals.tightened.contains(&index) {
            self.locals.tightened.push(index);
        }
        self.number(entry)
    }

    /// Makes two values alike, because either may be selected: both as they come if that loses no bits.
    pub(super) fn either(&mut self, a: Entry, b: Entry) -> (Operand, Operand, Nan) {
        match (a.nan, b.nan) {
            (Nan::Exact, _) | (_, Nan::Exact) => (self.operand(a), self.operand(b), Nan::Exact),
            (Nan::Canonical, Nan::Canonical) => (self.number(a), self.number(b), Nan::Canonical),
            _ => (self.number(a), self.number(b), Nan::Raw),
        }
    }
}
