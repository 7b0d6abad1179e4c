//! The end of a function's translation: the text before and after its code.

use everwarp_contract::TrapKind;

use crate::emit::body::{Body, Scratch, Value};
use crate::emit::carried;
use crate::emit::trampoline::code_name;
use crate::facts::abi;
use crate::facts::abi::CallState;
use crate::facts::options::{ImportAction, ProvidedImport, Provider};
use crate::facts::types::{Convention, FunctionType, parts, placed};
use crate::text::{Reg, line};

use super::missing;
use super::suspend::note;

/// The text of functions.
#[derive(Default)]
pub(crate) struct Texts {
    /// What the image has: functions, and what stands for those that it is not to have.
    pub(crate) code: String,
    /// The functions that the image is not to have.
    pub(crate) left_out: String,
}

/// A function that was written.
pub(crate) struct Finished {
    /// The most that it saves when it is suspended.
    pub(crate) frame: usize,
    /// The image is not to have it: what stands for it suspends its caller.
    pub(crate) missing: bool,
    /// Buffers for the next function.
    pub(crate) scratch: Scratch,
}

impl Body<'_> {
    /// Stores the function's results, and returns.
    pub(super) fn return_values(&mut self, results: &[Value]) {
        line!(self.text, "  st.param.b64 [ret], %fuel;");
        if self.context.module.convention.global.is_some() {
            let at = self
                .context
                .module
                .function_type(self.function)
                .carried_at();
            line!(self.text, "  st.param.b32 [ret+{at}], %carry;");
        }
        let types: Vec<_> = results.iter().map(|value| value.ty).collect();
        for (Value { reg, .. }, (ty, at)) in results.iter().zip(placed(&types)) {
            line!(
                self.text,
                "  st.param.{} [ret+{}], {reg};",
                ty.ptx(),
                8 + at
            );
        }
        line!(self.text, "  ret;");
    }

    /// Canonical types and tables that the function calls indirectly.
    pub(crate) fn indirect(&self) -> impl Iterator<Item = (u32, u32)> {
        self.needs.indirect.iter().copied()
    }

    /// A function that is imported: it traps, returns or calls the provided code.
    pub(crate) fn import(mut self, action: ImportAction<'_>) -> (String, usize) {
        match action {
            ImportAction::Ignore => self.return_values(&[]),
            ImportAction::Trap => {
                let label = self.trap_label(TrapKind::UnlinkedImport);
                line!(self.text, "  bra {label};");
            }
            ImportAction::Call(provided) => self.call_provider(provided),
        }
        let mut texts = Texts::default();
        let frame = self.finish(0, &mut texts).frame;
        (texts.code, frame)
    }

    fn call_provider(&mut self, provided: &ProvidedImport) {
        let module = self.context.module;
        for i in 0..self.locals.parts.len() {
            self.local_get(i as u32);
        }
        let ty = module.function_type(self.function);
        // Code outside the module reads the global from the block.
        let (kept, found) = (carried::keep(self.context), carried::find(self.context));
        self.text.push_str(&kept);
        if provided.provider == Provider::Device {
            // It checks its accesses by the header.
            self.refresh_memory();
            if provided.suspends {
                self.call_device(ty, &provided.symbol);
            } else {
                line!(self.text, "  add.s64 %fuel, %fuel, 1;");
                self.emit_call_as(
                    "%inst",
                    ty,
                    (&provided.symbol, Convention::PLAIN),
                    None,
                    false,
                );
                line!(self.text, "  @%sp bra $U;");
                line!(self.text, "  add.s64 %fuel, %fuel, -1;");
            }
            self.text.push_str(&found);
            self.end();
            return;
        }
        let other = self.fresh(true);
        let at = self.context.layout.providers + 8 * self.function as usize;
        line!(self.text, "  ld.global.b64 {other}, [%inst+{at}];");
        if provided.suspends {
            // Nothing is suspended while code runs; but what an earlier call left when it was given up
            // is still there.
            line!(
                self.text,
                "  ld.global.b64 %st, [{other}+{}];",
                abi::SAVE_BASE
            );
            line!(
                self.text,
                "  st.global.b64 [{other}+{}], %st;",
                abi::SAVE_TOP
            );
        }
        let instance = other.to_string();
        let target = (provided.symbol.as_str(), Convention::PLAIN);
        let site = self.emit_call_as(&instance, ty, target, None, provided.suspends);
        let failed = self.fresh_label();
        line!(self.text, "  @%sp bra {failed};");
        self.text.push_str(&found);
        self.end();
        line!(self.cold, "{failed}:");
        if let Some(site) = site {
            self.write_if_suspended(site);
            let (before, after) = self.through(other, at);
            self.around(site, before, after);
        }
        // The other instance's header says what happened there; here it happened in the import.
        let cold = &mut self.cold;
        line!(cold, "  ld.global.b32 %tc, [{other}+{}];", abi::TRAP);
        line!(cold, "  ld.global.b64 %fuel, [{other}+{}];", abi::FUEL);
        line!(cold, "  add.s64 %fuel, %fuel, -1;");
        line!(cold, "  mov.b32 %to, 0;");
        line!(cold, "  bra $T;");
    }

    /// Calls device code that may suspend. It is called again with the same arguments, and with the fuel
    /// that is left, which is one more than compiled functions pass on.
    fn call_device(&mut self, ty: &FunctionType, symbol: &str) {
        let kept = self.fresh(true);
        line!(self.text, "  add.s64 %fuel, %fuel, 1;");
        line!(self.text, "  mov.b64 {kept}, %fuel;");
        let site = self.emit_call_as("%inst", ty, (symbol, Convention::PLAIN), None, true);
        let site = site.expect("a call that may suspend has a site");
        let failed = self.fresh_label();
        line!(self.text, "  @%sp bra {failed};");
        line!(self.text, "  add.s64 %fuel, %fuel, -1;");
        line!(self.cold, "{failed}:");
        self.write_if_suspended(site);
        line!(self.cold, "  bra $U;");
        let (mut before, mut after) = (note(CallState::Waiting), String::new());
        line!(before, "  st.global.b64 [%inst+{}], {kept};", abi::FUEL);
        line!(after, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        line!(after, "  mov.b64 {kept}, %fuel;");
        self.around(site, before, after);
    }

    /// What to do when another instance's function suspends this one, and is resumed: the other header
    /// says why, and each gets the fuel from where it is. The other's address is at `at`.
    fn through(&self, other: Reg, at: usize) -> (String, String) {
        let (mut before, mut after) = (String::new(), String::new());
        let (fuel, state) = (abi::FUEL, abi::STATE);
        line!(before, "  ld.global.b64 %st, [{other}+{fuel}];");
        line!(before, "  st.global.b64 [%inst+{fuel}], %st;");
        line!(before, "  ld.global.b32 %tc, [{other}+{state}];");
        line!(before, "  st.global.b32 [%inst+{state}], %tc;");
        line!(before, "  st.global.b32 [{other}+{state}], 0;");
        line!(after, "  ld.global.b64 {other}, [%inst+{at}];");
        line!(after, "  ld.global.b64 %st, [%inst+{fuel}];");
        line!(after, "  st.global.b64 [{other}+{fuel}], %st;");
        (before, after)
    }

    /// Appends the whole function as PTX; if the image is not to have it, also what stands for it. Its body begins at `start`, an
    /// offset in the module's bytes; an imported function has none.
    pub(crate) fn finish(mut self, start: usize, texts: &mut Texts) -> Finished {
        self.offset = start;
        let begin = self.text.len();
        if self.needs.calls {
            // Written last, because only now is it known that the function calls: it then takes part
            // in recursion, so its entry is a safepoint and counts towards the depth.
            self.entry_safepoint();
            if self.preempted() {
                self.at_entry();
            }
            let deep = match self.context.deep {
                Some(_) => self.write_when_full(start),
                None => self.trap_label(TrapKind::StackExhausted),
            };
            line!(self.text, "  setp.eq.s32 %sp, %depth, 0;");
            line!(self.text, "  @%sp bra {deep};");
            line!(self.text, "  add.s32 %depth, %depth, -1;");
        }
        let entry = self.text.split_off(begin);
        let preempted = self.preempted();
        let kept = self.kept_locals();
        let may_be_missing = start > 0 && self.may_be_missing();
        let (sites, mut frame) = self.write_sites(start, self.needs.calls, &kept);
        if may_be_missing {
            frame = frame.max(missing::frame_bytes(self.context, self.function));
        }
        let is_missing = may_be_missing && self.is_missing();
        let out = if is_missing {
            missing::write(&mut texts.code, self.context, self.function, start);
            &mut texts.left_out
        } else {
            &mut texts.code
        };
        let name = if self.context.tails.calls(self.function) {
            code_name(self.context.prefix, self.function)
        } else {
            format!("{}f{}", self.context.prefix, self.function)
        };
        let module = self.context.module;
        let ty = module.function_type(self.function);
        let params = parts(&ty.params).len();
        let convention = module.convention;
        line!(out, ".func {}\n{{", ty.signature(&name, convention));
        for (count, name, ty) in [
            (self.registers.narrow, "r", "b32"),
            (self.registers.wide, "d", "b64"),
            (self.registers.preds, "p", "pred"),
        ] {
            if count > 0 {
                line!(out, "  .reg .{ty} %{name}<{count}>;");
            }
        }
        line!(out, "  .reg .b64 %inst, %fuel, %mem, %len, %st;");
        if self.fuel.stops {
            line!(out, "  .reg .b32 %fl, %fh, %ft, %lim;");
        }
        if self.fuel.stops && preempted {
            line!(out, "  .reg .b32 %tk;");
            line!(out, "  .reg .pred %sq;");
        }
        if !self.loops.all.is_empty() {
            line!(out, "  .reg .b64 %out;");
        }
        if !sites.is_empty() {
            line!(out, "  .reg .b64 %sv, %sn;");
        }
        line!(out, "  .reg .b32 %depth, %tc, %to, %low;");
        line!(out, "  .reg .pred %sp;");
        line!(out, "  ld.param.b64 %inst, [inst];");
        line!(out, "  ld.param.b64 %fuel, [fuel];");
        line!(out, "  ld.param.b32 %depth, [depth];");
        if convention.global.is_some() {
            line!(out, "  .reg .b32 %carry;");
            line!(out, "  ld.param.b32 %carry, [carry];");
        }
        if convention.memory {
            line!(out, "  ld.param.b64 %mem, [mem];");
        } else if self.needs.memory {
            line!(out, "  ld.global.b64 %mem, [%inst+{}];", abi::MEMORY);
        }
        if self.needs.memory {
            match module.fixed_memory {
                Some(bytes) => line!(out, "  mov.b64 %len, {bytes};"),
                None => line!(out, "  ld.global.b64 %len, [%inst+{}];", abi::MEMORY_BYTES),
            }
            line!(out, "  cvt.u32.u64 %low, %len;");
        }
        if !sites.is_empty() {
            line!(out, "  setp.lt.s64 %sp, %fuel, 0;");
            line!(out, "  @%sp bra $R;");
        }
        // A function that is preempted at its entry saves its parameters as it saves all locals.
        if !preempted {
            out.push_str(&entry);
        }
        for (i, Value { ty, reg }) in self.locals.values.iter().enumerate() {
            if !kept[i] {
                continue;
            }
            if i < params {
                line!(out, "  ld.param.{} {reg}, [a{i}];", ty.ptx());
            } else {
                line!(out, "  mov.{} {reg}, 0;", reg.bits());
            }
        }
        if may_be_missing {
            line!(out, "{}:", missing::BEGIN);
        }
        if preempted {
            out.push_str(&entry);
        }
        out.push_str(&self.text);
        out.push_str(&self.cold);
        out.push_str(&sites);
        if self.needs.traps {
            self.write_unwinding(out);
        }
        line!(out, "}}");
        Finished {
            frame,
            missing: is_missing,
            scratch: self.into_scratch(),
        }
    }

    /// Where all traps of the function end: the header says what happened, and a negative fuel tells
    /// every caller to return at once.
    fn write_unwinding(&self, out: &mut String) {
        for kind in &self.needs.kinds {
            line!(out, "$K{kind}:");
            line!(out, "  mov.b32 %tc, {kind};");
            line!(out, "  bra $T;");
        }
        line!(out, "$T:");
        line!(out, "  add.s64 %fuel, %fuel, 1;");
        // A look at the fuel branches here before it has taken its unit.
        line!(out, "$S:");
        line!(out, "  st.global.b32 [%inst+{}], %tc;", abi::TRAP);
        line!(out, "  mov.b32 %tc, {};", self.function);
        line!(out, "  st.global.b32 [%inst+{}], %tc;", abi::TRAP_FUNCTION);
        line!(out, "  st.global.b32 [%inst+{}], %to;", abi::TRAP_OFFSET);
        line!(out, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
        out.push_str(&carried::keep(self.context));
        line!(out, "  mov.b64 %fuel, -1;");
        line!(out, "$U:");
        line!(out, "  st.param.b64 [ret], %fuel;");
        line!(out, "  ret;");
    }
}
