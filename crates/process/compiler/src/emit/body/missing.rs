//! Functions that an image does not have.
//!
//! A caller finds in such a function's place some lines that keep the arguments in a frame of their own, note which function
//! is missing, and suspend the instance. In an image that has the function, the caller is resumed and calls it once more: the
//! function finds that frame, takes its arguments from it and begins.
//!
//! An instance that is suspended may also be resumed in an image that lacks a function on its way up. Then the same lines
//! leave all frames as they are and suspend it again. So every image can run every instance of its module, as far as it can.
//!
//! Why do functions without loops and calls always exist? They have no code to resume them, which would cost them a
//! comparison and a branch at each call, and most are short.

use everwarp_contract::TrapKind;

use crate::context::Context;
use crate::emit::body::{Body, Value};
use crate::emit::carried;
use crate::facts::abi::{self, CallState};
use crate::facts::types::parts;
use crate::text::line;

/// The label where a function begins whose arguments are in registers.
pub(super) const BEGIN: &str = "$Q";
/// The label where it takes them from a frame.
const TAKE: &str = "$A";

/// Bytes of a frame for the arguments of a function: 8 for each part, and the mark.
pub(super) fn frame_bytes(context: Context<'_>, function: u32) -> usize {
    let ty = context.module.function_type(function);
    8 * parts(&ty.params).len() + 8
}

/// Appends what stands for a function.
pub(super) fn write(out: &mut String, context: Context<'_>, function: u32, start: usize) {
    let Context { module, prefix, .. } = context;
    let ty = module.function_type(function);
    let convention = module.convention;
    let name = format!("{prefix}f{function}");
    line!(out, ".func {}\n{{", ty.signature(&name, convention));
    line!(out, "  .reg .b64 %inst, %fuel, %sv, %sn, %st;");
    line!(out, "  .reg .b32 %tc;");
    line!(out, "  .reg .pred %sp;");
    line!(out, "  ld.param.b64 %inst, [inst];");
    line!(out, "  ld.param.b64 %fuel, [fuel];");
    line!(out, "  mov.b32 %tc, {function};");
    line!(out, "  st.global.b32 [%inst+{}], %tc;", abi::TRAP_FUNCTION);
    line!(out, "  mov.b32 %tc, {};", CallState::Missing as u32);
    line!(out, "  st.global.b32 [%inst+{}], %tc;", abi::STATE);
    // Resumed, it leaves the frames as they are.
    line!(out, "  setp.lt.s64 %sp, %fuel, 0;");
    line!(out, "  @%sp bra $U;");
    if convention.global.is_some() {
        line!(out, "  .reg .b32 %carry;");
        line!(out, "  ld.param.b32 %carry, [carry];");
    }
    out.push_str(&carried::keep(context));
    line!(out, "  add.s64 %fuel, %fuel, 1;");
    line!(out, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
    line!(out, "  ld.global.b64 %sv, [%inst+{}];", abi::SAVE_TOP);
    line!(out, "  ld.global.b64 %st, [%inst+{}];", abi::SAVE_END);
    line!(
        out,
        "  add.s64 %sn, %sv, {};",
        frame_bytes(context, function)
    );
    line!(out, "  setp.gt.u64 %sp, %sn, %st;");
    line!(out, "  @%sp bra $X;");
    for (i, part) in parts(&ty.params).iter().enumerate() {
        let reg = if part.is_wide() { "%st" } else { "%tc" };
        line!(out, "  ld.param.{} {reg}, [a{i}];", part.ptx());
        line!(out, "  st.global.{} [%sv+{}], {reg};", part.ptx(), 8 * i);
    }
    line!(out, "  mov.b32 %tc, {};", abi::NOT_STARTED);
    line!(out, "  st.global.b32 [%sn+-4], %tc;");
    line!(out, "  st.global.b64 [%inst+{}], %sn;", abi::SAVE_TOP);
    line!(out, "$U:");
    line!(out, "  mov.b64 %fuel, {};", abi::SUSPENDED);
    line!(out, "  st.param.b64 [ret], %fuel;");
    line!(out, "  ret;");
    line!(out, "$X:");
    line!(out, "  ld.global.b64 %sv, [%inst+{}];", abi::SAVE_BASE);
    line!(out, "  st.global.b64 [%inst+{}], %sv;", abi::SAVE_TOP);
    line!(out, "  mov.b32 %tc, {start};");
    line!(out, "  st.global.b32 [%inst+{}], %tc;", abi::TRAP_OFFSET);
    line!(out, "  mov.b32 %tc, {};", TrapKind::StackExhausted as u32);
    line!(out, "  st.global.b32 [%inst+{}], %tc;", abi::TRAP);
    line!(out, "  mov.b64 %fuel, -1;");
    line!(out, "  st.param.b64 [ret], %fuel;");
    line!(out, "  ret;\n}}");
}

impl Body<'_> {
    /// Whether another image may lack this function: one that can be resumed.
    pub(super) fn may_be_missing(&self) -> bool {
        self.context.only.is_some() && !self.suspends.sites.is_empty()
    }

    /// Whether this image is to lack it.
    pub(super) fn is_missing(&self) -> bool {
        let only = self.context.only;
        only.is_some_and(|only| !only.contains(&self.function))
    }

    /// Text of a resumed function: whether it has to begin.
    pub(super) fn write_if_not_started(&self, out: &mut String) {
        line!(out, "  ld.global.b64 %sn, [%inst+{}];", abi::SAVE_TOP);
        line!(out, "  ld.global.b32 %to, [%sn+-4];");
        line!(out, "  setp.eq.s32 %sp, %to, {};", abi::NOT_STARTED);
        line!(out, "  @%sp bra {TAKE};");
    }

    /// Text that takes the arguments off, and begins. Locals that are not `kept` hold nothing yet.
    pub(super) fn write_begin(&self, out: &mut String, kept: &[bool]) {
        let ty = self.context.module.function_type(self.function);
        let params = parts(&ty.params).len();
        let bytes = frame_bytes(self.context, self.function);
        line!(out, "{TAKE}:");
        line!(out, "  add.s64 %sn, %sn, -{bytes};");
        line!(out, "  st.global.b64 [%inst+{}], %sn;", abi::SAVE_TOP);
        for (i, Value { ty, reg }) in self.locals.values.iter().enumerate() {
            match i < params {
                _ if !kept[i] => {}
                true => line!(out, "  ld.global.{} {reg}, [%sn+{}];", ty.ptx(), 8 * i),
                false => line!(out, "  mov.{} {reg}, 0;", reg.bits()),
            }
        }
        line!(out, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        line!(out, "  add.s64 %fuel, %fuel, -1;");
        line!(out, "  bra {BEGIN};");
    }
}
