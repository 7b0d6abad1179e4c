//! Conversions between numbers.

use everwarp_contract::TrapKind;

use crate::emit::body::{Body, Place};
use crate::facts::types::ValueType;
use crate::text::line;

use super::kinds::{FloatWidth, IntWidth, Signedness};
use super::nan::Nan;

/// Which numbers convert to an integer type: those between two bounds, the upper one excluded.
struct Range {
    /// The comparison with the lower bound: `ge` if the bound itself converts, else `gt`.
    lower: (&'static str, f64),
    upper: f64,
}

impl Range {
    const fn new(from: FloatWidth, to: IntWidth, signedness: Signedness) -> Self {
        use IntWidth::{I32, I64};
        use Signedness::{Signed, Unsigned};
        let (lower, upper) = match (to, signedness, from) {
            // One below the smallest is a double, but no single-precision number.
            (I32, Signed, FloatWidth::F64) => (("gt", -2_147_483_649.0), 2_147_483_648.0),
            (I32, Signed, FloatWidth::F32) => (("ge", -2_147_483_648.0), 2_147_483_648.0),
            (I32, Unsigned, _) => (("gt", -1.0), 4_294_967_296.0),
            (I64, Signed, _) => (
                ("ge", -9_223_372_036_854_775_808.0),
                9_223_372_036_854_775_808.0,
            ),
            (I64, Unsigned, _) => (("gt", -1.0), 18_446_744_073_709_551_616.0),
        };
        Self { lower, upper }
    }
}

/// The PTX type of an integer.
fn int_type(width: IntWidth, signedness: Signedness) -> String {
    format!("{}{}", signedness.letter(), width.bits())
}

impl Body<'_> {
    /// Truncation that traps outside of the range.
    pub(super) fn truncate(&mut self, from: FloatWidth, to: IntWidth, signedness: Signedness) {
        let range = Range::new(from, to, signedness);
        let a = self.pop_number();
        let f = from.ptx();
        let (nan, low, high) = (self.fresh_pred(), self.fresh_pred(), self.fresh_pred());
        line!(self.text, "  setp.nan.{f} {nan}, {a}, {a};");
        self.trap_if(nan, true, TrapKind::InvalidConversion);
        let (compare, bound) = range.lower;
        line!(
            self.text,
            "  setp.{compare}.{f} {low}, {a}, {};",
            from.literal(bound)
        );
        line!(
            self.text,
            "  setp.lt.and.{f} {high}, {a}, {}, {low};",
            from.literal(range.upper)
        );
        self.trap_if(high, false, TrapKind::IntegerOverflow);
        let reg = self.push(to.ty());
        line!(
            self.text,
            "  cvt.rzi.{}.{f} {reg}, {a};",
            int_type(to, signedness)
        );
    }

    /// Truncation to the nearest number of the range. PTX clamps too, but converts NaN to a number that
    /// depends on the sizes.
    pub(super) fn saturate(&mut self, from: FloatWidth, to: IntWidth, signedness: Signedness) {
        let a = self.pop_number();
        let f = from.ptx();
        let (nan, raw) = (self.fresh_pred(), self.fresh(to.is_wide()));
        let reg = self.push(to.ty());
        line!(self.text, "  setp.nan.{f} {nan}, {a}, {a};");
        line!(
            self.text,
            "  cvt.rzi.{}.{f} {raw}, {a};",
            int_type(to, signedness)
        );
        line!(self.text, "  selp.{} {reg}, 0, {raw}, {nan};", reg.bits());
    }

    /// An integer as the nearest floating-point number.
    pub(super) fn convert_to_float(
        &mut self,
        from: IntWidth,
        signedness: Signedness,
        to: FloatWidth,
    ) {
        let (a, reg, f) = (self.pop(), self.fresh(to.is_wide()), to.ptx());
        let from = int_type(from, signedness);
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
