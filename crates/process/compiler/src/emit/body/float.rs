//! Floating-point arithmetic.
//!
//! Every rounding is written out (`.rn`), so that ptxas does not contract a multiplication and an
//! addition into one rounding, unless it may ([`CompileOptions::contract`](crate::CompileOptions::contract)). What
//! becomes of NaNs is in `nan.rs`.

use crate::emit::body::Body;
use crate::text::line;

use super::nan::{Nan, float};

impl Body<'_> {
    /// Arithmetic on one operand, `sqrt.rn` for example.
    pub(super) fn float_unary(&mut self, instruction: &str, wide: bool) {
        let a = self.pop_number();
        let reg = self.fresh(wide);
        let f = float(wide).1;
        line!(self.text, "  {instruction}.{f} {reg}, {a};");
        self.push_float(reg, Nan::Raw);
    }

    /// Rounding to an integer: `cvt` with a direction.
    pub(super) fn round(&mut self, direction: &str, wide: bool) {
        let f = float(wide).1;
        self.float_unary(&format!("cvt.{direction}.{f}"), wide);
    }

    /// Arithmetic on two operands, `div.rn` for example.
    pub(super) fn float_binary(&mut self, instruction: &str, wide: bool) {
        let (b, a) = (self.pop_number(), self.pop_number());
        let reg = self.fresh(wide);
        let f = float(wide).1;
        line!(self.text, "  {instruction}.{f} {reg}, {a}, {b};");
        self.push_float(reg, Nan::Raw);
    }

    /// A sum, a difference or a product: `add`, `sub` or `mul`.
    pub(super) fn float_ring(&mut self, instruction: &str, wide: bool) {
        match self.context.module.contract {
            true => self.float_binary(instruction, wide),
            false => self.float_binary(&format!("{instruction}.rn"), wide),
        }
    }

    /// PTX gives the operand that is a number, WebAssembly the NaN. Both hold -0 to be less than +0.
    pub(super) fn min_max(&mut self, instruction: &str, wide: bool) {
        let (b, a) = (self.pop_number(), self.pop_number());
        let (_, f, nan) = float(wide);
        let (raw, pred) = (self.fresh(wide), self.fresh_pred());
        let reg = self.fresh(wide);
        line!(self.text, "  {instruction}.{f} {raw}, {a}, {b};");
        line!(self.text, "  setp.nan.{f} {pred}, {a}, {b};");
        line!(
            self.text,
            "  selp.{} {reg}, {nan}, {raw}, {pred};",
            reg.bits()
        );
        self.push_float(reg, Nan::Canonical);
    }

    /// The sign bit alone: no arithmetic, so a NaN keeps its bits.
    pub(super) fn sign(&mut self, instruction: &str, wide: bool, mask: u64) {
        let a = self.pop();
        let reg = self.push(float(wide).0);
        line!(
            self.text,
            "  {instruction}.{} {reg}, {a}, {mask:#x};",
            reg.bits()
        );
    }

    pub(super) fn copysign(&mut self, wide: bool) {
        let (b, a) = (self.pop(), self.pop());
        let (size, sign) = if wide {
            (a.bits(), 1u64 << 63)
        } else {
            (a.bits(), 1 << 31)
        };
        let (x, y) = (self.fresh(wide), self.fresh(wide));
        let reg = self.push(float(wide).0);
        line!(self.text, "  and.{size} {x}, {a}, {:#x};", sign - 1);
        line!(self.text, "  and.{size} {y}, {b}, {sign:#x};");
        line!(self.text, "  or.{size} {reg}, {x}, {y};");
    }
}
