//! What is known about addresses at the current place in the code: which are in bounds, and which registers hold
//! something computed from them.
//!
//! Facts flow forward. At the end of a block only those facts hold that hold on every way to that end, so each branch
//! leaves its facts with the block, and facts that differ are forgotten. A loop begins with no facts, because the ways
//! back to its beginning have not been seen yet. Where suspended code continues, registers have lost their values; but
//! memory never shrinks and locals are restored, so an address that was in bounds still is.
//!
//! A local that no operator assigns keeps its bounds in loops as well: a method accesses its object through such a
//! local.

use wasmparser::FunctionBody;

use crate::emit::body::Body;
use crate::facts::assigned::assigned;
use crate::text::Reg;

use super::address::Address;
use super::interleaved::{Bytes, Words};
use super::memory::Base;

/// The largest number of facts of one kind, so that the cost of an operator does not depend on the function's length.
const MOST: usize = 32;

/// Facts by their subjects, the oldest first.
#[derive(Clone)]
pub(super) struct Facts<K, V>(Vec<(K, V)>);

impl<K, V> Default for Facts<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + PartialEq, V: Copy> Facts<K, V> {
    pub(super) fn get(&self, key: K) -> Option<V> {
        let found = self.0.iter().find(|(k, _)| *k == key);
        found.map(|(_, value)| *value)
    }

    pub(super) fn set(&mut self, key: K, value: V) {
        if let Some((_, known)) = self.0.iter_mut().find(|(k, _)| *k == key) {
            *known = value;
            return;
        }
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push((key, value));
    }

    fn retain(&mut self, mut keep: impl FnMut(K) -> bool) {
        self.0.retain(|(key, _)| keep(*key));
    }

    /// Keeps the facts that the other side knows as well, each weakened by `both` to the part that holds on both sides.
    fn meet(&mut self, other: &Self, both: impl Fn(V, V) -> Option<V>) {
        self.0.retain_mut(|(key, value)| {
            let met = other.get(*key).and_then(|theirs| both(*value, theirs));
            met.is_some_and(|met| {
                *value = met;
                true
            })
        });
    }
}

/// An address and its constant offset.
pub(super) type Key = (Address, u64);

/// All that is known of addresses at some place in the code.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// How many bytes from a register on are in bounds.
    checked: Facts<Address, u64>,
    /// Where memories are not interleaved, addresses in memory.
    pub(super) bases: Facts<Address, Base>,
    /// Where they are interleaved, accesses of words.
    pub(super) words: Facts<Key, Words>,
    /// And of bytes.
    pub(super) bytes: Facts<Key, Bytes>,
}

impl Known {
    /// Whether all bytes from an address up to `end` after it are in bounds.
    pub(super) fn is_checked(&self, address: Address, end: u64) -> bool {
        self.checked.get(address).is_some_and(|c| c >= end)
    }

    pub(super) fn set_checked(&mut self, address: Address, end: u64) {
        self.checked.set(address, end);
    }

    /// Forgets a register that is assigned.
    fn assigned(&mut self, register: Reg) {
        self.checked.retain(|address| address.reg() != register);
        self.bases.retain(|address| address.reg() != register);
        self.words.retain(|(address, _)| address.reg() != register);
        self.bytes.retain(|(address, _)| address.reg() != register);
    }

    /// Forgets facts about registers that no frame saves.
    fn suspended(&mut self) {
        self.bases = Facts::default();
        self.words = Facts::default();
        self.bytes = Facts::default();
    }

    fn meet(&mut self, other: &Self) {
        let same = |equal: bool| equal.then_some(());
        self.checked.meet(&other.checked, |a, b| Some(a.min(b)));
        self.bases.meet(&other.bases, Base::met);
        self.words
            .meet(&other.words, |a, b| same(a == b).map(|()| a));
        self.bytes
            .meet(&other.bytes, |a, b| same(a == b).map(|()| a));
    }
}

impl Body<'_> {
    /// Finds the locals that no operator assigns.
    pub(crate) fn set_assigned(&mut self, body: &FunctionBody<'_>) {
        if let Some(assigned) = assigned(body, self.locals.parts.len()) {
            self.locals.set_assigned(&assigned);
        }
    }

    /// Forgets a register that is assigned.
    pub(super) fn forget_address(&mut self, register: Reg) {
        self.known.assigned(register);
    }

    /// Forgets facts about registers, at a place where suspended code may continue.
    pub(super) fn forget_places(&mut self) {
        self.known.suspended();
    }

    /// Forgets facts that may not hold when control returns to this place.
    pub(super) fn forget_for_loop(&mut self) {
        let mut checked = Facts::default();
        for (value, constant) in self.locals.values.iter().zip(&self.locals.constant) {
            let address = Address::in_register(value.reg);
            if *constant && let Some(end) = self.known.checked.get(address) {
                checked.set(address, end);
            }
        }
        self.known = Known {
            checked,
            ..Known::default()
        };
    }

    /// Merges the facts at this place into the facts at the target of a branch.
    pub(super) fn leave_known(known: &Known, incoming: &mut Option<Known>) {
        match incoming {
            Some(incoming) => incoming.meet(known),
            None => *incoming = Some(known.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(all: &[(u32, u64)]) -> Facts<u32, u64> {
        let mut facts = Facts::default();
        for &(key, value) in all {
            facts.set(key, value);
        }
        facts
    }

    #[test]
    fn the_oldest_fact_is_forgotten_when_there_are_too_many() {
        let mut facts = Facts::default();
        for key in 0..=MOST as u32 {
            facts.set(key, u64::from(key));
        }
        assert_eq!(facts.get(0), None);
        assert_eq!(facts.get(1), Some(1));
        assert_eq!(facts.get(MOST as u32), Some(MOST as u64));
    }

    #[test]
    fn a_fact_that_is_set_again_is_replaced() {
        let facts = facts(&[(1, 4), (2, 5), (1, 8)]);
        assert_eq!((facts.get(1), facts.0.len()), (Some(8), 2));
    }

    #[test]
    fn where_two_ways_meet_only_what_both_know_is_kept() {
        let mut one = facts(&[(1, 4), (2, 8), (3, 16)]);
        let other = facts(&[(2, 4), (3, 32), (4, 1)]);
        one.meet(&other, |a, b| Some(a.min(b)));
        assert_eq!(
            [1, 2, 3, 4].map(|key| one.get(key)),
            [None, Some(4), Some(16), None]
        );
    }
}
