//! Tables of references.

use everwarp_contract::TrapKind;

use crate::emit::body::Body;
use crate::facts::abi::{DevTable, TABLE_LEN};
use crate::facts::types::ValueType;
use crate::text::{Reg, line};

impl Body<'_> {
    /// Offset of a table's record in the instance's block.
    fn table_at(&self, table: u32) -> usize {
        self.context.layout.tables + size_of::<DevTable>() * table as usize
    }

    /// The address of an element, checked.
    fn element(&mut self, table: u32, index: Reg) -> Reg {
        let at = self.table_at(table);
        let (len, beyond) = (self.fresh(false), self.fresh_pred());
        let (elements, offset, address) = (self.fresh(true), self.fresh(true), self.fresh(true));
        line!(
            self.text,
            "  ld.global.b32 {len}, [%inst+{}];",
            at + TABLE_LEN
        );
        line!(self.text, "  setp.ge.u32 {beyond}, {index}, {len};");
        self.trap_if(beyond, true, TrapKind::TableOutOfBounds);
        line!(self.text, "  ld.global.b64 {elements}, [%inst+{at}];");
        line!(self.text, "  mul.wide.u32 {offset}, {index}, 8;");
        line!(self.text, "  add.s64 {address}, {elements}, {offset};");
        address
    }

    pub(super) fn table_get(&mut self, table: u32) {
        let index = self.pop();
        let address = self.element(table, index);
        let ty = self.context.module.tables[table as usize].ty;
        let reg = self.push(ty);
        line!(self.text, "  ld.global.b64 {reg}, [{address}];");
    }

    pub(super) fn table_set(&mut self, table: u32) {
        let (value, index) = (self.pop_operand(), self.pop());
        let address = self.element(table, index);
        line!(self.text, "  st.global.b64 [{address}], {value};");
    }

    pub(super) fn table_size(&mut self, table: u32) {
        let at = self.table_at(table) + TABLE_LEN;
        let reg = self.push(ValueType::I32);
        line!(self.text, "  ld.global.b32 {reg}, [%inst+{at}];");
    }

    pub(super) fn table_grow(&mut self, table: u32) {
        let (n, value) = (self.pop(), self.pop());
        let record = self.instance_plus(self.table_at(table));
        let old = self.call_helper("table_grow", &[record, value, n]);
        let reg = self.push(ValueType::I32);
        line!(self.text, "  mov.b32 {reg}, {old};");
    }

    pub(super) fn table_fill(&mut self, table: u32) {
        let (n, value, to) = (self.pop(), self.pop(), self.pop());
        let record = self.instance_plus(self.table_at(table));
        let args = [record, to, value, n];
        self.call_checked("table_fill", &args, TrapKind::TableOutOfBounds);
    }

    pub(super) fn table_copy(&mut self, to_table: u32, from_table: u32) {
        let (n, from, to) = (self.pop(), self.pop(), self.pop());
        let at = self.table_at(from_table);
        let record = self.instance_plus(self.table_at(to_table));
        let (source, len) = (self.fresh(true), self.fresh(false));
        line!(self.text, "  ld.global.b64 {source}, [%inst+{at}];");
        line!(
            self.text,
            "  ld.global.b32 {len}, [%inst+{}];",
            at + TABLE_LEN
        );
        let args = [record, source, len, to, from, n];
        self.call_checked("table_copy", &args, TrapKind::TableOutOfBounds);
    }

    pub(super) fn table_init(&mut self, table: u32, segment: u32) {
        let (n, from, to) = (self.pop(), self.pop(), self.pop());
        let record = self.instance_plus(self.table_at(table));
        let source = self.instance_plus(self.context.layout.elements[segment as usize]);
        let at = self.context.layout.element_lengths + 4 * segment as usize;
        let len = self.fresh(false);
        line!(self.text, "  ld.global.b32 {len}, [%inst+{at}];");
        let args = [record, source, len, to, from, n];
        self.call_checked("table_copy", &args, TrapKind::TableOutOfBounds);
    }
}
