//! How a function that is resumed gets to the place where it was: through the beginning of every loop that the
//! place is in.
//!
//! Why not by one branch? A loop that can be entered in its middle is none to ptxas. It keeps the lanes of
//! a warp together at a loop's end, but not there: lanes that part once, and each is another instance, then run
//! one after another for good. Measured on an H200, a loop of loops whose lanes part at different times took
//! 7 to 17 times as long.
//!
//! It costs a running loop nothing, since the way in is through the safepoint that every loop has. The fuel
//! says that the function is on its way: [`ON_ITS_WAY`], less the one unit that the safepoint takes, is a
//! multiple of the interval, so what is rarely reached is reached, and finds there what fuel never is.

use super::suspend::{Site, SiteId};
use super::{Body, Label, line};
use crate::abi;

/// The fuel of a function that is on its way into a loop.
const ON_ITS_WAY: i64 = 1 - (1 << 62);

/// The number of a loop, from 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopId(usize);

/// A loop of a function that may be suspended.
pub(super) struct Loop {
    header: Label,
    within: Option<LoopId>,
    /// The first site that is in it.
    first: usize,
    /// The first that follows it.
    end: usize,
    /// Where in the cold text its way in is written.
    written: std::ops::Range<usize>,
}

/// Sites from a number on, and where they are reached.
struct Way {
    first: usize,
    to: To,
}

enum To {
    Site(SiteId),
    Loop(Label),
}

impl Body<'_> {
    /// A loop begins, whose safepoint follows.
    pub(super) fn open_loop(&mut self, header: Label) {
        if self.suspending.is_none() {
            return;
        }
        let first = self.sites.len();
        self.loops.push(Loop {
            header,
            within: self.open_loops.last().copied(),
            first,
            end: first,
            written: 0..0,
        });
        self.open_loops.push(LoopId(self.loops.len() - 1));
    }

    /// In the cold part of a safepoint, before anything else: the way into the loop, if it is one's.
    pub(super) fn write_way_in(&mut self) {
        let Some(&LoopId(id)) = self.open_loops.last() else {
            return;
        };
        let begin = self.cold.len();
        line!(self.cold, "  setp.lt.s64 %sp, %fuel, 0;");
        line!(self.cold, "  @%sp bra $D{id};");
        self.loops[id].written = begin..self.cold.len();
    }

    /// A loop ends.
    pub(super) fn close_loop(&mut self) {
        let Some(LoopId(id)) = self.open_loops.pop() else {
            return;
        };
        let end = self.sites.len();
        let this = &mut self.loops[id];
        this.end = end;
        if this.first == end {
            // Nobody is on the way into it. Loops that are still open have theirs before this.
            let written = std::mem::take(&mut this.written);
            self.cold.replace_range(written, "");
        }
    }

    /// The ways from the function's beginning, and from that of each loop.
    pub(super) fn write_ways(&self, out: &mut String, sites: &[Site]) {
        let mut ways: Vec<Vec<Way>> = Vec::new();
        // The function's own come last.
        ways.resize_with(self.loops.len() + 1, Vec::new);
        let own = self.loops.len();
        let index = |within: Option<LoopId>| within.map_or(own, |LoopId(id)| id);
        for (first, site) in sites.iter().enumerate() {
            let to = To::Site(SiteId(first));
            ways[index(site.within)].push(Way { first, to });
        }
        for inner in self.loops.iter().filter(|l| l.first < l.end) {
            let (first, to) = (inner.first, To::Loop(inner.header));
            ways[index(inner.within)].push(Way { first, to });
        }
        let mut labels = 0;
        let mut write = |out: &mut String, mut ways: Vec<Way>| {
            ways.sort_unstable_by_key(|way| way.first);
            line!(out, "  ld.global.b64 %sn, [%inst+{}];", abi::SAVE_TOP);
            line!(out, "  ld.global.b32 %tc, [%sn+-4];");
            line!(out, "  mov.b64 %fuel, {ON_ITS_WAY};");
            write_search(out, &ways, &mut labels);
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

/// Branches to where the site is reached whose number is in `%tc`: halves the ways until one is left.
fn write_search(out: &mut String, ways: &[Way], labels: &mut usize) {
    if let [way] = ways {
        match &way.to {
            To::Site(site) => line!(out, "  bra {};", site.restore()),
            To::Loop(header) => line!(out, "  bra {header};"),
        }
        return;
    }
    let (before, behind) = ways.split_at(ways.len() / 2);
    let label = *labels;
    *labels += 1;
    line!(out, "  setp.ge.u32 %sp, %tc, {};", behind[0].first);
    line!(out, "  @%sp bra $B{label};");
    write_search(out, before, labels);
    line!(out, "$B{label}:");
    write_search(out, behind, labels);
}
