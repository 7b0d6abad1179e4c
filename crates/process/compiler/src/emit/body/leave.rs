//! How the lanes of a warp leave a loop.
//!
//! Each lane is another instance and leaves a loop after another number of rounds. After the loop all lanes should
//! continue together. ptxas makes lanes wait for each other where all ways out of a loop meet. A look at the fuel is a
//! way out and in again (`fuel.rs`); if it may end in suspension, the ways out never all meet. ptxas then makes lanes
//! wait at the look, and lets finished lanes go one by one. So all lanes that leave a loop come to one place, whether
//! to look or to continue, and separate after it by the number in `%out`: zero means a look. Of the look only a
//! comparison and a branch remain in the loop, and lanes that diverge within a round would need a barrier in each
//! round.
//!
//! `%out` must not be a constant, or ptxas finds out where each lane comes from and leads each of them on directly. The
//! difference of the fuel and its limit is zero where both are equal; the address of an instance is never zero, nor are
//! the few numbers above it.
//!
//! This is used for **loops of mere arithmetic** with one way back. On an H200 integer hashing took 1.23 times as long
//! as CUDA C++, where it had taken 1.27, and 1.31 in processes, where it had taken 1.50; Collatz's rule, a loop of
//! loops, took 1.26 and had taken 2.03. Where lanes diverge within a round, at an access or a branch, they have to meet
//! in that round: an interpreter took twice as long, and heapsort with interleaved memories eight times.

use crate::emit::body::Body;
use crate::text::{Label, line};

use super::fuel::LoopLabels;
use super::ways::LoopId;

/// A loop with more exits is left in the plain way, because lanes separate one exit after the other.
const MOST_EXITS: usize = 8;

/// A way out of a loop.
#[derive(Clone, Copy)]
pub(super) struct Exit {
    /// Where a branch goes that takes it.
    label: Label,
    /// Where it leads.
    target: Label,
}

/// The facts about a loop, as far as it is translated, that determine how it is left.
pub(super) struct Leave {
    /// The number of its frame.
    frame: usize,
    exits: Vec<Exit>,
    /// Something goes back to its beginning.
    repeats: bool,
    /// Lanes may part within a round.
    mixed: bool,
}

impl Leave {
    pub(super) const fn new(frame: usize) -> Self {
        Self {
            frame,
            exits: Vec::new(),
            repeats: false,
            mixed: false,
        }
    }
}

impl Body<'_> {
    /// Lanes may part here, and are to meet before the innermost loop repeats.
    pub(super) fn lanes_part(&mut self) {
        if let Some(&LoopId(id)) = self.loops.open.last() {
            self.loops.all[id].leave.mixed = true;
        }
    }

    /// Where a branch goes to this target, that of the frame with this number: to an exit, if that is out of the
    /// innermost loop.
    pub(super) fn way_to(&mut self, frame: usize, target: Label) -> Label {
        let Some(&LoopId(id)) = self.loops.open.last() else {
            return target;
        };
        let leave = &mut self.loops.all[id].leave;
        if frame >= leave.frame {
            leave.mixed |= frame > leave.frame || leave.repeats;
            leave.repeats = true;
            return target;
        }
        if let Some(exit) = leave.exits.iter().find(|exit| exit.target == target) {
            return exit.label;
        }
        leave.mixed |= leave.exits.len() == MOST_EXITS;
        if leave.mixed {
            return target;
        }
        let label = self.fresh_label();
        self.loops.all[id].leave.exits.push(Exit { label, target });
        label
    }

    /// Where a loop ends: if lanes leave it together, writes the place where they do, and gives the label of its look.
    pub(super) fn leave_loop(&mut self, id: usize) -> Option<Label> {
        let leave = &mut self.loops.all[id].leave;
        let exits = std::mem::take(&mut leave.exits);
        let left = !exits.is_empty() || !self.control.dead;
        if !leave.mixed && left {
            let labels = self.loops.all[id].labels;
            return Some(self.leave_together(&labels, &exits));
        }
        for Exit { label, target } in exits {
            line!(self.cold, "{label}:");
            line!(self.cold, "  bra {target};");
        }
        None
    }

    fn leave_together(&mut self, labels: &LoopLabels, exits: &[Exit]) -> Label {
        let (place, look) = (self.fresh_label(), self.fresh_label());
        let text = &mut self.text;
        if !self.control.dead {
            line!(text, "  mov.b64 %out, %inst;");
            line!(text, "  bra {place};");
        }
        line!(text, "{}:", labels.look);
        line!(text, "  sub.s32 %ft, %fl, %lim;");
        line!(text, "  cvt.u64.u32 %out, %ft;");
        line!(text, "{place}:");
        line!(text, "  setp.eq.s64 %sp, %out, 0;");
        line!(text, "  @%sp bra {look};");
        if !exits.is_empty() {
            line!(text, "  sub.s64 %out, %out, %inst;");
            line!(text, "  cvt.u32.u64 %ft, %out;");
        }
        for (number, Exit { label, target }) in (1..).zip(exits) {
            line!(self.cold, "{label}:");
            line!(self.cold, "  add.s64 %out, %inst, {number};");
            line!(self.cold, "  bra {place};");
            if self.control.dead && number == exits.len() {
                line!(text, "  bra {target};");
            } else {
                line!(text, "  setp.eq.s32 %sp, %ft, {number};");
                line!(text, "  @%sp bra {target};");
            }
        }
        look
    }
}
