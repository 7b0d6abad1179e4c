//! The end of a function: what stands before and after its text.

use super::{Body, Value, line};
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

    /// A function that nobody provides traps when it is called; one to be ignored returns.
    pub(crate) fn import(mut self, ignored: bool) -> String {
        if ignored {
            self.return_values(&[]);
        } else {
            let label = self.trap_label(Trap::UnlinkedImport);
            line!(self.text, "  bra {label};");
        }
        self.finish(0)
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
