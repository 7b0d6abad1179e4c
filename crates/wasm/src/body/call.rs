//! Calls: direct, through tables, and of the helpers that every image carries.

use super::{Body, Reg, Value, line};
use crate::{FunctionType, Trap, ValueType, abi};

impl Body<'_> {
    pub(super) fn call(&mut self, function: u32) {
        let module = self.module;
        let target = format!("{}f{function}", self.prefix);
        self.emit_call(module.function_type(function), &target, "");
    }

    pub(super) fn call_indirect(&mut self, ty: u32, table: u32) {
        let index = self.pop();
        let reference = self.load_element(table, index, Trap::UndefinedElement);
        let null = self.fresh_pred();
        line!(self.text, "  setp.eq.s64 {null}, {reference}, 0;");
        self.trap_if(null, true, Trap::UninitializedElement);

        let module = self.module;
        let (high, kind, other) = (self.fresh(true), self.fresh(false), self.fresh_pred());
        let expected = module.canonical[ty as usize];
        line!(self.text, "  shr.u64 {high}, {reference}, 32;");
        line!(self.text, "  cvt.u32.u64 {kind}, {high};");
        line!(self.text, "  setp.ne.s32 {other}, {kind}, {expected};");
        self.trap_if(other, true, Trap::IndirectCallTypeMismatch);

        let (low, base, at, code) = (
            self.fresh(false),
            self.fresh(true),
            self.fresh(true),
            self.fresh(true),
        );
        let prefix = self.prefix;
        line!(self.text, "  cvt.u32.u64 {low}, {reference};");
        line!(self.text, "  mul.wide.u32 {at}, {low}, 8;");
        line!(self.text, "  mov.u64 {base}, {prefix}functions;");
        line!(self.text, "  add.s64 {at}, {base}, {at};");
        // A reference holds the index plus one.
        line!(self.text, "  ld.global.b64 {code}, [{at}+-8];");
        let prototype = self.fresh_label();
        let ty = &module.types[ty as usize];
        line!(
            self.text,
            "{prototype}: .callprototype {};",
            ty.signature("_", true)
        );
        self.emit_call(ty, &code.to_string(), &format!(", {prototype}"));
    }

    fn emit_call(&mut self, ty: &FunctionType, target: &str, suffix: &str) {
        self.calls = true;
        self.traps = true;
        let base = self.stack.len() - ty.params.len();
        let args: Vec<Value> = self.stack.drain(base..).collect();
        let text = &mut self.text;
        line!(text, "  {{");
        line!(text, "  .param .b64 ci;");
        line!(text, "  .param .b64 cf;");
        line!(text, "  .param .b32 cd;");
        line!(text, "  st.param.b64 [ci], %inst;");
        line!(text, "  st.param.b64 [cf], %fuel;");
        line!(text, "  st.param.b32 [cd], %depth;");
        let mut list = String::from("ci, cf, cd");
        for (i, Value { ty, reg }) in args.iter().enumerate() {
            line!(text, "  .param .{} c{i};", ty.ptx());
            line!(text, "  st.param.{} [c{i}], {reg};", ty.ptx());
            list.push_str(&format!(", c{i}"));
        }
        line!(text, "  .param .align 8 .b8 cr[{}];", ty.return_bytes());
        line!(text, "  call (cr), {target}, ({list}){suffix};");
        line!(text, "  ld.param.b64 %fuel, [cr];");
        for (i, &result) in ty.results.iter().enumerate() {
            let reg = self.push(result);
            let at = 8 + 8 * i;
            line!(self.text, "  ld.param.{} {reg}, [cr+{at}];", result.ptx());
        }
        line!(self.text, "  }}");
        line!(self.text, "  setp.lt.s64 %sp, %fuel, 0;");
        line!(self.text, "  @%sp bra $U;");
        self.reload_memory();
    }

    /// Calls a helper of the image that gives one 32-bit value.
    pub(super) fn call_helper(&mut self, name: &str, args: &[Reg]) -> Reg {
        let result = self.fresh(false);
        let prefix = self.prefix;
        let text = &mut self.text;
        line!(text, "  {{");
        let mut list = Vec::new();
        for (i, reg) in args.iter().enumerate() {
            line!(text, "  .param .{} c{i};", reg.bits());
            line!(text, "  st.param.{} [c{i}], {reg};", reg.bits());
            list.push(format!("c{i}"));
        }
        line!(text, "  .param .b32 cr;");
        line!(text, "  call (cr), {prefix}{name}, ({});", list.join(", "));
        line!(text, "  ld.param.b32 {result}, [cr];");
        line!(text, "  }}");
        result
    }

    /// Calls a helper that gives 0, or another number if it could not do its work.
    pub(super) fn call_checked(&mut self, name: &str, args: &[Reg], trap: Trap) {
        let failed = self.call_helper(name, args);
        let pred = self.fresh_pred();
        line!(self.text, "  setp.ne.s32 {pred}, {failed}, 0;");
        self.trap_if(pred, true, trap);
    }

    pub(super) fn ref_func(&mut self, function: u32) {
        let reference = self.module.reference(function);
        let reg = self.push(ValueType::FuncRef);
        line!(self.text, "  mov.b64 {reg}, {reference:#x};");
    }

    pub(super) fn ref_is_null(&mut self) {
        let reg = self.pop();
        let pred = self.fresh_pred();
        line!(self.text, "  setp.eq.s64 {pred}, {reg}, 0;");
        self.push_test(pred);
    }

    /// Reads the memory's length again, after what may have raised it.
    pub(super) fn reload_memory(&mut self) {
        if self.module.memory.is_some() {
            let at = abi::MEMORY_BYTES;
            line!(self.text, "  ld.global.b64 %len, [%inst+{at}];");
        }
    }
}
