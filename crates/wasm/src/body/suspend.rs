//! Where a function may be suspended, and how it goes on from there.
//!
//! A site is a call that may suspend, or with preemption a safepoint. What is live there are the locals and
//! the operand stack below the call: those registers are saved, in a frame on the save area's stack, and
//! the function returns [`abi::SUSPENDED`] for its fuel, as it returns -1 for a trap. When it is entered with
//! such a fuel, it takes its frame off again and branches to the site; a call is then made once more, and
//! its callee does the same. Frames come off in the reverse order, so no frame says whose it is.
//!
//! All of that is out of line. The running code pays a comparison and a branch at the entry, and what
//! ptxas makes of a call that can be reached from there.
//!
//! Why does no one save the arguments? A callee that goes on does not look at its parameters: what it
//! needs of them are locals, which it has saved itself.

use std::fmt::Write;

use super::{Body, Label, Operand, Place, Pred, Reg, line};
use crate::{Trap, abi};

/// A place where the function may be suspended.
pub(super) struct Site {
    /// Where the function goes on: at the call, or behind the safepoint.
    resume: Label,
    /// Offset of the operator, in the module's bytes.
    offset: usize,
    /// What of the operand stack is in registers. The locals come on top.
    regs: Vec<Reg>,
    /// What of it is in predicates.
    preds: Vec<Pred>,
    /// Registers that the call passes on.
    args: Vec<Reg>,
    /// Text in front of what saves the frame.
    before_save: String,
    /// Text behind what restores it.
    after_restore: String,
}

/// The number of a site, from 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SiteId(usize);

/// Function-local labels: where a site's frame is saved, and where it is restored.
impl SiteId {
    pub(super) fn save(self) -> String {
        format!("$V{}", self.0)
    }

    fn restore(self) -> String {
        format!("$R{}", self.0)
    }
}

/// Where the values of a frame lie: wide ones first, then narrow ones, then predicates; the site's number
/// in the last four bytes.
struct FrameLayout {
    wide: Vec<Reg>,
    narrow: Vec<Reg>,
    preds: Vec<Pred>,
}

impl FrameLayout {
    fn bytes(&self) -> usize {
        let narrow = self.narrow.len() + self.preds.len() + 1;
        (8 * self.wide.len() + 4 * narrow).next_multiple_of(8)
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
        self.suspending.is_some_and(|s| s.function(function))
    }

    /// Whether safepoints of this function may suspend it.
    pub(super) fn preempted(&self) -> bool {
        self.suspending.is_some_and(|s| s.preempt)
    }

    /// Adds a site where the operand stack is as it is now. The caller writes the label.
    pub(super) fn add_site(&mut self, resume: Label, args: Vec<Reg>) -> SiteId {
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
        // What is known of addresses is in registers that nobody saves.
        self.addresses.clear();
        self.sites.push(Site {
            resume,
            offset: self.offset,
            regs,
            preds,
            args,
            before_save: String::new(),
            after_restore: String::new(),
        });
        SiteId(self.sites.len() - 1)
    }

    /// Adds a site for a call with these arguments, and writes where it is resumed.
    pub(super) fn add_call_site<'a>(&mut self, args: impl Iterator<Item = &'a Operand>) -> SiteId {
        let regs = args.filter_map(|arg| match arg {
            Operand::Reg(reg) => Some(*reg),
            Operand::Number(_) => None,
        });
        let (resume, regs) = (self.fresh_label(), regs.collect());
        line!(self.text, "{resume}:");
        self.add_site(resume, regs)
    }

    /// Where a call goes on whose callee has not returned: traps unwind, a suspended frame is saved.
    pub(super) fn write_not_returned(&mut self, failed: Label, site: SiteId) {
        line!(self.cold, "{failed}:");
        self.write_if_suspended(site);
        line!(self.cold, "  bra $U;");
    }

    /// Branches to what saves the frame if the callee is suspended.
    pub(super) fn write_if_suspended(&mut self, site: SiteId) {
        line!(self.cold, "  setp.eq.s64 %sp, %fuel, {};", abi::SUSPENDED);
        line!(self.cold, "  @%sp bra {};", site.save());
    }

    /// Adds text around what saves and restores a site's frame.
    pub(super) fn around(&mut self, site: SiteId, before_save: String, after_restore: String) {
        let site = &mut self.sites[site.0];
        site.before_save = before_save;
        site.after_restore = after_restore;
    }

    /// In a safepoint's cold part, where `%tc` is the kill word and `%sp` says whether it is zero: goes on
    /// `back` there, or is suspended, or falls through to be killed.
    pub(super) fn write_yield(&mut self, back: Label) {
        let site = self.add_site(back, Vec::new());
        let slice = abi::SLICE;
        let (kill, yields) = (self.fresh_label(), site.save());
        let cold = &mut self.cold;
        line!(cold, "  @!%sp bra {kill};");
        line!(cold, "  ld.global.b32 %tc, [%inst+{slice}];");
        line!(cold, "  add.s32 %tc, %tc, -1;");
        line!(cold, "  st.global.b32 [%inst+{slice}], %tc;");
        line!(cold, "  setp.ne.s32 %sp, %tc, 0;");
        line!(cold, "  @%sp bra {back};");
        line!(cold, "  bra {yields};");
        line!(cold, "{kill}:");
        line!(cold, "  setp.eq.s32 %sp, %tc, {};", abi::YIELD as i32);
        line!(cold, "  @%sp bra {yields};");
        let (mut before, mut after) = (note(abi::CallState::Preempted), String::new());
        line!(before, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
        line!(after, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        self.around(site, before, after);
    }

    fn frame_layout(&self, site: &Site) -> FrameLayout {
        let locals = self.locals.iter().zip(&self.read);
        let locals = locals.filter(|(_, read)| **read).map(|(v, _)| v.reg);
        let mut all: Vec<Reg> = locals.chain(site.regs.iter().copied()).collect();
        all.sort_unstable_by_key(|r| (r.wide, r.index));
        all.dedup();
        let (wide, narrow) = all.into_iter().partition(|r| r.wide);
        FrameLayout {
            wide,
            narrow,
            preds: site.preds.clone(),
        }
    }

    /// Saving and restoring, for all sites; and the size of the largest frame. `start` is the offset of the
    /// function, of which a resumed call takes `levels` of the depth.
    pub(super) fn write_sites(&mut self, start: usize, levels: u32) -> (String, usize) {
        let (mut out, mut largest) = (String::new(), 0);
        if self.sites.is_empty() {
            return (out, largest);
        }
        self.kinds.insert(Trap::StackExhausted as u32);
        let sites = std::mem::take(&mut self.sites);
        for (i, site) in sites.iter().enumerate() {
            let layout = self.frame_layout(site);
            largest = largest.max(layout.bytes());
            write_save(&mut out, SiteId(i), site, &layout);
        }
        // No room for a frame: the fuel is what it was when the innermost function was suspended.
        line!(out, "$X:");
        line!(out, "  ld.global.b64 %sv, [%inst+{}];", abi::SAVE_BASE);
        line!(out, "  st.global.b64 [%inst+{}], %sv;", abi::SAVE_TOP);
        line!(out, "  ld.global.b64 %fuel, [%inst+{}];", abi::FUEL);
        line!(out, "  bra $K{};", Trap::StackExhausted as u32);
        line!(out, "$R:");
        if levels > 0 {
            line!(out, "  mov.b32 %to, {start};");
            line!(out, "  setp.eq.s32 %sp, %depth, 0;");
            line!(out, "  @%sp bra $X;");
            line!(out, "  add.s32 %depth, %depth, -{levels};");
        }
        line!(out, "  ld.global.b64 %sn, [%inst+{}];", abi::SAVE_TOP);
        line!(out, "  ld.global.b32 %tc, [%sn+-4];");
        write_dispatch(&mut out, sites.len());
        for (i, site) in sites.iter().enumerate() {
            let layout = self.frame_layout(site);
            write_restore(&mut out, SiteId(i), site, &layout);
        }
        (out, largest)
    }
}

fn write_save(out: &mut String, id: SiteId, site: &Site, layout: &FrameLayout) {
    line!(out, "{}:", id.save());
    out.push_str(&site.before_save);
    line!(out, "  mov.b32 %to, {};", site.offset);
    line!(out, "  ld.global.b64 %sv, [%inst+{}];", abi::SAVE_TOP);
    line!(out, "  ld.global.b64 %st, [%inst+{}];", abi::SAVE_END);
    line!(out, "  add.s64 %sn, %sv, {};", layout.bytes());
    line!(out, "  setp.gt.u64 %sp, %sn, %st;");
    line!(out, "  @%sp bra $X;");
    for (at, reg) in layout.regs() {
        line!(out, "  st.global.{} [%sv+{at}], {reg};", reg.bits());
    }
    for (at, pred) in layout.preds() {
        line!(out, "  selp.b32 %tc, 1, 0, {pred};");
        line!(out, "  st.global.b32 [%sv+{at}], %tc;");
    }
    line!(out, "  st.global.b32 [%sn+-4], {};", id.0);
    line!(out, "  st.global.b64 [%inst+{}], %sn;", abi::SAVE_TOP);
    line!(out, "  mov.b64 %fuel, {};", abi::SUSPENDED);
    line!(out, "  bra $U;");
}

/// Branches to the site whose number is in `%tc`. Only the function itself has written it.
fn write_dispatch(out: &mut String, sites: usize) {
    let labels = (0..sites).map(|i| SiteId(i).restore());
    if sites <= 3 {
        for (i, label) in labels.take(sites - 1).enumerate() {
            line!(out, "  setp.eq.s32 %sp, %tc, {i};");
            line!(out, "  @%sp bra {label};");
        }
        line!(out, "  bra {};", SiteId(sites - 1).restore());
        return;
    }
    let labels: Vec<_> = labels.collect();
    line!(out, "$RT: .branchtargets {};", labels.join(", "));
    line!(out, "  brx.idx %tc, $RT;");
}

fn write_restore(out: &mut String, id: SiteId, site: &Site, layout: &FrameLayout) {
    line!(out, "{}:", id.restore());
    line!(out, "  add.s64 %sv, %sn, -{};", layout.bytes());
    line!(out, "  st.global.b64 [%inst+{}], %sv;", abi::SAVE_TOP);
    for (at, pred) in layout.preds() {
        line!(out, "  ld.global.b32 %tc, [%sv+{at}];");
        line!(out, "  setp.ne.s32 {pred}, %tc, 0;");
    }
    let mut restored = Vec::new();
    for (at, reg) in layout.regs() {
        line!(out, "  ld.global.{} {reg}, [%sv+{at}];", reg.bits());
        restored.push(reg);
    }
    for &arg in &site.args {
        // The callee does not look at it, but it must be something.
        if !restored.contains(&arg) {
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
