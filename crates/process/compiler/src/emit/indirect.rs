//! Indirect calls: one function for each table and type. It looks an element up, checks it and branches to a direct
//! call.
//!
//! ptxas takes time that grows with the square of the branches of one function: 0.27 s for 256 of them, 3.3 s for 2000,
//! and for 20,000 more than 16 GB. So where there are more than [`FANOUT`] functions, the branches lead to groups: functions
//! of their own, which branch to direct calls, or to smaller groups.
//!
//! Why not call through a pointer? ptxas takes every function whose address is taken for a possible target of every
//! indirect call: for 50 small modules of the official suite in one image it needed 57 seconds. With direct calls it
//! knows the registers and the stack that a call needs.

use everwarp_contract::TrapKind;

use crate::context::Context;
use crate::emit::carried;
use crate::emit::signature::write_head_arguments;
use crate::emit::switch;
use crate::facts::abi;
use crate::facts::abi::{DevTable, TABLE_LEN};
use crate::facts::module::Module;
use crate::facts::suspending::{INDIRECT_FRAME, Suspending};
use crate::facts::types::{parts, placed};
use crate::text::line;

/// The most branches of one function, a power of two.
pub(crate) const FANOUT: usize = 256;

/// How many functions of groups a call of one of `functions` functions passes.
pub(crate) fn groups_passed(functions: usize) -> u32 {
    let mut passed = 0;
    let mut branches = functions;
    while branches > FANOUT {
        branches = branches.div_ceil(FANOUT);
        passed += 1;
    }
    passed
}

/// What a branch leads to.
enum Target {
    Function(u32),
    /// The name of a group, which has the parameters of the functions in it and an index.
    Group(String),
}

/// The name of the function that calls elements of this table of this type.
pub(crate) fn name(prefix: &str, ty: u32, table: u32) -> String {
    format!("{prefix}i{ty}_{table}")
}

/// The head of such a function: that of the type, with the element's index as last parameter.
pub(crate) fn signature(module: &Module, prefix: &str, ty: u32, table: u32) -> String {
    indexed(module, ty, &name(prefix, ty, table))
}

fn indexed(module: &Module, ty: u32, name: &str) -> String {
    let mut head = module.types[ty as usize].signature(name, module.convention);
    head.pop();
    head.push_str(", .param .b32 index)");
    head
}

/// The function that calls elements of this table that have the canonical type `ty`. If it cannot call an element, it
/// returns a fuel of `-1 - trap` and leaves the actual fuel in the header; its caller knows the position of the trap.
pub(crate) fn function(context: Context<'_>, (ty, table): (u32, u32)) -> String {
    let Context {
        module,
        layout,
        referenced,
        prefix,
        ..
    } = context;
    let suspending = context.suspending.filter(|s| s.indirect(ty));
    let functions = referenced.list(ty);
    let mut out = String::new();
    let (targets, shift) = write_groups(&mut out, context, (ty, table), functions);
    let record = layout.tables + size_of::<DevTable>() * table as usize;
    let answer = |trap: TrapKind| -1 - i64::from(trap as u32);
    write_head(&mut out, module, &signature(module, prefix, ty, table));
    if suspending.is_some() {
        line!(out, "  setp.lt.s64 %p, %fuel, 0;");
        line!(out, "  @%p bra $resume;");
    }
    line!(out, "  ld.global.b32 %r0, [%inst+{}];", record + TABLE_LEN);
    line!(
        out,
        "  mov.b64 %d0, {};",
        answer(TrapKind::UndefinedElement)
    );
    line!(out, "  setp.ge.u32 %p, %index, %r0;");
    line!(out, "  @%p bra $fail;");
    line!(out, "  ld.global.b64 %d1, [%inst+{record}];");
    line!(out, "  mul.wide.u32 %d2, %index, 8;");
    line!(out, "  add.s64 %d1, %d1, %d2;");
    line!(out, "  ld.global.b64 %d3, [%d1];");
    line!(
        out,
        "  mov.b64 %d0, {};",
        answer(TrapKind::UninitializedElement)
    );
    line!(out, "  setp.eq.s64 %p, %d3, 0;");
    line!(out, "  @%p bra $fail;");
    let mismatch = answer(TrapKind::IndirectCallTypeMismatch);
    line!(out, "  mov.b64 %d0, {mismatch};");
    line!(out, "  shr.u64 %d4, %d3, 32;");
    line!(out, "  cvt.u32.u64 %r1, %d4;");
    line!(out, "  setp.ne.s32 %p, %r1, {ty};");
    line!(out, "  @%p bra $fail;");
    line!(out, "  cvt.u32.u64 %r2, %d3;");
    if suspending.is_some() {
        line!(out, "$chosen:");
    }
    let at = match shift {
        0 => "%r2",
        _ => {
            // A reference's places begin at 1, and so do those of a switch.
            line!(out, "  add.s32 %r1, %r2, -1;");
            line!(out, "  shr.u32 %r1, %r1, {shift};");
            line!(out, "  add.s32 %r1, %r1, 1;");
            "%r1"
        }
    };
    write_switch(&mut out, at, targets.len(), context.tables);
    write_failure(&mut out, module, ty);
    for (i, target) in targets.iter().enumerate() {
        write_call(&mut out, context, (ty, i, target), suspending);
    }
    if suspending.is_some() {
        write_suspension(&mut out, &carried::find(context));
    }
    line!(out, "}}");
    out
}

/// Writes the head of a function of calls, which reads its parameters except for the arguments.
fn write_head(out: &mut String, module: &Module, signature: &str) {
    line!(out, ".func {signature}\n{{");
    let head = "  .reg .b64 %inst, %fuel, %d<5>;
  .reg .b32 %depth, %index, %r<3>;
  .reg .pred %p;
  ld.param.b64 %inst, [inst];
  ld.param.b64 %fuel, [fuel];
  ld.param.b32 %depth, [depth];
  ld.param.b32 %index, [index];";
    line!(out, "{head}");
    if module.convention.global.is_some() {
        line!(out, "  .reg .b32 %carry;");
        line!(out, "  ld.param.b32 %carry, [carry];");
    }
    if module.convention.memory {
        line!(out, "  .reg .b64 %mem;");
        line!(out, "  ld.param.b64 %mem, [mem];");
    }
}

/// Where nothing can be called: `%d0` says why.
fn write_failure(out: &mut String, module: &Module, ty: u32) {
    // References are made by the compiler alone, so beyond the list there is nothing.
    line!(out, "$fail:");
    line!(out, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
    line!(out, "  st.param.b64 [ret], %d0;");
    if module.convention.global.is_some() {
        let at = module.types[ty as usize].carried_at();
        line!(out, "  st.param.b32 [ret+{at}], %carry;");
    }
    line!(out, "  ret;");
}

/// Writes groups until what is left has few enough branches; returns these, and the bits by which a place in the list of
/// functions is shifted to find its branch.
///
/// A group saves nothing when a call is suspended: it is found again by the place that its caller has saved.
fn write_groups(
    out: &mut String,
    context: Context<'_>,
    (ty, table): (u32, u32),
    functions: &[u32],
) -> (Vec<Target>, u32) {
    let Context { module, prefix, .. } = context;
    let mut level: Vec<_> = functions.iter().map(|f| Target::Function(*f)).collect();
    let mut shift = 0;
    while level.len() > FANOUT {
        let mut groups = Vec::new();
        for (number, targets) in level.chunks(FANOUT).enumerate() {
            let name = format!("{}_{shift}_{number}", name(prefix, ty, table));
            let first = (number * FANOUT) << shift;
            write_head(out, module, &indexed(module, ty, &name));
            let mismatch = -1 - i64::from(TrapKind::IndirectCallTypeMismatch as u32);
            line!(out, "  mov.b64 %d0, {mismatch};");
            line!(out, "  mov.b32 %r2, %index;");
            line!(out, "  add.s32 %r1, %r2, -{};", first + 1);
            line!(out, "  shr.u32 %r1, %r1, {shift};");
            line!(out, "  add.s32 %r1, %r1, 1;");
            write_switch(out, "%r1", targets.len(), context.tables);
            write_failure(out, module, ty);
            for (i, target) in targets.iter().enumerate() {
                write_call(out, context, (ty, i, target), None);
            }
            line!(out, "}}");
            groups.push(Target::Group(name));
        }
        level = groups;
        shift += FANOUT.ilog2();
    }
    (level, shift)
}

/// Saves which function has been called, whose number is in `%r2`: by the time the call is resumed the
/// table may hold another one.
/// The text `found` finds the carried global.
fn write_suspension(out: &mut String, found: &str) {
    let top = abi::SAVE_TOP;
    line!(out, "$suspend:");
    out.push_str(found);
    line!(out, "  ld.global.b64 %d1, [%inst+{top}];");
    line!(out, "  ld.global.b64 %d2, [%inst+{}];", abi::SAVE_END);
    line!(out, "  add.s64 %d3, %d1, {INDIRECT_FRAME};");
    line!(out, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
    line!(out, "  add.s64 %fuel, %fuel, -1;");
    let full = -1 - i64::from(TrapKind::StackExhausted as u32);
    line!(out, "  mov.b64 %d0, {full};");
    line!(out, "  setp.gt.u64 %p, %d3, %d2;");
    line!(out, "  @%p bra $fail;");
    line!(out, "  st.global.b32 [%d1], %r2;");
    line!(out, "  st.global.b64 [%inst+{top}], %d3;");
    line!(out, "  mov.b64 %d0, {};", abi::SUSPENDED);
    line!(out, "  st.param.b64 [ret], %d0;");
    line!(out, "  ret;");
    line!(out, "$resume:");
    line!(out, "  ld.global.b64 %d1, [%inst+{top}];");
    line!(out, "  add.s64 %d1, %d1, -{INDIRECT_FRAME};");
    line!(out, "  st.global.b64 [%inst+{top}], %d1;");
    line!(out, "  ld.global.b32 %r2, [%d1];");
    line!(out, "  bra $chosen;");
}

/// Branches to the call whose place, plus one, is in the register `at`.
fn write_switch(out: &mut String, at: &str, targets: usize, tables: bool) {
    let labels: Vec<_> = (0..targets).map(|i| format!("$F{i}")).collect();
    if !tables {
        let fail = || std::iter::once("$fail".to_owned());
        let labels: Vec<_> = fail().chain(labels).chain(fail()).collect();
        return switch::alone(out, at, &labels);
    }
    if targets <= 3 {
        for i in 0..targets {
            line!(out, "  setp.eq.s32 %p, {at}, {};", i + 1);
            line!(out, "  @%p bra $F{i};");
        }
        return;
    }
    line!(out, "  min.u32 %r0, {at}, {};", targets + 1);
    line!(
        out,
        "$places: .branchtargets $fail, {}, $fail;",
        labels.join(", ")
    );
    line!(out, "  brx.idx %r0, $places;");
}

/// Calls a function or a group with the parameters as they came, and returns its results. Groups get the function's place,
/// which is in `%r2`, in addition.
fn write_call(
    out: &mut String,
    context: Context<'_>,
    (ty, number, target): (u32, usize, &Target),
    suspending: Option<&Suspending>,
) {
    let Context { module, prefix, .. } = context;
    let ty = &module.types[ty as usize];
    let convention = module.convention;
    let bytes = ty.return_bytes(convention);
    line!(out, "$F{number}:\n  {{");
    let (params, results) = (parts(&ty.params), parts(&ty.results));
    let registers = params.iter().chain(&results);
    let registers: Vec<_> = (registers.enumerate())
        .map(|(i, ty)| (format!("%v{i}"), ty.ptx()))
        .collect();
    for (name, ty) in &registers {
        line!(out, "  .reg .{ty} {name};");
    }
    let mut list = String::from(write_head_arguments(out, "%inst", convention));
    let (given, got) = registers.split_at(params.len());
    for (i, (register, ty)) in given.iter().enumerate() {
        line!(out, "  .param .{ty} c{i};");
        line!(out, "  ld.param.{ty} {register}, [a{i}];");
        line!(out, "  st.param.{ty} [c{i}], {register};");
        list.push_str(&format!(", c{i}"));
    }
    line!(out, "  .param .align 8 .b8 cr[{bytes}];");
    let may_suspend = match target {
        Target::Function(function) => {
            line!(out, "  call (cr), {prefix}f{function}, ({list});");
            suspending.is_some_and(|s| s.function(*function))
        }
        Target::Group(name) => {
            line!(out, "  .param .b32 place;");
            line!(out, "  st.param.b32 [place], %r2;");
            line!(out, "  call (cr), {name}, ({list}, place);");
            suspending.is_some()
        }
    };
    line!(out, "  ld.param.b64 %fuel, [cr];");
    if may_suspend {
        line!(out, "  setp.eq.s64 %p, %fuel, {};", abi::SUSPENDED);
        line!(out, "  @%p bra $suspend;");
    }
    line!(out, "  st.param.b64 [ret], %fuel;");
    if convention.global.is_some() {
        let at = ty.carried_at();
        line!(out, "  ld.param.b32 %carry, [cr+{at}];");
        line!(out, "  st.param.b32 [ret+{at}], %carry;");
    }
    for ((register, ty), (_, at)) in got.iter().zip(placed(&results)) {
        let at = 8 + at;
        line!(out, "  ld.param.{ty} {register}, [cr+{at}];");
        line!(out, "  st.param.{ty} [ret+{at}], {register};");
    }
    line!(out, "  }}\n  ret;");
}
