//! A hash table with open addressing, which grows at three quarters.

use alloc::vec;
use alloc::vec::Vec;

/// The values by key.
#[derive(Default)]
pub(crate) struct Store {
    slots: Vec<Option<(u32, u64)>>,
    len: usize,
}

fn mix(v: u64) -> u64 {
    let v = (v ^ (v >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let v = (v ^ (v >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    v ^ (v >> 31)
}

impl Store {
    /// The slot that has the key, or would have it.
    fn find(&self, key: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = mix(key.into()) as usize & mask;
        while self.slots[at].is_some_and(|(there, _)| there != key) {
            at = (at + 1) & mask;
        }
        at
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key; 0 if there is none.
    pub(crate) fn get(&self, key: u32) -> u64 {
        match self.slots.is_empty() {
            true => 0,
            false => self.slots[self.find(key)].map_or(0, |(_, value)| value),
        }
    }

    /// Sets the value of a key: the one before.
    pub(crate) fn put(&mut self, key: u32, value: u64) -> u64 {
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let at = self.find(key);
        let before = self.slots[at].replace((key, value));
        self.len += usize::from(before.is_none());
        before.map_or(0, |(_, value)| value)
    }

    fn grow(&mut self) {
        let more = (2 * self.slots.len()).max(64);
        let old = core::mem::replace(&mut self.slots, vec![None; more]);
        for (key, value) in old.into_iter().flatten() {
            let at = self.find(key);
            self.slots[at] = Some((key, value));
        }
    }

    /// A number that depends on all keys and values, and not on the order in which they came.
    pub(crate) fn digest(&self) -> u64 {
        let all = self.slots.iter().flatten();
        all.fold(0, |sum, (key, value)| {
            sum ^ mix(u64::from(*key) << 32 ^ mix(*value))
        })
    }
}
