//! Tail calls, from the caller's side: see `emit/trampoline.rs`.

use everwarp_contract::TrapKind;

use crate::emit::body::Body;
use crate::facts::abi;
use crate::facts::abi::{DevTable, TABLE_LEN};
use crate::facts::tails::ARGUMENTS;
use crate::facts::types::{ValueType, parts, placed};
use crate::text::{Operand, Reg, line};

impl Body<'_> {
    pub(super) fn return_call(&mut self, function: u32) {
        let module = self.context.module;
        let number = self.context.tails.direct(module, self.function, function);
        let params = &module.function_type(function).params;
        self.leave_for(params, Operand::Number(number.into()));
    }

    pub(super) fn return_call_indirect(&mut self, ty: u32, table: u32) {
        let module = self.context.module;
        let index = self.pop();
        let canonical = module.canonical[ty as usize];
        let place = self.looked_up(canonical, table, index);
        let first = self
            .context
            .tails
            .indirect(module, self.function, canonical);
        // A place begins with 1.
        let number = self.fresh(false);
        line!(
            self.text,
            "  add.s32 {number}, {place}, {};",
            i64::from(first) - 1
        );
        let params = &module.types[ty as usize].params;
        self.leave_for(params, Operand::Reg(number));
    }

    /// The place of a table's element among the functions of this type, with 1 for the first.
    fn looked_up(&mut self, canonical: u32, table: u32, index: Reg) -> Reg {
        let record = self.context.layout.tables + size_of::<DevTable>() * table as usize;
        let (len, beyond) = (self.fresh(false), self.fresh_pred());
        let (at, offset) = (self.fresh(true), self.fresh(true));
        let (reference, upper) = (self.fresh(true), self.fresh(true));
        let (found, place) = (self.fresh(false), self.fresh(false));
        let (null, other) = (self.fresh_pred(), self.fresh_pred());
        line!(
            self.text,
            "  ld.global.b32 {len}, [%inst+{}];",
            record + TABLE_LEN
        );
        line!(self.text, "  setp.ge.u32 {beyond}, {index}, {len};");
        self.trap_if(beyond, true, TrapKind::UndefinedElement);
        line!(self.text, "  ld.global.b64 {at}, [%inst+{record}];");
        line!(self.text, "  mul.wide.u32 {offset}, {index}, 8;");
        line!(self.text, "  add.s64 {at}, {at}, {offset};");
        line!(self.text, "  ld.global.b64 {reference}, [{at}];");
        line!(self.text, "  setp.eq.s64 {null}, {reference}, 0;");
        self.trap_if(null, true, TrapKind::UninitializedElement);
        line!(self.text, "  shr.u64 {upper}, {reference}, 32;");
        line!(self.text, "  cvt.u32.u64 {found}, {upper};");
        line!(self.text, "  setp.ne.s32 {other}, {found}, {canonical};");
        self.trap_if(other, true, TrapKind::IndirectCallTypeMismatch);
        line!(self.text, "  cvt.u32.u64 {place}, {reference};");
        place
    }

    /// Leaves the arguments on the stack and the number of the callee, and returns to the trampoline.
    fn leave_for(&mut self, params: &[ValueType], number: Operand) {
        // An endless chain of such calls has to spend fuel.
        self.needs.calls = true;
        self.needs.traps = true;
        let area = self.context.layout.tail;
        let types = parts(params);
        let base = self.stack.len() - types.len();
        for (i, (part, at)) in placed(&types).enumerate() {
            let value = self.operand(self.stack[base + i]);
            let (size, at) = (part.ptx(), area + ARGUMENTS + at);
            line!(self.text, "  st.global.{size} [%inst+{at}], {value};");
        }
        self.stack.truncate(base);
        line!(self.text, "  st.global.b32 [%inst+{area}], {number};");
        line!(self.text, "  st.global.b64 [%inst+{}], %fuel;", abi::FUEL);
        line!(self.text, "  mov.b64 %fuel, {};", abi::TAIL_CALL);
        line!(self.text, "  bra $U;");
        self.control.dead = true;
    }
}
