//! Which locals are live: read later, before they are assigned.

use super::scan::{Kind, Scan};

/// The most words that the sets of a function may take: one with very many locals and operators is not divided.
const MOST_WORDS: usize = 1 << 24;
/// The most times that the operators are gone through: once more than loops are nested, mostly.
const MOST_ROUNDS: usize = 300;

/// A set of locals.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Locals(Vec<u64>);

impl Locals {
    pub(super) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    pub(super) fn add(&mut self, local: u32) {
        self.0[local as usize / 64] |= 1 << (local % 64);
    }

    fn remove(&mut self, local: u32) {
        self.0[local as usize / 64] &= !(1 << (local % 64));
    }

    pub(super) fn add_all(&mut self, others: &[u64]) {
        for (own, other) in self.0.iter_mut().zip(others) {
            *own |= other;
        }
    }

    pub(super) fn retain(&mut self, others: &[u64]) {
        for (own, other) in self.0.iter_mut().zip(others) {
            *own &= other;
        }
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    /// In ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().zip(0..).flat_map(|(&word, at)| {
            (0..64).filter_map(move |bit| (word >> bit & 1 == 1).then_some(64 * at + bit))
        })
    }
}

/// The live locals of a function at each place.
#[derive(Debug)]
pub(super) struct Live {
    words: usize,
    /// Before each operator, and after the last.
    before: Vec<u64>,
    /// For each block those at its label.
    labels: Vec<Locals>,
}

impl Live {
    /// Finds them. `None` if that takes too much.
    pub(super) fn new(scan: &Scan) -> Option<Self> {
        let none = Locals::none(scan.locals.len());
        let words = none.words().len();
        let places = scan.ops.len() + 1;
        if words.saturating_mul(places + scan.blocks.len()) > MOST_WORDS {
            return None;
        }
        let mut live = Self {
            words,
            before: vec![0; words * places],
            labels: vec![none.clone(); scan.blocks.len()],
        };
        let rounds = (0..MOST_ROUNDS).find(|_| !live.round(scan, &none));
        rounds.map(|_| live)
    }

    /// Those before an operator.
    pub(super) fn before(&self, op: usize) -> &[u64] {
        &self.before[op * self.words..][..self.words]
    }

    /// Those at a block's label.
    pub(super) fn at_label(&self, block: usize) -> &[u64] {
        self.labels[block].words()
    }

    /// Goes through all operators, the last first. Returns whether something was found that the next round needs.
    fn round(&mut self, scan: &Scan, none: &Locals) -> bool {
        let mut changed = false;
        let mut now = none.clone();
        // For conditions that are open, those at the beginning of `else`.
        let mut elses: Vec<(usize, Locals)> = Vec::new();
        for (at, op) in scan.ops.iter().enumerate().rev() {
            match &op.kind {
                Kind::Get(local) => now.add(*local),
                Kind::Set(local) | Kind::Tee(local) => now.remove(*local),
                Kind::End => {
                    if !scan.blocks[op.block].is_loop {
                        self.labels[op.block] = now.clone();
                    }
                }
                Kind::Else(other) => {
                    // The condition's first side ends where its second one does.
                    let behind = self.labels[*other].clone();
                    elses.push((op.block, std::mem::replace(&mut now, behind.clone())));
                    self.labels[op.block] = behind;
                }
                Kind::Open(block) => {
                    if scan.blocks[*block].is_loop {
                        changed |= self.labels[*block] != now;
                        self.labels[*block] = now.clone();
                    } else if let Some((_, other)) = elses.pop_if(|(then, _)| then == block) {
                        now.add_all(other.words());
                    } else if scan.blocks[*block].is_condition {
                        now.add_all(self.labels[*block].words());
                    }
                }
                Kind::Branch { to, goes_on } => {
                    if !goes_on {
                        now = none.clone();
                    }
                    for &label in to {
                        now.add_all(self.labels[label].words());
                    }
                }
                Kind::Return | Kind::Unreachable => now = none.clone(),
                Kind::Plain | Kind::Stays => {}
            }
            let words = self.words;
            self.before[at * words..][..words].copy_from_slice(now.words());
        }
        changed
    }
}
