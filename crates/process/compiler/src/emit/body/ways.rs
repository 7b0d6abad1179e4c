//! How a function that is resumed gets back to the place where it was suspended: through the beginning of every loop
//! around that place.
//!
//! Why not by one branch? ptxas does not recognise a loop that can be entered in its middle. It brings the lanes of a
//! warp together at a loop's end, but not at the end of such code: lanes that diverge once, and each lane is another
//! instance, then run one after another for good. Measured on an H200, a loop of loops whose lanes diverge at different
//! times took 7 to 17 times as long.
//!
//! It costs a running loop nothing, because the way in is the safepoint that every loop has. The fuel says that the
//! function is on its way: [`ON_ITS_WAY`] is a multiple of the interval, so the rarely reached code is reached, and
//! finds there a number that fuel never is.

use crate::emit::body::Body;
use crate::facts::abi;
use crate::text::{Label, Reg, line};

use super::fuel::LoopLabels;
use super::leave::Leave;
use super::suspend::{Site, Slots, write_restore, write_take_off};

/// The fuel of a function that is on its way into a loop.
const ON_ITS_WAY: i64 = -(1 << 62);

/// The number of a loop, from 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopId(pub(super) usize);

/// A loop, and the sites in it if the function may be suspended.
pub(super) struct Loop {
    pub(super) labels: LoopLabels,
    pub(super) leave: Leave,
    within: Option<LoopId>,
    /// The first site that is in it.
    first: usize,
    /// The first that follows it.
    end: usize,
    /// Something is called in it.
    calls: bool,
    /// Where in the cold text its look begins, with the way in.
    written: std::ops::Range<usize>,
}

/// The loops of a function.
#[derive(Default)]
pub(super) struct LoopNest {
    /// All of them, in the order of their beginnings; a [`LoopId`] is an index.
    pub(super) all: Vec<Loop>,
    /// Those that are open, the outermost first.
    pub(super) open: Vec<LoopId>,
}

impl LoopNest {
    /// The innermost loop that is open.
    pub(super) fn innermost(&self) -> Option<LoopId> {
        self.open.last().copied()
    }
}

/// Sites from an operator on, and where they are reached.
struct Way<'s> {
    /// The offset of the first one's operator.
    from: usize,
    to: To<'s>,
}

enum To<'s> {
    Site(&'s Site, &'s Slots),
    Loop(Label),
}

impl Way<'_> {
    /// A site that keeps nothing of the operand stack, as most do: their frames are taken off in the same way.
    fn is_plain(&self) -> bool {
        matches!(&self.to, To::Site(_, slots) if slots.is_empty())
    }
}

impl Body<'_> {
    /// A loop begins.
    pub(super) fn open_loop(&mut self, header: Label) {
        let within = self.loops.innermost();
        let id = self.loops.all.len();
        let entry = self.fresh_label();
        self.lanes_part();
        let labels = self.begin_loop_safepoint(header, entry);
        let written = self.begin_look(id, labels.look);
        let first = self.suspends.sites.len();
        self.loops.open.push(LoopId(id));
        self.end_look(&labels);
        self.loops.all.push(Loop {
            labels,
            leave: Leave::new(self.control.frames.len() - 1),
            within,
            first,
            end: first,
            calls: false,
            written,
        });
    }

    /// The beginning of a loop's look, and the way into the loop, if it is one's.
    fn begin_look(&mut self, id: usize, look: Label) -> std::ops::Range<usize> {
        let begin = self.cold.len();
        line!(self.cold, "{look}:");
        if self.context.suspending.is_some() {
            line!(self.cold, "  setp.lt.s64 %sp, %fuel, 0;");
            line!(self.cold, "  @%sp bra $D{id};");
        }
        begin..self.cold.len()
    }

    /// A loop ends.
    pub(super) fn close_loop(&mut self) {
        let LoopId(id) = self.loops.open.pop().expect("the loop was opened");
        self.loops.all[id].end = self.suspends.sites.len();
        let together = self.leave_loop(id);
        let preempted = self.preempted();
        let this = &mut self.loops.all[id];
        let labels = this.labels;
        if together.is_some() && preempted {
            // The loop's only site. The loop continues at its beginning, so that it has no other entry.
            let site = &mut self.suspends.sites[this.first];
            site.resume = labels.preheader;
            site.within = this.within;
            this.first = this.end;
        }
        let has_way_in = this.first < this.end;
        let goes_on_behind = has_way_in || this.calls;
        if !has_way_in {
            // No resumption goes through it. Loops that are still open have their looks before this one's.
            let look = format!("{}:\n", together.unwrap_or(labels.look));
            let written = std::mem::take(&mut this.written);
            self.cold.replace_range(written, &look);
        }
        self.write_next(&labels, goes_on_behind);
    }

    /// Something is called where code is.
    pub(super) fn loops_call(&mut self) {
        for &LoopId(id) in &self.loops.open {
            self.loops.all[id].calls = true;
        }
    }

    /// The ways from the function's beginning, and from that of each loop.
    pub(super) fn write_ways(
        &self,
        out: &mut String,
        sites: &[Site],
        slots: &[Slots],
        below: usize,
    ) {
        let mut ways: Vec<Vec<Way<'_>>> = Vec::new();
        // The function's own come last.
        ways.resize_with(self.loops.all.len() + 1, Vec::new);
        let own = self.loops.all.len();
        let index = |within: Option<LoopId>| within.map_or(own, |LoopId(id)| id);
        for (site, slots) in sites.iter().zip(slots) {
            let to = To::Site(site, slots);
            let from = site.offset;
            ways[index(site.within)].push(Way { from, to });
        }
        for inner in self.loops.all.iter().filter(|l| l.first < l.end) {
            let (from, to) = (sites[inner.first].offset, To::Loop(inner.labels.entry));
            ways[index(inner.within)].push(Way { from, to });
        }
        let mut search = Search {
            labels: 0,
            below,
            is_local: |reg| self.registers.is_local(reg),
        };
        let mut write = |out: &mut String, mut ways: Vec<Way<'_>>| {
            ways.sort_unstable_by_key(|way| way.from);
            debug_assert!(ways.is_sorted_by(|a, b| a.from < b.from));
            line!(out, "  ld.global.b64 %sn, [%inst+{}];", abi::SAVE_TOP);
            line!(out, "  ld.global.b32 %to, [%sn+-4];");
            line!(out, "  mov.b64 %fuel, {ON_ITS_WAY};");
            search.write(out, &ways, false);
        };
        let of_function = ways.pop().expect("the function's own were added");
        write(out, of_function);
        for (id, ways) in ways.into_iter().enumerate() {
            if !ways.is_empty() {
                line!(out, "$D{id}:");
                write(out, ways);
            }
        }
    }
}

/// The search for the site whose operator's offset is in `%to`.
struct Search<F> {
    /// Labels that it has written.
    labels: usize,
    /// Bytes of a frame after what it holds of the operand stack.
    below: usize,
    is_local: F,
}

impl<F: Fn(Reg) -> bool> Search<F> {
    /// Branches to where the site is reached: halves the ways until one is left. Ways to plain sites take the frame off
    /// before they part; `taken_off` says that they have.
    fn write(&mut self, out: &mut String, ways: &[Way<'_>], mut taken_off: bool) {
        if !taken_off && ways.iter().all(Way::is_plain) {
            if let Some(Way {
                to: To::Site(_, slots),
                ..
            }) = ways.first()
            {
                write_take_off(out, slots, self.below);
            }
            taken_off = true;
        }
        if let [way] = ways {
            match &way.to {
                To::Site(site, slots) => {
                    if !taken_off {
                        write_take_off(out, slots, self.below);
                    }
                    write_restore(out, site, slots, &self.is_local);
                }
                To::Loop(entry) => line!(out, "  bra {entry};"),
            }
            return;
        }
        let (before, behind) = ways.split_at(ways.len() / 2);
        let label = self.labels;
        self.labels += 1;
        line!(out, "  setp.ge.u32 %sp, %to, {};", behind[0].from);
        line!(out, "  @%sp bra $B{label};");
        self.write(out, before, taken_off);
        line!(out, "$B{label}:");
        self.write(out, behind, taken_off);
    }
}
