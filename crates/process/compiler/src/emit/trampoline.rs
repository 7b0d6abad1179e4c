//! Tail calls, in constant stack.
//!
//! PTX can call, but not jump into another function. So a function that makes a tail call stores the arguments and the
//! callee's number in the instance's block and returns to a *trampoline*. The trampoline calls the function that it
//! finds there, until one returns for good. The code of such a function is `t{n}`, and only trampolines call it. All
//! other code calls `f{n}`, which stores its own arguments there and calls the trampoline. There is one trampoline for
//! each list of results, because a tail call has the results of its caller.
//!
//! Why not one PTX function with a loop over all functions that tail call each other? ptxas would give it the registers
//! of all of them together, and would take minutes for an interpreter of a few hundred such functions.
//!
//! A trampoline that is suspended saves which function it has called; the area with the arguments is empty between two
//! calls.

use everwarp_contract::TrapKind;

use crate::context::Context;
use crate::emit::signature::write_head_arguments;
use crate::emit::switch;
use crate::facts::abi;
use crate::facts::module::Module;
use crate::facts::suspending::{INDIRECT_FRAME, Suspending};
use crate::facts::tails::{ARGUMENTS, Tails, Trampoline};
use crate::facts::types::{Convention, ValueType, parts, placed, slot_bytes};
use crate::text::line;

impl Tails {
    /// Declares the code of the functions that tail call, and the trampolines.
    pub(crate) fn declarations(&self, module: &Module, prefix: &str) -> String {
        let mut out = String::new();
        for &f in &self.callers {
            let head = module
                .function_type(f)
                .signature(&code_name(prefix, f), Convention::PLAIN);
            line!(out, ".func {head};");
        }
        for (i, trampoline) in self.trampolines.iter().enumerate() {
            line!(out, ".func {};", trampoline.head(prefix, i));
        }
        out
    }

    /// `f{n}` of each function that tail calls, and the trampolines.
    pub(crate) fn functions(&self, context: Context<'_>) -> String {
        let mut out = String::new();
        for &f in &self.callers {
            self.write_wrapper(&mut out, context, f);
        }
        for i in 0..self.trampolines.len() {
            self.write_trampoline(&mut out, context, i);
        }
        out
    }

    fn write_wrapper(&self, out: &mut String, context: Context<'_>, function: u32) {
        let Context { module, prefix, .. } = context;
        let ty = module.function_type(function);
        let name = format!("{prefix}f{function}");
        let trampoline = self.of(module, function);
        let number = self.trampolines[trampoline].direct[&function];
        let area = context.layout.tail;
        line!(out, ".func {}\n{{", ty.signature(&name, Convention::PLAIN));
        let head = "  .reg .b64 %inst, %fuel, %d;
  .reg .b32 %depth, %r;
  .reg .pred %p;
  ld.param.b64 %inst, [inst];
  ld.param.b64 %fuel, [fuel];
  ld.param.b32 %depth, [depth];";
        line!(out, "{head}");
        if context.suspending.is_some() {
            line!(out, "  setp.lt.s64 %p, %fuel, 0;");
            line!(out, "  @%p bra $resumed;");
        }
        line!(out, "  mov.b32 %r, {number};");
        line!(out, "  st.global.b32 [%inst+{area}], %r;");
        for (i, (part, at)) in placed(&parts(&ty.params)).enumerate() {
            let (size, at) = (part.ptx(), area + ARGUMENTS + at);
            let reg = register(part);
            line!(out, "  ld.param.{size} {reg}, [a{i}];");
            line!(out, "  st.global.{size} [%inst+{at}], {reg};");
        }
        if context.suspending.is_some() {
            line!(out, "$resumed:");
        }
        line!(out, "  {{");
        let head = write_head_arguments(out, "%inst", Convention::PLAIN);
        let bytes = ty.return_bytes(Convention::PLAIN);
        line!(out, "  .param .align 8 .b8 cr[{bytes}];");
        line!(out, "  call (cr), {prefix}tail{trampoline}, ({head});");
        line!(out, "  ld.param.b64 %fuel, [cr];");
        write_results(out, &ty.results);
        line!(out, "  }}\n}}");
    }

    fn write_trampoline(&self, out: &mut String, context: Context<'_>, place: usize) {
        let Context { module, prefix, .. } = context;
        let this = &self.trampolines[place];
        let area = context.layout.tail;
        line!(out, ".func {}\n{{", this.head(prefix, place));
        let head = "  .reg .b64 %inst, %fuel, %d, %top, %end;
  .reg .b32 %depth, %r, %next, %function;
  .reg .pred %p;
  ld.param.b64 %inst, [inst];
  ld.param.b64 %fuel, [fuel];
  ld.param.b32 %depth, [depth];";
        line!(out, "{head}");
        if context.suspending.is_some() {
            line!(out, "  setp.lt.s64 %p, %fuel, 0;");
            line!(out, "  @%p bra $resume;");
        }
        line!(out, "$again:");
        line!(out, "  ld.global.b32 %next, [%inst+{area}];");
        if context.suspending.is_some() {
            line!(out, "$chosen:");
        }
        write_switch(out, this.targets.len(), context.tables);
        for (number, &f) in this.targets.iter().enumerate() {
            line!(out, "$F{number}:");
            let ty = module.function_type(f);
            line!(out, "  {{");
            let mut list = String::from(write_head_arguments(out, "%inst", Convention::PLAIN));
            for (i, (part, at)) in placed(&parts(&ty.params)).enumerate() {
                let (size, reg, at) = (part.ptx(), register(part), area + ARGUMENTS + at);
                line!(out, "  .param .{size} c{i};");
                line!(out, "  ld.global.{size} {reg}, [%inst+{at}];");
                line!(out, "  st.param.{size} [c{i}], {reg};");
                list.push_str(&format!(", c{i}"));
            }
            line!(
                out,
                "  .param .align 8 .b8 cr[{}];",
                ty.return_bytes(Convention::PLAIN)
            );
            let target = if self.calls(f) {
                code_name(prefix, f)
            } else {
                format!("{prefix}f{f}")
            };
            line!(out, "  call (cr), {target}, ({list});");
            line!(out, "  ld.param.b64 %fuel, [cr];");
            if self.calls(f) {
                line!(out, "  setp.eq.s64 %p, %fuel, {};", abi::TAIL_CALL);
                line!(out, "  @%p bra $next;");
            }
            if context.suspending.is_some_and(|s| s.function(f)) {
                line!(out, "  mov.b32 %function, {f};");
                line!(out, "  setp.eq.s64 %p, %fuel, {};", abi::SUSPENDED);
                line!(out, "  @%p bra $suspend;");
            }
            write_results(out, &ty.results);
            line!(out, "  }}");
        }
        line!(out, "$next:");
        line!(out, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        line!(out, "  bra $again;");
        if let Some(suspending) = context.suspending {
            this.write_suspension(out, suspending);
        }
        line!(out, "}}");
    }
}

impl Trampoline {
    fn head(&self, prefix: &str, place: usize) -> String {
        let bytes = 8 + slot_bytes(&self.results);
        format!(
            "(.param .align 8 .b8 ret[{bytes}]) {prefix}tail{place} (.param .b64 inst, .param .b64 fuel, .param .b32 depth)"
        )
    }

    /// Saves which function has been called, whose number is in `%next`; and takes it back.
    fn write_suspension(&self, out: &mut String, suspending: &Suspending) {
        let (top, end) = (abi::SAVE_TOP, abi::SAVE_END);
        if self.targets.iter().any(|&f| suspending.function(f)) {
            line!(out, "$suspend:");
            line!(out, "  ld.global.b64 %top, [%inst+{top}];");
            line!(out, "  ld.global.b64 %end, [%inst+{end}];");
            line!(out, "  add.s64 %d, %top, {INDIRECT_FRAME};");
            line!(out, "  setp.gt.u64 %p, %d, %end;");
            line!(out, "  @%p bra $full;");
            line!(out, "  st.global.b32 [%top], %next;");
            line!(out, "  st.global.b64 [%inst+{top}], %d;");
            line!(out, "  st.param.b64 [ret], %fuel;");
            line!(out, "  ret;");
            // No room for it: the fuel is what it was when the innermost function was suspended.
            line!(out, "$full:");
            line!(out, "  ld.global.b64 %d, [%inst+{}];", abi::SAVE_BASE);
            line!(out, "  st.global.b64 [%inst+{top}], %d;");
            line!(out, "  mov.b32 %r, {};", TrapKind::StackExhausted as u32);
            line!(out, "  st.global.b32 [%inst+{}], %r;", abi::TRAP);
            line!(
                out,
                "  st.global.b32 [%inst+{}], %function;",
                abi::TRAP_FUNCTION
            );
            line!(out, "  mov.b32 %r, 0;");
            line!(out, "  st.global.b32 [%inst+{}], %r;", abi::TRAP_OFFSET);
            line!(out, "  mov.b64 %fuel, -1;");
            line!(out, "  st.param.b64 [ret], %fuel;");
            line!(out, "  ret;");
        }
        line!(out, "$resume:");
        line!(out, "  ld.global.b64 %top, [%inst+{top}];");
        line!(out, "  add.s64 %top, %top, -{INDIRECT_FRAME};");
        line!(out, "  st.global.b64 [%inst+{top}], %top;");
        line!(out, "  ld.global.b32 %next, [%top];");
        line!(out, "  bra $chosen;");
    }
}

/// The name of the code of a function that tail calls.
pub(crate) fn code_name(prefix: &str, function: u32) -> String {
    format!("{prefix}t{function}")
}

const fn register(part: ValueType) -> &'static str {
    if part.is_wide() { "%d" } else { "%r" }
}

/// Returns the callee's results. If it did not return, the results are missing, which does no harm.
fn write_results(out: &mut String, results: &[ValueType]) {
    line!(out, "  st.param.b64 [ret], %fuel;");
    for (part, at) in placed(&parts(results)) {
        let (size, reg, at) = (part.ptx(), register(part), 8 + at);
        line!(out, "  ld.param.{size} {reg}, [cr+{at}];");
        line!(out, "  st.param.{size} [ret+{at}], {reg};");
    }
    line!(out, "  ret;");
}

/// Branches to the call of the function whose number is in `%next`: only the compiler makes such numbers.
fn write_switch(out: &mut String, count: usize, tables: bool) {
    let labels: Vec<_> = (0..count).map(|number| format!("$F{number}")).collect();
    if !tables {
        return switch::alone(out, "%next", &labels);
    }
    if count <= 3 {
        for number in 1..count {
            line!(out, "  setp.eq.s32 %p, %next, {number};");
            line!(out, "  @%p bra $F{number};");
        }
        return;
    }
    line!(out, "$targets: .branchtargets {};", labels.join(", "));
    line!(out, "  brx.idx %next, $targets;");
}
