//! Waiting for a notification, and notifying.
//!
//! Both call functions of the image, in the same way as imports ([`WAITING`](crate::WAITING)), because only the host knows
//! how an instance that waits gives up its thread. Without these functions no instance can wait for long, so no instance
//! is ever notified.

use everwarp_contract::TrapKind;
use wasmparser::MemArg;

use crate::emit::body::{Body, Place};
use crate::facts::types::ValueType;
use crate::text::line;

impl Body<'_> {
    /// `memory.atomic.wait32` or `wait64`: 0 if it was notified, 1 if the value is not as expected, 2 if the
    /// time is over.
    pub(super) fn atomic_wait(&mut self, bytes: u64, memarg: &MemArg) {
        let timeout = self.pop_entry();
        let expected = self.pop_entry();
        let end = self.atomic_end(memarg, bytes);
        if self.context.layout.sharing.is_none() {
            let label = self.trap_label(TrapKind::ExpectedSharedMemory);
            line!(self.text, "  bra {label};");
            self.control.dead = true;
            return;
        }
        let expected = self.operand(expected);
        let bits = 8 * bytes;
        let Some(wait) = self.context.module.waiting.wait else {
            // Whether the value is as expected, and no time is over before it begins.
            let timeout = self.operand(timeout);
            let (found, other, none) =
                (self.fresh(bytes == 8), self.fresh_pred(), self.fresh_pred());
            let reg = self.push(ValueType::I32);
            line!(self.text, "  fence.sc.gpu;");
            line!(
                self.text,
                "  ld.acquire.gpu.global.b{bits} {found}, [{end}+-{bytes}];"
            );
            line!(self.text, "  setp.ne.s{bits} {other}, {found}, {expected};");
            let time = self.fresh(true);
            line!(self.text, "  mov.b64 {time}, {timeout};");
            line!(self.text, "  setp.ne.s64 {none}, {time}, 0;");
            let (decided, waits) = (
                self.fresh_label(),
                self.trap_label(TrapKind::UnlinkedImport),
            );
            line!(self.text, "  selp.b32 {reg}, 1, 2, {other};");
            line!(self.text, "  @{other} bra {decided};");
            line!(self.text, "  @{none} bra {waits};");
            line!(self.text, "{decided}:");
            return;
        };
        let (address, wide) = (self.fresh(true), self.fresh(true));
        line!(self.text, "  add.s64 {address}, {end}, -{bytes};");
        match bytes {
            8 => line!(self.text, "  mov.b64 {wide}, {expected};"),
            _ => {
                let narrow = self.fresh(false);
                line!(self.text, "  mov.b32 {narrow}, {expected};");
                line!(self.text, "  cvt.u64.u32 {wide}, {narrow};");
            }
        }
        self.push_place(ValueType::I64, Place::Reg(address));
        self.push_place(ValueType::I64, Place::Reg(wide));
        self.stack.push(timeout);
        self.constant(ValueType::I32, bytes);
        self.call(wait);
    }

    /// `memory.atomic.notify`: how many it has woken.
    pub(super) fn atomic_notify(&mut self, memarg: &MemArg) {
        let count = self.pop_entry();
        let end = self.atomic_end(memarg, 4);
        let notify = self.context.module.waiting.notify;
        let Some(notify) = notify.filter(|_| self.context.layout.sharing.is_some()) else {
            self.constant(ValueType::I32, 0);
            return;
        };
        let address = self.fresh(true);
        line!(self.text, "  add.s64 {address}, {end}, -4;");
        self.push_place(ValueType::I64, Place::Reg(address));
        self.stack.push(count);
        self.call(notify);
    }
}
