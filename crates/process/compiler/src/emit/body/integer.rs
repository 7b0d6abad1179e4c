//! Integer arithmetic. PTX leaves division by zero and the smallest number over -1 open, so both are
//! decided before the instruction.

use everwarp_contract::TrapKind;

use super::kinds::{IntWidth, Rotation, Signedness};
use crate::emit::body::{Body, Place};
use crate::facts::types::ValueType;
use crate::text::{Operand, Reg, line};

impl Body<'_> {
    pub(super) fn constant(&mut self, ty: ValueType, bits: u64) {
        self.push_place(ty, Place::Constant(bits));
    }

    /// An instruction of one operand.
    pub(super) fn unary(&mut self, instruction: &str, to: ValueType) {
        let a = self.pop();
        let reg = self.push(to);
        line!(self.text, "  {instruction} {reg}, {a};");
    }

    /// An instruction of two operands.
    pub(super) fn binary(&mut self, instruction: &str, to: ValueType) {
        let (b, a) = (self.pop_operand(), self.pop());
        let reg = self.push(to);
        line!(self.text, "  {instruction} {reg}, {a}, {b};");
    }

    /// A comparison, `lt.s32` for example.
    pub(super) fn compare(&mut self, comparison: &str) {
        // A number would have to be written otherwise for floating-point instructions.
        let (b, a) = if comparison.contains(".f") {
            (Operand::Reg(self.pop_number()), self.pop_number())
        } else {
            (self.pop_operand(), self.pop())
        };
        let pred = self.fresh_pred();
        line!(self.text, "  setp.{comparison} {pred}, {a}, {b};");
        self.push_test(pred);
    }

    pub(super) fn eqz(&mut self, width: IntWidth) {
        let entry = *self.stack.last().expect("eqz has an operand");
        let pred = self.fresh_pred();
        if let Place::Test(test) = entry.place {
            self.stack.pop();
            line!(self.text, "  not.pred {pred}, {test};");
            self.push_test(pred);
            return;
        }
        let a = self.pop();
        let bits = width.bits();
        line!(self.text, "  setp.eq.s{bits} {pred}, {a}, 0;");
        self.push_test(pred);
    }

    /// Counts: the result in PTX has 32 bits even for a 64-bit operand.
    pub(super) fn count(&mut self, instruction: &str, width: IntWidth) {
        let a = self.pop();
        if width == IntWidth::I32 {
            let reg = self.push(ValueType::I32);
            line!(self.text, "  {instruction}.b32 {reg}, {a};");
            return;
        }
        let narrow = self.fresh(false);
        line!(self.text, "  {instruction}.b64 {narrow}, {a};");
        let reg = self.push(ValueType::I64);
        line!(self.text, "  cvt.u64.u32 {reg}, {narrow};");
    }

    /// Trailing zeros are the leading zeros of the reversed bits.
    pub(super) fn ctz(&mut self, width: IntWidth) {
        self.unary(&format!("brev.b{}", width.bits()), width.ty());
        self.count("clz", width);
    }

    /// A count for a shift, as 32 bits below the operand's size. PTX clamps where WebAssembly wraps.
    fn shift_count(&mut self, width: IntWidth) -> Operand {
        let mask = width.bits() - 1;
        let count = match self.pop_operand() {
            Operand::Reg(count) => count,
            Operand::Number(count) => return Operand::Number(count & i64::from(mask)),
        };
        let narrow = if width.is_wide() {
            let narrow = self.fresh(false);
            line!(self.text, "  cvt.u32.u64 {narrow}, {count};");
            narrow
        } else {
            count
        };
        let masked = self.fresh(false);
        line!(self.text, "  and.b32 {masked}, {narrow}, {mask};");
        Operand::Reg(masked)
    }

    pub(super) fn shift(&mut self, instruction: &str, width: IntWidth) {
        let count = self.shift_count(width);
        let a = self.pop();
        let reg = self.push(width.ty());
        line!(self.text, "  {instruction} {reg}, {a}, {count};");
    }

    pub(super) fn rotate(&mut self, rotation: Rotation, width: IntWidth) {
        let count = self.shift_count(width);
        let a = self.pop();
        if width == IntWidth::I32 {
            let reg = self.push(ValueType::I32);
            let side = match rotation {
                Rotation::Left => 'l',
                Rotation::Right => 'r',
            };
            line!(self.text, "  shf.{side}.wrap.b32 {reg}, {a}, {a}, {count};");
            return;
        }
        let (rest, near, far) = (self.fresh(false), self.fresh(true), self.fresh(true));
        let (one, other) = match rotation {
            Rotation::Left => ("shl.b64", "shr.u64"),
            Rotation::Right => ("shr.u64", "shl.b64"),
        };
        // With a count of 0 the rest is 64, and a shift by 64 gives 0.
        line!(self.text, "  sub.s32 {rest}, 64, {count};");
        line!(self.text, "  {one} {near}, {a}, {count};");
        line!(self.text, "  {other} {far}, {a}, {rest};");
        let reg = self.push(ValueType::I64);
        line!(self.text, "  or.b64 {reg}, {near}, {far};");
    }

    pub(super) fn divide(&mut self, signedness: Signedness, width: IntWidth) {
        let (b, a) = (self.pop(), self.pop());
        self.trap_on_zero(b, width);
        let bits = width.bits();
        if signedness == Signedness::Signed {
            let smallest: u64 = 1 << (bits - 1);
            let (edge, both) = (self.fresh_pred(), self.fresh_pred());
            line!(self.text, "  setp.eq.s{bits} {edge}, {a}, {smallest:#x};");
            line!(self.text, "  setp.eq.and.s{bits} {both}, {b}, -1, {edge};");
            self.trap_if(both, true, TrapKind::IntegerOverflow);
        }
        let reg = self.push(width.ty());
        let sign = signedness.letter();
        line!(self.text, "  div.{sign}{bits} {reg}, {a}, {b};");
    }

    pub(super) fn remainder(&mut self, signedness: Signedness, width: IntWidth) {
        let (mut b, a) = (self.pop(), self.pop());
        self.trap_on_zero(b, width);
        let bits = width.bits();
        if signedness == Signedness::Signed {
            // Nothing remains of a division by 1 or by -1, and 1 never overflows.
            let (edge, safe) = (self.fresh_pred(), self.fresh(width.is_wide()));
            line!(self.text, "  setp.eq.s{bits} {edge}, {b}, -1;");
            line!(self.text, "  selp.b{bits} {safe}, 1, {b}, {edge};");
            b = safe;
        }
        let reg = self.push(width.ty());
        let sign = signedness.letter();
        line!(self.text, "  rem.{sign}{bits} {reg}, {a}, {b};");
    }

    fn trap_on_zero(&mut self, reg: Reg, width: IntWidth) {
        let pred = self.fresh_pred();
        let bits = width.bits();
        line!(self.text, "  setp.eq.s{bits} {pred}, {reg}, 0;");
        self.trap_if(pred, true, TrapKind::DivideByZero);
    }
}
