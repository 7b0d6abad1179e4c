//! Numbers that are the same everywhere.

/// Marsaglia's xorshift of 32 bits ("Xorshift RNGs", 2003).
pub(crate) struct Numbers(u32);

impl Numbers {
    /// A stream of them; the seed must not be 0.
    pub(crate) fn new(seed: u32) -> Self {
        Self(seed)
    }
}

impl Iterator for Numbers {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        Some(self.0)
    }
}

/// FNV-1a of 64 bits over the numbers in their order.
pub(crate) fn digest(numbers: &[u32]) -> u64 {
    let bytes = numbers.iter().flat_map(|n| n.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
