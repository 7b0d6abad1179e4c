//! The end of a function: what stands before and after its text.

use super::{Body, Value, line};
use crate::compile::{ImportAction, ProvidedImport, Provider};
use crate::{Trap, abi};

impl Body<'_> {
    /// Stores what the function gives, and returns.
    pub(super) fn return_values(&mut self, results: &[Value]) {
        line!(self.text, "  st.param.b64 [ret], %fuel;");
        for (i, Value { ty, reg }) in results.iter().enumerate() {
            let at = 8 + 8 * i;
            line!(self.text, "  st.param.{} [ret+{at}], {reg};", ty.ptx());
        }
        line!(self.text, "  ret;");
    }

    /// Canonical types and tables that the function calls indirectly.
    pub(crate) fn indirect(&self) -> impl Iterator<Item = (u32, u32)> {
        self.indirect.iter().copied()
    }

    /// A function that is imported: it traps, returns or calls who provides it.
    pub(crate) fn import(mut self, action: ImportAction<'_>) -> String {
        match action {
            ImportAction::Ignore => self.return_values(&[]),
            ImportAction::Trap => {
                let label = self.trap_label(Trap::UnlinkedImport);
                line!(self.text, "  bra {label};");
            }
            ImportAction::Call(provided) => self.call_provider(provided),
        }
        self.finish(0)
    }

    fn call_provider(&mut self, provided: &ProvidedImport) {
        let module = self.module;
        for i in 0..self.locals.len() {
            self.local_get(i as u32);
        }
        let ty = module.function_type(self.function);
        if provided.provider == Provider::Device {
            self.emit_call("%inst", ty, &provided.symbol, None);
            line!(self.text, "  @%sp bra $U;");
            self.end();
            return;
        }
        let other = self.fresh(true);
        let at = self.layout.providers + 8 * self.function as usize;
        line!(self.text, "  ld.global.b64 {other}, [%inst+{at}];");
        self.emit_call(&other.to_string(), ty, &provided.symbol, None);
        let failed = self.fresh_label();
        line!(self.text, "  @%sp bra {failed};");
        self.end();
        // The other instance's header says what happened there; here it happened in the import.
        let cold = &mut self.cold;
        line!(cold, "{failed}:");
        line!(cold, "  ld.global.b32 %tc, [{other}+{}];", abi::TRAP);
        line!(cold, "  ld.global.b64 %fuel, [{other}+{}];", abi::FUEL);
        line!(cold, "  mov.b32 %to, 0;");
        line!(cold, "  bra $T;");
    }

    /// The whole function as PTX. Its body begins at `start`, an offset in the module's bytes.
    pub(crate) fn finish(mut self, start: usize) -> String {
        self.offset = start;
        let begin = self.text.len();
        if self.calls {
            // Written last, because only now is it known that the function calls: it then takes part
            // in recursion, so its entry is a safepoint and counts towards the depth.
            self.safepoint();
            let deep = self.trap_label(Trap::StackExhausted);
            line!(self.text, "  setp.eq.s32 %sp, %depth, 0;");
            line!(self.text, "  @%sp bra {deep};");
            line!(self.text, "  add.s32 %depth, %depth, -1;");
        }
        let entry = self.text.split_off(begin);
        let mut out = String::new();
        let name = format!("{}f{}", self.prefix, self.function);
        let ty = self.module.function_type(self.function);
        let params = ty.params.len();
        line!(out, ".func {}\n{{", ty.signature(&name));
        for (count, name, ty) in [
            (self.narrow_regs, "r", "b32"),
            (self.wide_regs, "d", "b64"),
            (self.preds, "p", "pred"),
        ] {
            if count > 0 {
                line!(out, "  .reg .{ty} %{name}<{count}>;");
            }
        }
        line!(out, "  .reg .b64 %inst, %fuel, %mem, %len, %st;");
        line!(out, "  .reg .b32 %depth, %tc, %to;");
        line!(out, "  .reg .pred %sp;");
        line!(out, "  ld.param.b64 %inst, [inst];");
        line!(out, "  ld.param.b64 %fuel, [fuel];");
        line!(out, "  ld.param.b32 %depth, [depth];");
        if self.uses_memory {
            line!(out, "  ld.global.b64 %mem, [%inst+{}];", abi::MEMORY);
            line!(out, "  ld.global.b64 %len, [%inst+{}];", abi::MEMORY_BYTES);
        }
        out.push_str(&entry);
        for (i, Value { ty, reg }) in self.locals.iter().enumerate() {
            if !self.read[i] {
                continue;
            }
            if i < params {
                line!(out, "  ld.param.{} {reg}, [a{i}];", ty.ptx());
            } else {
                line!(out, "  mov.{} {reg}, 0;", reg.bits());
            }
        }
        out.push_str(&self.text);
        out.push_str(&self.cold);
        if self.traps {
            self.write_unwinding(&mut out);
        }
        line!(out, "}}");
        out
    }

    /// Where all traps of the function end: the header says what happened, and a negative fuel tells
    /// every caller to return at once.
    fn write_unwinding(&self, out: &mut String) {
        for kind in &self.kinds {
            line!(out, "$K{kind}:");
            line!(out, "  mov.b32 %tc, {kind};");
            line!(out, "  bra $T;");
        }
        line!(out, "$T:");
        line!(out, "  st.global.b32 [%inst+{}], %tc;", abi::TRAP);
        line!(out, "  mov.b32 %tc, {};", self.function);
        line!(out, "  st.global.b32 [%inst+{}], %tc;", abi::TRAP_FUNCTION);
        line!(out, "  st.global.b32 [%inst+{}], %to;", abi::TRAP_OFFSET);
        line!(out, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
        line!(out, "  mov.b64 %fuel, -1;");
        line!(out, "$U:");
        line!(out, "  st.param.b64 [ret], %fuel;");
        line!(out, "  ret;");
    }
}
