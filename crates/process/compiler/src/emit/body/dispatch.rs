//! One arm for each operator of WebAssembly 2.0, but for those on vectors, which follow in `simd.rs`, and those of
//! the threads proposal in `threads.rs`. What is missing there is unsupported.

use wasmparser::Operator;

use crate::emit::body::Body;
use crate::error::CompileError;
use crate::facts::features::{is_of_threads, operator_name};
use crate::facts::types::ValueType::{ExternRef, F32, F64, FuncRef, I32, I64};

use super::control::Reach;
use super::kinds::Signedness::{Signed, Unsigned};
use super::kinds::{FloatWidth, IntWidth, Rotation};
use super::memory::access;

impl Body<'_> {
    /// Translates one operator, which has been validated; true if it ends the function.
    pub(crate) fn operator(
        &mut self,
        operator: &Operator<'_>,
        offset: usize,
    ) -> Result<bool, CompileError> {
        self.offset = offset;
        let within_bounds = self.suspends.reach(offset);
        if !within_bounds {
            return Err(
                self.unsupported("a call that may suspend, with too much on the operand stack")
            );
        }
        self.check_limits()?;
        match self.control.reach(operator) {
            Reach::Translate => {}
            Reach::Skip => return Ok(false),
            Reach::Check => return self.check_supported(operator).map(|()| false),
        }
        match operator {
            Operator::End => return Ok(self.end()),
            Operator::Else => self.begin_else(),
            Operator::Nop => {}
            Operator::Unreachable => self.unreachable(),
            Operator::Block { blockty } => self.block(*blockty)?,
            Operator::Loop { blockty } => self.begin_loop(*blockty)?,
            Operator::If { blockty } => self.begin_if(*blockty)?,
            Operator::Br { relative_depth } => self.br(*relative_depth),
            Operator::BrIf { relative_depth } => self.br_if(*relative_depth),
            Operator::BrTable { targets } => self.br_table(targets)?,
            Operator::Return => self.br_return(),
            Operator::Call { function_index } => self.call(*function_index),
            Operator::CallIndirect {
                type_index,
                table_index,
            } => self.call_indirect(*type_index, *table_index),
            Operator::ReturnCall { function_index } => self.return_call(*function_index),
            Operator::ReturnCallIndirect {
                type_index,
                table_index,
            } => self.return_call_indirect(*type_index, *table_index),
            Operator::Drop => self.drop_value(),
            Operator::Select | Operator::TypedSelect { .. } => self.select(),
            Operator::LocalGet { local_index } => self.local_get(*local_index),
            Operator::LocalSet { local_index } => self.local_set(*local_index),
            Operator::LocalTee { local_index } => self.local_tee(*local_index),
            Operator::GlobalGet { global_index } => self.global_get(*global_index),
            Operator::GlobalSet { global_index } => self.global_set(*global_index),
            Operator::RefNull { hty } => {
                let ty = match *hty {
                    wasmparser::HeapType::FUNC => FuncRef,
                    wasmparser::HeapType::EXTERN => ExternRef,
                    other => return Err(self.unsupported(format!("null references to {other:?}"))),
                };
                self.constant(ty, 0);
            }
            Operator::RefIsNull => self.ref_is_null(),
            Operator::RefFunc { function_index } => self.ref_func(*function_index),
            Operator::I32Const { value } => self.constant(I32, u64::from(*value as u32)),
            Operator::I64Const { value } => self.constant(I64, *value as u64),
            Operator::F32Const { value } => self.constant(F32, u64::from(value.bits())),
            Operator::F64Const { value } => self.constant(F64, value.bits()),
            Operator::I32Eqz => self.eqz(IntWidth::I32),
            Operator::I32Eq => self.compare("eq.s32"),
            Operator::I32Ne => self.compare("ne.s32"),
            Operator::I32LtS => self.compare("lt.s32"),
            Operator::I32LtU => self.compare("lt.u32"),
            Operator::I32GtS => self.compare("gt.s32"),
            Operator::I32GtU => self.compare("gt.u32"),
            Operator::I32LeS => self.compare("le.s32"),
            Operator::I32LeU => self.compare("le.u32"),
            Operator::I32GeS => self.compare("ge.s32"),
            Operator::I32GeU => self.compare("ge.u32"),
            Operator::I32Clz => self.count("clz", IntWidth::I32),
            Operator::I32Ctz => self.ctz(IntWidth::I32),
            Operator::I32Popcnt => self.count("popc", IntWidth::I32),
            Operator::I32Add => self.binary("add.s32", I32),
            Operator::I32Sub => self.binary("sub.s32", I32),
            Operator::I32Mul => self.binary("mul.lo.s32", I32),
            Operator::I32And => self.binary("and.b32", I32),
            Operator::I32Or => self.binary("or.b32", I32),
            Operator::I32Xor => self.binary("xor.b32", I32),
            Operator::I32DivS => self.divide(Signed, IntWidth::I32),
            Operator::I32DivU => self.divide(Unsigned, IntWidth::I32),
            Operator::I32RemS => self.remainder(Signed, IntWidth::I32),
            Operator::I32RemU => self.remainder(Unsigned, IntWidth::I32),
            Operator::I32Shl => self.shift("shl.b32", IntWidth::I32),
            Operator::I32ShrS => self.shift("shr.s32", IntWidth::I32),
            Operator::I32ShrU => self.shift("shr.u32", IntWidth::I32),
            Operator::I32Rotl => self.rotate(Rotation::Left, IntWidth::I32),
            Operator::I32Rotr => self.rotate(Rotation::Right, IntWidth::I32),
            Operator::I64Eqz => self.eqz(IntWidth::I64),
            Operator::I64Eq => self.compare("eq.s64"),
            Operator::I64Ne => self.compare("ne.s64"),
            Operator::I64LtS => self.compare("lt.s64"),
            Operator::I64LtU => self.compare("lt.u64"),
            Operator::I64GtS => self.compare("gt.s64"),
            Operator::I64GtU => self.compare("gt.u64"),
            Operator::I64LeS => self.compare("le.s64"),
            Operator::I64LeU => self.compare("le.u64"),
            Operator::I64GeS => self.compare("ge.s64"),
            Operator::I64GeU => self.compare("ge.u64"),
            Operator::I64Clz => self.count("clz", IntWidth::I64),
            Operator::I64Ctz => self.ctz(IntWidth::I64),
            Operator::I64Popcnt => self.count("popc", IntWidth::I64),
            Operator::I64Add => self.binary("add.s64", I64),
            Operator::I64Sub => self.binary("sub.s64", I64),
            Operator::I64Mul => self.binary("mul.lo.s64", I64),
            Operator::I64And => self.binary("and.b64", I64),
            Operator::I64Or => self.binary("or.b64", I64),
            Operator::I64Xor => self.binary("xor.b64", I64),
            Operator::I64DivS => self.divide(Signed, IntWidth::I64),
            Operator::I64DivU => self.divide(Unsigned, IntWidth::I64),
            Operator::I64RemS => self.remainder(Signed, IntWidth::I64),
            Operator::I64RemU => self.remainder(Unsigned, IntWidth::I64),
            Operator::I64Shl => self.shift("shl.b64", IntWidth::I64),
            Operator::I64ShrS => self.shift("shr.s64", IntWidth::I64),
            Operator::I64ShrU => self.shift("shr.u64", IntWidth::I64),
            Operator::I64Rotl => self.rotate(Rotation::Left, IntWidth::I64),
            Operator::I64Rotr => self.rotate(Rotation::Right, IntWidth::I64),
            Operator::F32Eq => self.compare("eq.f32"),
            Operator::F32Ne => self.compare("neu.f32"),
            Operator::F32Lt => self.compare("lt.f32"),
            Operator::F32Gt => self.compare("gt.f32"),
            Operator::F32Le => self.compare("le.f32"),
            Operator::F32Ge => self.compare("ge.f32"),
            Operator::F32Abs => self.float_abs(FloatWidth::F32),
            Operator::F32Neg => self.float_neg(FloatWidth::F32),
            Operator::F32Ceil => self.round("rpi", FloatWidth::F32),
            Operator::F32Floor => self.round("rmi", FloatWidth::F32),
            Operator::F32Trunc => self.round("rzi", FloatWidth::F32),
            Operator::F32Nearest => self.round("rni", FloatWidth::F32),
            Operator::F32Sqrt => self.float_unary("sqrt.rn", FloatWidth::F32),
            Operator::F32Add => self.float_ring("add", FloatWidth::F32),
            Operator::F32Sub => self.float_ring("sub", FloatWidth::F32),
            Operator::F32Mul => self.float_ring("mul", FloatWidth::F32),
            Operator::F32Div => self.float_binary("div.rn", FloatWidth::F32),
            Operator::F32Min => self.min_max("min", FloatWidth::F32),
            Operator::F32Max => self.min_max("max", FloatWidth::F32),
            Operator::F32Copysign => self.copysign(FloatWidth::F32),
            Operator::F64Eq => self.compare("eq.f64"),
            Operator::F64Ne => self.compare("neu.f64"),
            Operator::F64Lt => self.compare("lt.f64"),
            Operator::F64Gt => self.compare("gt.f64"),
            Operator::F64Le => self.compare("le.f64"),
            Operator::F64Ge => self.compare("ge.f64"),
            Operator::F64Abs => self.float_abs(FloatWidth::F64),
            Operator::F64Neg => self.float_neg(FloatWidth::F64),
            Operator::F64Ceil => self.round("rpi", FloatWidth::F64),
            Operator::F64Floor => self.round("rmi", FloatWidth::F64),
            Operator::F64Trunc => self.round("rzi", FloatWidth::F64),
            Operator::F64Nearest => self.round("rni", FloatWidth::F64),
            Operator::F64Sqrt => self.float_unary("sqrt.rn", FloatWidth::F64),
            Operator::F64Add => self.float_ring("add", FloatWidth::F64),
            Operator::F64Sub => self.float_ring("sub", FloatWidth::F64),
            Operator::F64Mul => self.float_ring("mul", FloatWidth::F64),
            Operator::F64Div => self.float_binary("div.rn", FloatWidth::F64),
            Operator::F64Min => self.min_max("min", FloatWidth::F64),
            Operator::F64Max => self.min_max("max", FloatWidth::F64),
            Operator::F64Copysign => self.copysign(FloatWidth::F64),
            Operator::I32WrapI64 => self.unary("cvt.u32.u64", I32),
            Operator::I64ExtendI32S => self.unary("cvt.s64.s32", I64),
            Operator::I64ExtendI32U => self.unary("cvt.u64.u32", I64),
            Operator::I32Extend8S => self.unary("cvt.s32.s8", I32),
            Operator::I32Extend16S => self.unary("cvt.s32.s16", I32),
            Operator::I64Extend8S => self.unary("cvt.s64.s8", I64),
            Operator::I64Extend16S => self.unary("cvt.s64.s16", I64),
            Operator::I64Extend32S => self.unary("cvt.s64.s32", I64),
            Operator::I32TruncF32S => self.truncate(FloatWidth::F32, IntWidth::I32, Signed),
            Operator::I32TruncSatF32S => self.saturate(FloatWidth::F32, IntWidth::I32, Signed),
            Operator::F32ConvertI32S => {
                self.convert_to_float(IntWidth::I32, Signed, FloatWidth::F32)
            }
            Operator::I32TruncF32U => self.truncate(FloatWidth::F32, IntWidth::I32, Unsigned),
            Operator::I32TruncSatF32U => self.saturate(FloatWidth::F32, IntWidth::I32, Unsigned),
            Operator::F32ConvertI32U => {
                self.convert_to_float(IntWidth::I32, Unsigned, FloatWidth::F32)
            }
            Operator::I32TruncF64S => self.truncate(FloatWidth::F64, IntWidth::I32, Signed),
            Operator::I32TruncSatF64S => self.saturate(FloatWidth::F64, IntWidth::I32, Signed),
            Operator::F64ConvertI32S => {
                self.convert_to_float(IntWidth::I32, Signed, FloatWidth::F64)
            }
            Operator::I32TruncF64U => self.truncate(FloatWidth::F64, IntWidth::I32, Unsigned),
            Operator::I32TruncSatF64U => self.saturate(FloatWidth::F64, IntWidth::I32, Unsigned),
            Operator::F64ConvertI32U => {
                self.convert_to_float(IntWidth::I32, Unsigned, FloatWidth::F64)
            }
            Operator::I64TruncF32S => self.truncate(FloatWidth::F32, IntWidth::I64, Signed),
            Operator::I64TruncSatF32S => self.saturate(FloatWidth::F32, IntWidth::I64, Signed),
            Operator::F32ConvertI64S => {
                self.convert_to_float(IntWidth::I64, Signed, FloatWidth::F32)
            }
            Operator::I64TruncF32U => self.truncate(FloatWidth::F32, IntWidth::I64, Unsigned),
            Operator::I64TruncSatF32U => self.saturate(FloatWidth::F32, IntWidth::I64, Unsigned),
            Operator::F32ConvertI64U => {
                self.convert_to_float(IntWidth::I64, Unsigned, FloatWidth::F32)
            }
            Operator::I64TruncF64S => self.truncate(FloatWidth::F64, IntWidth::I64, Signed),
            Operator::I64TruncSatF64S => self.saturate(FloatWidth::F64, IntWidth::I64, Signed),
            Operator::F64ConvertI64S => {
                self.convert_to_float(IntWidth::I64, Signed, FloatWidth::F64)
            }
            Operator::I64TruncF64U => self.truncate(FloatWidth::F64, IntWidth::I64, Unsigned),
            Operator::I64TruncSatF64U => self.saturate(FloatWidth::F64, IntWidth::I64, Unsigned),
            Operator::F64ConvertI64U => {
                self.convert_to_float(IntWidth::I64, Unsigned, FloatWidth::F64)
            }
            Operator::F32DemoteF64 => self.demote(),
            Operator::F64PromoteF32 => self.promote(),
            Operator::I32ReinterpretF32 => self.reinterpret(I32),
            Operator::I64ReinterpretF64 => self.reinterpret(I64),
            Operator::F32ReinterpretI32 => self.reinterpret(F32),
            Operator::F64ReinterpretI64 => self.reinterpret(F64),
            Operator::I32Load { memarg } => self.load(access(I32, 4, Unsigned), memarg),
            Operator::I32Store { memarg } => self.store(access(I32, 4, Unsigned), memarg),
            Operator::I64Load { memarg } => self.load(access(I64, 8, Unsigned), memarg),
            Operator::I64Store { memarg } => self.store(access(I64, 8, Unsigned), memarg),
            Operator::F32Load { memarg } => self.load(access(F32, 4, Unsigned), memarg),
            Operator::F32Store { memarg } => self.store(access(F32, 4, Unsigned), memarg),
            Operator::F64Load { memarg } => self.load(access(F64, 8, Unsigned), memarg),
            Operator::F64Store { memarg } => self.store(access(F64, 8, Unsigned), memarg),
            Operator::I32Load8S { memarg } => self.load(access(I32, 1, Signed), memarg),
            Operator::I32Load8U { memarg } => self.load(access(I32, 1, Unsigned), memarg),
            Operator::I32Store8 { memarg } => self.store(access(I32, 1, Unsigned), memarg),
            Operator::I32Load16S { memarg } => self.load(access(I32, 2, Signed), memarg),
            Operator::I32Load16U { memarg } => self.load(access(I32, 2, Unsigned), memarg),
            Operator::I32Store16 { memarg } => self.store(access(I32, 2, Unsigned), memarg),
            Operator::I64Load8S { memarg } => self.load(access(I64, 1, Signed), memarg),
            Operator::I64Load8U { memarg } => self.load(access(I64, 1, Unsigned), memarg),
            Operator::I64Store8 { memarg } => self.store(access(I64, 1, Unsigned), memarg),
            Operator::I64Load16S { memarg } => self.load(access(I64, 2, Signed), memarg),
            Operator::I64Load16U { memarg } => self.load(access(I64, 2, Unsigned), memarg),
            Operator::I64Store16 { memarg } => self.store(access(I64, 2, Unsigned), memarg),
            Operator::I64Load32S { memarg } => self.load(access(I64, 4, Signed), memarg),
            Operator::I64Load32U { memarg } => self.load(access(I64, 4, Unsigned), memarg),
            Operator::I64Store32 { memarg } => self.store(access(I64, 4, Unsigned), memarg),
            Operator::MemorySize { .. } => self.memory_size(),
            Operator::MemoryGrow { .. } => self.memory_grow(),
            Operator::MemoryFill { .. } => self.memory_fill(),
            Operator::MemoryCopy { .. } => self.memory_copy(),
            Operator::MemoryInit { data_index, .. } => self.memory_init(*data_index),
            Operator::DataDrop { data_index } => {
                self.drop_segment(self.context.layout.data_lengths, *data_index)
            }
            Operator::ElemDrop { elem_index } => {
                self.drop_segment(self.context.layout.element_lengths, *elem_index)
            }
            Operator::TableGet { table } => self.table_get(*table),
            Operator::TableSet { table } => self.table_set(*table),
            Operator::TableSize { table } => self.table_size(*table),
            Operator::TableGrow { table } => self.table_grow(*table),
            Operator::TableFill { table } => self.table_fill(*table),
            Operator::TableCopy {
                dst_table,
                src_table,
            } => self.table_copy(*dst_table, *src_table),
            Operator::TableInit { elem_index, table } => self.table_init(*table, *elem_index),
            other => {
                let known = self.vector_operator(other)
                    || self.context.module.threads && self.thread_operator(other);
                if !known {
                    return Err(
                        self.unsupported(format!("the instruction {}", operator_name(other)))
                    );
                }
            }
        }
        Ok(false)
    }

    /// An instruction that is never reached is left out, but one that is unknown is still refused.
    fn check_supported(&self, operator: &Operator<'_>) -> Result<(), CompileError> {
        if !self.context.module.threads && is_of_threads(operator) {
            return Err(self.unsupported(format!("the instruction {}", operator_name(operator))));
        }
        Ok(())
    }
}
