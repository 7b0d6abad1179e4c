//! What surrounds a module's functions: declarations, helpers and the entry.

use std::fmt::Write;

use everwarp_contract::TrapKind;

use crate::context::Context;
use crate::emit::carried;
use crate::emit::deep;
use crate::emit::signature::write_head_arguments;
use crate::facts::abi;
use crate::facts::module::Module;
use crate::facts::types::{ValueType, parts, placed};
use crate::text::line;

const SUPPORT: &str = include_str!("support.ptx");
/// Bulk operations, for plain memories and for interleaved ones.
const LINEAR: &str = include_str!("linear.ptx");
const INTERLEAVED: &str = include_str!("interleaved.ptx");

/// The helpers, under the image's prefix.
pub(crate) fn support(prefix: &str, interleaved: bool) -> String {
    let bulk = if interleaved { INTERLEAVED } else { LINEAR };
    let mut text = String::with_capacity(SUPPORT.len() + bulk.len());
    for line in SUPPORT.lines().chain(bulk.lines()) {
        if !line.trim_start().starts_with("//") {
            text.push_str(line);
            text.push('\n');
        }
    }
    for (name, value) in [
        ("{MEMORY_BYTES}", abi::MEMORY_BYTES),
        ("{MEMORY_LIMIT}", abi::MEMORY_LIMIT),
        ("{TABLE_LEN}", abi::TABLE_LEN),
        ("{TABLE_LIMIT}", abi::TABLE_LIMIT),
    ] {
        text = text.replace(name, &value.to_string());
    }
    // `@` also begins a guard, which is followed by a predicate.
    text.replace(" @memory", &format!(" {prefix}memory"))
        .replace(" @table", &format!(" {prefix}table"))
}

/// Declares every function, so that they may call each other in any order.
pub(crate) fn declarations(module: &Module, prefix: &str) -> String {
    let mut out = String::new();
    for f in 0..module.functions.len() as u32 {
        let name = format!("{prefix}f{f}");
        let signature = module.function_type(f).signature(&name, module.convention);
        line!(out, ".func {signature};");
    }
    out
}

/// The function that calls an entry by its number, and the kernel that does so for many instances.
pub(crate) fn entry(context: Context<'_>) -> String {
    let Context {
        module,
        prefix,
        suspending,
        ..
    } = context;
    let mut out = String::new();
    let entries = module.entries();
    line!(
        out,
        ".visible .func {prefix}enter(.param .b64 a0, .param .b32 a1, .param .b64 a2, .param .b64 a3)\n{{"
    );
    line!(out, "  .reg .b64 %inst, %fuel, %args, %results, %d;");
    line!(out, "  .reg .b32 %depth, %entry, %r;");
    line!(out, "  .reg .pred %p;");
    line!(out, "  ld.param.b64 %inst, [a0];");
    line!(out, "  ld.param.b32 %entry, [a1];");
    line!(out, "  ld.param.b64 %args, [a2];");
    line!(out, "  ld.param.b64 %results, [a3];");
    line!(out, "  mov.b32 %r, 0;");
    line!(out, "  st.global.b32 [%inst+{}], %r;", abi::TRAP);
    line!(out, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
    line!(out, "  ld.global.b32 %depth, [%inst+{}];", abi::DEPTH);
    line!(out, "  mov.b32 %r, {};", TrapKind::OutOfFuel as u32);
    line!(out, "  setp.le.s64 %p, %fuel, 0;");
    line!(out, "  @%p bra $refuse;");
    line!(out, "  add.s64 %fuel, %fuel, -1;");
    let record = deep::Record::of(context);
    if suspending.is_some() {
        write_resumption(&mut out, record);
    }
    if let Some(record) = record {
        deep::write_parts(&mut out, record, prefix);
    }
    line!(out, "  mov.b32 %r, {};", TrapKind::UnlinkedImport as u32);
    for (i, f) in entries.iter().enumerate() {
        line!(out, "  setp.eq.s32 %p, %entry, {i};");
        line!(out, "  @%p bra $E{f};");
    }
    line!(out, "$refuse:");
    line!(out, "  st.global.b32 [%inst+{}], %r;", abi::TRAP);
    line!(out, "  ret;");
    for f in entries {
        let suspends = suspending.is_some_and(|s| s.function(f));
        write_entry(&mut out, context, f, suspends);
    }
    line!(out, "$done:");
    // A negative fuel says that the header has been written already.
    line!(out, "  setp.lt.s64 %p, %fuel, 0;");
    line!(out, "  @%p bra $trapped;");
    line!(out, "  add.s64 %fuel, %fuel, 1;");
    line!(out, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
    line!(out, "$trapped:");
    if suspending.is_some() {
        // Of what is suspended the innermost function has said why. A trap on the way up has the last word.
        line!(out, "  setp.eq.s64 %p, %fuel, {};", abi::SUSPENDED);
        let saved = if record.is_some() {
            "$away"
        } else {
            "$suspended"
        };
        line!(out, "  @%p bra {saved};");
        line!(out, "  mov.b32 %r, 0;");
        line!(out, "  st.global.b32 [%inst+{}], %r;", abi::STATE);
        line!(out, "$suspended:");
    }
    line!(out, "  ret;");
    if record.is_some() {
        line!(out, "$away:");
        deep::write_away(&mut out, prefix);
        line!(out, "  ret;");
    }
    line!(out, "}}");
    write_kernel(&mut out, prefix);
    out
}

/// A call of a suspended instance continues with the same entry, and has its own fuel.
fn write_resumption(out: &mut String, record: Option<deep::Record>) {
    line!(out, "  .reg .pred %resumed;");
    line!(out, "  ld.global.b32 %r, [%inst+{}];", abi::STATE);
    line!(out, "  setp.ne.s32 %resumed, %r, 0;");
    line!(out, "  @%resumed bra $resume;");
    line!(out, "  st.global.b32 [%inst+{}], %entry;", abi::SAVED_ENTRY);
    line!(out, "  ld.global.b64 %d, [%inst+{}];", abi::SAVE_BASE);
    line!(out, "  st.global.b64 [%inst+{}], %d;", abi::SAVE_TOP);
    if let Some(record) = record {
        deep::write_begin(out, record);
    }
    line!(out, "  bra $begin;");
    line!(out, "$resume:");
    line!(out, "  ld.global.b32 %entry, [%inst+{}];", abi::SAVED_ENTRY);
    line!(out, "  mov.b64 %fuel, {};", abi::SUSPENDED);
    line!(out, "$begin:");
}

fn write_entry(out: &mut String, context: Context<'_>, function: u32, suspends: bool) {
    let Context { module, prefix, .. } = context;
    let ty = module.function_type(function);
    line!(out, "$E{function}:");
    line!(out, "  {{");
    let convention = module.convention;
    carried::write_found(out, context);
    let mut list = String::from(write_head_arguments(out, "%inst", convention));
    for (i, (param, at)) in placed(&parts(&ty.params)).enumerate() {
        let (size, reg) = (param.ptx(), if param.is_wide() { "%d" } else { "%r" });
        line!(out, "  .param .{size} c{i};");
        if suspends {
            // The code that resumes the instance need not keep the arguments.
            line!(out, "  mov.{size} {reg}, 0;");
            line!(out, "  @!%resumed ld.global.{size} {reg}, [%args+{at}];");
        } else {
            line!(out, "  ld.global.{size} {reg}, [%args+{at}];");
        }
        line!(out, "  st.param.{size} [c{i}], {reg};");
        let _ = write!(list, ", c{i}");
    }
    let bytes = ty.return_bytes(convention);
    line!(out, "  .param .align 8 .b8 cr[{bytes}];");
    line!(out, "  call (cr), {prefix}f{function}, ({list});");
    line!(out, "  ld.param.b64 %fuel, [cr];");
    line!(out, "  setp.lt.s64 %p, %fuel, 0;");
    line!(out, "  @%p bra $done;");
    if convention.global.is_some() {
        line!(out, "  ld.param.b32 %carry, [cr+{}];", ty.carried_at());
        out.push_str(&carried::keep(context));
    }
    for (result, at) in placed(&parts(&ty.results)) {
        if result == ValueType::V128 {
            line!(out, "  ld.param.b32 %r, [cr+{}];", 8 + at);
            line!(out, "  st.global.b32 [%results+{at}], %r;");
            continue;
        }
        if result.is_wide() {
            line!(out, "  ld.param.b64 %d, [cr+{}];", 8 + at);
        } else {
            line!(out, "  ld.param.b32 %r, [cr+{}];", 8 + at);
            line!(out, "  cvt.u64.u32 %d, %r;");
        }
        line!(out, "  st.global.b64 [%results+{at}], %d;");
    }
    line!(out, "  }}");
    line!(out, "  bra $done;");
}

/// Thread `i` runs instance `i`: `instances[i]`, arguments and results at a stride each.
fn write_kernel(out: &mut String, prefix: &str) {
    line!(
        out,
        ".visible .entry {prefix}run(.param .u64 instances, .param .u32 count, .param .u32 entry, .param .u64 args, .param .u64 results, .param .u32 args_stride, .param .u32 results_stride)\n{{"
    );
    let body = "  .reg .b64 %d<8>;
  .reg .b32 %r<8>;
  .reg .pred %p;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  ld.param.u32 %r4, [count];
  setp.ge.u32 %p, %r3, %r4;
  @%p bra $done;
  ld.param.u32 %r5, [entry];
  ld.param.u32 %r6, [args_stride];
  ld.param.u32 %r7, [results_stride];
  ld.param.u64 %d0, [instances];
  ld.param.u64 %d1, [args];
  ld.param.u64 %d2, [results];
  mul.wide.u32 %d3, %r3, 8;
  add.s64 %d4, %d0, %d3;
  ld.global.b64 %d5, [%d4];
  mul.wide.u32 %d6, %r3, %r6;
  add.s64 %d1, %d1, %d6;
  mul.wide.u32 %d7, %r3, %r7;
  add.s64 %d2, %d2, %d7;
  {
  .param .b64 c0;
  .param .b32 c1;
  .param .b64 c2;
  .param .b64 c3;
  st.param.b64 [c0], %d5;
  st.param.b32 [c1], %r5;
  st.param.b64 [c2], %d1;
  st.param.b64 [c3], %d2;
";
    out.push_str(body);
    line!(out, "  call {prefix}enter, (c0, c1, c2, c3);");
    line!(out, "  }}\n$done:\n  ret;\n}}");
}
