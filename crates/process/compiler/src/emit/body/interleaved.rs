//! Loads and stores where the memories of 32 instances are interleaved in units of 4 bytes: unit `n` of an instance is
//! `128 * n` bytes after its first unit, and the first units of the 32 instances are neighbours. Lanes that access the
//! same word then access one line of the cache.
//!
//! Accesses of 4 and 8 bytes are made of words. A load reads the words at and below its address, and the next word only
//! if the address is not aligned to a word, whatever the size of the access; a store to such an address goes byte by
//! byte.
//!
//! Why not units of 8 bytes, where an access of 8 bytes would be one? Addresses and most numbers in today's WebAssembly
//! have 4 bytes, and with units of 8 bytes a warp that accesses one word for each lane asks for two lines and uses
//! half.

use wasmparser::MemArg;

use crate::emit::body::Body;
use crate::facts::abi::{UNIT, UNIT_STRIDE};
use crate::text::{Label, Operand, Pred, Reg, line};

use super::address::{Address, MAX_OFFSET};
use super::memory::Access;

/// An address that is treated as one of words.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Words {
    /// The address.
    number: Address,
    /// Where the word at or below it is.
    place: Reg,
    /// By how many bits the address is after that word, in the lowest five bits.
    shift: Reg,
    /// Holds if that is not zero.
    unaligned: Pred,
}

/// An address of bytes: itself, and where its byte is.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Bytes {
    number: Address,
    place: Reg,
}

/// Splits an offset: the first part is added to the address before its place is computed, the second to the place.
const fn split(offset: u64) -> (u64, u64) {
    let behind = offset / UNIT * UNIT_STRIDE;
    if behind <= MAX_OFFSET {
        (offset % UNIT, behind)
    } else {
        (offset, 0)
    }
}

impl Body<'_> {
    /// Computes the words of an access of 4 or 8 bytes, and how far after their place it is.
    fn reach_words(&mut self, address: Address, offset: u64, bytes: u64) -> (Words, u64) {
        let (add, behind) = self.begin_access(address, offset, bytes);
        if let Some(known) = self.known.words.get((address, add)) {
            return (known, behind);
        }
        let number = self.address_plus(address, add);
        let place = self.unit_place(number);
        let (rest, shift, unaligned) = (self.fresh(false), self.fresh(false), self.fresh_pred());
        let text = &mut self.text;
        line!(text, "  and.b32 {rest}, {number}, {};", UNIT - 1);
        line!(text, "  setp.ne.s32 {unaligned}, {rest}, 0;");
        line!(text, "  shl.b32 {shift}, {number}, 3;");
        let words = Words {
            number,
            place,
            shift,
            unaligned,
        };
        self.known.words.set((address, add), words);
        (words, behind)
    }

    /// Traps unless the access is in bounds, which may be known; returns the offset as [`split`] does.
    fn begin_access(&mut self, address: Address, offset: u64, bytes: u64) -> (u64, u64) {
        self.touches_memory();
        let end = offset + bytes;
        if !self.known.is_checked(address, end) {
            self.check_bounds(address, end);
            self.known.set_checked(address, end);
        }
        split(offset)
    }

    /// Where the unit is that an address is in.
    fn unit_place(&mut self, number: Address) -> Reg {
        let (index, place) = (self.fresh(false), self.fresh(true));
        write_unit_place(&mut self.text, number, index, place);
        place
    }

    /// Computes the place of an access of 1 or 2 bytes, and how far after it the access is.
    fn reach_bytes(&mut self, address: Address, offset: u64, bytes: u64) -> (Bytes, u64) {
        let (add, behind) = self.begin_access(address, offset, bytes);
        if let Some(known) = self.known.bytes.get((address, add)) {
            return (known, behind);
        }
        let number = self.address_plus(address, add);
        let unit = self.unit_place(number);
        let (within, wide, place) = (self.fresh(false), self.fresh(true), self.fresh(true));
        let text = &mut self.text;
        line!(text, "  and.b32 {within}, {number}, {};", UNIT - 1);
        line!(text, "  cvt.u64.u32 {wide}, {within};");
        line!(text, "  or.b64 {place}, {unit}, {wide};");
        let known = Bytes { number, place };
        self.known.bytes.set((address, add), known);
        (known, behind)
    }

    /// Branches to cold text if a predicate holds, and begins that text. Returns the label to come back to.
    fn begin_slow(&mut self, slow: Pred) -> Label {
        let (label, back) = (self.fresh_label(), self.fresh_label());
        line!(self.text, "  @{slow} bra {label};");
        line!(self.cold, "{label}:");
        back
    }

    /// Loads the value at an address into a register of its size, or of 32 bits if it is smaller.
    pub(super) fn interleaved_value(
        &mut self,
        address: Address,
        memarg: &MemArg,
        bytes: u64,
    ) -> Reg {
        if bytes < UNIT {
            return self.interleaved_bytes(address, memarg.offset, bytes);
        }
        let (words, behind) = self.reach_words(address, memarg.offset, bytes);
        let Words {
            place,
            shift,
            unaligned,
            ..
        } = words;
        let count = bytes / UNIT;
        let parts: Vec<_> = (0..=count).map(|_| self.fresh(false)).collect();
        let last = parts[count as usize];
        for (i, part) in (0..).zip(&parts[..count as usize]) {
            let at = behind + UNIT_STRIDE * i;
            line!(self.text, "  ld.global.u32 {part}, [{place}+{at}];");
        }
        // With nothing to shift it does not matter what is in it; if there is, bytes of it were asked for.
        let at = behind + UNIT_STRIDE * count;
        line!(self.text, "  mov.b32 {last}, 0;");
        line!(
            self.text,
            "  @{unaligned} ld.global.u32 {last}, [{place}+{at}];"
        );
        let shifted = parts.windows(2).map(|pair| {
            let (reg, low, high) = (self.fresh(false), pair[0], pair[1]);
            line!(self.text, "  shf.r.wrap.b32 {reg}, {low}, {high}, {shift};");
            reg
        });
        let shifted: Vec<_> = shifted.collect();
        let [low, high] = shifted[..] else {
            return shifted[0];
        };
        let both = self.fresh(true);
        line!(self.text, "  mov.b64 {both}, {{{low}, {high}}};");
        both
    }

    /// One or two bytes.
    fn interleaved_bytes(&mut self, address: Address, offset: u64, bytes: u64) -> Reg {
        let (Bytes { number, place }, behind) = self.reach_bytes(address, offset, bytes);
        let value = self.fresh(false);
        if bytes == 1 {
            line!(self.text, "  ld.global.u8 {value}, [{place}+{behind}];");
            return value;
        }
        let odd = self.odd(number);
        let back = self.begin_slow(odd);
        line!(self.text, "  ld.global.u16 {value}, [{place}+{behind}];");
        line!(self.text, "{back}:");
        let second = self.second_byte(number);
        let high = self.fresh(false);
        let cold = &mut self.cold;
        line!(cold, "  ld.global.u8 {value}, [{place}+{behind}];");
        line!(cold, "  ld.global.u8 {high}, [{second}+{behind}];");
        line!(cold, "  shl.b32 {high}, {high}, 8;");
        line!(cold, "  or.b32 {value}, {value}, {high};");
        line!(cold, "  bra {back};");
        value
    }

    fn odd(&mut self, number: Address) -> Pred {
        let (bit, odd) = (self.fresh(false), self.fresh_pred());
        line!(self.text, "  and.b32 {bit}, {number}, 1;");
        line!(self.text, "  setp.ne.s32 {odd}, {bit}, 0;");
        odd
    }

    /// In cold text: where the byte after an address is.
    fn second_byte(&mut self, number: Address) -> Reg {
        let (next, index) = (self.fresh_address(), self.fresh(false));
        let (place, within) = (self.fresh(true), self.fresh(true));
        let cold = &mut self.cold;
        line!(cold, "  add.s32 {next}, {number}, 1;");
        write_byte_place(cold, next, index, within, place);
        place
    }

    pub(super) fn interleaved_store(
        &mut self,
        from: Access,
        value: Operand,
        address: Address,
        memarg: &MemArg,
    ) {
        if from.bytes < UNIT {
            self.store_interleaved_bytes(from.bytes, value, address, memarg.offset);
            return;
        }
        let (words, behind) = self.reach_words(address, memarg.offset, from.bytes);
        let stored = self.split_stored(value, from.bytes);
        let back = self.begin_slow(words.unaligned);
        for (i, word) in (0..).zip(&stored) {
            let (place, at) = (words.place, behind + UNIT_STRIDE * i);
            line!(self.text, "  st.global.b32 [{place}+{at}], {word};");
        }
        line!(self.text, "{back}:");
        let again = self.fresh_label();
        let (at, left, index) = (self.fresh_address(), self.fresh(false), self.fresh(false));
        let (to, within) = (self.fresh(true), self.fresh(true));
        let (rest, more) = (self.fresh(from.ty.is_wide()), self.fresh_pred());
        let cold = &mut self.cold;
        line!(cold, "  mov.b32 {at}, {};", words.number);
        line!(cold, "  mov.b32 {left}, {};", from.bytes);
        line!(cold, "  mov.{} {rest}, {value};", rest.bits());
        line!(cold, "{again}:");
        // ptxas would make four times as much of it, and for all to step over.
        line!(cold, "  .pragma \"nounroll\";");
        write_byte_place(cold, at, index, within, to);
        line!(cold, "  st.global.b8 [{to}+{behind}], {rest};");
        let shr = if rest.wide { "shr.u64" } else { "shr.u32" };
        line!(cold, "  {shr} {rest}, {rest}, 8;");
        line!(cold, "  add.s32 {at}, {at}, 1;");
        line!(cold, "  add.s32 {left}, {left}, -1;");
        line!(cold, "  setp.ne.s32 {more}, {left}, 0;");
        line!(cold, "  @{more} bra {again};");
        line!(cold, "  bra {back};");
    }

    /// The words of what is stored.
    fn split_stored(&mut self, value: Operand, bytes: u64) -> Vec<Operand> {
        if bytes == UNIT {
            return vec![value];
        }
        match value {
            Operand::Number(number) => [number as i32, (number >> 32) as i32]
                .map(|half| Operand::Number(half.into()))
                .to_vec(),
            Operand::Reg(reg) => {
                let halves = [self.fresh(false), self.fresh(false)];
                let [low, high] = halves;
                line!(self.text, "  mov.b64 {{{low}, {high}}}, {reg};");
                halves.map(Operand::Reg).to_vec()
            }
        }
    }

    fn store_interleaved_bytes(
        &mut self,
        bytes: u64,
        value: Operand,
        address: Address,
        offset: u64,
    ) {
        let (Bytes { number, place }, behind) = self.reach_bytes(address, offset, bytes);
        if bytes == 1 {
            line!(self.text, "  st.global.b8 [{place}+{behind}], {value};");
            return;
        }
        let odd = self.odd(number);
        let back = self.begin_slow(odd);
        line!(self.text, "  st.global.b16 [{place}+{behind}], {value};");
        line!(self.text, "{back}:");
        let second = self.second_byte(number);
        let wide = matches!(value, Operand::Reg(reg) if reg.wide);
        let high = self.fresh(wide);
        let cold = &mut self.cold;
        line!(cold, "  st.global.b8 [{place}+{behind}], {value};");
        match value {
            Operand::Number(number) => {
                line!(cold, "  mov.b32 {high}, {};", number >> 8 & 0xff);
            }
            Operand::Reg(reg) => {
                let shr = if wide { "shr.u64" } else { "shr.u32" };
                line!(cold, "  {shr} {high}, {reg}, 8;");
            }
        }
        line!(cold, "  st.global.b8 [{second}+{behind}], {high};");
        line!(cold, "  bra {back};");
    }
}

/// Where the unit is that an address is in: the last register, with the help of the one before.
fn write_unit_place(text: &mut String, number: Address, index: Reg, place: Reg) {
    line!(text, "  shr.u32 {index}, {number}, {};", UNIT.ilog2());
    line!(text, "  mul.wide.u32 {place}, {index}, {UNIT_STRIDE};");
    line!(text, "  add.s64 {place}, %mem, {place};");
}

/// Where a byte is: the last register, with the help of the two before.
fn write_byte_place(text: &mut String, number: Address, index: Reg, within: Reg, place: Reg) {
    write_unit_place(text, number, index, place);
    line!(text, "  and.b32 {index}, {number}, {};", UNIT - 1);
    line!(text, "  cvt.u64.u32 {within}, {index};");
    line!(text, "  or.b64 {place}, {place}, {within};");
}
