//! One arm for each operator of WebAssembly 2.0, but for those on vectors, which follow in `simd.rs`, and those of
//! the threads proposal in `threads.rs`. What is missing there is unsupported.

use wasmparser::Operator;

use crate::emit::body::Body;
use crate::error::CompileError;
use crate::facts::features::is_of_threads;
use crate::facts::types::ValueType::{ExternRef, F32, F64, FuncRef, I32, I64};

use super::control::Reach;
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
            Operator::I32Eqz => self.eqz(false),
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
            Operator::I32Clz => self.count("clz", false),
            Operator::I32Ctz => self.ctz(false),
            Operator::I32Popcnt => self.count("popc", false),
            Operator::I32Add => self.binary("add.s32", I32),
            Operator::I32Sub => self.binary("sub.s32", I32),
            Operator::I32Mul => self.binary("mul.lo.s32", I32),
            Operator::I32And => self.binary("and.b32", I32),
            Operator::I32Or => self.binary("or.b32", I32),
            Operator::I32Xor => self.binary("xor.b32", I32),
            Operator::I32DivS => self.divide(true, false),
            Operator::I32DivU => self.divide(false, false),
            Operator::I32RemS => self.remainder(true, false),
            Operator::I32RemU => self.remainder(false, false),
            Operator::I32Shl => self.shift("shl.b32", false),
            Operator::I32ShrS => self.shift("shr.s32", false),
            Operator::I32ShrU => self.shift("shr.u32", false),
            Operator::I32Rotl => self.rotate(true, false),
            Operator::I32Rotr => self.rotate(false, false),
            Operator::I64Eqz => self.eqz(true),
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
            Operator::I64Clz => self.count("clz", true),
            Operator::I64Ctz => self.ctz(true),
            Operator::I64Popcnt => self.count("popc", true),
            Operator::I64Add => self.binary("add.s64", I64),
            Operator::I64Sub => self.binary("sub.s64", I64),
            Operator::I64Mul => self.binary("mul.lo.s64", I64),
            Operator::I64And => self.binary("and.b64", I64),
            Operator::I64Or => self.binary("or.b64", I64),
            Operator::I64Xor => self.binary("xor.b64", I64),
            Operator::I64DivS => self.divide(true, true),
            Operator::I64DivU => self.divide(false, true),
            Operator::I64RemS => self.remainder(true, true),
            Operator::I64RemU => self.remainder(false, true),
            Operator::I64Shl => self.shift("shl.b64", true),
            Operator::I64ShrS => self.shift("shr.s64", true),
            Operator::I64ShrU => self.shift("shr.u64", true),
            Operator::I64Rotl => self.rotate(true, true),
            Operator::I64Rotr => self.rotate(false, true),
            Operator::F32Eq => self.compare("eq.f32"),
            Operator::F32Ne => self.compare("neu.f32"),
            Operator::F32Lt => self.compare("lt.f32"),
            Operator::F32Gt => self.compare("gt.f32"),
            Operator::F32Le => self.compare("le.f32"),
            Operator::F32Ge => self.compare("ge.f32"),
            Operator::F32Abs => self.sign("and", false, (1 << 31) - 1),
            Operator::F32Neg => self.sign("xor", false, 1 << 31),
            Operator::F32Ceil => self.round("rpi", false),
            Operator::F32Floor => self.round("rmi", false),
            Operator::F32Trunc => self.round("rzi", false),
            Operator::F32Nearest => self.round("rni", false),
            Operator::F32Sqrt => self.float_unary("sqrt.rn", false),
            Operator::F32Add => self.float_ring("add", false),
            Operator::F32Sub => self.float_ring("sub", false),
            Operator::F32Mul => self.float_ring("mul", false),
            Operator::F32Div => self.float_binary("div.rn", false),
            Operator::F32Min => self.min_max("min", false),
            Operator::F32Max => self.min_max("max", false),
            Operator::F32Copysign => self.copysign(false),
            Operator::F64Eq => self.compare("eq.f64"),
            Operator::F64Ne => self.compare("neu.f64"),
            Operator::F64Lt => self.compare("lt.f64"),
            Operator::F64Gt => self.compare("gt.f64"),
            Operator::F64Le => self.compare("le.f64"),
            Operator::F64Ge => self.compare("ge.f64"),
            Operator::F64Abs => self.sign("and", true, (1 << 63) - 1),
            Operator::F64Neg => self.sign("xor", true, 1 << 63),
            Operator::F64Ceil => self.round("rpi", true),
            Operator::F64Floor => self.round("rmi", true),
            Operator::F64Trunc => self.round("rzi", true),
            Operator::F64Nearest => self.round("rni", true),
            Operator::F64Sqrt => self.float_unary("sqrt.rn", true),
            Operator::F64Add => self.float_ring("add", true),
            Operator::F64Sub => self.float_ring("sub", true),
            Operator::F64Mul => self.float_ring("mul", true),
            Operator::F64Div => self.float_binary("div.rn", true),
            Operator::F64Min => self.min_max("min", true),
            Operator::F64Max => self.min_max("max", true),
            Operator::F64Copysign => self.copysign(true),
            Operator::I32WrapI64 => self.unary("cvt.u32.u64", I32),
            Operator::I64ExtendI32S => self.unary("cvt.s64.s32", I64),
            Operator::I64ExtendI32U => self.unary("cvt.u64.u32", I64),
            Operator::I32Extend8S => self.unary("cvt.s32.s8", I32),
            Operator::I32Extend16S => self.unary("cvt.s32.s16", I32),
            Operator::I64Extend8S => self.unary("cvt.s64.s8", I64),
            Operator::I64Extend16S => self.unary("cvt.s64.s16", I64),
            Operator::I64Extend32S => self.unary("cvt.s64.s32", I64),
            Operator::I32TruncF32S => self.truncate(false, false, true),
            Operator::I32TruncSatF32S => self.saturate(false, false, true),
            Operator::F32ConvertI32S => self.convert_to_float(false, true, false),
            Operator::I32TruncF32U => self.truncate(false, false, false),
            Operator::I32TruncSatF32U => self.saturate(false, false, false),
            Operator::F32ConvertI32U => self.convert_to_float(false, false, false),
            Operator::I32TruncF64S => self.truncate(true, false, true),
            Operator::I32TruncSatF64S => self.saturate(true, false, true),
            Operator::F64ConvertI32S => self.convert_to_float(false, true, true),
            Operator::I32TruncF64U => self.truncate(true, false, false),
            Operator::I32TruncSatF64U => self.saturate(true, false, false),
            Operator::F64ConvertI32U => self.convert_to_float(false, false, true),
            Operator::I64TruncF32S => self.truncate(false, true, true),
            Operator::I64TruncSatF32S => self.saturate(false, true, true),
            Operator::F32ConvertI64S => self.convert_to_float(true, true, false),
            Operator::I64TruncF32U => self.truncate(false, true, false),
            Operator::I64TruncSatF32U => self.saturate(false, true, false),
            Operator::F32ConvertI64U => self.convert_to_float(true, false, false),
            Operator::I64TruncF64S => self.truncate(true, true, true),
            Operator::I64TruncSatF64S => self.saturate(true, true, true),
            Operator::F64ConvertI64S => self.convert_to_float(true, true, true),
            Operator::I64TruncF64U => self.truncate(true, true, false),
            Operator::I64TruncSatF64U => self.saturate(true, true, false),
            Operator::F64ConvertI64U => self.convert_to_float(true, false, true),
            Operator::F32DemoteF64 => self.demote(),
            Operator::F64PromoteF32 => self.promote(),
            Operator::I32ReinterpretF32 => self.reinterpret(I32),
            Operator::I64ReinterpretF64 => self.reinterpret(I64),
            Operator::F32ReinterpretI32 => self.reinterpret(F32),
            Operator::F64ReinterpretI64 => self.reinterpret(F64),
            Operator::I32Load { memarg } => self.load(access(I32, 4, false), memarg),
            Operator::I32Store { memarg } => self.store(access(I32, 4, false), memarg),
            Operator::I64Load { memarg } => self.load(access(I64, 8, false), memarg),
            Operator::I64Store { memarg } => self.store(access(I64, 8, false), memarg),
            Operator::F32Load { memarg } => self.load(access(F32, 4, false), memarg),
            Operator::F32Store { memarg } => self.store(access(F32, 4, false), memarg),
            Operator::F64Load { memarg } => self.load(access(F64, 8, false), memarg),
            Operator::F64Store { memarg } => self.store(access(F64, 8, false), memarg),
            Operator::I32Load8S { memarg } => self.load(access(I32, 1, true), memarg),
            Operator::I32Load8U { memarg } => self.load(access(I32, 1, false), memarg),
            Operator::I32Store8 { memarg } => self.store(access(I32, 1, false), memarg),
            Operator::I32Load16S { memarg } => self.load(access(I32, 2, true), memarg),
            Operator::I32Load16U { memarg } => self.load(access(I32, 2, false), memarg),
            Operator::I32Store16 { memarg } => self.store(access(I32, 2, false), memarg),
            Operator::I64Load8S { memarg } => self.load(access(I64, 1, true), memarg),
            Operator::I64Load8U { memarg } => self.load(access(I64, 1, false), memarg),
            Operator::I64Store8 { memarg } => self.store(access(I64, 1, false), memarg),
            Operator::I64Load16S { memarg } => self.load(access(I64, 2, true), memarg),
            Operator::I64Load16U { memarg } => self.load(access(I64, 2, false), memarg),
            Operator::I64Store16 { memarg } => self.store(access(I64, 2, false), memarg),
            Operator::I64Load32S { memarg } => self.load(access(I64, 4, true), memarg),
            Operator::I64Load32U { memarg } => self.load(access(I64, 4, false), memarg),
            Operator::I64Store32 { memarg } => self.store(access(I64, 4, false), memarg),
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
                    return Err(self.unsupported(format!("the instruction {other:?}")));
                }
            }
        }
        Ok(false)
    }

    /// An instruction that is never reached is left out, but one that is unknown is still refused.
    fn check_supported(&self, operator: &Operator<'_>) -> Result<(), CompileError> {
        if !self.context.module.threads && is_of_threads(operator) {
            return Err(self.unsupported(format!("the instruction {operator:?}")));
        }
        Ok(())
    }
}
