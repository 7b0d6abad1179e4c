//! Loads and stores where the memories of 32 instances are interleaved in units of 8 bytes: unit `n` of an instance
//! lies `256 * n` bytes behind its first one, and the first ones of the 32 beside each other. Lanes that access the
//! same address then access neighbours.
//!
//! An aligned access lies within one unit and is one access, as elsewhere. One that is not takes two aligned words, of
//! which the second may be in the next unit; a store then goes byte by byte.

use std::collections::HashMap;

use wasmparser::MemArg;

use super::memory::Access;
use super::{Body, Operand, Pred, Reg, line};
use crate::abi::{UNIT, UNIT_STRIDE};

/// What is known of addresses that lie a multiple of a unit apart: what is added to the register, below a unit.
type Key = (Reg, u64);

/// Addresses that have been looked at since control last joined.
#[derive(Default)]
pub(super) struct WovenAddresses {
    /// How many bytes from a register on are in bounds.
    checked: HashMap<Reg, u64>,
    /// The number itself and the place of its unit.
    units: HashMap<Key, (Reg, Reg)>,
    /// Places of aligned words, by their size.
    words: HashMap<(Key, u64), Word>,
}

impl WovenAddresses {
    pub(super) fn clear(&mut self) {
        self.checked.clear();
        self.units.clear();
        self.words.clear();
    }

    /// Forgets a register that is assigned.
    pub(super) fn remove(&mut self, register: Reg) {
        self.checked.remove(&register);
        self.units.retain(|key, _| key.0 != register);
        self.words.retain(|(key, _), _| key.0 != register);
    }
}

/// An aligned word at or below an address.
#[derive(Clone, Copy)]
struct Word {
    /// The address.
    number: Reg,
    /// Where the word is.
    place: Reg,
    /// Where its unit is.
    unit: Reg,
    /// Where the word is in its unit.
    within: Reg,
    /// How far the address is behind it, and whether it is at all.
    rest: Reg,
    unaligned: Pred,
}

/// What an address in PTX may be behind a register.
const MAX_OFFSET: u64 = 0x7fff_0000;

impl Body<'_> {
    /// Checks an access. Gives the aligned word below, and what that is behind its register.
    fn woven(&mut self, address: Reg, offset: u64, bytes: u64) -> (Word, u64) {
        self.uses_memory = true;
        let end = offset + bytes;
        if self.woven.checked.get(&address).is_none_or(|c| *c < end) {
            self.check_bounds(address, end);
            self.woven.checked.insert(address, end);
        }
        let behind = (offset - offset % UNIT) / UNIT * UNIT_STRIDE;
        let (add, behind) = match behind <= MAX_OFFSET {
            true => (offset % UNIT, behind),
            false => (offset, 0),
        };
        (self.aligned_word((address, add), bytes), behind)
    }

    /// The aligned word at or below an address that is in bounds.
    fn aligned_word(&mut self, key: Key, bytes: u64) -> Word {
        if let Some(word) = self.woven.words.get(&(key, bytes)) {
            return *word;
        }
        let (number, unit) = match self.woven.units.get(&key) {
            Some(known) => *known,
            None => {
                let known = self.unit(key);
                self.woven.units.insert(key, known);
                known
            }
        };
        let (within, rest) = (self.fresh(false), self.fresh(false));
        let (wide, place) = (self.fresh(true), self.fresh(true));
        let unaligned = self.fresh_pred();
        let text = &mut self.text;
        line!(text, "  and.b32 {within}, {number}, {};", UNIT - bytes);
        line!(text, "  cvt.u64.u32 {wide}, {within};");
        line!(text, "  or.b64 {place}, {unit}, {wide};");
        line!(text, "  and.b32 {rest}, {number}, {};", bytes - 1);
        line!(text, "  setp.ne.s32 {unaligned}, {rest}, 0;");
        let word = Word {
            number,
            place,
            unit,
            within,
            rest,
            unaligned,
        };
        self.woven.words.insert((key, bytes), word);
        word
    }

    /// An address with what is added to it, and the place of its unit.
    fn unit(&mut self, (address, add): Key) -> (Reg, Reg) {
        let number = match add {
            0 => address,
            _ => {
                // In bounds, so within 32 bits.
                let sum = self.fresh(false);
                line!(
                    self.text,
                    "  add.s32 {sum}, {address}, {};",
                    add as u32 as i32
                );
                sum
            }
        };
        let place = self.unit_of(number);
        (number, place)
    }

    fn unit_of(&mut self, number: Reg) -> Reg {
        let (index, place) = (self.fresh(false), self.fresh(true));
        let text = &mut self.text;
        line!(text, "  shr.u32 {index}, {number}, {};", UNIT.ilog2());
        line!(text, "  mul.wide.u32 {place}, {index}, {UNIT_STRIDE};");
        line!(text, "  add.s64 {place}, %mem, {place};");
        place
    }

    /// The bits at an address, and what follows them in the word behind where it is not aligned: in a register each.
    /// The third says by how many bits they are to be shifted.
    pub(super) fn woven_words(
        &mut self,
        address: Reg,
        memarg: &MemArg,
        bytes: u64,
    ) -> (Reg, Option<(Reg, Reg)>) {
        let (word, behind) = self.woven(address, memarg.offset, bytes);
        let bits = 8 * bytes;
        let first = self.fresh(bits == 64);
        let place = word.place;
        line!(
            self.text,
            "  ld.global.u{bits} {first}, [{place}+{behind}];"
        );
        if bytes == 1 {
            return (first, None);
        }
        let (second, shift) = (self.fresh(bits == 64), self.fresh(false));
        line!(self.text, "  shl.b32 {shift}, {}, 3;", word.rest);
        line!(self.text, "  mov.{} {second}, 0;", second.bits());
        let (next, more) = self.next_word(&word, bytes);
        let at = behind + more;
        let unaligned = word.unaligned;
        line!(
            self.text,
            "  @{unaligned} ld.global.u{bits} {second}, [{next}+{at}];"
        );
        (first, Some((second, shift)))
    }

    /// Where the word behind one is: a register, and what it is behind that.
    fn next_word(&mut self, word: &Word, bytes: u64) -> (Reg, u64) {
        // From the last word of a unit it is that much further than from another.
        let gap = UNIT_STRIDE - UNIT;
        let (skip, next) = (self.fresh(false), self.fresh(true));
        let text = &mut self.text;
        match bytes {
            8 => return (word.unit, UNIT_STRIDE),
            4 => {
                line!(text, "  mul.wide.u32 {next}, {}, {};", word.within, gap / 4);
            }
            _ => {
                line!(text, "  add.s32 {skip}, {}, {bytes};", word.within);
                line!(text, "  and.b32 {skip}, {skip}, {UNIT};");
                line!(text, "  mul.wide.u32 {next}, {skip}, {};", gap / UNIT);
            }
        }
        line!(text, "  add.s64 {next}, {}, {next};", word.place);
        (next, bytes)
    }

    pub(super) fn woven_store(
        &mut self,
        from: Access,
        value: Operand,
        address: Reg,
        memarg: &MemArg,
    ) {
        let (word, behind) = self.woven(address, memarg.offset, from.bytes);
        let (place, bits, unaligned) = (word.place, 8 * from.bytes, word.unaligned);
        if from.bytes == 1 {
            line!(self.text, "  st.global.b8 [{place}+{behind}], {value};");
            return;
        }
        let (slow, back) = (self.fresh_label(), self.fresh_label());
        line!(self.text, "  @{unaligned} bra {slow};");
        line!(
            self.text,
            "  st.global.b{bits} [{place}+{behind}], {value};"
        );
        line!(self.text, "{back}:");
        let again = self.fresh_label();
        let (at, left, index) = (self.fresh(false), self.fresh(false), self.fresh(false));
        let (to, within) = (self.fresh(true), self.fresh(true));
        let (rest, more) = (self.fresh(from.ty.is_wide()), self.fresh_pred());
        let cold = &mut self.cold;
        line!(cold, "{slow}:");
        line!(cold, "  mov.b32 {at}, {};", word.number);
        line!(cold, "  mov.b32 {left}, {};", from.bytes);
        line!(cold, "  mov.{} {rest}, {value};", rest.bits());
        line!(cold, "{again}:");
        line!(cold, "  shr.u32 {index}, {at}, {};", UNIT.ilog2());
        line!(cold, "  mul.wide.u32 {to}, {index}, {UNIT_STRIDE};");
        line!(cold, "  add.s64 {to}, %mem, {to};");
        line!(cold, "  and.b32 {index}, {at}, {};", UNIT - 1);
        line!(cold, "  cvt.u64.u32 {within}, {index};");
        line!(cold, "  or.b64 {to}, {to}, {within};");
        line!(cold, "  st.global.b8 [{to}+{behind}], {rest};");
        let shr = if rest.wide { "shr.u64" } else { "shr.u32" };
        line!(cold, "  {shr} {rest}, {rest}, 8;");
        line!(cold, "  add.s32 {at}, {at}, 1;");
        line!(cold, "  add.s32 {left}, {left}, -1;");
        line!(cold, "  setp.ne.s32 {more}, {left}, 0;");
        line!(cold, "  @{more} bra {again};");
        line!(cold, "  bra {back};");
    }
}
