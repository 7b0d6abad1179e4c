//! Loads and stores of vectors, made of those of numbers.

use wasmparser::MemArg;

use crate::emit::body::{Body, Entry, Place};
use crate::facts::types::ValueType;
use crate::facts::types::ValueType::{I32, I64, V128};

use super::kinds::Half;
use super::kinds::Signedness::{self, Unsigned};
use super::memory::access;
use super::vector::Shape;

/// The same access, `bytes` further on.
fn beyond(memarg: &MemArg, bytes: u64) -> MemArg {
    MemArg {
        offset: memarg.offset + bytes,
        ..*memarg
    }
}

/// The type that a lane of this size is loaded as.
const fn number(bytes: u64) -> ValueType {
    if bytes == 8 { I64 } else { I32 }
}

impl Body<'_> {
    /// From the last word to the first, so that one check of the bounds does for all.
    pub(super) fn vector_load(&mut self, memarg: &MemArg) {
        let address = self.pop_address();
        let mut words = Vec::new();
        for word in (0..4).rev() {
            self.push_address(address);
            self.load(access(I32, 4, Unsigned), &beyond(memarg, 4 * word));
            words.push(self.pop_entry());
        }
        while let Some(Entry { place, .. }) = words.pop() {
            self.push_place(V128, place);
        }
    }

    /// As above: and so nothing is stored if not all of it fits.
    pub(super) fn vector_store(&mut self, memarg: &MemArg) {
        let words = self.pop_vector();
        let address = self.pop_address();
        for (word, &reg) in words.iter().enumerate().rev() {
            self.push_address(address);
            self.push_place(I32, Place::Reg(reg));
            self.store(access(I32, 4, Unsigned), &beyond(memarg, 4 * word as u64));
        }
    }

    /// Loads eight bytes of lanes, and widens each to twice its size.
    pub(super) fn load_extended(
        &mut self,
        from: Shape,
        to: Shape,
        signedness: Signedness,
        memarg: &MemArg,
    ) {
        self.load(access(I64, 8, Unsigned), memarg);
        let wide = self.pop();
        let [low, high] = self.split_words(wide);
        self.push_vector([low, high, low, high]);
        self.extend(from, to, signedness, Half::Low);
    }

    pub(super) fn load_splat(&mut self, shape: Shape, memarg: &MemArg) {
        let bytes = shape.bytes() as u64;
        self.load(access(number(bytes), bytes, Unsigned), memarg);
        self.splat(shape);
    }

    /// Loads the lowest lane, the others are zero.
    pub(super) fn load_zero(&mut self, shape: Shape, memarg: &MemArg) {
        let bytes = shape.bytes() as u64;
        self.load(access(number(bytes), bytes, Unsigned), memarg);
        let value = self.pop();
        self.push_packed(shape, &[value]);
        for _ in bytes / 4..4 {
            self.push_place(V128, Place::Constant(0));
        }
    }

    pub(super) fn load_lane(&mut self, shape: Shape, memarg: &MemArg, lane: u8) {
        let words = self.pop_vector();
        let bytes = shape.bytes() as u64;
        self.load(access(number(bytes), bytes, Unsigned), memarg);
        let value = self.pop();
        self.push_replaced(shape, words, value, lane);
    }

    pub(super) fn store_lane(&mut self, shape: Shape, memarg: &MemArg, lane: u8) {
        let words = self.pop_vector();
        self.push_lane(shape, &words, lane.into());
        let bytes = shape.bytes() as u64;
        self.store(access(number(bytes), bytes, Unsigned), memarg);
    }
}
