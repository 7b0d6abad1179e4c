//! A test double of the wait and notify functions: both in PTX, and a record of the waiters.

use std::fmt::Write;

use everwarp_compiler::{NOTIFY, ProvidedImport, Provider, SUSPENDED, WAIT, WAITING};

/// The largest number of simultaneous waiters.
const SLOTS: u64 = 8;
/// Each slot has the address of the waiter's block (0 if the slot is free), the address waited for, the timeout, and
/// the outcome: 0 while the waiter waits, else the result plus one.
const SLOT_BYTES: u64 = 32;
const BECAME: u64 = 24;

/// Bytes of the record, which is initially zero.
pub(crate) const RECORD_BYTES: u64 = SLOTS * SLOT_BYTES;

/// The compiler option for a module that waits.
pub(crate) fn provided() -> Vec<ProvidedImport> {
    let function = |name: &str, suspends| ProvidedImport {
        module: WAITING.to_owned(),
        name: name.to_owned(),
        symbol: format!("host_{name}"),
        provider: Provider::Device,
        suspends,
    };
    vec![function(WAIT, true), function(NOTIFY, false)]
}

/// The address of the outcome in this slot.
pub(crate) const fn became(record: u64, slot: u64) -> u64 {
    record + slot * SLOT_BYTES + BECAME
}

/// Both functions. They are correct only for calls that do not overlap.
pub(crate) fn functions(record: u64) -> String {
    let end = record + RECORD_BYTES;
    let mut out = String::new();
    let wait = format!(
        ".visible .func (.param .align 8 .b8 ret[16]) host_wait (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b64 a0, .param .b64 a1, .param .b64 a2, .param .b32 a3)
{{
  .reg .b64 %inst, %fuel, %at, %d<4>;
  .reg .b32 %r<3>;
  .reg .pred %p;
  ld.param.b64 %inst, [inst];
  ld.param.b64 %fuel, [fuel];
  ld.param.b64 %d1, [a0];
  ld.param.b64 %d2, [a1];
  ld.param.b32 %r1, [a3];
  mov.b64 %at, {record};
$find:
  ld.global.b64 %d0, [%at];
  setp.eq.s64 %p, %d0, %inst;
  @%p bra $mine;
  add.s64 %at, %at, {SLOT_BYTES};
  setp.lt.u64 %p, %at, {end};
  @%p bra $find;
  setp.eq.s32 %p, %r1, 8;
  @%p bra $wide;
  ld.global.b32 %r2, [%d1];
  cvt.u64.u32 %d3, %r2;
  bra $compare;
$wide:
  ld.global.b64 %d3, [%d1];
$compare:
  mov.b32 %r0, 1;
  setp.ne.s64 %p, %d3, %d2;
  @%p bra $answer;
  mov.b64 %at, {before};
$free:
  add.s64 %at, %at, {SLOT_BYTES};
  ld.global.b64 %d0, [%at];
  setp.ne.s64 %p, %d0, 0;
  @%p bra $free;
  st.global.b64 [%at], %inst;
  st.global.b64 [%at+8], %d1;
  ld.param.b64 %d2, [a2];
  st.global.b64 [%at+16], %d2;
  st.global.b32 [%at+{BECAME}], 0;
$suspend:
  mov.b64 %fuel, {SUSPENDED};
  st.param.b64 [ret], %fuel;
  ret;
$mine:
  ld.global.b32 %r1, [%at+{BECAME}];
  setp.eq.s32 %p, %r1, 0;
  @%p bra $suspend;
  add.s32 %r0, %r1, -1;
  st.global.b64 [%at], 0;
$answer:
  st.param.b64 [ret], %fuel;
  st.param.b32 [ret+8], %r0;
  ret;
}}
",
        before = record - SLOT_BYTES
    );
    let notify = format!(
        ".visible .func (.param .align 8 .b8 ret[16]) host_notify (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b64 a0, .param .b32 a1)
{{
  .reg .b64 %fuel, %at, %d<3>;
  .reg .b32 %r<3>;
  .reg .pred %p;
  ld.param.b64 %fuel, [fuel];
  ld.param.b64 %d0, [a0];
  ld.param.b32 %r0, [a1];
  mov.b32 %r1, 0;
  mov.b64 %at, {before};
$next:
  add.s64 %at, %at, {SLOT_BYTES};
  setp.ge.u64 %p, %at, {end};
  @%p bra $answer;
  setp.eq.s32 %p, %r0, %r1;
  @%p bra $answer;
  ld.global.b64 %d1, [%at];
  setp.eq.s64 %p, %d1, 0;
  @%p bra $next;
  ld.global.b64 %d2, [%at+8];
  setp.ne.s64 %p, %d2, %d0;
  @%p bra $next;
  ld.global.b32 %r2, [%at+{BECAME}];
  setp.ne.s32 %p, %r2, 0;
  @%p bra $next;
  st.global.b32 [%at+{BECAME}], 1;
  add.s32 %r1, %r1, 1;
  bra $next;
$answer:
  st.param.b64 [ret], %fuel;
  st.param.b32 [ret+8], %r1;
  ret;
}}
",
        before = record - SLOT_BYTES
    );
    write!(out, "{wait}{notify}").expect("a String takes text");
    out
}
