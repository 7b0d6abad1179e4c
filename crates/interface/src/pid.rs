//! The name of a process.

use std::fmt;

/// A process of one host: the slot that it has in the host's table, and which of the slot's processes it is.
///
/// A slot is used again after its process has been waited for; the generation tells its processes apart, so
/// that an old pid never means somebody else's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid {
    slot: u32,
    generation: u32,
}

impl Pid {
    /// The name of a slot's process.
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The place in the host's table.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Which of the slot's processes this is, from 1.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// The slot, and behind a point the generation.
impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}
