//! One arm for each vector operator of WebAssembly 2.0.

use wasmparser::Operator;

use crate::emit::body::Body;

use super::kinds::Equality::{Equal, Unequal};
use super::kinds::Half::{High, Low};
use super::kinds::Signedness::{Signed, Unsigned};
use super::kinds::{AddKind, FloatWidth, IntWidth};
use super::vector::Shape;

impl Body<'_> {
    /// Translates an operator if it is one on vectors.
    pub(super) fn vector_operator(&mut self, operator: &Operator<'_>) -> bool {
        match operator {
            Operator::V128Load { memarg } => self.vector_load(memarg),
            Operator::V128Store { memarg } => self.vector_store(memarg),
            Operator::V128Load8x8S { memarg } => {
                self.load_extended(Shape::S8, Shape::U16, Signed, memarg)
            }
            Operator::V128Load8x8U { memarg } => {
                self.load_extended(Shape::U8, Shape::U16, Unsigned, memarg)
            }
            Operator::V128Load16x4S { memarg } => {
                self.load_extended(Shape::S16, Shape::I32, Signed, memarg)
            }
            Operator::V128Load16x4U { memarg } => {
                self.load_extended(Shape::U16, Shape::I32, Unsigned, memarg)
            }
            Operator::V128Load32x2S { memarg } => {
                self.load_extended(Shape::I32, Shape::I64, Signed, memarg)
            }
            Operator::V128Load32x2U { memarg } => {
                self.load_extended(Shape::I32, Shape::I64, Unsigned, memarg)
            }
            Operator::V128Load8Splat { memarg } => self.load_splat(Shape::U8, memarg),
            Operator::V128Load16Splat { memarg } => self.load_splat(Shape::U16, memarg),
            Operator::V128Load32Splat { memarg } => self.load_splat(Shape::I32, memarg),
            Operator::V128Load64Splat { memarg } => self.load_splat(Shape::I64, memarg),
            Operator::V128Load32Zero { memarg } => self.load_zero(Shape::I32, memarg),
            Operator::V128Load64Zero { memarg } => self.load_zero(Shape::I64, memarg),
            Operator::V128Load8Lane { memarg, lane } => self.load_lane(Shape::U8, memarg, *lane),
            Operator::V128Load16Lane { memarg, lane } => self.load_lane(Shape::U16, memarg, *lane),
            Operator::V128Load32Lane { memarg, lane } => self.load_lane(Shape::I32, memarg, *lane),
            Operator::V128Load64Lane { memarg, lane } => self.load_lane(Shape::I64, memarg, *lane),
            Operator::V128Store8Lane { memarg, lane } => self.store_lane(Shape::U8, memarg, *lane),
            Operator::V128Store16Lane { memarg, lane } => {
                self.store_lane(Shape::U16, memarg, *lane)
            }
            Operator::V128Store32Lane { memarg, lane } => {
                self.store_lane(Shape::I32, memarg, *lane)
            }
            Operator::V128Store64Lane { memarg, lane } => {
                self.store_lane(Shape::I64, memarg, *lane)
            }
            Operator::V128Const { value } => self.vector_constant(value.i128() as u128),
            Operator::I8x16Shuffle { lanes } => self.shuffle(lanes),
            Operator::I8x16Swizzle => self.swizzle(),
            Operator::I8x16ExtractLaneS { lane } => self.extract_lane(Shape::S8, *lane),
            Operator::I8x16ExtractLaneU { lane } => self.extract_lane(Shape::U8, *lane),
            Operator::I16x8ExtractLaneS { lane } => self.extract_lane(Shape::S16, *lane),
            Operator::I16x8ExtractLaneU { lane } => self.extract_lane(Shape::U16, *lane),
            Operator::I32x4ExtractLane { lane } => self.extract_lane(Shape::I32, *lane),
            Operator::I64x2ExtractLane { lane } => self.extract_lane(Shape::I64, *lane),
            Operator::F32x4ExtractLane { lane } => self.extract_lane(Shape::F32, *lane),
            Operator::F64x2ExtractLane { lane } => self.extract_lane(Shape::F64, *lane),
            Operator::I8x16ReplaceLane { lane } => self.replace_lane(Shape::U8, *lane),
            Operator::I16x8ReplaceLane { lane } => self.replace_lane(Shape::U16, *lane),
            Operator::I32x4ReplaceLane { lane } => self.replace_lane(Shape::I32, *lane),
            Operator::I64x2ReplaceLane { lane } => self.replace_lane(Shape::I64, *lane),
            Operator::F32x4ReplaceLane { lane } => self.replace_lane(Shape::F32, *lane),
            Operator::F64x2ReplaceLane { lane } => self.replace_lane(Shape::F64, *lane),
            Operator::I8x16Splat => self.splat(Shape::U8),
            Operator::I16x8Splat => self.splat(Shape::U16),
            Operator::I32x4Splat => self.splat(Shape::I32),
            Operator::I64x2Splat => self.splat(Shape::I64),
            Operator::F32x4Splat => self.splat(Shape::F32),
            Operator::F64x2Splat => self.splat(Shape::F64),
            Operator::I8x16Eq => self.equal_lanes(Shape::U8, Equal),
            Operator::I8x16Ne => self.equal_lanes(Shape::U8, Unequal),
            Operator::I8x16LtS => self.compare_lanes(Shape::S8, "lt.s32"),
            Operator::I8x16LtU => self.compare_lanes(Shape::U8, "lt.s32"),
            Operator::I8x16GtS => self.compare_lanes(Shape::S8, "gt.s32"),
            Operator::I8x16GtU => self.compare_lanes(Shape::U8, "gt.s32"),
            Operator::I8x16LeS => self.compare_lanes(Shape::S8, "le.s32"),
            Operator::I8x16LeU => self.compare_lanes(Shape::U8, "le.s32"),
            Operator::I8x16GeS => self.compare_lanes(Shape::S8, "ge.s32"),
            Operator::I8x16GeU => self.compare_lanes(Shape::U8, "ge.s32"),
            Operator::I16x8Eq => self.equal_lanes(Shape::U16, Equal),
            Operator::I16x8Ne => self.equal_lanes(Shape::U16, Unequal),
            Operator::I16x8LtS => self.compare_lanes(Shape::S16, "lt.s32"),
            Operator::I16x8LtU => self.compare_lanes(Shape::U16, "lt.s32"),
            Operator::I16x8GtS => self.compare_lanes(Shape::S16, "gt.s32"),
            Operator::I16x8GtU => self.compare_lanes(Shape::U16, "gt.s32"),
            Operator::I16x8LeS => self.compare_lanes(Shape::S16, "le.s32"),
            Operator::I16x8LeU => self.compare_lanes(Shape::U16, "le.s32"),
            Operator::I16x8GeS => self.compare_lanes(Shape::S16, "ge.s32"),
            Operator::I16x8GeU => self.compare_lanes(Shape::U16, "ge.s32"),
            Operator::I32x4Eq => self.compare_lanes(Shape::I32, "eq.s32"),
            Operator::I32x4Ne => self.compare_lanes(Shape::I32, "ne.s32"),
            Operator::I32x4LtS => self.compare_lanes(Shape::I32, "lt.s32"),
            Operator::I32x4LtU => self.compare_lanes(Shape::I32, "lt.u32"),
            Operator::I32x4GtS => self.compare_lanes(Shape::I32, "gt.s32"),
            Operator::I32x4GtU => self.compare_lanes(Shape::I32, "gt.u32"),
            Operator::I32x4LeS => self.compare_lanes(Shape::I32, "le.s32"),
            Operator::I32x4LeU => self.compare_lanes(Shape::I32, "le.u32"),
            Operator::I32x4GeS => self.compare_lanes(Shape::I32, "ge.s32"),
            Operator::I32x4GeU => self.compare_lanes(Shape::I32, "ge.u32"),
            Operator::I64x2Eq => self.compare_lanes(Shape::I64, "eq.s64"),
            Operator::I64x2Ne => self.compare_lanes(Shape::I64, "ne.s64"),
            Operator::I64x2LtS => self.compare_lanes(Shape::I64, "lt.s64"),
            Operator::I64x2GtS => self.compare_lanes(Shape::I64, "gt.s64"),
            Operator::I64x2LeS => self.compare_lanes(Shape::I64, "le.s64"),
            Operator::I64x2GeS => self.compare_lanes(Shape::I64, "ge.s64"),
            Operator::F32x4Eq => self.compare_lanes(Shape::F32, "eq.f32"),
            Operator::F32x4Ne => self.compare_lanes(Shape::F32, "neu.f32"),
            Operator::F32x4Lt => self.compare_lanes(Shape::F32, "lt.f32"),
            Operator::F32x4Gt => self.compare_lanes(Shape::F32, "gt.f32"),
            Operator::F32x4Le => self.compare_lanes(Shape::F32, "le.f32"),
            Operator::F32x4Ge => self.compare_lanes(Shape::F32, "ge.f32"),
            Operator::F64x2Eq => self.compare_lanes(Shape::F64, "eq.f64"),
            Operator::F64x2Ne => self.compare_lanes(Shape::F64, "neu.f64"),
            Operator::F64x2Lt => self.compare_lanes(Shape::F64, "lt.f64"),
            Operator::F64x2Gt => self.compare_lanes(Shape::F64, "gt.f64"),
            Operator::F64x2Le => self.compare_lanes(Shape::F64, "le.f64"),
            Operator::F64x2Ge => self.compare_lanes(Shape::F64, "ge.f64"),
            Operator::V128Not => self.vector_not(),
            Operator::V128And => self.words2("and.b32"),
            Operator::V128AndNot => self.and_not(),
            Operator::V128Or => self.words2("or.b32"),
            Operator::V128Xor => self.words2("xor.b32"),
            Operator::V128Bitselect => self.bitselect(),
            Operator::V128AnyTrue => self.any_true(),
            Operator::I8x16Abs => self.absolute_lanes(Shape::S8),
            Operator::I8x16Neg => self.negate_lanes(Shape::S8),
            Operator::I8x16AllTrue => self.all_true(Shape::U8),
            Operator::I8x16Bitmask => self.bitmask(Shape::U8),
            Operator::I8x16Shl => self.shift_lanes(Shape::U8, "shl.b32"),
            Operator::I8x16ShrS => self.shift_lanes(Shape::S8, "shr.s32"),
            Operator::I8x16ShrU => self.shift_lanes(Shape::U8, "shr.u32"),
            Operator::I8x16Add => self.add_lanes(Shape::U8, AddKind::Add),
            Operator::I8x16Sub => self.add_lanes(Shape::U8, AddKind::Subtract),
            Operator::I8x16AddSatS => self.saturating(Shape::S8, "add.s32"),
            Operator::I8x16SubSatS => self.saturating(Shape::S8, "sub.s32"),
            Operator::I8x16AddSatU => self.saturating(Shape::U8, "add.s32"),
            Operator::I8x16SubSatU => self.saturating(Shape::U8, "sub.s32"),
            Operator::I8x16AvgrU => self.average(Shape::U8),
            Operator::I8x16MinS => self.lanes2(Shape::S8, "min.s32"),
            Operator::I8x16MinU => self.lanes2(Shape::U8, "min.u32"),
            Operator::I8x16MaxS => self.lanes2(Shape::S8, "max.s32"),
            Operator::I8x16MaxU => self.lanes2(Shape::U8, "max.u32"),
            Operator::I16x8Abs => self.absolute_lanes(Shape::S16),
            Operator::I16x8Neg => self.negate_lanes(Shape::S16),
            Operator::I16x8AllTrue => self.all_true(Shape::U16),
            Operator::I16x8Bitmask => self.bitmask(Shape::U16),
            Operator::I16x8Shl => self.shift_lanes(Shape::U16, "shl.b32"),
            Operator::I16x8ShrS => self.shift_lanes(Shape::S16, "shr.s32"),
            Operator::I16x8ShrU => self.shift_lanes(Shape::U16, "shr.u32"),
            Operator::I16x8Add => self.add_lanes(Shape::U16, AddKind::Add),
            Operator::I16x8Sub => self.add_lanes(Shape::U16, AddKind::Subtract),
            Operator::I16x8AddSatS => self.saturating(Shape::S16, "add.s32"),
            Operator::I16x8SubSatS => self.saturating(Shape::S16, "sub.s32"),
            Operator::I16x8AddSatU => self.saturating(Shape::U16, "add.s32"),
            Operator::I16x8SubSatU => self.saturating(Shape::U16, "sub.s32"),
            Operator::I16x8AvgrU => self.average(Shape::U16),
            Operator::I16x8Mul => self.lanes2(Shape::U16, "mul.lo.s32"),
            Operator::I16x8MinS => self.lanes2(Shape::S16, "min.s32"),
            Operator::I16x8MinU => self.lanes2(Shape::U16, "min.u32"),
            Operator::I16x8MaxS => self.lanes2(Shape::S16, "max.s32"),
            Operator::I16x8MaxU => self.lanes2(Shape::U16, "max.u32"),
            Operator::I32x4Abs => self.absolute_lanes(Shape::I32),
            Operator::I32x4Neg => self.negate_lanes(Shape::I32),
            Operator::I32x4AllTrue => self.all_true(Shape::I32),
            Operator::I32x4Bitmask => self.bitmask(Shape::I32),
            Operator::I32x4Shl => self.shift_lanes(Shape::I32, "shl.b32"),
            Operator::I32x4ShrS => self.shift_lanes(Shape::I32, "shr.s32"),
            Operator::I32x4ShrU => self.shift_lanes(Shape::I32, "shr.u32"),
            Operator::I32x4Add => self.lanes2(Shape::I32, "add.s32"),
            Operator::I32x4Sub => self.lanes2(Shape::I32, "sub.s32"),
            Operator::I32x4Mul => self.lanes2(Shape::I32, "mul.lo.s32"),
            Operator::I32x4MinS => self.lanes2(Shape::I32, "min.s32"),
            Operator::I32x4MinU => self.lanes2(Shape::I32, "min.u32"),
            Operator::I32x4MaxS => self.lanes2(Shape::I32, "max.s32"),
            Operator::I32x4MaxU => self.lanes2(Shape::I32, "max.u32"),
            Operator::I64x2Abs => self.absolute_lanes(Shape::I64),
            Operator::I64x2Neg => self.negate_lanes(Shape::I64),
            Operator::I64x2AllTrue => self.all_true(Shape::I64),
            Operator::I64x2Bitmask => self.bitmask(Shape::I64),
            Operator::I64x2Shl => self.shift_lanes(Shape::I64, "shl.b64"),
            Operator::I64x2ShrS => self.shift_lanes(Shape::I64, "shr.s64"),
            Operator::I64x2ShrU => self.shift_lanes(Shape::I64, "shr.u64"),
            Operator::I64x2Add => self.lanes2(Shape::I64, "add.s64"),
            Operator::I64x2Sub => self.lanes2(Shape::I64, "sub.s64"),
            Operator::I64x2Mul => self.lanes2(Shape::I64, "mul.lo.s64"),
            Operator::I8x16Popcnt => self.lanewise(Shape::U8, 1, Shape::U8, |body| {
                body.count("popc", IntWidth::I32)
            }),
            Operator::I8x16NarrowI16x8S => self.narrow(Shape::S16, Shape::S8),
            Operator::I16x8NarrowI32x4S => self.narrow(Shape::I32, Shape::S16),
            Operator::I8x16NarrowI16x8U => self.narrow(Shape::S16, Shape::U8),
            Operator::I16x8NarrowI32x4U => self.narrow(Shape::I32, Shape::U16),
            Operator::I16x8Q15MulrSatS => self.multiply_fractions(),
            Operator::I32x4DotI16x8S => self.dot(),
            Operator::I16x8ExtAddPairwiseI8x16S => self.pairwise_sum(Shape::S8, Shape::U16),
            Operator::I16x8ExtendLowI8x16S => self.extend(Shape::S8, Shape::U16, Signed, Low),
            Operator::I16x8ExtMulLowI8x16S => {
                self.extended_product(Shape::S8, Shape::U16, Signed, Low)
            }
            Operator::I16x8ExtendHighI8x16S => self.extend(Shape::S8, Shape::U16, Signed, High),
            Operator::I16x8ExtMulHighI8x16S => {
                self.extended_product(Shape::S8, Shape::U16, Signed, High)
            }
            Operator::I16x8ExtAddPairwiseI8x16U => self.pairwise_sum(Shape::U8, Shape::U16),
            Operator::I16x8ExtendLowI8x16U => self.extend(Shape::U8, Shape::U16, Unsigned, Low),
            Operator::I16x8ExtMulLowI8x16U => {
                self.extended_product(Shape::U8, Shape::U16, Unsigned, Low)
            }
            Operator::I16x8ExtendHighI8x16U => self.extend(Shape::U8, Shape::U16, Unsigned, High),
            Operator::I16x8ExtMulHighI8x16U => {
                self.extended_product(Shape::U8, Shape::U16, Unsigned, High)
            }
            Operator::I32x4ExtAddPairwiseI16x8S => self.pairwise_sum(Shape::S16, Shape::I32),
            Operator::I32x4ExtendLowI16x8S => self.extend(Shape::S16, Shape::I32, Signed, Low),
            Operator::I32x4ExtMulLowI16x8S => {
                self.extended_product(Shape::S16, Shape::I32, Signed, Low)
            }
            Operator::I32x4ExtendHighI16x8S => self.extend(Shape::S16, Shape::I32, Signed, High),
            Operator::I32x4ExtMulHighI16x8S => {
                self.extended_product(Shape::S16, Shape::I32, Signed, High)
            }
            Operator::I32x4ExtAddPairwiseI16x8U => self.pairwise_sum(Shape::U16, Shape::I32),
            Operator::I32x4ExtendLowI16x8U => self.extend(Shape::U16, Shape::I32, Unsigned, Low),
            Operator::I32x4ExtMulLowI16x8U => {
                self.extended_product(Shape::U16, Shape::I32, Unsigned, Low)
            }
            Operator::I32x4ExtendHighI16x8U => self.extend(Shape::U16, Shape::I32, Unsigned, High),
            Operator::I32x4ExtMulHighI16x8U => {
                self.extended_product(Shape::U16, Shape::I32, Unsigned, High)
            }
            Operator::I64x2ExtendLowI32x4S => self.extend(Shape::I32, Shape::I64, Signed, Low),
            Operator::I64x2ExtMulLowI32x4S => {
                self.extended_product(Shape::I32, Shape::I64, Signed, Low)
            }
            Operator::I64x2ExtendHighI32x4S => self.extend(Shape::I32, Shape::I64, Signed, High),
            Operator::I64x2ExtMulHighI32x4S => {
                self.extended_product(Shape::I32, Shape::I64, Signed, High)
            }
            Operator::I64x2ExtendLowI32x4U => self.extend(Shape::I32, Shape::I64, Unsigned, Low),
            Operator::I64x2ExtMulLowI32x4U => {
                self.extended_product(Shape::I32, Shape::I64, Unsigned, Low)
            }
            Operator::I64x2ExtendHighI32x4U => self.extend(Shape::I32, Shape::I64, Unsigned, High),
            Operator::I64x2ExtMulHighI32x4U => {
                self.extended_product(Shape::I32, Shape::I64, Unsigned, High)
            }
            Operator::F32x4Ceil => self.lanewise(Shape::F32, 1, Shape::F32, |body| {
                body.round("rpi", FloatWidth::F32)
            }),
            Operator::F32x4Floor => self.lanewise(Shape::F32, 1, Shape::F32, |body| {
                body.round("rmi", FloatWidth::F32)
            }),
            Operator::F32x4Trunc => self.lanewise(Shape::F32, 1, Shape::F32, |body| {
                body.round("rzi", FloatWidth::F32)
            }),
            Operator::F32x4Nearest => self.lanewise(Shape::F32, 1, Shape::F32, |body| {
                body.round("rni", FloatWidth::F32)
            }),
            Operator::F32x4Abs => self.lanewise(Shape::F32, 1, Shape::F32, |body| {
                body.float_abs(FloatWidth::F32)
            }),
            Operator::F32x4Neg => self.lanewise(Shape::F32, 1, Shape::F32, |body| {
                body.float_neg(FloatWidth::F32)
            }),
            Operator::F32x4Sqrt => self.lanewise(Shape::F32, 1, Shape::F32, |body| {
                body.float_unary("sqrt.rn", FloatWidth::F32)
            }),
            Operator::F32x4Add => self.lanewise(Shape::F32, 2, Shape::F32, |body| {
                body.float_ring("add", FloatWidth::F32)
            }),
            Operator::F32x4Sub => self.lanewise(Shape::F32, 2, Shape::F32, |body| {
                body.float_ring("sub", FloatWidth::F32)
            }),
            Operator::F32x4Mul => self.lanewise(Shape::F32, 2, Shape::F32, |body| {
                body.float_ring("mul", FloatWidth::F32)
            }),
            Operator::F32x4Div => self.lanewise(Shape::F32, 2, Shape::F32, |body| {
                body.float_binary("div.rn", FloatWidth::F32)
            }),
            Operator::F32x4Min => self.lanewise(Shape::F32, 2, Shape::F32, |body| {
                body.min_max("min", FloatWidth::F32)
            }),
            Operator::F32x4Max => self.lanewise(Shape::F32, 2, Shape::F32, |body| {
                body.min_max("max", FloatWidth::F32)
            }),
            Operator::F32x4PMin => self.pseudo_extreme(Shape::F32, "lt"),
            Operator::F32x4PMax => self.pseudo_extreme(Shape::F32, "gt"),
            Operator::F64x2Ceil => self.lanewise(Shape::F64, 1, Shape::F64, |body| {
                body.round("rpi", FloatWidth::F64)
            }),
            Operator::F64x2Floor => self.lanewise(Shape::F64, 1, Shape::F64, |body| {
                body.round("rmi", FloatWidth::F64)
            }),
            Operator::F64x2Trunc => self.lanewise(Shape::F64, 1, Shape::F64, |body| {
                body.round("rzi", FloatWidth::F64)
            }),
            Operator::F64x2Nearest => self.lanewise(Shape::F64, 1, Shape::F64, |body| {
                body.round("rni", FloatWidth::F64)
            }),
            Operator::F64x2Abs => self.lanewise(Shape::F64, 1, Shape::F64, |body| {
                body.float_abs(FloatWidth::F64)
            }),
            Operator::F64x2Neg => self.lanewise(Shape::F64, 1, Shape::F64, |body| {
                body.float_neg(FloatWidth::F64)
            }),
            Operator::F64x2Sqrt => self.lanewise(Shape::F64, 1, Shape::F64, |body| {
                body.float_unary("sqrt.rn", FloatWidth::F64)
            }),
            Operator::F64x2Add => self.lanewise(Shape::F64, 2, Shape::F64, |body| {
                body.float_ring("add", FloatWidth::F64)
            }),
            Operator::F64x2Sub => self.lanewise(Shape::F64, 2, Shape::F64, |body| {
                body.float_ring("sub", FloatWidth::F64)
            }),
            Operator::F64x2Mul => self.lanewise(Shape::F64, 2, Shape::F64, |body| {
                body.float_ring("mul", FloatWidth::F64)
            }),
            Operator::F64x2Div => self.lanewise(Shape::F64, 2, Shape::F64, |body| {
                body.float_binary("div.rn", FloatWidth::F64)
            }),
            Operator::F64x2Min => self.lanewise(Shape::F64, 2, Shape::F64, |body| {
                body.min_max("min", FloatWidth::F64)
            }),
            Operator::F64x2Max => self.lanewise(Shape::F64, 2, Shape::F64, |body| {
                body.min_max("max", FloatWidth::F64)
            }),
            Operator::F64x2PMin => self.pseudo_extreme(Shape::F64, "lt"),
            Operator::F64x2PMax => self.pseudo_extreme(Shape::F64, "gt"),
            Operator::I32x4TruncSatF32x4S => self.lanewise(Shape::F32, 1, Shape::I32, |body| {
                body.saturate(FloatWidth::F32, IntWidth::I32, Signed)
            }),
            Operator::F32x4ConvertI32x4S => self.lanewise(Shape::I32, 1, Shape::F32, |body| {
                body.convert_to_float(IntWidth::I32, Signed, FloatWidth::F32)
            }),
            Operator::I32x4TruncSatF64x2SZero => self.convert_low(Shape::F64, Shape::I32, |body| {
                body.saturate(FloatWidth::F64, IntWidth::I32, Signed)
            }),
            Operator::F64x2ConvertLowI32x4S => self.convert_low(Shape::I32, Shape::F64, |body| {
                body.convert_to_float(IntWidth::I32, Signed, FloatWidth::F64)
            }),
            Operator::I32x4TruncSatF32x4U => self.lanewise(Shape::F32, 1, Shape::I32, |body| {
                body.saturate(FloatWidth::F32, IntWidth::I32, Unsigned)
            }),
            Operator::F32x4ConvertI32x4U => self.lanewise(Shape::I32, 1, Shape::F32, |body| {
                body.convert_to_float(IntWidth::I32, Unsigned, FloatWidth::F32)
            }),
            Operator::I32x4TruncSatF64x2UZero => self.convert_low(Shape::F64, Shape::I32, |body| {
                body.saturate(FloatWidth::F64, IntWidth::I32, Unsigned)
            }),
            Operator::F64x2ConvertLowI32x4U => self.convert_low(Shape::I32, Shape::F64, |body| {
                body.convert_to_float(IntWidth::I32, Unsigned, FloatWidth::F64)
            }),
            Operator::F32x4DemoteF64x2Zero => {
                self.convert_low(Shape::F64, Shape::F32, |body| body.demote())
            }
            Operator::F64x2PromoteLowF32x4 => {
                self.convert_low(Shape::F32, Shape::F64, |body| body.promote())
            }
            _ => return false,
        }
        true
    }
}
