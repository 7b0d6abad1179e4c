//! The memory that a program may allot and access.

use alloc::vec::Vec;

use crate::fault::Fault;

/// The most bytes that a program may have.
const MOST: usize = 1 << 20;

/// The program's memory.
pub(crate) struct Memory(Vec<u8>);

impl Memory {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    pub(crate) fn cell(&mut self, address: i32) -> Result<&mut [u8; 4], Fault> {
        let cell = self.0.get_mut(address as u32 as usize..);
        cell.and_then(|c| c.first_chunk_mut()).ok_or(Fault::Address)
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, address: i32) -> Result<&mut u8, Fault> {
        let byte = self.0.get_mut(address as u32 as usize);
        byte.ok_or(Fault::Address)
    }

    /// Gives the program more memory, or takes some back; answers where it began.
    #[inline(never)]
    pub(crate) fn allot(&mut self, bytes: i32) -> Result<i32, Fault> {
        let here = self.len();
        let length = (here as i32).checked_add(bytes).map(|l| l as usize);
        let length = length.filter(|l| *l <= MOST);
        self.0.resize(length.ok_or(Fault::Allot)?, 0);
        Ok(here as i32)
    }
}
