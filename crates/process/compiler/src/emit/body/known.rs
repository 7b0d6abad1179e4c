//! What is known of addresses where code is: which are in bounds, and registers in which something about them is.
//!
//! It flows forward: at the end of a block all is known that is known wherever control comes there from, so each
//! branch leaves with the block what is known at it, and what differs is forgotten. A loop begins with nothing, since
//! nobody has seen yet what comes back to its beginning. Where code goes on that was suspended, registers are not what
//! they were; but memory never shrinks and locals come back, so what has been in bounds still is.
//!
//! A local that nothing assigns is known to be in bounds in loops as well: that is how a method has its object.

use wasmparser::FunctionBody;

use crate::emit::body::Body;
use crate::facts::assigned::assigned;
use crate::text::Reg;

use super::interleaved::{Bytes, Words};
use super::memory::Base;

/// So many are remembered of a kind, so that a function's length does not count for what one operator costs.
const MOST: usize = 32;

/// Facts by what they are about, the oldest first.
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

    /// Keeps what the other side knows as well: of both facts what `both` makes of them.
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

/// A register, and what is added to it.
pub(super) type Key = (Reg, u64);

/// All that is known of addresses at some place in the code.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// How many bytes from a register on are in bounds.
    checked: Facts<Reg, u64>,
    /// Where memories lie apart.
    pub(super) bases: Facts<Reg, Base>,
    /// Where they are interleaved, accesses of words.
    pub(super) words: Facts<Key, Words>,
    /// And of bytes.
    pub(super) bytes: Facts<Key, Bytes>,
}

impl Known {
    /// Whether so many bytes from a register on are in bounds.
    pub(super) fn is_checked(&self, register: Reg, end: u64) -> bool {
        self.checked.get(register).is_some_and(|c| c >= end)
    }

    pub(super) fn set_checked(&mut self, register: Reg, end: u64) {
        self.checked.set(register, end);
    }

    /// Forgets a register that is assigned.
    fn assigned(&mut self, register: Reg) {
        self.checked.retain(|reg| reg != register);
        self.bases.retain(|reg| reg != register);
        self.words.retain(|(reg, _)| reg != register);
        self.bytes.retain(|(reg, _)| reg != register);
    }

    /// Forgets what is in registers that nobody saves.
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

    /// Forgets what is in registers, where code may go on that was suspended.
    pub(super) fn forget_places(&mut self) {
        self.known.suspended();
    }

    /// Forgets what may not hold when control comes back to here.
    pub(super) fn forget_for_loop(&mut self) {
        let mut kept = Facts::default();
        for (part, value) in self.locals.values.iter().enumerate() {
            if self.locals.constant[part]
                && let Some(checked) = self.known.checked.get(value.reg)
            {
                kept.set(value.reg, checked);
            }
        }
        self.known = Known::default();
        self.known.checked = kept;
    }

    /// Leaves what is known here with whom control goes to from here.
    pub(super) fn leave_known(known: &Known, incoming: &mut Option<Known>) {
        match incoming {
            Some(incoming) => incoming.meet(known),
            None => *incoming = Some(known.clone()),
        }
    }
}
