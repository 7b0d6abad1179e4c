//! Linear memory. Every access is checked against the length in 64 bits, so that address plus offset
//! cannot wrap; PTX wants aligned addresses, so an access that is not goes to a helper that moves bytes.

use wasmparser::MemArg;

use super::{Body, Reg, line};
use crate::{Trap, ValueType, abi};

/// What a load or store moves.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) ty: ValueType,
    pub(super) bytes: u64,
    pub(super) signed: bool,
}

pub(super) const fn access(ty: ValueType, bytes: u64, signed: bool) -> Access {
    Access { ty, bytes, signed }
}

/// An address that has been checked: a register and an offset that PTX adds.
struct Checked {
    base: Reg,
    offset: u64,
    /// Holds if the address is not a multiple of the access's size.
    unaligned: Option<super::Pred>,
}

impl Body<'_> {
    fn check(&mut self, address: Reg, mut offset: u64, bytes: u64) -> Checked {
        self.uses_memory = true;
        let (wide, end, beyond) = (self.fresh(true), self.fresh(true), self.fresh_pred());
        line!(self.text, "  cvt.u64.u32 {wide}, {address};");
        line!(self.text, "  add.s64 {end}, {wide}, {};", offset + bytes);
        line!(self.text, "  setp.gt.u64 {beyond}, {end}, %len;");
        self.trap_if(beyond, true, Trap::MemoryOutOfBounds);
        let mut base = self.fresh(true);
        line!(self.text, "  add.s64 {base}, %mem, {wide};");
        // An address in PTX takes an offset of 32 signed bits.
        if offset > 0x7fff_0000 {
            let sum = self.fresh(true);
            line!(self.text, "  add.s64 {sum}, {base}, {offset};");
            (base, offset) = (sum, 0);
        }
        let unaligned = (bytes > 1).then(|| self.is_unaligned(base, offset, bytes));
        Checked {
            base,
            offset,
            unaligned,
        }
    }

    fn is_unaligned(&mut self, base: Reg, offset: u64, bytes: u64) -> super::Pred {
        let (low, pred) = (self.fresh(false), self.fresh_pred());
        line!(self.text, "  cvt.u32.u64 {low}, {base};");
        let mut sum = low;
        if !offset.is_multiple_of(bytes) {
            sum = self.fresh(false);
            line!(self.text, "  add.s32 {sum}, {low}, {};", offset % bytes);
        }
        let rest = self.fresh(false);
        line!(self.text, "  and.b32 {rest}, {sum}, {};", bytes - 1);
        line!(self.text, "  setp.ne.s32 {pred}, {rest}, 0;");
        pred
    }

    pub(super) fn load(&mut self, to: Access, memarg: &MemArg) {
        let address = self.pop();
        let at = self.check(address, memarg.offset, to.bytes);
        let reg = self.push(to.ty);
        let (bits, size) = (to.bytes * 8, if to.ty.is_wide() { 64 } else { 32 });
        // Bits of the register's own size have no sign to extend.
        let sign = match (bits == size, to.signed) {
            (true, _) => 'b',
            (false, true) => 's',
            (false, false) => 'u',
        };
        let (base, offset) = (at.base, at.offset);
        let Some(unaligned) = at.unaligned else {
            line!(
                self.text,
                "  ld.global.{sign}{bits} {reg}, [{base}+{offset}];"
            );
            return;
        };
        let (slow, back) = (self.fresh_label(), self.fresh_label());
        line!(self.text, "  @{unaligned} bra {slow};");
        line!(
            self.text,
            "  ld.global.{sign}{bits} {reg}, [{base}+{offset}];"
        );
        line!(self.text, "{back}:");

        let (whole, raw) = (self.fresh(true), self.fresh(bits == 64));
        let result = raw.bits();
        let cold = &mut self.cold;
        line!(cold, "{slow}:");
        line!(cold, "  add.s64 {whole}, {base}, {offset};");
        line!(cold, "  {{");
        line!(cold, "  .param .b64 c0;");
        line!(cold, "  .param .{result} cr;");
        line!(cold, "  st.param.b64 [c0], {whole};");
        line!(cold, "  call (cr), {}load{bits}, (c0);", self.prefix);
        line!(cold, "  ld.param.{result} {raw}, [cr];");
        line!(cold, "  }}");
        let letter = if to.signed { 's' } else { 'u' };
        if raw.wide == reg.wide && !(to.signed && bits < size) {
            line!(cold, "  mov.{result} {reg}, {raw};");
        } else {
            line!(cold, "  cvt.{letter}{size}.{letter}{bits} {reg}, {raw};");
        }
        line!(cold, "  bra {back};");
    }

    pub(super) fn store(&mut self, from: Access, memarg: &MemArg) {
        let (value, address) = (self.pop(), self.pop());
        let at = self.check(address, memarg.offset, from.bytes);
        let bits = from.bytes * 8;
        let (base, offset) = (at.base, at.offset);
        let Some(unaligned) = at.unaligned else {
            line!(self.text, "  st.global.b{bits} [{base}+{offset}], {value};");
            return;
        };
        let (slow, back) = (self.fresh_label(), self.fresh_label());
        line!(self.text, "  @{unaligned} bra {slow};");
        line!(self.text, "  st.global.b{bits} [{base}+{offset}], {value};");
        line!(self.text, "{back}:");

        let (whole, part) = (self.fresh(true), self.fresh(bits == 64));
        let size = part.bits();
        let cold = &mut self.cold;
        line!(cold, "{slow}:");
        line!(cold, "  add.s64 {whole}, {base}, {offset};");
        if part.wide == value.wide {
            line!(cold, "  mov.{size} {part}, {value};");
        } else {
            line!(cold, "  cvt.u32.u64 {part}, {value};");
        }
        line!(cold, "  {{");
        line!(cold, "  .param .b64 c0;");
        line!(cold, "  .param .{size} c1;");
        line!(cold, "  st.param.b64 [c0], {whole};");
        line!(cold, "  st.param.{size} [c1], {part};");
        line!(cold, "  call {}store{bits}, (c0, c1);", self.prefix);
        line!(cold, "  }}");
        line!(cold, "  bra {back};");
    }

    pub(super) fn memory_size(&mut self) {
        self.uses_memory = true;
        let pages = self.fresh(true);
        let reg = self.push(ValueType::I32);
        line!(self.text, "  shr.u64 {pages}, %len, 16;");
        line!(self.text, "  cvt.u32.u64 {reg}, {pages};");
    }

    pub(super) fn memory_grow(&mut self) {
        self.uses_memory = true;
        let delta = self.pop();
        let inst = self.instance_plus(0);
        let old = self.call_helper("memory_grow", &[inst, delta]);
        let reg = self.push(ValueType::I32);
        line!(self.text, "  mov.b32 {reg}, {old};");
        self.reload_memory();
    }

    /// The address of something in the instance's block.
    pub(super) fn instance_plus(&mut self, offset: usize) -> Reg {
        let reg = self.fresh(true);
        line!(self.text, "  add.s64 {reg}, %inst, {offset};");
        reg
    }

    /// Base and length of linear memory in registers that may be passed on.
    fn memory_regs(&mut self) -> (Reg, Reg) {
        self.uses_memory = true;
        let (base, len) = (self.fresh(true), self.fresh(true));
        line!(self.text, "  mov.b64 {base}, %mem;");
        line!(self.text, "  mov.b64 {len}, %len;");
        (base, len)
    }

    pub(super) fn memory_fill(&mut self) {
        let (n, value, to) = (self.pop(), self.pop(), self.pop());
        let (base, len) = self.memory_regs();
        let args = [base, len, to, value, n];
        self.call_checked("memory_fill", &args, Trap::MemoryOutOfBounds);
    }

    pub(super) fn memory_copy(&mut self) {
        let (n, from, to) = (self.pop(), self.pop(), self.pop());
        let (base, len) = self.memory_regs();
        let args = [base, len, base, len, to, from, n];
        self.call_checked("memory_copy", &args, Trap::MemoryOutOfBounds);
    }

    pub(super) fn memory_init(&mut self, segment: u32) {
        let (n, from, to) = (self.pop(), self.pop(), self.pop());
        let (base, len) = self.memory_regs();
        let (data, bytes, source, size) = (
            self.fresh(true),
            self.fresh(false),
            self.fresh(true),
            self.fresh(true),
        );
        let at = self.layout.data_lengths + 4 * segment as usize;
        let offset = self.layout.data[segment as usize];
        line!(
            self.text,
            "  ld.global.b64 {data}, [%inst+{}];",
            abi::MODULE_DATA
        );
        line!(self.text, "  add.s64 {source}, {data}, {offset};");
        line!(self.text, "  ld.global.b32 {bytes}, [%inst+{at}];");
        line!(self.text, "  cvt.u64.u32 {size}, {bytes};");
        let args = [base, len, source, size, to, from, n];
        self.call_checked("memory_copy", &args, Trap::MemoryOutOfBounds);
    }

    /// A dropped segment has the length zero.
    pub(super) fn drop_segment(&mut self, lengths: usize, segment: u32) {
        let at = lengths + 4 * segment as usize;
        let zero = self.fresh(false);
        line!(self.text, "  mov.b32 {zero}, 0;");
        line!(self.text, "  st.global.b32 [%inst+{at}], {zero};");
    }
}
