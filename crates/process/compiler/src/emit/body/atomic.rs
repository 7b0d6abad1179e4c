//! Atomic accesses of the threads proposal, and memories that instances share.
//!
//! All accesses are sequentially consistent at the scope of the device, by the mapping of C++'s atomics to PTX: a fence
//! `sc` before each access, then an acquiring load, a relaxed store, or an acquiring read-modify-write. (Lustig,
//! Sahasrabuddhe and Giroux, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model", ASPLOS 2019.)
//!
//! An access of 8 or 16 bits works on the aligned word around it, because PTX promises an order only among accesses of the
//! same bytes.

use everwarp_contract::TrapKind;
use wasmparser::MemArg;

use super::address::Address;
use crate::emit::body::Body;
use crate::facts::abi;
use crate::facts::types::ValueType;
use crate::text::{Operand, Pred, Reg, line};

/// What a read-modify-write makes of the value that it finds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rmw {
    Add,
    Sub,
    And,
    Or,
    Xor,
    Exchange,
}

/// The type that an atomic instruction gives or takes, and how many bytes of memory it works on.
#[derive(Clone, Copy)]
pub(super) struct Width {
    pub(super) ty: ValueType,
    pub(super) bytes: u64,
}

/// The value at an address, as part of the aligned word of 32 bits around it.
struct Part {
    /// The word's address.
    word: Reg,
    /// By how much the value is shifted in it.
    shift: Reg,
    /// The bits of the value, not shifted.
    mask: u32,
}

impl Body<'_> {
    /// The device address of the end of an atomic access: checked, and aligned.
    pub(super) fn atomic_end(&mut self, memarg: &MemArg, bytes: u64) -> Reg {
        self.touches_memory();
        let address = self.pop_address();
        let (end, beyond) = (self.address_in_64_bits(address), self.fresh_pred());
        line!(
            self.text,
            "  add.s64 {end}, {end}, {};",
            memarg.offset + bytes
        );
        line!(self.text, "  setp.gt.u64 {beyond}, {end}, %len;");
        self.trap_beyond(beyond, end);
        if bytes > 1 {
            let (rest, unaligned) = (self.fresh(true), self.fresh_pred());
            line!(self.text, "  and.b64 {rest}, {end}, {};", bytes - 1);
            line!(self.text, "  setp.ne.s64 {unaligned}, {rest}, 0;");
            self.trap_if(unaligned, true, TrapKind::UnalignedAtomic);
        }
        let at = self.fresh(true);
        line!(self.text, "  add.s64 {at}, %mem, {end};");
        at
    }

    /// Traps if an access ends after the memory's end. Another instance may have made a shared memory
    /// longer, so of such the length is read again first.
    pub(super) fn trap_beyond(&mut self, beyond: Pred, end: Reg) {
        if self.context.layout.sharing.is_none() {
            self.trap_if(beyond, true, TrapKind::MemoryOutOfBounds);
            return;
        }
        let trap = self.trap_label(TrapKind::MemoryOutOfBounds);
        let (slow, back) = (self.fresh_label(), self.fresh_label());
        line!(self.text, "  @{beyond} bra {slow};");
        line!(self.text, "{back}:");
        let mut again = format!("{slow}:\n");
        self.write_refresh(&mut again);
        line!(again, "  setp.gt.u64 {beyond}, {end}, %len;");
        line!(again, "  @!{beyond} bra {back};");
        line!(again, "  bra {trap};");
        self.cold.push_str(&again);
    }

    /// Reads the length of a shared memory again, for this function and for all code that reads the header.
    pub(super) fn refresh_memory(&mut self) {
        let mut text = String::new();
        self.write_refresh(&mut text);
        self.text.push_str(&text);
    }

    fn write_refresh(&self, text: &mut String) {
        let Some(at) = self.context.layout.sharing else {
            return;
        };
        line!(text, "  ld.global.b64 %st, [%inst+{at}];");
        // A thread that knows of a length through an atomic access reads that length or a later one.
        line!(text, "  ld.relaxed.gpu.global.b64 %len, [%st];");
        line!(text, "  st.global.b64 [%inst+{}], %len;", abi::MEMORY_BYTES);
    }

    /// Growth of a shared memory, where others may be faster.
    pub(super) fn grow_shared(&mut self, sharing: usize) {
        let delta = self.pop();
        let (at, limit, more) = (self.fresh(true), self.fresh(true), self.fresh(true));
        let (old, new, seen) = (self.fresh(true), self.fresh(true), self.fresh(true));
        let (pred, again, done) = (self.fresh_pred(), self.fresh_label(), self.fresh_label());
        let reg = self.push(Address::TYPE);
        let text = &mut self.text;
        line!(text, "  ld.global.b64 {at}, [%inst+{sharing}];");
        line!(
            text,
            "  ld.global.b64 {limit}, [%inst+{}];",
            abi::MEMORY_LIMIT
        );
        line!(text, "  mul.wide.u32 {more}, {delta}, {};", abi::PAGE);
        line!(text, "  fence.sc.gpu;");
        line!(text, "  ld.relaxed.gpu.global.b64 {old}, [{at}];");
        line!(text, "{again}:");
        line!(text, "  mov.b32 {reg}, -1;");
        line!(text, "  add.s64 {new}, {old}, {more};");
        line!(text, "  setp.gt.u64 {pred}, {new}, {limit};");
        line!(text, "  @{pred} bra {done};");
        line!(
            text,
            "  atom.acquire.gpu.global.cas.b64 {seen}, [{at}], {old}, {new};"
        );
        line!(text, "  setp.ne.s64 {pred}, {seen}, {old};");
        line!(text, "  mov.b64 {old}, {seen};");
        line!(text, "  @{pred} bra {again};");
        line!(text, "  shr.u64 {new}, {old}, 16;");
        line!(text, "  cvt.u32.u64 {reg}, {new};");
        line!(text, "{done}:");
        self.refresh_memory();
    }

    pub(super) fn atomic_fence(&mut self) {
        line!(self.text, "  fence.sc.gpu;");
    }

    /// The aligned word around a value of 8 or 16 bits.
    fn part(&mut self, end: Reg, bytes: u64) -> Part {
        let (from, word) = (self.fresh(true), self.fresh(true));
        let (low, shift) = (self.fresh(false), self.fresh(false));
        line!(self.text, "  add.s64 {from}, {end}, -{bytes};");
        line!(self.text, "  and.b64 {word}, {from}, -4;");
        line!(self.text, "  cvt.u32.u64 {low}, {from};");
        line!(self.text, "  and.b32 {low}, {low}, 3;");
        line!(self.text, "  shl.b32 {shift}, {low}, 3;");
        Part {
            word,
            shift,
            mask: (1 << (8 * bytes)) - 1,
        }
    }

    /// Pops a value, as the 32 bits that it has at least.
    fn pop_narrowed(&mut self, width: Width) -> Operand {
        let value = self.pop_operand();
        match value {
            Operand::Reg(reg) if width.ty.is_wide() && width.bytes < 8 => {
                let low = self.fresh(false);
                line!(self.text, "  cvt.u32.u64 {low}, {reg};");
                Operand::Reg(low)
            }
            Operand::Number(number) if width.bytes < 8 => Operand::Number(number as i32 as i64),
            other => other,
        }
    }

    /// Pushes what an access has found: 32 bits where the memory has fewer than 64.
    fn push_widened(&mut self, width: Width, found: Reg) {
        let reg = self.push(width.ty);
        match (found.wide, reg.wide) {
            (false, true) => line!(self.text, "  cvt.u64.u32 {reg}, {found};"),
            _ => line!(self.text, "  mov.{} {reg}, {found};", reg.bits()),
        }
    }

    /// Of a word the part, as a number.
    fn extract(&mut self, part: &Part, word: Reg) -> Reg {
        let found = self.fresh(false);
        line!(self.text, "  shr.u32 {found}, {word}, {};", part.shift);
        line!(self.text, "  and.b32 {found}, {found}, {};", part.mask);
        found
    }

    pub(super) fn atomic_load(&mut self, width: Width, memarg: &MemArg) {
        let end = self.atomic_end(memarg, width.bytes);
        line!(self.text, "  fence.sc.gpu;");
        let (bytes, bits) = (width.bytes, 8 * width.bytes);
        let found = if bytes >= 4 {
            let found = self.fresh(bytes == 8);
            line!(
                self.text,
                "  ld.acquire.gpu.global.b{bits} {found}, [{end}+-{bytes}];"
            );
            found
        } else {
            let part = self.part(end, bytes);
            let word = self.fresh(false);
            let from = part.word;
            line!(self.text, "  ld.acquire.gpu.global.b32 {word}, [{from}+0];");
            self.extract(&part, word)
        };
        self.push_widened(width, found);
    }

    pub(super) fn atomic_store(&mut self, width: Width, memarg: &MemArg) {
        let value = self.pop_narrowed(width);
        let end = self.atomic_end(memarg, width.bytes);
        line!(self.text, "  fence.sc.gpu;");
        let (bytes, bits) = (width.bytes, 8 * width.bytes);
        if bytes >= 4 {
            line!(
                self.text,
                "  st.relaxed.gpu.global.b{bits} [{end}+-{bytes}], {value};"
            );
        } else {
            let part = self.part(end, bytes);
            self.change_part(&part, value, Rmw::Exchange);
        }
    }

    pub(super) fn atomic_rmw(&mut self, rmw: Rmw, width: Width, memarg: &MemArg) {
        let mut value = self.pop_narrowed(width);
        let end = self.atomic_end(memarg, width.bytes);
        line!(self.text, "  fence.sc.gpu;");
        let (bytes, bits) = (width.bytes, 8 * width.bytes);
        if bytes < 4 {
            let part = self.part(end, bytes);
            let found = self.change_part(&part, value, rmw);
            self.push_widened(width, found);
            return;
        }
        if rmw == Rmw::Sub {
            let negative = self.fresh(bytes == 8);
            line!(self.text, "  sub.s{bits} {negative}, 0, {value};");
            value = Operand::Reg(negative);
        }
        let action = match rmw {
            Rmw::Add | Rmw::Sub => "add.u",
            Rmw::And => "and.b",
            Rmw::Or => "or.b",
            Rmw::Xor => "xor.b",
            Rmw::Exchange => "exch.b",
        };
        let found = self.fresh(bytes == 8);
        line!(
            self.text,
            "  atom.acquire.gpu.global.{action}{bits} {found}, [{end}+-{bytes}], {value};"
        );
        self.push_widened(width, found);
    }

    /// Changes a part of a word by exchanging the word until no other thread was faster. Returns what was there.
    fn change_part(&mut self, part: &Part, value: Operand, rmw: Rmw) -> Reg {
        let (old, seen, new) = (self.fresh(false), self.fresh(false), self.fresh(false));
        let (kept, pred, again) = (self.fresh(false), self.fresh_pred(), self.fresh_label());
        let (all, from) = (self.fresh(false), part.word);
        line!(self.text, "  mov.b32 {all}, {};", part.mask);
        line!(self.text, "  shl.b32 {all}, {all}, {};", part.shift);
        line!(self.text, "  ld.relaxed.gpu.global.b32 {old}, [{from}+0];");
        line!(self.text, "{again}:");
        let found = self.extract(part, old);
        match rmw {
            Rmw::Add => line!(self.text, "  add.s32 {new}, {found}, {value};"),
            Rmw::Sub => line!(self.text, "  sub.s32 {new}, {found}, {value};"),
            Rmw::And => line!(self.text, "  and.b32 {new}, {found}, {value};"),
            Rmw::Or => line!(self.text, "  or.b32 {new}, {found}, {value};"),
            Rmw::Xor => line!(self.text, "  xor.b32 {new}, {found}, {value};"),
            Rmw::Exchange => line!(self.text, "  mov.b32 {new}, {value};"),
        }
        line!(self.text, "  shl.b32 {new}, {new}, {};", part.shift);
        self.replace(all, old, new, kept);
        line!(
            self.text,
            "  atom.acquire.gpu.global.cas.b32 {seen}, [{from}+0], {old}, {new};"
        );
        line!(self.text, "  setp.ne.s32 {pred}, {seen}, {old};");
        line!(self.text, "  mov.b32 {old}, {seen};");
        line!(self.text, "  @{pred} bra {again};");
        found
    }

    /// Of `new` the bits in `all`, of `old` the others; in `new`.
    fn replace(&mut self, all: Reg, old: Reg, new: Reg, kept: Reg) {
        line!(self.text, "  xor.b32 {kept}, {old}, {new};");
        line!(self.text, "  and.b32 {kept}, {kept}, {all};");
        line!(self.text, "  xor.b32 {new}, {old}, {kept};");
    }

    pub(super) fn atomic_cmpxchg(&mut self, width: Width, memarg: &MemArg) {
        let value = self.pop_narrowed(width);
        let expected = self.pop_narrowed(width);
        let end = self.atomic_end(memarg, width.bytes);
        line!(self.text, "  fence.sc.gpu;");
        let (bytes, bits) = (width.bytes, 8 * width.bytes);
        let found = if bytes >= 4 {
            let found = self.fresh(bytes == 8);
            line!(
                self.text,
                "  atom.acquire.gpu.global.cas.b{bits} {found}, [{end}+-{bytes}], {expected}, {value};"
            );
            found
        } else {
            let part = self.part(end, bytes);
            self.exchange_part(&part, expected, value)
        };
        self.push_widened(width, found);
    }

    /// Exchanges a part of a word if it is as expected. Only the part's bits of both values count.
    fn exchange_part(&mut self, part: &Part, expected: Operand, value: Operand) -> Reg {
        let (old, seen, new) = (self.fresh(false), self.fresh(false), self.fresh(false));
        let (kept, pred, again) = (self.fresh(false), self.fresh_pred(), self.fresh_label());
        let (all, wanted, from) = (self.fresh(false), self.fresh(false), part.word);
        let done = self.fresh_label();
        line!(self.text, "  mov.b32 {all}, {};", part.mask);
        line!(self.text, "  shl.b32 {all}, {all}, {};", part.shift);
        line!(self.text, "  mov.b32 {wanted}, {expected};");
        line!(self.text, "  and.b32 {wanted}, {wanted}, {};", part.mask);
        line!(self.text, "  ld.acquire.gpu.global.b32 {old}, [{from}+0];");
        line!(self.text, "{again}:");
        let found = self.extract(part, old);
        line!(self.text, "  setp.ne.s32 {pred}, {found}, {wanted};");
        line!(self.text, "  @{pred} bra {done};");
        line!(self.text, "  mov.b32 {new}, {value};");
        line!(self.text, "  shl.b32 {new}, {new}, {};", part.shift);
        self.replace(all, old, new, kept);
        line!(
            self.text,
            "  atom.acquire.gpu.global.cas.b32 {seen}, [{from}+0], {old}, {new};"
        );
        line!(self.text, "  setp.ne.s32 {pred}, {seen}, {old};");
        line!(self.text, "  mov.b32 {old}, {seen};");
        line!(self.text, "  @{pred} bra {again};");
        line!(self.text, "{done}:");
        found
    }
}
