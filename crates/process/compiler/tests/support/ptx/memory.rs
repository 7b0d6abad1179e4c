//! Memory that consists of allocations with gaps between them.

/// Allocations in the order of their addresses.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: Vec<(u64, Vec<u8>)>,
}

impl Memory {
    /// Allocates these bytes and returns their address: aligned to 256, with a large gap to all other allocations.
    pub(crate) fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        let at = (self.regions.last()).map_or(0x7000_0000_0000, |(start, r)| {
            (start + r.len() as u64 + (8 << 30)).next_multiple_of(256)
        });
        self.regions.push((at, bytes));
        at
    }

    /// Returns these bytes, or an error if they are not all in one allocation.
    pub(crate) fn bytes(&mut self, at: u64, len: usize) -> Result<&mut [u8], String> {
        let after = self.regions.partition_point(|(start, _)| *start <= at);
        let found = after.checked_sub(1).and_then(|i| {
            let (start, region) = &mut self.regions[i];
            let from = (at - *start) as usize;
            region.get_mut(from..from.checked_add(len)?)
        });
        found.ok_or_else(|| format!("{len} bytes at {at:#x} are not allocated"))
    }

    /// Loads one number, aligned to its size.
    pub(crate) fn load(&mut self, at: u64, bytes: usize) -> Result<u64, String> {
        if !at.is_multiple_of(bytes as u64) {
            return Err(format!("a load of {bytes} bytes at {at:#x} is not aligned"));
        }
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(self.bytes(at, bytes)?);
        Ok(u64::from_le_bytes(number))
    }

    /// Stores one number, aligned to its size.
    pub(crate) fn store(&mut self, at: u64, bytes: usize, number: u64) -> Result<(), String> {
        if !at.is_multiple_of(bytes as u64) {
            return Err(format!(
                "a store of {bytes} bytes at {at:#x} is not aligned"
            ));
        }
        let number = number.to_le_bytes();
        self.bytes(at, bytes)?.copy_from_slice(&number[..bytes]);
        Ok(())
    }
}
