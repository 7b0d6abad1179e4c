//! Loads and stores. Every access is checked against the length in 64 bits, so that address plus offset cannot wrap.
//! PTX wants aligned addresses: a load reads the two aligned words that may hold its bytes, the second only if it does
//! hold some; a store that is not aligned stores single bytes.
//!
//! Facts about an address are kept (`known.rs`): memory never shrinks, so a check that has passed stays passed. That
//! also keeps the text short for ptxas, which takes 600 bytes of memory for each byte of PTX.
//!
//! Why no helper for accesses that are not aligned? A call, however rare, costs its function a stack frame.

use everwarp_contract::TrapKind;
use wasmparser::MemArg;

use super::address::{Address, MAX_OFFSET};
use super::kinds::Signedness;
use crate::emit::body::Body;
use crate::facts::abi::PAGE;
use crate::facts::types::ValueType;
use crate::text::{Operand, Pred, Reg, line};

/// What a load or store moves.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) ty: ValueType,
    pub(super) bytes: u64,
    pub(super) signedness: Signedness,
}

pub(super) const fn access(ty: ValueType, bytes: u64, signedness: Signedness) -> Access {
    Access {
        ty,
        bytes,
        signedness,
    }
}

/// The facts about an address in a register.
#[derive(Clone, Copy)]
pub(super) struct Base {
    /// It, in memory.
    base: Reg,
    /// How it is aligned to 2, 4 and 8 bytes.
    alignments: [Option<Alignment>; 3],
}

impl Base {
    /// The facts that hold if one of the two does.
    pub(super) fn met(self, other: Self) -> Option<Self> {
        let mut alignments = self.alignments;
        for (own, other) in alignments.iter_mut().zip(other.alignments) {
            *own = own.filter(|own| Some(*own) == other);
        }
        (self.base == other.base).then_some(Self { alignments, ..self })
    }
}

/// How an address is aligned to some size.
#[derive(Clone, Copy, PartialEq)]
struct Alignment {
    /// Holds if it is not.
    unaligned: Pred,
    /// Its distance from the aligned address below.
    rest: Reg,
    /// For loads: the aligned address below, and the bits by which to shift.
    words: Option<(Reg, Reg)>,
}

/// An address that has been checked.
struct Checked {
    base: Reg,
    offset: u64,
    alignment: Option<Alignment>,
}

impl Body<'_> {
    /// Checks an access, and sees how it is aligned; for loads also where its words are.
    fn check(&mut self, address: Address, offset: u64, bytes: u64, load: bool) -> Checked {
        self.touches_memory();
        let mut known = self.known_address(address);
        let end = offset + bytes;
        if !self.known.is_checked(address, end) {
            self.check_bounds(address, end);
            self.known.set_checked(address, end);
        }
        let checked = if bytes == 1 && offset <= MAX_OFFSET {
            Checked {
                base: known.base,
                offset,
                alignment: None,
            }
        } else if offset.is_multiple_of(bytes) && offset <= MAX_OFFSET {
            let slot = &mut known.alignments[bytes.ilog2() as usize - 1];
            let mut alignment = match *slot {
                Some(alignment) => alignment,
                None => {
                    let low = self.low_bits(address);
                    self.alignment(low, bytes)
                }
            };
            if load && alignment.words.is_none() {
                alignment.words = Some(self.words(known.base, alignment.rest, bytes));
            }
            *slot = Some(alignment);
            Checked {
                base: known.base,
                offset,
                alignment: Some(alignment),
            }
        } else {
            let (base, low) = (self.fresh(true), self.fresh(false));
            line!(self.text, "  add.s64 {base}, {}, {offset};", known.base);
            line!(self.text, "  cvt.u32.u64 {low}, {base};");
            let mut alignment = (bytes > 1).then(|| self.alignment(low, bytes));
            if let Some(alignment) = alignment.as_mut().filter(|_| load) {
                alignment.words = Some(self.words(base, alignment.rest, bytes));
            }
            Checked {
                base,
                offset: 0,
                alignment,
            }
        };
        self.known.bases.set(address, known);
        checked
    }

    /// Traps unless all bytes from an address up to `end` after it are in bounds.
    pub(super) fn check_bounds(&mut self, address: Address, end: u64) {
        let beyond = self.fresh_pred();
        let memory = self.context.module.memory.as_ref();
        let is_never_shorter = memory.is_some_and(|m| m.min * PAGE >= end);
        if is_never_shorter && self.context.layout.sharing.is_none() && !address.is_wide() {
            // The memory is never shorter than that, and never longer than 2^32: so the last address that is in
            // bounds has 32 bits, and the lower half of the length is enough to find it.
            let last = self.fresh(false);
            line!(self.text, "  sub.s32 {last}, %low, {};", end as u32 as i32);
            line!(self.text, "  setp.gt.u32 {beyond}, {address}, {last};");
            self.trap_if(beyond, true, TrapKind::MemoryOutOfBounds);
            return;
        }
        let sum = self.address_in_64_bits(address);
        line!(self.text, "  add.s64 {sum}, {sum}, {end};");
        line!(self.text, "  setp.gt.u64 {beyond}, {sum}, %len;");
        self.trap_beyond(beyond, sum);
    }

    fn known_address(&mut self, address: Address) -> Base {
        if let Some(known) = self.known.bases.get(address) {
            return known;
        }
        let wide = self.address_in_64_bits(address);
        let base = self.fresh(true);
        line!(self.text, "  add.s64 {base}, %mem, {wide};");
        Base {
            base,
            alignments: [None; 3],
        }
    }

    fn alignment(&mut self, low: Reg, bytes: u64) -> Alignment {
        let (rest, unaligned) = (self.fresh(false), self.fresh_pred());
        line!(self.text, "  and.b32 {rest}, {low}, {};", bytes - 1);
        line!(self.text, "  setp.ne.s32 {unaligned}, {rest}, 0;");
        Alignment {
            unaligned,
            rest,
            words: None,
        }
    }

    fn words(&mut self, base: Reg, rest: Reg, bytes: u64) -> (Reg, Reg) {
        let (below, shift) = (self.fresh(true), self.fresh(false));
        line!(self.text, "  and.b64 {below}, {base}, -{bytes};");
        line!(self.text, "  shl.b32 {shift}, {rest}, 3;");
        (below, shift)
    }

    pub(super) fn load(&mut self, to: Access, memarg: &MemArg) {
        let address = self.pop_address();
        if self.context.module.interleaved {
            let value = self.interleaved_value(address, memarg, to.bytes);
            let reg = self.push(to.ty);
            self.put_value(to, reg, value);
            return;
        }
        let at = self.check(address, memarg.offset, to.bytes, true);
        let reg = self.push(to.ty);
        let letter = to.signedness.letter();
        let Some(Alignment {
            unaligned,
            words: Some((below, shift)),
            ..
        }) = at.alignment
        else {
            let (base, offset) = (at.base, at.offset);
            line!(self.text, "  ld.global.{letter}8 {reg}, [{base}+{offset}];");
            return;
        };
        let bits = to.bytes * 8;
        let (first, second) = (self.fresh(bits == 64), self.fresh(bits == 64));
        let (offset, next) = (at.offset, at.offset + to.bytes);
        line!(
            self.text,
            "  ld.global.u{bits} {first}, [{below}+{offset}];"
        );
        // There is a second word in bounds, because bytes of it were asked for.
        line!(self.text, "  mov.{} {second}, 0;", second.bits());
        line!(
            self.text,
            "  @{unaligned} ld.global.u{bits} {second}, [{below}+{next}];"
        );
        self.put_loaded(to, reg, (first, second, shift));
    }

    /// The loaded value: of the aligned word at or below the address and the next one, shifted by this many bits.
    fn put_loaded(&mut self, to: Access, reg: Reg, (first, second, shift): (Reg, Reg, Reg)) {
        let bits = to.bytes * 8;
        if bits == 64 {
            let rest = self.fresh(false);
            line!(self.text, "  shr.u64 {first}, {first}, {shift};");
            line!(self.text, "  sub.s32 {rest}, 64, {shift};");
            // With nothing to shift the rest is 64, and a shift by 64 gives 0.
            line!(self.text, "  shl.b64 {second}, {second}, {rest};");
            line!(self.text, "  or.b64 {reg}, {first}, {second};");
            return;
        }
        if bits == 16 {
            line!(self.text, "  shl.b32 {second}, {second}, 16;");
            line!(self.text, "  or.b32 {first}, {first}, {second};");
            line!(self.text, "  shr.u32 {first}, {first}, {shift};");
        } else {
            line!(
                self.text,
                "  shf.r.wrap.b32 {first}, {first}, {second}, {shift};"
            );
        }
        self.put_value(to, reg, first);
    }

    /// What is loaded, of a register with its bits.
    fn put_value(&mut self, to: Access, reg: Reg, value: Reg) {
        let (bits, letter) = (to.bytes * 8, to.signedness.letter());
        let size = if to.ty.is_wide() { 64 } else { 32 };
        if bits == size {
            line!(self.text, "  mov.b{size} {reg}, {value};");
        } else {
            line!(
                self.text,
                "  cvt.{letter}{size}.{letter}{bits} {reg}, {value};"
            );
        }
    }

    pub(super) fn store(&mut self, from: Access, memarg: &MemArg) {
        let (value, address) = (self.pop_operand(), self.pop_address());
        if self.context.module.interleaved {
            self.interleaved_store(from, value, address, memarg);
            return;
        }
        let at = self.check(address, memarg.offset, from.bytes, false);
        let (base, offset, bits) = (at.base, at.offset, from.bytes * 8);
        let Some(Alignment { unaligned, .. }) = at.alignment else {
            line!(self.text, "  st.global.b8 [{base}+{offset}], {value};");
            return;
        };
        let (slow, back) = (self.fresh_label(), self.fresh_label());
        line!(self.text, "  @{unaligned} bra {slow};");
        line!(self.text, "  st.global.b{bits} [{base}+{offset}], {value};");
        line!(self.text, "{back}:");
        let shifted = self.fresh(from.ty.is_wide());
        let shr = if shifted.wide { "shr.u64" } else { "shr.u32" };
        let cold = &mut self.cold;
        line!(cold, "{slow}:");
        for byte in 0..from.bytes {
            let at = offset + byte;
            match value {
                Operand::Number(number) => {
                    let byte = (number >> (8 * byte)) & 0xff;
                    line!(cold, "  st.global.b8 [{base}+{at}], {byte};");
                }
                Operand::Reg(reg) if byte == 0 => {
                    line!(cold, "  st.global.b8 [{base}+{at}], {reg};");
                }
                Operand::Reg(reg) => {
                    line!(cold, "  {shr} {shifted}, {reg}, {};", 8 * byte);
                    line!(cold, "  st.global.b8 [{base}+{at}], {shifted};");
                }
            }
        }
        line!(cold, "  bra {back};");
    }
}
