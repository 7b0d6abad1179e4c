//! Calls: direct, through tables, and of the helpers that every image carries.

use everwarp_contract::TrapKind;

use crate::emit::body::{Body, Place};
use crate::emit::indirect;
use crate::emit::signature::write_head_arguments;
use crate::facts::abi;
use crate::facts::types::{Convention, FunctionType, ValueType, parts, placed};
use crate::text::{Operand, Reg, line};

use super::suspend::SiteId;

impl Body<'_> {
    pub(super) fn call(&mut self, function: u32) {
        let module = self.context.module;
        let target = format!("{}f{function}", self.context.prefix);
        let suspends = self.may_suspend(function);
        let ty = module.function_type(function);
        match self.emit_call(ty, &target, None, suspends) {
            None => line!(self.text, "  @%sp bra $U;"),
            Some(site) => {
                let failed = self.fresh_label();
                line!(self.text, "  @%sp bra {failed};");
                self.write_not_returned(failed, site);
            }
        }
        self.has_called();
    }

    pub(super) fn call_indirect(&mut self, ty: u32, table: u32) {
        let module = self.context.module;
        let index = self.pop();
        let canonical = module.canonical[ty as usize];
        self.needs.indirect.insert((canonical, table));
        let target = indirect::name(self.context.prefix, canonical, table);
        let suspends = self
            .context
            .suspending
            .is_some_and(|s| s.indirect(canonical));
        let ty = &module.types[ty as usize];
        let site = self.emit_call(ty, &target, Some(index), suspends);
        let failed = self.fresh_label();
        line!(self.text, "  @%sp bra {failed};");
        self.has_called();

        // -1: the callee has trapped; -2: it is suspended. Less: nothing could be called, and this is where.
        line!(self.cold, "{failed}:");
        if let Some(site) = site {
            self.write_if_call_suspended(site);
        }
        let cold = &mut self.cold;
        line!(cold, "  setp.eq.s64 %sp, %fuel, -1;");
        line!(cold, "  @%sp bra $U;");
        line!(cold, "  cvt.u32.u64 %tc, %fuel;");
        line!(cold, "  sub.s32 %tc, -1, %tc;");
        line!(cold, "  mov.b32 %to, {};", self.offset);
        line!(cold, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        line!(cold, "  bra $T;");
    }

    /// Calls a function of this module, with the index of a table's element after the arguments if it is
    /// given. Then `%sp` holds if it did not return. Returns the site of the call if it may suspend.
    pub(super) fn emit_call(
        &mut self,
        ty: &FunctionType,
        target: &str,
        index: Option<Reg>,
        suspends: bool,
    ) -> Option<SiteId> {
        let convention = self.context.module.convention;
        self.emit_call_as("%inst", ty, (target, convention), index, suspends)
    }

    /// The same for a function of this module or of another one, with the instance that it works on and its convention.
    pub(super) fn emit_call_as(
        &mut self,
        instance: &str,
        ty: &FunctionType,
        (target, convention): (&str, Convention),
        index: Option<Reg>,
        suspends: bool,
    ) -> Option<SiteId> {
        self.needs.calls = true;
        self.needs.traps = true;
        self.lanes_part();
        let base = self.stack.len() - parts(&ty.params).len();
        let mut args = Vec::new();
        for i in base..self.stack.len() {
            let entry = self.stack[i];
            args.push((entry.ty.ptx(), self.operand(entry)));
        }
        self.stack.truncate(base);
        args.extend(index.map(|i| ("b32", Operand::Reg(i))));
        let site = suspends.then(|| self.add_call_site(args.iter().map(|(_, arg)| arg)));
        let text = &mut self.text;
        line!(text, "  {{");
        let mut list = String::from(write_head_arguments(text, instance, convention));
        for (i, (ty, arg)) in args.iter().enumerate() {
            line!(text, "  .param .{ty} c{i};");
            line!(text, "  st.param.{ty} [c{i}], {arg};");
            list.push_str(&format!(", c{i}"));
        }
        let bytes = ty.return_bytes(convention);
        line!(text, "  .param .align 8 .b8 cr[{bytes}];");
        line!(text, "  call (cr), {target}, ({list});");
        line!(text, "  ld.param.b64 %fuel, [cr];");
        if convention.global.is_some() {
            line!(text, "  ld.param.b32 %carry, [cr+{}];", ty.carried_at());
        }
        for (part, at) in placed(&parts(&ty.results)) {
            let (reg, at) = (self.push(part), 8 + at);
            line!(self.text, "  ld.param.{} {reg}, [cr+{at}];", part.ptx());
        }
        line!(self.text, "  }}");
        line!(self.text, "  setp.lt.s64 %sp, %fuel, 0;");
        site
    }

    /// Calls a helper of the image that returns one 32-bit value.
    pub(super) fn call_helper(&mut self, name: &str, args: &[Reg]) -> Reg {
        self.lanes_part();
        let result = self.fresh(false);
        let prefix = self.context.prefix;
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

    /// Calls a helper that returns 0, or another number if it failed.
    pub(super) fn call_checked(&mut self, name: &str, args: &[Reg], trap: TrapKind) {
        let failed = self.call_helper(name, args);
        let pred = self.fresh_pred();
        line!(self.text, "  setp.ne.s32 {pred}, {failed}, 0;");
        self.trap_if(pred, true, trap);
    }

    pub(super) fn ref_func(&mut self, function: u32) {
        let reference = self
            .context
            .referenced
            .reference(self.context.module, function);
        self.push_place(ValueType::FuncRef, Place::Constant(reference));
    }

    pub(super) fn ref_is_null(&mut self) {
        let reg = self.pop();
        let pred = self.fresh_pred();
        line!(self.text, "  setp.eq.s64 {pred}, {reg}, 0;");
        self.push_test(pred);
    }

    /// Computes again the values that a callee may have changed.
    fn has_called(&mut self) {
        self.reload_memory();
        if !self.loops.open.is_empty() {
            self.loops_call();
            self.find_limit();
        }
    }

    /// Reads the memory's length again, after what may have raised it.
    pub(super) fn reload_memory(&mut self) {
        if self.context.module.memory.is_some() && self.context.module.fixed_memory.is_none() {
            let at = abi::MEMORY_BYTES;
            line!(self.text, "  ld.global.b64 %len, [%inst+{at}];");
            line!(self.text, "  cvt.u32.u64 %low, %len;");
        }
    }
}
