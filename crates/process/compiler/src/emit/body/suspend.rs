//! Where a function may be suspended, and how it continues from there.
//!
//! A site is a call that may suspend, or with preemption a safepoint. The live values there are the locals and the
//! operand stack below the call. Their registers are saved, in a frame on the stack of the save area, and the function
//! returns [`abi::SUSPENDED`] as its fuel, as it returns -1 for a trap. When it is entered with such a fuel, it takes
//! its frame off again and goes to the site, through the loops around the site; a call is then made once more, and its
//! callee does the same. Frames come off in the reverse order, so no frame has to say which function it belongs to.
//!
//! All of that is out of line. The running code pays a comparison and a branch at the entry, and whatever ptxas makes
//! of a call that can be reached from there.
//!
//! Why does no function save the arguments of its call? A callee that is resumed does not read its parameters: those
//! that it needs are locals, which it has saved itself.

use std::collections::HashSet;
use std::fmt::Write;

use everwarp_contract::TrapKind;

use crate::emit::body::{Body, Place};
use crate::emit::carried;
use crate::emit::deep::Record;
use crate::facts::abi;
use crate::facts::types::{parts, placed};
use crate::text::{Label, Operand, Pred, Reg, line};

use super::fuel::write_reason;
use super::ways::LoopId;

/// How many entries of the operand stack may be live across all sites of a function, and how many more for
/// each byte of its code. What compilers emit keeps less than one for each call.
const MOST_KEPT: usize = 10_000;
const KEPT_FOR_EACH_BYTE: usize = 4;

/// A place where the function may be suspended.
pub(super) struct Site {
    /// Where the function continues: at the call, or after the safepoint.
    pub(super) resume: Label,
    /// The loop that it is in, itself not in another one within that.
    pub(super) within: Option<LoopId>,
    /// Offset of the operator, in the module's bytes.
    pub(super) offset: usize,
    /// What of the operand stack is in registers. The locals come on top.
    regs: Vec<Reg>,
    /// What of it is in predicates.
    preds: Vec<Pred>,
    /// Registers that the call passes on.
    args: Vec<Reg>,
    /// It is a safepoint, where fewer locals are live.
    look: bool,
    /// A call that has not returned continues where other calls do, or a look where others do, so the site needs no code
    /// to save its frame.
    shares: bool,
    /// Text before the code that saves the frame.
    before_save: String,
    /// Text after the code that restores it.
    after_restore: String,
}

/// The number of a site, from 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SiteId(pub(super) usize);

impl SiteId {
    /// The function-local label where a site's frame is saved.
    pub(super) fn save(self) -> String {
        format!("$V{}", self.0)
    }
}

/// Where a function may be suspended, and how much it keeps across all these places.
#[derive(Default)]
pub(super) struct SuspendMap {
    pub(super) sites: Vec<Site>,
    /// How many entries of the operand stack are live across the sites, all together.
    kept: usize,
    /// Offset of the first operator.
    start: usize,
    /// Some calls continue in one place when they have not returned.
    shares: bool,
    /// Some looks continue in one place when the call does not continue after them.
    looks_share: bool,
}

impl SuspendMap {
    /// Adds a site with this many entries on the operand stack.
    fn add(&mut self, site: Site, stack: usize) -> SiteId {
        self.kept += stack;
        self.sites.push(site);
        SiteId(self.sites.len() - 1)
    }

    /// Translation has come to an operator at this offset. Returns false if more is kept across the sites than is in
    /// proportion to the function's length: it could pile up values on the operand stack that each of thousands of
    /// calls would have to save.
    pub(super) fn reach(&mut self, offset: usize) -> bool {
        if self.start == 0 {
            self.start = offset;
        }
        self.kept <= MOST_KEPT + KEPT_FOR_EACH_BYTE * offset.saturating_sub(self.start)
    }
}

/// The offsets of values in a part of a frame: wide ones first, then narrow ones, then predicates.
pub(super) struct Slots {
    wide: Vec<Reg>,
    narrow: Vec<Reg>,
    preds: Vec<Pred>,
}

impl Slots {
    fn new(regs: impl Iterator<Item = Reg>, preds: &[Pred]) -> Self {
        let mut all: Vec<_> = regs.collect();
        all.sort_unstable_by_key(|r| (r.wide, r.index));
        all.dedup();
        let (wide, narrow) = all.into_iter().partition(|r| r.wide);
        let preds = preds.to_vec();
        Self {
            wide,
            narrow,
            preds,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wide.is_empty() && self.narrow.is_empty() && self.preds.is_empty()
    }

    /// The size, with `more` bytes at the end.
    fn bytes(&self, more: usize) -> usize {
        let narrow = self.narrow.len() + self.preds.len();
        (8 * self.wide.len() + 4 * narrow + more).next_multiple_of(8)
    }

    fn regs(&self) -> impl Iterator<Item = (usize, Reg)> {
        let narrow_at = 8 * self.wide.len();
        let wide = self.wide.iter().enumerate().map(|(i, r)| (8 * i, *r));
        let narrow = self.narrow.iter().enumerate();
        wide.chain(narrow.map(move |(i, r)| (narrow_at + 4 * i, *r)))
    }

    fn preds(&self) -> impl Iterator<Item = (usize, Pred)> {
        let at = 8 * self.wide.len() + 4 * self.narrow.len();
        (self.preds.iter().enumerate()).map(move |(i, p)| (at + 4 * i, *p))
    }
}

impl Body<'_> {
    /// Whether a call of this function may suspend.
    pub(super) fn may_suspend(&self, function: u32) -> bool {
        self.context
            .suspending
            .is_some_and(|s| s.function(function))
    }

    /// Whether safepoints of this function may suspend it.
    pub(super) fn preempted(&self) -> bool {
        self.context.suspending.is_some_and(|s| s.preempt)
    }

    /// Adds a site where the operand stack is as it is now. The caller writes the label.
    fn add_site(&mut self, resume: Label, args: Vec<Reg>, look: bool) -> SiteId {
        let (mut regs, mut preds) = (Vec::new(), Vec::new());
        for entry in &self.stack {
            match entry.place {
                Place::Reg(reg) => regs.push(reg),
                Place::Test(pred) => preds.push(pred),
                Place::Constant(_) => {}
            }
        }
        preds.sort_unstable_by_key(|p| p.0);
        preds.dedup();
        // What is known about addresses is in registers that no frame saves.
        self.forget_places();
        self.suspends.add(
            Site {
                resume,
                within: self.loops.innermost(),
                // The call of an imported function has no operator, and its safepoint is at 0.
                offset: match look {
                    true => self.offset,
                    false => self.offset.max(1),
                },
                regs,
                preds,
                args,
                look,
                shares: false,
                before_save: String::new(),
                after_restore: String::new(),
            },
            self.stack.len(),
        )
    }

    /// Adds a site for a safepoint, at a loop's beginning or the function's.
    pub(super) fn add_look(&mut self, resume: Label) -> SiteId {
        self.add_site(resume, Vec::new(), true)
    }

    /// Adds a site for a call with these arguments, and writes where it is resumed.
    pub(super) fn add_call_site<'a>(&mut self, args: impl Iterator<Item = &'a Operand>) -> SiteId {
        let regs = args.filter_map(|arg| match arg {
            Operand::Reg(reg) => Some(*reg),
            Operand::Number(_) => None,
        });
        let (resume, regs) = (self.fresh_label(), regs.collect());
        line!(self.text, "{resume}:");
        self.add_site(resume, regs, false)
    }

    /// The code after a call whose callee has not returned: traps unwind, a suspended frame is saved.
    pub(super) fn write_not_returned(&mut self, failed: Label, site: SiteId) {
        line!(self.cold, "{failed}:");
        if self.shares(site) {
            self.suspends.shares = true;
            line!(self.cold, "  bra $N;");
            return;
        }
        self.write_if_suspended(site);
        line!(self.cold, "  bra $U;");
    }

    /// Whether there is nothing to save at a site but the locals, as at most calls: all of these share the code that saves
    /// a frame. Then the offset is in `%to`.
    fn shares(&mut self, site: SiteId) -> bool {
        let SiteId(at) = site;
        if !self.stack_slots(&self.suspends.sites[at]).is_empty() {
            return false;
        }
        let site = &mut self.suspends.sites[at];
        site.shares = true;
        line!(self.cold, "  mov.b32 %to, {};", site.offset);
        true
    }

    /// The label where a call continues that does not go on after a look: there is the text of [`write_reason`], and then
    /// its frame is saved. Most looks have nothing to save but locals, and share it. The offset is in `%to`.
    pub(super) fn save_at_look(&mut self, site: SiteId) -> String {
        let SiteId(at) = site;
        if !self.stack_slots(&self.suspends.sites[at]).is_empty() {
            return site.save();
        }
        self.suspends.sites[at].shares = true;
        self.suspends.looks_share = true;
        REASON.to_owned()
    }

    /// Branches to what saves the frame if the callee of a call is suspended; there is no text around that.
    pub(super) fn write_if_call_suspended(&mut self, site: SiteId) {
        if !self.shares(site) {
            return self.write_if_suspended(site);
        }
        line!(self.cold, "  setp.eq.s64 %sp, %fuel, {};", abi::SUSPENDED);
        line!(self.cold, "  @%sp bra {};", save_locals(false));
    }

    /// Branches to what saves the frame if the callee is suspended.
    pub(super) fn write_if_suspended(&mut self, site: SiteId) {
        line!(self.cold, "  setp.eq.s64 %sp, %fuel, {};", abi::SUSPENDED);
        line!(self.cold, "  @%sp bra {};", site.save());
    }

    /// Adds text around what saves and restores a site's frame, which then needs code of its own.
    pub(super) fn around(&mut self, site: SiteId, before_save: String, after_restore: String) {
        let site = &mut self.suspends.sites[site.0];
        site.before_save = before_save;
        site.after_restore = after_restore;
    }

    /// The site added last is the safepoint at the function's entry: after it the function takes its level
    /// of the depth, which a function that goes on has taken already.
    pub(super) fn at_entry(&mut self) {
        let site = self
            .suspends
            .sites
            .last_mut()
            .expect("the safepoint is a site");
        line!(site.after_restore, "  add.s32 %depth, %depth, 1;");
    }

    /// The code of a function that finds the stack full at its entry, whose label is returned: it is suspended there as if it
    /// were preempted, and gives its unit of fuel back.
    pub(super) fn write_when_full(&mut self, start: usize) -> Label {
        let label = self.fresh_label();
        let record = Record::of(self.context).expect("calls may nest deeper than the stack");
        let kept = carried::keep(self.context);
        let cold = &mut self.cold;
        line!(cold, "{label}:");
        line!(cold, "  add.s64 %fuel, %fuel, 1;");
        line!(cold, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
        cold.push_str(&kept);
        line!(cold, "  mov.b32 %tc, {};", abi::DEEP);
        line!(cold, "  st.global.b32 [%inst+{}], %tc;", abi::STATE);
        // Half of the functions stay on the stack.
        line!(cold, "  ld.global.b32 %tc, [%inst+{}];", abi::DEPTH);
        line!(cold, "  shr.u32 %tc, %tc, 1;");
        line!(cold, "  st.global.b32 [%inst+{}], %tc;", record.left());
        // If there is no room, this is where.
        line!(cold, "  mov.b32 %tc, {};", self.function);
        line!(cold, "  st.global.b32 [%inst+{}], %tc;", abi::TRAP_FUNCTION);
        line!(cold, "  mov.b32 %to, {start};");
        line!(cold, "  st.global.b32 [%inst+{}], %to;", abi::TRAP_OFFSET);
        line!(cold, "  bra {};", save_locals(true));
        label
    }

    /// A frame has been saved: if frames can be divided at the function, the innermost ones reach up to here so far.
    fn write_mark(&self, out: &mut String) {
        let deep = self
            .context
            .deep
            .and_then(|deep| deep.number(self.function));
        let (Some(number), Some(record)) = (deep, Record::of(self.context)) else {
            return;
        };
        line!(out, "  ld.global.b32 %tc, [%inst+{}];", record.left());
        line!(out, "  setp.eq.s32 %sp, %tc, 0;");
        line!(out, "  @%sp bra $U;");
        line!(out, "  add.s32 %tc, %tc, -1;");
        line!(out, "  st.global.b32 [%inst+{}], %tc;", record.left());
        line!(out, "  st.global.b64 [%inst+{}], %sn;", record.mark());
        line!(out, "  mov.b32 %tc, {number};");
        line!(out, "  st.global.b32 [%inst+{}], %tc;", record.marked());
    }

    /// A function that is resumed has returned already, if its frame says so: its results are in the block.
    fn write_if_returned(&self, out: &mut String) -> bool {
        let deep = self
            .context
            .deep
            .and_then(|deep| deep.number(self.function));
        if deep.is_none() {
            return false;
        }
        line!(out, "  ld.global.b64 %sn, [%inst+{}];", abi::SAVE_TOP);
        line!(out, "  ld.global.b32 %to, [%sn+-4];");
        line!(out, "  setp.eq.s32 %sp, %to, {};", abi::RETURNED);
        line!(out, "  @%sp bra $G;");
        true
    }

    fn write_returned(&self, out: &mut String) {
        let record = Record::of(self.context).expect("calls may nest deeper than the stack");
        let module = self.context.module;
        let ty = module.function_type(self.function);
        line!(out, "$G:");
        line!(out, "  add.s64 %sn, %sn, -8;");
        line!(out, "  st.global.b64 [%inst+{}], %sn;", abi::SAVE_TOP);
        line!(out, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        line!(out, "  st.param.b64 [ret], %fuel;");
        if module.convention.global.is_some() {
            line!(out, "  st.param.b32 [ret+{}], %carry;", ty.carried_at());
        }
        for (part, at) in placed(&parts(&ty.results)) {
            let (size, reg) = (part.ptx(), if part.is_wide() { "%sv" } else { "%tc" });
            let from = record.results() + at;
            line!(out, "  ld.global.{size} {reg}, [%inst+{from}];");
            line!(out, "  st.param.{size} [ret+{}], {reg};", 8 + at);
        }
        line!(out, "  ret;");
    }

    /// The operand stack at a site, without what is a local.
    fn stack_slots(&self, site: &Site) -> Slots {
        let regs = site.regs.iter().copied();
        Slots::new(regs.filter(|r| !self.registers.is_local(*r)), &site.preds)
    }

    /// For each part of a local whether it has to hold a value all the time: if it is live where a loop begins, and
    /// where calls may suspend if anything reads it, because it is saved there.
    pub(super) fn kept_locals(&self) -> Vec<bool> {
        let calls_suspend = self.suspends.sites.iter().any(|site| !site.look);
        let is_kept = |part| match calls_suspend {
            true => self.locals.uses.is_read(part),
            false => self.locals.uses.is_live(part),
        };
        (0..self.locals.values.len()).map(is_kept).collect()
    }

    /// Saving and restoring, for all sites; and the size of the largest frame. `start` is the offset of the
    /// function, which takes a level of the depth if it `calls` others.
    ///
    /// A frame is what a site keeps of the operand stack, then the locals, then the offset of the site's operator in the
    /// last four bytes. No two sites have the same. Locals are restored in one place for all sites, and saved in one for calls and one for safepoints:
    /// text for each of them at each site would grow with the square of a function's length. What is not live at a
    /// safepoint is not saved there: a loop would have to keep it in every round.
    /// Those that are `kept` are saved.
    pub(super) fn write_sites(
        &mut self,
        start: usize,
        calls: bool,
        kept: &[bool],
    ) -> (String, usize) {
        let mut out = String::new();
        if self.suspends.sites.is_empty() {
            return (out, 0);
        }
        self.needs.kinds.insert(TrapKind::StackExhausted as u32);
        let sites = std::mem::take(&mut self.suspends.sites);
        let locals = self
            .locals
            .values
            .iter()
            .zip(kept)
            .filter(|(_, kept)| **kept);
        let locals = Slots::new(locals.map(|(local, _)| local.reg), &[]);
        let below = locals.bytes(4);
        let slots: Vec<_> = sites.iter().map(|site| self.stack_slots(site)).collect();
        for (i, (site, slots)) in sites.iter().zip(&slots).enumerate() {
            if !site.shares {
                write_save(&mut out, SiteId(i), site, slots, below);
            }
        }
        if self.suspends.shares {
            line!(out, "$N:");
            line!(out, "  setp.eq.s64 %sp, %fuel, {};", abi::SUSPENDED);
            line!(out, "  @!%sp bra $U;");
            line!(out, "  bra {};", save_locals(false));
        }
        for look in [false, true] {
            if look && self.suspends.looks_share {
                line!(out, "{REASON}:");
                out.push_str(&write_reason(self.context));
            }
            if sites.iter().any(|site| site.look == look) {
                self.write_save_locals(&mut out, look, &locals, below);
            }
        }
        // No room for a frame: the fuel is what it was when the innermost function was suspended.
        line!(out, "$X:");
        if start == 0 {
            line!(out, "  mov.b32 %to, 0;");
        }
        line!(out, "  ld.global.b64 %sv, [%inst+{}];", abi::SAVE_BASE);
        line!(out, "  st.global.b64 [%inst+{}], %sv;", abi::SAVE_TOP);
        line!(out, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        line!(out, "  add.s64 %fuel, %fuel, -1;");
        out.push_str(&carried::find(self.context));
        line!(out, "  bra $K{};", TrapKind::StackExhausted as u32);
        let mut ways = String::new();
        line!(ways, "$R:");
        ways.push_str(&carried::find(self.context));
        if self.write_if_returned(&mut ways) {
            self.write_returned(&mut out);
        }
        if start > 0 && self.context.only.is_some() {
            self.write_if_not_started(&mut ways);
            self.write_begin(&mut out, kept);
        }
        out.push_str(&ways);
        if calls && self.context.deep.is_some() {
            // Suspended at its entry it has no level yet, and may find the stack full once more.
            line!(out, "  ld.global.b64 %sn, [%inst+{}];", abi::SAVE_TOP);
            line!(out, "  ld.global.b32 %to, [%sn+-4];");
            line!(out, "  setp.eq.s32 %sp, %depth, 0;");
            line!(out, "  setp.ne.and.s32 %sp, %to, {start}, %sp;");
            line!(out, "  mov.b32 %to, {start};");
            line!(out, "  @%sp bra $X;");
            line!(out, "  add.s32 %depth, %depth, -1;");
        } else if calls {
            line!(out, "  mov.b32 %to, {start};");
            line!(out, "  setp.eq.s32 %sp, %depth, 0;");
            line!(out, "  @%sp bra $X;");
            line!(out, "  add.s32 %depth, %depth, -1;");
        }
        line!(out, "  ld.global.b64 %sn, [%inst+{}];", abi::SAVE_TOP);
        for (at, reg) in locals.regs() {
            let at = at as i64 - below as i64;
            line!(out, "  ld.global.{} {reg}, [%sn+{at}];", reg.bits());
        }
        self.write_ways(&mut out, &sites, &slots, below);
        let largest = slots.iter().map(|s| s.bytes(0)).max().unwrap_or(0);
        (out, largest + below)
    }

    /// Saves the locals that are live at safepoints, or those that may be at calls, and returns.
    fn write_save_locals(&self, out: &mut String, look: bool, locals: &Slots, below: usize) {
        let label = save_locals(look);
        write_frame_check(out, label, below);
        line!(out, "{label}L:");
        let dead =
            (0..self.locals.values.len()).filter(|&part| look && !self.locals.uses.is_live(part));
        let dead: HashSet<_> = dead.map(|part| self.locals.values[part].reg).collect();
        for (at, reg) in locals.regs().filter(|(_, reg)| !dead.contains(reg)) {
            let at = at as i64 - below as i64;
            line!(out, "  st.global.{} [%sn+{at}], {reg};", reg.bits());
        }
        line!(out, "  st.global.b32 [%sn+-4], %to;");
        line!(out, "  st.global.b64 [%inst+{}], %sn;", abi::SAVE_TOP);
        line!(out, "  mov.b64 %fuel, {};", abi::SUSPENDED);
        self.write_mark(out);
        line!(out, "  bra $U;");
    }
}

/// Where calls that do not continue after a look come to, if they have only locals to save.
const REASON: &str = "$P";

/// Where the locals are saved at safepoints, or at calls.
const fn save_locals(look: bool) -> &'static str {
    if look { "$Y" } else { "$W" }
}

/// Finds room for a frame of this size: from `%sv` to `%sn`.
fn write_frame_check(out: &mut String, label: &str, bytes: usize) {
    line!(out, "{label}:");
    line!(out, "  ld.global.b64 %sv, [%inst+{}];", abi::SAVE_TOP);
    line!(out, "  ld.global.b64 %st, [%inst+{}];", abi::SAVE_END);
    line!(out, "  add.s64 %sn, %sv, {bytes};");
    line!(out, "  setp.gt.u64 %sp, %sn, %st;");
    line!(out, "  @%sp bra $X;");
}

/// Saves the values that belong to the site only, and continues with the locals, with the operator's offset in `%to`.
fn write_save(out: &mut String, id: SiteId, site: &Site, slots: &Slots, below: usize) {
    let label = id.save();
    let bytes = slots.bytes(0);
    if bytes == 0 {
        line!(out, "{label}:");
        out.push_str(&site.before_save);
        line!(out, "  mov.b32 %to, {};", site.offset);
        line!(out, "  bra {};", save_locals(site.look));
        return;
    }
    line!(out, "{label}:");
    out.push_str(&site.before_save);
    line!(out, "  mov.b32 %to, {};", site.offset);
    write_frame_check(out, &format!("{label}S"), bytes + below);
    for (at, reg) in slots.regs() {
        line!(out, "  st.global.{} [%sv+{at}], {reg};", reg.bits());
    }
    for (at, pred) in slots.preds() {
        line!(out, "  selp.b32 %tc, 1, 0, {pred};");
        line!(out, "  st.global.b32 [%sv+{at}], %tc;");
    }
    line!(out, "  bra {}L;", save_locals(site.look));
}

/// Takes a frame off that holds this much of the operand stack, which begins at `%sv` then.
pub(super) fn write_take_off(out: &mut String, slots: &Slots, below: usize) {
    line!(out, "  mov.b64 %fuel, {};", abi::SUSPENDED);
    line!(out, "  add.s64 %sv, %sn, -{};", slots.bytes(0) + below);
    line!(out, "  st.global.b64 [%inst+{}], %sv;", abi::SAVE_TOP);
}

/// Restores what belongs to a site only, after its frame has been taken off, and goes there.
pub(super) fn write_restore(
    out: &mut String,
    site: &Site,
    slots: &Slots,
    is_restored: impl Fn(Reg) -> bool,
) {
    for (at, pred) in slots.preds() {
        line!(out, "  ld.global.b32 %tc, [%sv+{at}];");
        line!(out, "  setp.ne.s32 {pred}, %tc, 0;");
    }
    let mut restored = Vec::new();
    for (at, reg) in slots.regs() {
        line!(out, "  ld.global.{} {reg}, [%sv+{at}];", reg.bits());
        restored.push(reg);
    }
    for &arg in &site.args {
        // The callee does not look at it, but it must be something.
        if !is_restored(arg) && !restored.contains(&arg) {
            restored.push(arg);
            line!(out, "  mov.{} {arg}, 0;", arg.bits());
        }
    }
    out.push_str(&site.after_restore);
    line!(out, "  bra {};", site.resume);
}

/// Text that keeps in the header why the instance is suspended.
pub(super) fn note(state: abi::CallState) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "  mov.b32 %tc, {};", state as u32);
    let _ = writeln!(out, "  st.global.b32 [%inst+{}], %tc;", abi::STATE);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reg(wide: bool, index: u32) -> Reg {
        Reg { wide, index }
    }

    fn site() -> Site {
        Site {
            resume: Label(0),
            within: None,
            offset: 0,
            regs: Vec::new(),
            preds: Vec::new(),
            args: Vec::new(),
            look: false,
            shares: false,
            before_save: String::new(),
            after_restore: String::new(),
        }
    }

    #[test]
    fn sites_are_numbered_in_their_order() {
        let mut map = SuspendMap::default();
        assert_eq!(map.add(site(), 3).0, 0);
        assert_eq!(map.add(site(), 4).0, 1);
        assert_eq!(map.kept, 7);
    }

    #[test]
    fn a_function_may_keep_more_the_longer_it_is() {
        let mut map = SuspendMap::default();
        assert!(map.reach(100));
        map.add(site(), MOST_KEPT + KEPT_FOR_EACH_BYTE);
        assert!(!map.reach(100));
        assert!(map.reach(101));
    }

    #[test]
    fn a_frame_holds_wide_registers_then_narrow_ones_then_predicates() {
        let regs = [reg(false, 7), reg(true, 2), reg(false, 3), reg(false, 7)];
        let slots = Slots::new(regs.into_iter(), &[Pred(1)]);
        let at: Vec<_> = slots.regs().collect();
        assert_eq!(
            at,
            [(0, reg(true, 2)), (8, reg(false, 3)), (12, reg(false, 7))]
        );
        assert_eq!(slots.preds().collect::<Vec<_>>(), [(16, Pred(1))]);
        assert_eq!((slots.bytes(0), slots.bytes(4)), (24, 24));
        assert_eq!(slots.bytes(5), 32);
    }
}
