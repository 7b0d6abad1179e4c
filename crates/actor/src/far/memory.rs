//! The tables on which a closure's turn runs in a thread of the host: one slot, and cells for what is sent.

use everwarp_contract::actor::NOTE_FAILED;

use crate::sync::Ordering;
use crate::table::{Cell, Control, Shard, Slot, Table};

/// More than the asks and the items of a loan.
const CELLS: usize = 512;

/// What an actor of the host keeps from one loan to the next.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Its state, in words of 16 bytes.
    pub(crate) state: Vec<u128>,
    /// Its restarts, as in `Slot::again`.
    pub(crate) again: u64,
}

/// The tables of a thread.
pub(super) struct Memory {
    slot: Slot,
    cells: Vec<Cell>,
    /// One stack of free cells, and one of slots that is not used.
    shards: [Shard; 2],
    control: Control,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            slot: Slot::default(),
            cells: std::iter::repeat_with(Cell::default).take(CELLS).collect(),
            shards: Default::default(),
            control: Control::default(),
        }
    }
    /// Begins a loan. The outbox has the first cell, which is no message: so all that is sent is kept behind it.
    pub(super) fn begin(&mut self, notes: u32, parent: u64, again: u64) {
        self.slot = Slot::default();
        self.shards = Default::default();
        self.control = Control::default();
        self.control.fresh_cells.store(1, Ordering::Relaxed);
        self.cells[0].next.store(0, Ordering::Relaxed);
        let Slot {
            outbox_first,
            notes: own,
            parent: launched_by,
            again: restarts,
            ..
        } = &self.slot;
        outbox_first.store(1, Ordering::Relaxed);
        own.store(notes & !NOTE_FAILED, Ordering::Relaxed);
        launched_by.store(parent, Ordering::Relaxed);
        restarts.store(again, Ordering::Relaxed);
    }
    pub(super) fn table(&self) -> Table<'_> {
        Table {
            slots: std::slice::from_ref(&self.slot),
            cells: &self.cells,
            shards: &self.shards,
            control: &self.control,
        }
    }
}

/// Takes all messages out of the outbox but the first cell. Returns the oldest, plus one.
pub(super) fn outbox(table: &Table<'_>, slot: &Slot) -> u32 {
    slot.outbox_last.store(0, Ordering::Relaxed);
    table.cells[0].next.swap(0, Ordering::Relaxed)
}
