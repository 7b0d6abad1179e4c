//! Floating-point arithmetic.
//!
//! Every rounding is written out (`.rn`), so that ptxas does not contract a multiplication and an
//! addition into one rounding, unless it may ([`CompileOptions::contract`](crate::CompileOptions::contract)). What
//! becomes of NaNs is in `nan.rs`.

use crate::emit::body::Body;
use crate::text::line;

use super::kinds::FloatWidth;
use super::nan::Nan;

impl Body<'_> {
    /// Arithmetic on one operand, `sqrt.rn` for example.
    pub(super) fn float_unary(&mut self, instruction: &str, width: FloatWidth) {
        let a = self.pop_number();
        let reg = self.fresh(width.is_wide());
        let f = width.ptx();
        line!(self.text, "  {instruction}.{f} {reg}, {a};");
        self.push_float(reg, Nan::Raw);
    }

    /// Rounding to an integer: `cvt` with a direction.
    pub(super) fn round(&mut self, direction: &str, width: FloatWidth) {
        let f = width.ptx();
        self.float_unary(&format!("cvt.{direction}.{f}"), width);
    }

    /// Arithmetic on two operands, `div.rn` for example.
    pub(super) fn float_binary(&mut self, instruction: &str, width: FloatWidth) {
        let (b, a) = (self.pop_number(), self.pop_number());
        let reg = self.fresh(width.is_wide());
        let f = width.ptx();
        line!(self.text, "  {instruction}.{f} {reg}, {a}, {b};");
        self.push_float(reg, Nan::Raw);
    }

    /// A sum, a difference or a product: `add`, `sub` or `mul`.
    pub(super) fn float_ring(&mut self, instruction: &str, width: FloatWidth) {
        match self.context.module.contract {
            true => self.float_binary(instruction, width),
            false => self.float_binary(&format!("{instruction}.rn"), width),
        }
    }

    /// If one operand is a NaN, PTX returns the other one and WebAssembly the NaN. Both hold -0 to be less than +0.
    pub(super) fn min_max(&mut self, instruction: &str, width: FloatWidth) {
        let (b, a) = (self.pop_number(), self.pop_number());
        let (f, nan) = (width.ptx(), width.nan());
        let (raw, pred) = (self.fresh(width.is_wide()), self.fresh_pred());
        let reg = self.fresh(width.is_wide());
        line!(self.text, "  {instruction}.{f} {raw}, {a}, {b};");
        line!(self.text, "  setp.nan.{f} {pred}, {a}, {b};");
        line!(
            self.text,
            "  selp.{} {reg}, {nan}, {raw}, {pred};",
            reg.bits()
        );
        self.push_float(reg, Nan::Canonical);
    }

    pub(super) fn float_abs(&mut self, width: FloatWidth) {
        self.change_sign("and", width, width.sign_bit() - 1);
    }

    pub(super) fn float_neg(&mut self, width: FloatWidth) {
        self.change_sign("xor", width, width.sign_bit());
    }

    /// Changes the sign bit alone: that is no arithmetic, so a NaN keeps its other bits.
    fn change_sign(&mut self, instruction: &str, width: FloatWidth, mask: u64) {
        let a = self.pop();
        let reg = self.push(width.ty());
        line!(
            self.text,
            "  {instruction}.{} {reg}, {a}, {mask:#x};",
            reg.bits()
        );
    }

    pub(super) fn copysign(&mut self, width: FloatWidth) {
        let (b, a) = (self.pop(), self.pop());
        let (size, sign) = (a.bits(), width.sign_bit());
        let (x, y) = (self.fresh(width.is_wide()), self.fresh(width.is_wide()));
        let reg = self.push(width.ty());
        line!(self.text, "  and.{size} {x}, {a}, {:#x};", sign - 1);
        line!(self.text, "  and.{size} {y}, {b}, {sign:#x};");
        line!(self.text, "  or.{size} {reg}, {x}, {y};");
    }
}
