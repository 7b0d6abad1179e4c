//! The memory of actors as tables of atomics, in the layouts of `everwarp_contract::actor`.

use everwarp_contract::actor::{ACTOR_SHARD_STRIDE, MESSAGE_WORDS};

use crate::sync::{AtomicU32, AtomicU64};

/// A [`DevActor`](everwarp_contract::DevActor). All accesses are atomic; those to words of the running turn are relaxed.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) mail: AtomicU64,
    /// Kind (16), bound (16), generation (32).
    pub(crate) meta: AtomicU64,
    pub(crate) front: AtomicU32,
    pub(crate) waiters: AtomicU32,
    pub(crate) outbox_first: AtomicU32,
    pub(crate) outbox_last: AtomicU32,
    pub(crate) wait_next: AtomicU32,
    /// `notes.rs` has the bits.
    pub(crate) notes: AtomicU32,
    pub(crate) handled: AtomicU64,
    pub(crate) parent: AtomicU64,
    pub(crate) again: AtomicU64,
}

/// A [`DevMessage`](everwarp_contract::DevMessage).
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Cell {
    pub(crate) next: AtomicU32,
    pub(crate) head: AtomicU32,
    pub(crate) from: AtomicU64,
    pub(crate) words: [AtomicU64; MESSAGE_WORDS as usize],
    pub(crate) to: AtomicU64,
}

/// The head of one stack of free numbers.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Shard {
    pub(crate) head: AtomicU64,
    reserved: [AtomicU64; ACTOR_SHARD_STRIDE as usize - 1],
}

/// A [`DevActorControl`](everwarp_contract::DevActorControl).
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Control {
    pub(crate) world: AtomicU64,
    pub(crate) closing: AtomicU64,
    pub(crate) asked: AtomicU64,
    events: [AtomicU64; 5],
    hole0: [AtomicU64; 8],
    pub(crate) fresh_cells: AtomicU32,
    pub(crate) fresh_slots: AtomicU32,
    pub(crate) dead: [AtomicU64; 4],
    pub(crate) mutes: AtomicU64,
    pub(crate) retired: AtomicU64,
    pub(crate) launch_refusals: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) dropped: AtomicU64,
    hole1: [AtomicU64; 6],
}

#[cfg(not(loom))]
const _: () = {
    use everwarp_contract::{DevActor, DevActorControl, DevMessage};
    use std::mem::offset_of;
    assert!(size_of::<Slot>() == size_of::<DevActor>());
    assert!(size_of::<Cell>() == size_of::<DevMessage>());
    // What follows is about failures of modules on GPUs, which only the host reads.
    assert!(size_of::<Control>() == offset_of!(DevActorControl, failures));
    macro_rules! same {
        ($mine:ident, $theirs:ident: $($field:ident)+) => {
            $(assert!(offset_of!($mine, $field) == offset_of!($theirs, $field));)+
        };
    }
    same!(Slot, DevActor: mail front waiters outbox_first outbox_last wait_next handled parent again);
    same!(Cell, DevMessage: next head from words to);
    same!(Control, DevActorControl: world closing asked fresh_cells fresh_slots dead mutes retired launch_refusals restarts dropped);
    assert!(offset_of!(Slot, meta) == offset_of!(DevActor, kind));
    assert!(offset_of!(Slot, notes) == offset_of!(DevActor, notes));
    assert!(offset_of!(DevActor, bound) == 10 && offset_of!(DevActor, generation) == 12);
};

/// All tables of a system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'t> {
    pub(crate) slots: &'t [Slot],
    pub(crate) cells: &'t [Cell],
    /// `ACTOR_SHARDS` of cells, then as many of slots.
    pub(crate) shards: &'t [Shard],
    pub(crate) control: &'t Control,
}
