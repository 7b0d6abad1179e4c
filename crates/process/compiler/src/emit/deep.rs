//! Frames that the device's stack does not hold: which are moved to memory, and how they come back.
//!
//! `enter` runs the innermost *part* of an instance's calls: functions from one at which frames can be divided, or from the
//! entry, to the innermost one. When a part fills the stack, its outer frames are *spilled*, and its inner frames are a part
//! of their own. When the first function of a part returns, its results go to the block, the frames that were spilled last
//! come back into the save area, and in front of them there is a frame of eight bytes that says to the function, which its
//! caller calls once more, that it has returned.

use crate::context::Context;
use crate::emit::carried;
use crate::emit::indirect::FANOUT;
use crate::emit::signature::write_head_arguments;
use crate::emit::switch;
use crate::facts::abi;
use crate::facts::deep::Deep;
use crate::facts::types::{parts, placed};
use crate::text::line;

/// Offsets of the record's fields from the block's beginning.
#[derive(Clone, Copy)]
pub(crate) struct Record(usize);

impl Record {
    /// The record of an instance, if it can be deep.
    pub(crate) fn of(context: Context<'_>) -> Option<Self> {
        context.layout.deep.map(Self)
    }
    fn base(self) -> usize {
        self.0 + abi::DEEP_BASE
    }
    fn end(self) -> usize {
        self.0 + abi::DEEP_END
    }
    fn top(self) -> usize {
        self.0 + abi::DEEP_TOP
    }
    pub(crate) fn mark(self) -> usize {
        self.0 + abi::DEEP_MARK
    }
    fn function(self) -> usize {
        self.0 + abi::DEEP_FUNCTION
    }
    pub(crate) fn marked(self) -> usize {
        self.0 + abi::DEEP_MARKED
    }
    pub(crate) fn left(self) -> usize {
        self.0 + abi::DEEP_LEFT
    }
    pub(crate) fn results(self) -> usize {
        self.0 + size_of::<abi::DevDeep>()
    }
}

/// Text of `enter`: a call begins, and nothing is spilled.
pub(crate) fn write_begin(out: &mut String, record: Record) {
    line!(out, "  ld.global.b64 %d, [%inst+{}];", record.base());
    line!(out, "  st.global.b64 [%inst+{}], %d;", record.top());
    line!(out, "  mov.b32 %r, 0;");
    line!(out, "  st.global.b32 [%inst+{}], %r;", record.function());
    line!(out, "  st.global.b32 [%inst+{}], %r;", record.left());
    line!(out, "  mov.b64 %d, 0;");
    line!(out, "  st.global.b64 [%inst+{}], %d;", record.mark());
}

/// Text of `enter`: runs the part at the top if it does not begin with the entry, and goes on behind this text if it does.
/// Frames that a part saves lead to `$away`.
pub(crate) fn write_parts(out: &mut String, record: Record, prefix: &str) {
    line!(out, "$part:");
    line!(out, "  ld.global.b32 %r, [%inst+{}];", record.function());
    line!(out, "  setp.eq.s32 %p, %r, 0;");
    line!(out, "  @%p bra $outermost;");
    line!(out, "  {{");
    line!(out, "  .param .b64 ci;");
    line!(out, "  .param .b32 cd;");
    line!(out, "  .param .b32 cn;");
    line!(out, "  .param .b64 cr;");
    line!(out, "  st.param.b64 [ci], %inst;");
    line!(out, "  st.param.b32 [cd], %depth;");
    line!(out, "  st.param.b32 [cn], %r;");
    line!(out, "  call (cr), {prefix}part, (ci, cd, cn);");
    line!(out, "  ld.param.b64 %fuel, [cr];");
    line!(out, "  }}");
    line!(out, "  setp.lt.s64 %p, %fuel, 0;");
    line!(out, "  @%p bra $done;");
    // It has returned: those that called it come back.
    write_move(out, &format!("{prefix}unspill"));
    line!(out, "$again:");
    line!(out, "  ld.global.b32 %entry, [%inst+{}];", abi::SAVED_ENTRY);
    line!(out, "  mov.b64 %fuel, {};", abi::SUSPENDED);
    line!(out, "  setp.eq.s32 %resumed, %r, %r;");
    line!(out, "  bra $part;");
    line!(out, "$outermost:");
}

/// Text of `enter`: frames are saved, because the stack is full or for another reason. In the first case the outer ones are
/// spilled. Goes on behind this text in the second case.
pub(crate) fn write_away(out: &mut String, prefix: &str) {
    line!(out, "  ld.global.b32 %r, [%inst+{}];", abi::STATE);
    line!(out, "  setp.ne.s32 %p, %r, {};", abi::DEEP);
    line!(out, "  @%p bra $suspended;");
    write_move(out, &format!("{prefix}spill"));
    line!(out, "  setp.eq.s32 %p, %r, 0;");
    line!(out, "  @%p bra $again;");
}

fn write_move(out: &mut String, name: &str) {
    line!(out, "  {{");
    line!(out, "  .param .b64 ci;");
    line!(out, "  .param .b32 cr;");
    line!(out, "  st.param.b64 [ci], %inst;");
    line!(out, "  call (cr), {name}, (ci);");
    line!(out, "  ld.param.b32 %r, [cr];");
    line!(out, "  }}");
}

/// The functions that move frames, and those that run parts.
pub(crate) fn functions(context: Context<'_>, deep: &Deep, record: Record) -> String {
    let prefix = context.prefix;
    let mut out = String::new();
    write_spill(&mut out, prefix, record);
    write_unspill(&mut out, prefix, record);
    let groups: Vec<_> = deep.functions.chunks(FANOUT).collect();
    if let [functions] = groups[..] {
        write_group(&mut out, context, "part", functions, 1, record);
        return out;
    }
    for (number, functions) in groups.iter().enumerate() {
        let first = number * FANOUT + 1;
        write_group(
            &mut out,
            context,
            &format!("part_{number}"),
            functions,
            first,
            record,
        );
    }
    write_head(&mut out, prefix, "part");
    line!(out, "  add.s32 %r0, %number, -1;");
    line!(out, "  shr.u32 %r0, %r0, {};", FANOUT.ilog2());
    write_choice(&mut out, groups.len(), context.tables);
    for number in 0..groups.len() {
        line!(out, "$F{number}:");
        line!(out, "  {{");
        line!(out, "  .param .b64 ci;");
        line!(out, "  .param .b32 cd;");
        line!(out, "  .param .b32 cn;");
        line!(out, "  .param .b64 cr;");
        line!(out, "  st.param.b64 [ci], %inst;");
        line!(out, "  st.param.b32 [cd], %depth;");
        line!(out, "  st.param.b32 [cn], %number;");
        line!(out, "  call (cr), {prefix}part_{number}, (ci, cd, cn);");
        line!(out, "  ld.param.b64 %fuel, [cr];");
        line!(out, "  }}");
        line!(out, "  bra $out;");
    }
    write_end(&mut out);
    out
}

/// Moves the frames beyond the mark away. Returns another number than 0, and reports a trap, if there is no room, or if
/// nothing would be moved.
fn write_spill(out: &mut String, prefix: &str, record: Record) {
    line!(
        out,
        ".func (.param .b32 r) {prefix}spill (.param .b64 a0)\n{{"
    );
    line!(out, "  .reg .b64 %inst, %from, %to, %end, %mark, %d;");
    line!(out, "  .reg .b32 %r, %bytes;");
    line!(out, "  .reg .pred %p;");
    line!(out, "  ld.param.b64 %inst, [a0];");
    line!(out, "  ld.global.b64 %mark, [%inst+{}];", record.mark());
    line!(out, "  ld.global.b64 %end, [%inst+{}];", abi::SAVE_TOP);
    line!(out, "  ld.global.b64 %to, [%inst+{}];", record.top());
    line!(out, "  mov.b32 %r, 0;");
    line!(out, "  st.global.b32 [%inst+{}], %r;", record.left());
    line!(out, "  mov.b64 %d, 0;");
    line!(out, "  st.global.b64 [%inst+{}], %d;", record.mark());
    line!(out, "  setp.eq.s64 %p, %mark, 0;");
    line!(out, "  @%p bra $full;");
    line!(out, "  sub.s64 %d, %end, %mark;");
    line!(out, "  setp.eq.s64 %p, %d, 0;");
    line!(out, "  @%p bra $full;");
    line!(out, "  cvt.u32.u64 %bytes, %d;");
    line!(out, "  add.s64 %d, %d, 8;");
    line!(out, "  add.s64 %d, %to, %d;");
    line!(out, "  ld.global.b64 %from, [%inst+{}];", record.end());
    line!(out, "  setp.gt.u64 %p, %d, %from;");
    line!(out, "  @%p bra $full;");
    line!(out, "  st.global.b64 [%inst+{}], %d;", record.top());
    line!(out, "  st.global.b64 [%inst+{}], %mark;", abi::SAVE_TOP);
    line!(out, "  mov.b64 %from, %mark;");
    write_copy(out);
    line!(out, "  ld.global.b32 %r, [%inst+{}];", record.function());
    line!(out, "  st.global.b32 [%to], %r;");
    line!(out, "  st.global.b32 [%to+4], %bytes;");
    line!(out, "  ld.global.b32 %r, [%inst+{}];", record.marked());
    line!(out, "  st.global.b32 [%inst+{}], %r;", record.function());
    line!(out, "  mov.b32 %r, 0;");
    line!(out, "  st.param.b32 [r], %r;");
    line!(out, "  ret;");
    line!(out, "$full:");
    // The function that found the stack full has said which one it is.
    line!(out, "  ld.global.b64 %d, [%inst+{}];", abi::SAVE_BASE);
    line!(out, "  st.global.b64 [%inst+{}], %d;", abi::SAVE_TOP);
    line!(
        out,
        "  mov.b32 %r, {};",
        everwarp_contract::TrapKind::StackExhausted as u32
    );
    line!(out, "  st.global.b32 [%inst+{}], %r;", abi::TRAP);
    line!(out, "  mov.b32 %r, 0;");
    line!(out, "  st.global.b32 [%inst+{}], %r;", abi::STATE);
    line!(out, "  mov.b32 %r, 1;");
    line!(out, "  st.param.b32 [r], %r;");
    line!(out, "  ret;\n}}");
}

/// Brings back the frames that were spilled last, behind one that says that the function which they call has returned.
fn write_unspill(out: &mut String, prefix: &str, record: Record) {
    line!(
        out,
        ".func (.param .b32 r) {prefix}unspill (.param .b64 a0)\n{{"
    );
    line!(out, "  .reg .b64 %inst, %from, %to, %end, %d;");
    line!(out, "  .reg .b32 %r;");
    line!(out, "  .reg .pred %p;");
    line!(out, "  ld.param.b64 %inst, [a0];");
    line!(out, "  ld.global.b64 %end, [%inst+{}];", record.top());
    line!(out, "  add.s64 %end, %end, -8;");
    line!(out, "  ld.global.b32 %r, [%end];");
    line!(out, "  st.global.b32 [%inst+{}], %r;", record.function());
    line!(out, "  ld.global.b32 %r, [%end+4];");
    line!(out, "  cvt.u64.u32 %d, %r;");
    line!(out, "  sub.s64 %from, %end, %d;");
    line!(out, "  st.global.b64 [%inst+{}], %from;", record.top());
    line!(out, "  ld.global.b64 %to, [%inst+{}];", abi::SAVE_BASE);
    line!(out, "  mov.b32 %r, {};", abi::RETURNED);
    line!(out, "  st.global.b32 [%to+4], %r;");
    line!(out, "  add.s64 %to, %to, 8;");
    write_copy(out);
    line!(out, "  st.global.b64 [%inst+{}], %to;", abi::SAVE_TOP);
    line!(out, "  mov.b32 %r, 0;");
    line!(out, "  st.param.b32 [r], %r;");
    line!(out, "  ret;\n}}");
}

/// Copies what is from `%from` to `%end`, which is not nothing, to `%to`. Both end behind what was copied.
fn write_copy(out: &mut String) {
    line!(out, "$copy:");
    line!(out, "  ld.global.b64 %d, [%from];");
    line!(out, "  st.global.b64 [%to], %d;");
    line!(out, "  add.s64 %from, %from, 8;");
    line!(out, "  add.s64 %to, %to, 8;");
    line!(out, "  setp.lt.u64 %p, %from, %end;");
    line!(out, "  @%p bra $copy;");
}

fn write_head(out: &mut String, prefix: &str, name: &str) {
    line!(
        out,
        ".func (.param .b64 ret) {prefix}{name} (.param .b64 inst, .param .b32 depth, .param .b32 number)\n{{"
    );
    line!(out, "  .reg .b64 %inst, %fuel, %d;");
    line!(out, "  .reg .b32 %depth, %number, %r0;");
    line!(out, "  .reg .pred %p;");
    line!(out, "  ld.param.b64 %inst, [inst];");
    line!(out, "  ld.param.b32 %depth, [depth];");
    line!(out, "  ld.param.b32 %number, [number];");
    line!(out, "  mov.b64 %fuel, {};", abi::SUSPENDED);
}

/// Branches to the place in `%r0`: only the compiler makes such numbers.
fn write_choice(out: &mut String, count: usize, tables: bool) {
    let labels: Vec<_> = (0..count).map(|place| format!("$F{place}")).collect();
    if !tables {
        return switch::alone(out, "%r0", &labels);
    }
    for place in 1..count.min(4) {
        line!(out, "  setp.eq.s32 %p, %r0, {place};");
        line!(out, "  @%p bra $F{place};");
    }
    if count > 4 {
        line!(out, "$places: .branchtargets {};", labels.join(", "));
        line!(out, "  brx.idx %r0, $places;");
    }
}

fn write_end(out: &mut String) {
    line!(out, "$out:");
    line!(out, "  st.param.b64 [ret], %fuel;");
    line!(out, "  ret;\n}}");
}

/// The function that resumes one of these functions, whose numbers begin with `first`.
fn write_group(
    out: &mut String,
    context: Context<'_>,
    name: &str,
    functions: &[u32],
    first: usize,
    record: Record,
) {
    let Context { module, prefix, .. } = context;
    let convention = module.convention;
    write_head(out, prefix, name);
    line!(out, "  .reg .b32 %r;");
    carried::write_found(out, context);
    line!(out, "  add.s32 %r0, %number, -{first};");
    write_choice(out, functions.len(), context.tables);
    for (place, &f) in functions.iter().enumerate() {
        let ty = module.function_type(f);
        line!(out, "$F{place}:");
        line!(out, "  {{");
        let mut list = String::from(write_head_arguments(out, "%inst", convention));
        for (i, part) in parts(&ty.params).iter().enumerate() {
            // It does not look at them.
            line!(out, "  .param .{} c{i};", part.ptx());
            line!(out, "  st.param.{} [c{i}], 0;", part.ptx());
            list.push_str(&format!(", c{i}"));
        }
        let bytes = ty.return_bytes(convention);
        line!(out, "  .param .align 8 .b8 cr[{bytes}];");
        line!(out, "  call (cr), {prefix}f{f}, ({list});");
        line!(out, "  ld.param.b64 %fuel, [cr];");
        line!(out, "  setp.lt.s64 %p, %fuel, 0;");
        line!(out, "  @%p bra $out;");
        if convention.global.is_some() {
            line!(out, "  ld.param.b32 %carry, [cr+{}];", ty.carried_at());
            out.push_str(&carried::keep(context));
        }
        for (part, at) in placed(&parts(&ty.results)) {
            let (size, reg) = (part.ptx(), if part.is_wide() { "%d" } else { "%r" });
            line!(out, "  ld.param.{size} {reg}, [cr+{}];", 8 + at);
            let to = record.results() + at;
            line!(out, "  st.global.{size} [%inst+{to}], {reg};");
        }
        line!(out, "  }}");
        line!(out, "  bra $returned;");
    }
    line!(out, "$returned:");
    line!(out, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
    write_end(out);
}
