//! Conversions between numbers.

use everwarp_contract::TrapKind;

use crate::emit::body::{Body, Place};
use crate::facts::types::ValueType;
use crate::text::line;

use super::nan::{Nan, float};

/// The range of numbers that convert to an integer type: the bits of an exclusive or inclusive lower
/// bound, and those of an exclusive upper bound.
struct Range {
    from: &'static str,
    /// `ge` if the lower bound itself converts, else `gt`.
    lower: (&'static str, f64),
    upper: f64,
}

impl Range {
    const fn new(wide_float: bool, wide: bool, signed: bool) -> Self {
        let from = if wide_float { "f64" } else { "f32" };
        let (lower, upper) = match (wide, signed) {
            // One below the smallest is a double, but no single-precision number.
            (false, true) if wide_float => (("gt", -2_147_483_649.0), 2_147_483_648.0),
            (false, true) => (("ge", -2_147_483_648.0), 2_147_483_648.0),
            (false, false) => (("gt", -1.0), 4_294_967_296.0),
            (true, true) => (
                ("ge", -9_223_372_036_854_775_808.0),
                9_223_372_036_854_775_808.0,
            ),
            (true, false) => (("gt", -1.0), 18_446_744_073_709_551_616.0),
        };
        Self { from, lower, upper }
    }

    /// A bound as a PTX literal of the operand's size.
    fn literal(&self, bound: f64) -> String {
        if self.from == "f64" {
            format!("0d{:016X}", bound.to_bits())
        } else {
            format!("0f{:08X}", (bound as f32).to_bits())
        }
    }
}

fn int_type(wide: bool, signed: bool) -> String {
    format!(
        "{}{}",
        if signed { 's' } else { 'u' },
        if wide { 64 } else { 32 }
    )
}

const fn int(wide: bool) -> ValueType {
    if wide { ValueType::I64 } else { ValueType::I32 }
}

impl Body<'_> {
    /// Truncation that traps outside of the range.
    pub(super) fn truncate(&mut self, wide_float: bool, wide: bool, signed: bool) {
        let range = Range::new(wide_float, wide, signed);
        let a = self.pop_number();
        let f = range.from;
        let (nan, low, high) = (self.fresh_pred(), self.fresh_pred(), self.fresh_pred());
        line!(self.text, "  setp.nan.{f} {nan}, {a}, {a};");
        self.trap_if(nan, true, TrapKind::InvalidConversion);
        let (compare, bound) = range.lower;
        line!(
            self.text,
            "  setp.{compare}.{f} {low}, {a}, {};",
            range.literal(bound)
        );
        line!(
            self.text,
            "  setp.lt.and.{f} {high}, {a}, {}, {low};",
            range.literal(range.upper)
        );
        self.trap_if(high, false, TrapKind::IntegerOverflow);
        let reg = self.push(int(wide));
        line!(
            self.text,
            "  cvt.rzi.{}.{f} {reg}, {a};",
            int_type(wide, signed)
        );
    }

    /// Truncation to the nearest number of the range. PTX clamps too, but gives NaN a meaning that
    /// depends on the sizes.
    pub(super) fn saturate(&mut self, wide_float: bool, wide: bool, signed: bool) {
        let a = self.pop_number();
        let f = if wide_float { "f64" } else { "f32" };
        let (nan, raw) = (self.fresh_pred(), self.fresh(wide));
        let reg = self.push(int(wide));
        line!(self.text, "  setp.nan.{f} {nan}, {a}, {a};");
        line!(
            self.text,
            "  cvt.rzi.{}.{f} {raw}, {a};",
            int_type(wide, signed)
        );
        line!(self.text, "  selp.{} {reg}, 0, {raw}, {nan};", reg.bits());
    }

    /// An integer as the nearest floating-point number.
    pub(super) fn convert_to_float(&mut self, wide: bool, signed: bool, wide_float: bool) {
        let (a, reg, f) = (self.pop(), self.fresh(wide_float), float(wide_float).1);
        let from = int_type(wide, signed);
        line!(self.text, "  cvt.rn.{f}.{from} {reg}, {a};");
        self.push_float(reg, Nan::Canonical);
    }

    pub(super) fn promote(&mut self) {
        let (a, reg) = (self.pop_number(), self.fresh(true));
        line!(self.text, "  cvt.f64.f32 {reg}, {a};");
        self.push_float(reg, Nan::Raw);
    }

    pub(super) fn demote(&mut self) {
        let (a, reg) = (self.pop_number(), self.fresh(false));
        line!(self.text, "  cvt.rn.f32.f64 {reg}, {a};");
        self.push_float(reg, Nan::Raw);
    }

    /// The same bits under another type.
    pub(super) fn reinterpret(&mut self, ty: ValueType) {
        let entry = self.pop_entry();
        let place = match (entry.nan, entry.place) {
            (Nan::Raw, _) => Place::Reg(self.canonical(entry)),
            (_, place) => place,
        };
        self.push_place(ty, place);
    }
}
