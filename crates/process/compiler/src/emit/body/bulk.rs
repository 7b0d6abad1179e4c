//! Size and growth of linear memory, and what moves many bytes at once.

use everwarp_contract::TrapKind;

use super::address::Address;
use crate::emit::body::Body;
use crate::facts::abi;
use crate::text::{Reg, line};

impl Body<'_> {
    pub(super) fn memory_size(&mut self) {
        self.touches_memory();
        self.refresh_memory();
        let pages = self.fresh(true);
        let reg = self.push(Address::TYPE);
        line!(self.text, "  shr.u64 {pages}, %len, 16;");
        line!(self.text, "  cvt.u32.u64 {reg}, {pages};");
    }

    pub(super) fn memory_grow(&mut self) {
        self.touches_memory();
        if let Some(sharing) = self.context.layout.sharing {
            self.grow_shared(sharing);
            return;
        }
        let delta = self.pop();
        let inst = self.instance_plus(0);
        let old = self.call_helper("memory_grow", &[inst, delta]);
        let reg = self.push(Address::TYPE);
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
        self.touches_memory();
        self.refresh_memory();
        let (base, len) = (self.fresh(true), self.fresh(true));
        line!(self.text, "  mov.b64 {base}, %mem;");
        line!(self.text, "  mov.b64 {len}, %len;");
        (base, len)
    }

    pub(super) fn memory_fill(&mut self) {
        let (n, value, to) = (self.pop(), self.pop(), self.pop_address().reg());
        let (base, len) = self.memory_regs();
        let args = [base, len, to, value, n];
        self.call_checked("memory_fill", &args, TrapKind::MemoryOutOfBounds);
    }

    pub(super) fn memory_copy(&mut self) {
        let (n, from, to) = (self.pop(), self.pop(), self.pop_address().reg());
        let (base, len) = self.memory_regs();
        if self.context.module.interleaved {
            let args = [base, len, to, from, n];
            self.call_checked("memory_move", &args, TrapKind::MemoryOutOfBounds);
            return;
        }
        let args = [base, len, base, len, to, from, n];
        self.call_checked("memory_copy", &args, TrapKind::MemoryOutOfBounds);
    }

    pub(super) fn memory_init(&mut self, segment: u32) {
        let (n, from, to) = (self.pop(), self.pop(), self.pop_address().reg());
        let (base, len) = self.memory_regs();
        let (data, bytes, source, size) = (
            self.fresh(true),
            self.fresh(false),
            self.fresh(true),
            self.fresh(true),
        );
        let at = self.context.layout.data_lengths + 4 * segment as usize;
        let offset = self.context.layout.data[segment as usize];
        let data_at = abi::MODULE_DATA;
        line!(self.text, "  ld.global.b64 {data}, [%inst+{data_at}];");
        line!(self.text, "  add.s64 {source}, {data}, {offset};");
        line!(self.text, "  ld.global.b32 {bytes}, [%inst+{at}];");
        line!(self.text, "  cvt.u64.u32 {size}, {bytes};");
        let args = [base, len, source, size, to, from, n];
        self.call_checked("memory_copy", &args, TrapKind::MemoryOutOfBounds);
    }

    /// A dropped segment has the length zero.
    pub(super) fn drop_segment(&mut self, lengths: usize, segment: u32) {
        let at = lengths + 4 * segment as usize;
        let zero = self.fresh(false);
        line!(self.text, "  mov.b32 {zero}, 0;");
        line!(self.text, "  st.global.b32 [%inst+{at}], {zero};");
    }
}
