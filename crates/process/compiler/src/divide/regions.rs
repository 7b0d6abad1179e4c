//! Which ranges of a function become parts.

use std::collections::BTreeSet;

use super::live::{Live, Locals};
use super::scan::{Kind, Op, Scan, Spot};

/// The most places that a part leads to. One that leads to more chooses between ways that the function has to take.
const MOST_EXITS: usize = 12;
/// The most values that a part is given, and that it returns.
const MOST_VALUES: usize = 48;
/// A part has at least this share of what a function may have.
const LEAST: usize = 64;
/// About the bytes of text of a call, and for each value that it passes.
const CALL: usize = 900;
const EACH_VALUE: usize = 100;

/// Where a part may lead, in addition to what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exit {
    /// To the label of this block.
    Label(usize),
    /// Out of the function.
    Return,
}

/// A part.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// Its operators.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) exits: Vec<Exit>,
    /// What follows it is reached from it.
    pub(super) goes_on: bool,
    pub(super) params: Vec<u32>,
    pub(super) results: Vec<u32>,
    /// All locals that it names.
    pub(super) used: Vec<u32>,
}

/// What is known about operators that follow each other in one block.
#[derive(Clone)]
struct Range {
    from: usize,
    to: usize,
    exits: BTreeSet<Exit>,
    used: BTreeSet<u32>,
    assigned: BTreeSet<u32>,
}

struct Search<'s> {
    scan: &'s Scan,
    live: &'s Live,
    /// The text that a part may have.
    most: usize,
    found: Vec<Region>,
}

/// Finds the parts of a function so that what is left has `most` bytes of text, if that can be, and each part has no more.
/// They are in the order of the code.
pub(super) fn find(scan: &Scan, live: &Live, most: usize) -> Vec<Region> {
    let mut search = Search {
        scan,
        live,
        most,
        found: Vec::new(),
    };
    let mut blocks = vec![0];
    while let Some(block) = blocks.pop() {
        search.search(block, &mut blocks);
    }
    // Code outside loops first, then what is longest: so the fewest calls are made while it runs.
    let text = |region: &Region| {
        let values = region.params.len() + region.results.len();
        let call = CALL + EACH_VALUE * values;
        scan.text_in(region.from, region.to).saturating_sub(call)
    };
    let mut found = search.found;
    // In functions as short as those of tests a call may be longer than its part.
    found.retain(|region| text(region) > 0 || most < 2 * CALL);
    found.sort_by_cached_key(|region| {
        let loops = scan.blocks[scan.ops[region.from].block].loops;
        std::cmp::Reverse(text(region) >> (2 * loops).min(40))
    });
    let mut left = scan.text_in(0, scan.ops.len());
    found.retain(|region| {
        let wanted = left > most;
        left -= if wanted { text(region) } else { 0 };
        wanted
    });
    found.sort_by_key(|region| region.from);
    found
}

impl Search<'_> {
    /// Looks for parts in a block, and leaves those of its blocks to be searched that are too long for one.
    fn search(&mut self, block: usize, blocks: &mut Vec<usize>) {
        let scan = self.scan;
        let mut run: Option<Range> = None;
        let mut at = scan.blocks[block].first;
        let end = scan.blocks[block].last;
        while at < end {
            let from = at;
            let starts = scan.spots[from] == Spot::Clean;
            let mut inside = Vec::new();
            // A statement: up to where nothing is on the operand stack.
            loop {
                if let Kind::Open(first) = scan.ops[at].kind {
                    inside.push(first);
                    if let Kind::Else(second) = scan.ops[scan.blocks[first].last].kind {
                        inside.push(second);
                    }
                }
                at = scan.behind(at);
                if at >= end || scan.spots[at] != Spot::Busy {
                    break;
                }
            }
            let to = at.min(end);
            let ends = scan.spots[to] != Spot::Busy;
            let range = match starts && ends {
                true => self
                    .range(from, to)
                    .filter(|range| self.region(range).is_some()),
                false => None,
            };
            let Some(range) = range else {
                self.close(run.take());
                blocks.extend(inside);
                continue;
            };
            let joined = run.as_ref().and_then(|run| self.join(run, &range));
            if joined.is_none() {
                self.close(run.take());
            }
            run = joined.or(Some(range));
            if scan.spots[to] == Spot::Dead {
                break;
            }
        }
        self.close(run);
    }

    /// The range, if it may be a part or of one.
    fn range(&self, from: usize, to: usize) -> Option<Range> {
        if self.scan.text_in(from, to) > self.most {
            return None;
        }
        let mut range = Range {
            from,
            to,
            exits: BTreeSet::new(),
            used: BTreeSet::new(),
            assigned: BTreeSet::new(),
        };
        for op in &self.scan.ops[from..to] {
            self.add(&mut range, op)?;
        }
        (range.exits.len() <= MOST_EXITS).then_some(range)
    }

    fn add(&self, range: &mut Range, op: &Op) -> Option<()> {
        let blocks = &self.scan.blocks;
        match &op.kind {
            Kind::Get(local) => drop(range.used.insert(*local)),
            Kind::Set(local) | Kind::Tee(local) => {
                range.used.insert(*local);
                range.assigned.insert(*local);
            }
            Kind::Branch { to, goes_on } => {
                for &label in to {
                    // Before the range it was not open.
                    if blocks[label].first > range.from {
                        continue;
                    }
                    let is_return = label == 0 && !goes_on && to.len() == 1;
                    range.exits.insert(match blocks[label].arity {
                        0 => Exit::Label(label),
                        _ if is_return => Exit::Return,
                        _ => return None,
                    });
                }
            }
            Kind::Return => drop(range.exits.insert(Exit::Return)),
            Kind::Stays => return None,
            Kind::Plain | Kind::Open(_) | Kind::Else(_) | Kind::End | Kind::Unreachable => {}
        }
        Some(())
    }

    /// Both, if they may be one part.
    fn join(&self, run: &Range, next: &Range) -> Option<Range> {
        let union = |a: &BTreeSet<u32>, b: &BTreeSet<u32>| a.union(b).copied().collect();
        let joined = Range {
            from: run.from,
            to: next.to,
            exits: run.exits.union(&next.exits).copied().collect(),
            used: union(&run.used, &next.used),
            assigned: union(&run.assigned, &next.assigned),
        };
        let fits = self.scan.text_in(run.from, next.to) <= self.most;
        let may_be = fits && joined.exits.len() <= MOST_EXITS && self.region(&joined).is_some();
        may_be.then_some(joined)
    }

    fn close(&mut self, run: Option<Range>) {
        let Some(run) = run else { return };
        if self.scan.text_in(run.from, run.to) < self.most / LEAST {
            return;
        }
        self.found.extend(self.region(&run));
    }

    /// The part, with what it is given and what it returns; unless that is too much.
    fn region(&self, range: &Range) -> Option<Region> {
        let goes_on = self.scan.spots[range.to] != Spot::Dead;
        let count = self.scan.locals.len();
        let set = |all: &BTreeSet<u32>| {
            let mut set = Locals::none(count);
            all.iter().for_each(|local| set.add(*local));
            set
        };
        let mut params = set(&range.used);
        params.retain(self.live.before(range.from));
        let mut later = Locals::none(count);
        for exit in &range.exits {
            if let Exit::Label(label) = exit {
                later.add_all(self.live.at_label(*label));
            }
        }
        if goes_on {
            later.add_all(self.live.before(range.to));
        }
        let mut results = set(&range.assigned);
        results.retain(later.words());
        let (params, results): (Vec<_>, Vec<_>) =
            (params.iter().collect(), results.iter().collect());
        (params.len() <= MOST_VALUES && results.len() <= MOST_VALUES).then(|| Region {
            from: range.from,
            to: range.to,
            exits: range.exits.iter().copied().collect(),
            goes_on,
            params,
            results,
            used: range.used.iter().copied().collect(),
        })
    }
}
