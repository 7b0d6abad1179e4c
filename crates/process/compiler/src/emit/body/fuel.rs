//! Safepoints: fuel, the kill word and preemption.
//!
//! While a function runs, `%fuel` is one less than the fuel that is left, so that a safepoint looks before it takes: it
//! stops where the fuel is a multiple of the interval, and at zero no fuel is left. That is one comparison with `%lim`,
//! the next lower multiple. A callee spends fuel of its own, so the limit is computed again after every call within a
//! loop. Only the lower half is counted down; where it is zero, which is a multiple, the upper half is lowered
//! beforehand.
//!
//! **A loop's way out and in again.** The code that runs when a loop stops is no part of the loop: the way back is
//! through a preheader, where the limit is computed again. ptxas then sees two loops, and the inner one has only a
//! comparison, a branch that is not taken and a subtraction. With a way back into the middle, as one would write it
//! first, ptxas takes the look for a part of the loop where lanes may diverge, and puts a barrier around it in every
//! round. On an H200 integer hashing took 1.32 of its time without fuel, and the load of the kill word in the loop made
//! it yield to other warps in each round. The price is that lanes of a warp that stop at different times wait for each
//! other, once in each interval. `leave.rs` says how they come together after such a loop.
//!
//! **A loop that contains a call** continues after its look. Its limit is computed again after each call, so there is
//! little to gain, and the second loop has a barrier of its own, which is one more register that every call saves: for
//! a recursive parser that was 18 % of its time.
//!
//! **With preemption** a loop that has more than arithmetic in it continues after its look as well. An instance that
//! was suspended in it returns through its safepoint (`ways.rs`), so with a preheader the loop would have two entries.
//! ptxas then finds no place where lanes that diverge in a round come together: a loop of loops took 12 times as long.

use everwarp_contract::TrapKind;

use crate::context::Context;
use crate::emit::body::Body;
use crate::emit::carried;
use crate::facts::abi;
use crate::facts::abi::CallState;
use crate::text::{Label, line};

use super::suspend::note;

/// The labels of a loop's safepoint.
#[derive(Clone, Copy)]
pub(super) struct LoopLabels {
    /// Where the loop is entered.
    pub(super) entry: Label,
    /// Where the loop is entered, with `%ft` set.
    pub(super) preheader: Label,
    /// The label of the look.
    pub(super) look: Label,
    /// The label in the cold text where it continues after a look.
    next: Label,
    /// The label after the look.
    behind: Label,
}

/// The mask of the lower half of the fuel that rounds down to the next multiple of the interval.
const MULTIPLE: i64 = -(abi::KILL_INTERVAL as i64);

/// The count of a function's fuel, in `%fuel`, and the text that changes it.
#[derive(Default)]
pub(super) struct FuelMeter {
    /// The function has a safepoint, so it declares the registers of a look.
    pub(super) stops: bool,
}

impl FuelMeter {
    /// Takes one unit. The halves of the fuel are in `%fl` and `%fh`.
    fn take_one(text: &mut String) {
        line!(text, "  add.s32 %fl, %fl, -1;");
        line!(text, "  mov.b64 %fuel, {{%fl, %fh}};");
    }

    /// Before a unit is taken at a multiple of the interval: lowers the upper half if the lower one is zero.
    fn borrow(text: &mut String, by: i32) {
        line!(text, "  mov.b64 {{%fl, %fh}}, %fuel;");
        line!(text, "  setp.eq.s32 %sp, %fl, 0;");
        line!(text, "  @%sp add.s32 %fh, %fh, {by};");
        line!(text, "  mov.b64 %fuel, {{%fl, %fh}};");
    }
}

impl Body<'_> {
    /// The limit for what is left of the fuel.
    pub(super) fn find_limit(&mut self) {
        line!(self.text, "  cvt.u32.u64 %ft, %fuel;");
        line!(self.text, "  and.b32 %lim, %ft, {MULTIPLE};");
    }

    /// The safepoint at the function's entry. The caller says what else is done there.
    pub(super) fn entry_safepoint(&mut self) {
        let (slow, next, behind) = (self.fresh_label(), self.fresh_label(), self.fresh_label());
        line!(self.text, "  mov.b64 {{%fl, %fh}}, %fuel;");
        line!(self.text, "  and.b32 %ft, %fl, {};", abi::KILL_INTERVAL - 1);
        line!(self.text, "  setp.eq.s32 %sp, %ft, 0;");
        line!(self.text, "  @%sp bra {slow};");
        line!(self.text, "{behind}:");
        FuelMeter::take_one(&mut self.text);
        line!(self.cold, "{slow}:");
        self.write_look(next, next, "");
        line!(self.cold, "{next}:");
        line!(self.cold, "  bra {behind};");
    }

    /// The beginning of a loop, up to what is repeated.
    pub(super) fn begin_loop_safepoint(&mut self, header: Label, entry: Label) -> LoopLabels {
        let (look, preheader) = (self.fresh_label(), self.fresh_label());
        let (next, behind) = (self.fresh_label(), self.fresh_label());
        line!(self.text, "{entry}:");
        line!(self.text, "  cvt.u32.u64 %ft, %fuel;");
        line!(self.text, "{preheader}:");
        line!(self.text, "  and.b32 %lim, %ft, {MULTIPLE};");
        line!(self.text, "{header}:");
        self.locals.uses.label();
        self.forget_for_loop();
        line!(self.text, "  mov.b64 {{%fl, %fh}}, %fuel;");
        line!(self.text, "  setp.eq.s32 %sp, %fl, %lim;");
        line!(self.text, "  @%sp bra {look};");
        line!(self.text, "{behind}:");
        FuelMeter::take_one(&mut self.text);
        LoopLabels {
            entry,
            preheader,
            look,
            next,
            behind,
        }
    }

    /// The look of a loop's safepoint, in the cold text after its label.
    pub(super) fn end_look(&mut self, labels: &LoopLabels) {
        let mut restored = String::new();
        line!(restored, "  add.s32 %ft, %fl, -1;");
        line!(restored, "  and.b32 %lim, %ft, {MULTIPLE};");
        self.write_look(labels.next, labels.behind, &restored);
    }

    /// The code by which a loop continues after a look. It is written when the loop has ended, because only then it is
    /// known whether a resumption enters the loop at its safepoint.
    pub(super) fn write_next(&mut self, labels: &LoopLabels, has_way_in: bool) {
        let cold = &mut self.cold;
        line!(cold, "{}:", labels.next);
        if has_way_in {
            line!(cold, "  add.s32 %lim, %lim, {MULTIPLE};");
            line!(cold, "  bra {};", labels.behind);
        } else {
            line!(cold, "  add.s32 %ft, %fl, -1;");
            line!(cold, "  bra {};", labels.preheader);
        }
    }

    /// Checks whether fuel is left and whether to continue, at `next` then. A call that is preempted here continues at
    /// `resume`, after the text `restored`, which finds the halves of its fuel in `%fl` and `%fh`.
    fn write_look(&mut self, next: Label, resume: Label, restored: &str) {
        self.needs.traps = true;
        self.fuel.stops = true;
        if self.preempted() {
            return self.write_look_or_yield(next, resume, restored);
        }
        let (kill, offset) = (abi::KILL, self.offset);
        line!(self.cold, "  mov.b32 %to, {offset};");
        line!(self.cold, "  mov.b32 %tc, {};", TrapKind::OutOfFuel as u32);
        line!(self.cold, "  setp.eq.s64 %sp, %fuel, 0;");
        line!(self.cold, "  @%sp bra $S;");
        // Now rather than on the way back, or ptxas keeps the fuel as it was in every round.
        FuelMeter::borrow(&mut self.cold, -1);
        line!(
            self.cold,
            "  ld.relaxed.sys.global.b32 %tc, [%inst+{kill}];"
        );
        line!(self.cold, "  setp.eq.s32 %sp, %tc, 0;");
        line!(self.cold, "  @%sp bra {next};");
        FuelMeter::borrow(&mut self.cold, 1);
        line!(self.cold, "  mov.b32 %tc, {};", TrapKind::Killed as u32);
        line!(self.cold, "  bra $S;");
    }

    /// The same where the call may also be suspended. All reasons not to continue become one predicate, and what follows
    /// from which reason is decided after that ([`write_reason`]), in one place for all looks that save only locals. With
    /// a branch for each reason at each look, ptxas took 1.3 times as long for a function with 92 loops.
    fn write_look_or_yield(&mut self, next: Label, resume: Label, restored: &str) {
        let offset = self.offset;
        let site = self.add_look(resume);
        let reason = self.save_at_look(site);
        let slice = abi::SLICE;
        let cold = &mut self.cold;
        line!(cold, "  mov.b32 %to, {offset};");
        FuelMeter::borrow(cold, -1);
        // If no fuel was left, it has become negative.
        line!(cold, "  setp.lt.s64 %sp, %fuel, 0;");
        line!(
            cold,
            "  ld.relaxed.sys.global.b32 %tk, [%inst+{}];",
            abi::KILL
        );
        line!(cold, "  setp.ne.s32 %sq, %tk, 0;");
        line!(cold, "  or.pred %sp, %sp, %sq;");
        // Lanes that have parted do not come together again by themselves.
        line!(cold, "  activemask.b32 %ft;");
        line!(cold, "  popc.b32 %ft, %ft;");
        line!(cold, "  ld.global.b32 %tc, [%inst+{}];", abi::MATES);
        line!(cold, "  setp.lt.u32 %sq, %ft, %tc;");
        line!(cold, "  or.pred %sp, %sp, %sq;");
        // An instance also yields if the host has asked all instances at once.
        line!(cold, "  ld.global.b64 %sv, [%inst+{}];", abi::STOP);
        line!(cold, "  setp.ne.s64 %sq, %sv, 0;");
        line!(cold, "  mov.b32 %tc, 0;");
        line!(cold, "  @%sq ld.relaxed.gpu.global.b32 %tc, [%sv];");
        line!(cold, "  ld.global.b32 %ft, [%inst+{}];", abi::STOP_FROM);
        line!(cold, "  setp.ge.and.u32 %sq, %tc, %ft, %sq;");
        line!(cold, "  or.pred %sp, %sp, %sq;");
        // Only a look after which it would continue counts.
        line!(cold, "  ld.global.b32 %tc, [%inst+{slice}];");
        line!(cold, "  add.s32 %tc, %tc, -1;");
        line!(cold, "  @!%sp st.global.b32 [%inst+{slice}], %tc;");
        line!(cold, "  setp.eq.s32 %sq, %tc, 0;");
        line!(cold, "  or.pred %sp, %sp, %sq;");
        line!(cold, "  @!%sp bra {next};");
        line!(cold, "  bra {reason};");
        let mut after = String::new();
        line!(after, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        FuelMeter::borrow(&mut after, -1);
        after.push_str(restored);
        self.around(site, write_reason(self.context), after);
    }
}

/// Text for an instance that does not continue after a look: it traps, because its fuel is spent or it is killed, or the
/// text ends and its frame is to be saved. The kill word is in `%tk`, the operator's offset in `%to`.
pub(super) fn write_reason(context: Context<'_>) -> String {
    let mut out = String::new();
    FuelMeter::borrow(&mut out, 1);
    line!(out, "  mov.b32 %tc, {};", TrapKind::OutOfFuel as u32);
    line!(out, "  setp.eq.s64 %sp, %fuel, 0;");
    line!(out, "  @%sp bra $S;");
    line!(out, "  mov.b32 %tc, {};", TrapKind::Killed as u32);
    line!(out, "  setp.ne.s32 %sp, %tk, 0;");
    line!(
        out,
        "  setp.ne.and.s32 %sp, %tk, {}, %sp;",
        abi::YIELD as i32
    );
    line!(out, "  @%sp bra $S;");
    out.push_str(&note(CallState::Preempted));
    line!(out, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
    out.push_str(&carried::keep(context));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_taken_from_the_lower_half_alone() {
        let mut text = String::new();
        FuelMeter::take_one(&mut text);
        assert_eq!(
            text,
            "  add.s32 %fl, %fl, -1;\n  mov.b64 %fuel, {%fl, %fh};\n"
        );
    }

    #[test]
    fn what_is_borrowed_is_given_back() {
        let (mut taken, mut given) = (String::new(), String::new());
        FuelMeter::borrow(&mut taken, -1);
        FuelMeter::borrow(&mut given, 1);
        assert_eq!(taken.replace("%fh, -1;", "%fh, 1;"), given);
    }

    #[test]
    fn the_mask_leaves_multiples_of_the_interval() {
        let interval = abi::KILL_INTERVAL as i64;
        for fuel in [0, 1, interval - 1, interval, 5 * interval + 3] {
            assert_eq!(fuel & MULTIPLE, fuel / interval * interval);
        }
    }
}
