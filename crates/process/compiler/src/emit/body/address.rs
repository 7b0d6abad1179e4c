//! Addresses in linear memory, as a module computes them: today always numbers of 32 bits.
//!
//! What depends on their width is here or asks an [`Address`] for it. A memory with addresses of 64 bits would need
//! another [`Address::TYPE`], and sums of address and offset that are checked for overflow.

use std::fmt;

use super::{Body, Place};
use crate::facts::types::ValueType;
use crate::text::{Reg, line};

/// The most that can be added to a register in an address of PTX: an offset there has 32 bits and a sign, and a load
/// adds some bytes of its own.
pub(super) const MAX_OFFSET: u64 = 0x7fff_0000;

/// An address in linear memory: the register that holds it, whose width is that of the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Address(Reg);

impl Address {
    /// The type of an address, of a size and of a number of pages on the operand stack.
    pub(super) const TYPE: ValueType = ValueType::I32;

    pub(super) const fn in_register(reg: Reg) -> Self {
        Self(reg)
    }

    /// The register.
    pub(super) const fn reg(self) -> Reg {
        self.0
    }

    /// Whether the address has 64 bits.
    pub(super) const fn is_wide(self) -> bool {
        self.0.wide
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Body<'_> {
    pub(super) fn pop_address(&mut self) -> Address {
        Address::in_register(self.pop())
    }

    pub(super) fn push_address(&mut self, address: Address) {
        self.push_place(Address::TYPE, Place::Reg(address.reg()));
    }

    /// An address that no instruction has computed yet.
    pub(super) fn fresh_address(&mut self) -> Address {
        Address(self.fresh(Address::TYPE.is_wide()))
    }

    /// A copy of an address, or of a size, in a register of 64 bits.
    pub(super) fn address_in_64_bits(&mut self, address: Address) -> Reg {
        let copy = self.fresh(true);
        match address.is_wide() {
            true => line!(self.text, "  mov.b64 {copy}, {address};"),
            false => line!(self.text, "  cvt.u64.u32 {copy}, {address};"),
        }
        copy
    }

    /// The lower 32 bits of an address.
    pub(super) fn low_bits(&mut self, address: Address) -> Reg {
        if !address.is_wide() {
            return address.reg();
        }
        let low = self.fresh(false);
        line!(self.text, "  cvt.u32.u64 {low}, {address};");
        low
    }

    /// An address that is in bounds with what is added to it, so that the sum does not overflow.
    pub(super) fn address_plus(&mut self, address: Address, add: u64) -> Address {
        if add == 0 {
            return address;
        }
        let sum = self.fresh_address();
        match address.is_wide() {
            true => line!(self.text, "  add.s64 {sum}, {address}, {add};"),
            false => {
                let add = add as u32 as i32;
                line!(self.text, "  add.s32 {sum}, {address}, {add};");
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_as_wide_as_its_register() {
        let [narrow, wide] = [false, true].map(|wide| Address(Reg { wide, index: 3 }));
        assert!(!narrow.is_wide() && wide.is_wide());
        assert_eq!(
            (narrow.to_string(), wide.to_string()),
            ("%r3".into(), "%d3".into())
        );
    }
}
