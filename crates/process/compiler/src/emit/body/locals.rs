//! The locals of a function: where they are, and what is known about them.

use crate::facts::live::Uses;
use crate::facts::types::ValueType;
use crate::text::Reg;

use super::registers::Registers;

/// A local or a result: a register that is assigned more than once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) ty: ValueType,
    pub(super) reg: Reg,
}

/// All locals, parameters first. A vector has four parts, any other local one; all vectors below but `parts` have one
/// entry for each part.
#[derive(Default)]
pub(super) struct Locals {
    pub(super) values: Vec<Value>,
    /// For each local its first part, and its type.
    pub(super) parts: Vec<(u32, ValueType)>,
    pub(super) uses: Uses,
    /// Whether no operator assigns it.
    pub(super) constant: Vec<bool>,
    /// Whether it may hold a NaN as the device made it: see `nan.rs`.
    pub(super) loose: Vec<bool>,
    /// Parts that were taken for loose and are not.
    pub(super) tightened: Vec<u32>,
}

impl Locals {
    /// Adds a local.
    pub(super) fn declare(&mut self, ty: ValueType, registers: &mut Registers) {
        self.parts.push((self.values.len() as u32, ty));
        for _ in 0..ty.parts() {
            let reg = registers.fresh(ty.is_wide());
            self.values.push(Value { ty, reg });
        }
        let count = self.values.len();
        self.uses.declare(count);
        self.constant.resize(count, false);
        let loose = matches!(ty, ValueType::F32 | ValueType::F64);
        self.loose.resize(count, loose);
    }

    /// All locals that have been declared so far keep the bits of a NaN.
    pub(super) fn tighten_all(&mut self) {
        self.loose.fill(false);
    }

    /// The parts of a local.
    pub(super) fn parts_of(&self, local: u32) -> std::ops::Range<u32> {
        let (first, ty) = self.parts[local as usize];
        first..first + ty.parts() as u32
    }

    /// Notes for each local whether an operator assigns it.
    pub(super) fn set_assigned(&mut self, assigned: &[bool]) {
        for (local, assigned) in (0..).zip(assigned) {
            for part in self.parts_of(local) {
                self.constant[part as usize] = !assigned;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(types: &[ValueType]) -> Locals {
        let (mut locals, mut registers) = (Locals::default(), Registers::default());
        for &ty in types {
            locals.declare(ty, &mut registers);
        }
        locals
    }

    #[test]
    fn a_vector_has_four_parts_and_moves_what_follows() {
        let locals = declared(&[ValueType::I64, ValueType::V128, ValueType::F32]);
        assert_eq!(locals.parts_of(0), 0..1);
        assert_eq!(locals.parts_of(1), 1..5);
        assert_eq!(locals.parts_of(2), 5..6);
        assert_eq!(locals.values.len(), locals.loose.len());
        assert_eq!(locals.values.len(), locals.constant.len());
    }

    #[test]
    fn only_floats_that_are_no_parameters_begin_loose() {
        let mut locals = declared(&[ValueType::F64]);
        locals.tighten_all();
        let mut registers = Registers::default();
        locals.declare(ValueType::F32, &mut registers);
        locals.declare(ValueType::I32, &mut registers);
        assert_eq!(locals.loose, [false, true, false]);
    }

    #[test]
    fn all_parts_of_an_assigned_vector_are_assigned() {
        let mut locals = declared(&[ValueType::I32, ValueType::V128]);
        locals.set_assigned(&[false, true]);
        assert_eq!(locals.constant, [true, false, false, false, false]);
    }
}
