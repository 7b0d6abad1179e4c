//! What clients and store say to each other.

/// Bytes of a request.
pub(crate) const REQUEST: usize = 20;
/// Bytes of an answer: the value.
pub(crate) const ANSWER: usize = 8;
/// The key that all clients add to.
pub(crate) const COUNTER: u32 = u32::MAX;

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    /// Sets a value, and gets the one before.
    Put = 0,
    /// Gets the value; 0 if there is none.
    Get = 1,
    /// Adds to the value, and gets the sum.
    Add = 2,
}

/// A request.
pub(crate) struct Request {
    /// The client that asks.
    pub(crate) client: u32,
    /// The operation.
    pub(crate) op: Op,
    /// Its key.
    pub(crate) key: u32,
    /// Its value.
    pub(crate) value: u64,
}

impl Request {
    /// As bytes.
    pub(crate) fn encode(&self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[..4].copy_from_slice(&self.client.to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.op as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_le_bytes());
        bytes[12..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// From bytes.
    pub(crate) fn decode(bytes: &[u8; REQUEST]) -> Self {
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|k| bytes[at + k]));
        Self {
            client: word(0),
            op: match word(4) {
                0 => Op::Put,
                1 => Op::Get,
                _ => Op::Add,
            },
            key: word(8),
            value: u64::from(word(16)) << 32 | u64::from(word(12)),
        }
    }
}
