//! Ids of actors.

use std::fmt;

use everwarp_contract::actor::{ACTOR_GENERATION_MAX, ACTOR_GENERATION_SHIFT, ACTOR_NODE_SHIFT};

/// Names an actor. An id never names another actor later: a slot that is used again has another generation, and a slot
/// whose generations are used up is not used again.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActorId(u64);

impl ActorId {
    /// No actor: the host as a sender, or the result of a launch for which there was no slot. A message to it becomes a
    /// dead letter.
    pub const NONE: Self = Self(0);

    /// The id with these bits, as a message carries it.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    /// The bits, to be sent in a message.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Whether it names no actor.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
    /// The id of the actor in a slot. Generations begin with 1, so that no id is 0.
    pub(crate) const fn new(slot: u32, generation: u32) -> Self {
        Self(slot as u64 | (generation as u64) << ACTOR_GENERATION_SHIFT)
    }
    /// The slot.
    pub(crate) const fn slot(self) -> u32 {
        self.0 as u32 & ((1 << ACTOR_GENERATION_SHIFT) - 1)
    }
    /// The slot's generation.
    pub(crate) const fn generation(self) -> u32 {
        (self.0 >> ACTOR_GENERATION_SHIFT) as u32 & ACTOR_GENERATION_MAX
    }
    /// The node; only 0 is in use.
    pub(crate) const fn node(self) -> u32 {
        (self.0 >> ACTOR_NODE_SHIFT) as u32
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_none() {
            true => f.write_str("ActorId(none)"),
            false => write!(f, "ActorId({}.{})", self.slot(), self.generation()),
        }
    }
}
