//! Asks that actors keep, to reply to them in a later handler. Their cells are in no mailbox.

use crate::id::ActorId;

use super::{Op, Side, State};

crate::number::number! {
    /// An ask that an actor keeps. Numbers are not used again.
    KeptAsk,
    /// No ask: the message wanted no reply, or the system ends.
    NONE
}

/// What is kept for an ask: the actor that keeps it, its cell, and the tag of its message.
#[derive(Debug)]
pub(super) struct Kept {
    owner: ActorId,
    cell: u32,
    tag: u8,
}

impl State {
    /// An actor that keeps asks has ended or begins anew: a courier ends them.
    pub(super) fn lose(&mut self, owner: ActorId, asks: &[u64], reason: u32) {
        for number in asks {
            if let Some(Kept { cell, .. }) = self.kept.remove(number) {
                self.ops.push_back((owner, Op::Lost { cell, reason }));
            }
        }
    }
}

impl Side {
    /// An actor whose turn runs keeps the ask in a cell.
    pub(crate) fn keep(&self, owner: ActorId, cell: u32, tag: u8) -> KeptAsk {
        let mut state = self.state();
        state.last_kept += 1;
        let kept = KeptAsk(state.last_kept);
        state.keep(kept, Kept { owner, cell, tag });
        kept
    }
    /// A reply was undone: its actor keeps the ask again.
    pub(crate) fn keep_again(&self, kept: KeptAsk, owner: ActorId, cell: u32, tag: u8) {
        self.state().keep(kept, Kept { owner, cell, tag });
    }
    /// The cell of an ask, which its actor does not keep any more. None if it did not.
    pub(crate) fn take_kept(&self, kept: KeptAsk, owner: ActorId) -> Option<u32> {
        let mut state = self.state();
        let found = state.kept.get(&kept.0)?;
        if found.owner != owner {
            return None;
        }
        let cell = found.cell;
        state.kept.remove(&kept.0);
        let asks = &mut state.record(owner).kept;
        asks.retain(|number| *number != kept.0);
        Some(cell)
    }
    /// The tag of an ask that an actor keeps.
    pub(crate) fn kept_tag(&self, kept: KeptAsk, owner: ActorId) -> Option<u8> {
        let state = self.state();
        let found = state.kept.get(&kept.0);
        found
            .filter(|kept| kept.owner == owner)
            .map(|kept| kept.tag)
    }
    /// How many asks an actor keeps.
    pub(crate) fn kept_by(&self, owner: ActorId) -> usize {
        let state = self.state();
        state
            .records
            .get(&owner)
            .map_or(0, |record| record.kept.len())
    }
    /// An actor begins anew and does not know its asks any more. The caller lets a courier run.
    pub(crate) fn lose_kept(&self, owner: ActorId, reason: u32) {
        let mut state = self.state();
        if let Some(record) = state.records.get_mut(&owner) {
            let asks = std::mem::take(&mut record.kept);
            state.lose(owner, &asks, reason);
        }
    }
}

impl State {
    fn keep(&mut self, kept: KeptAsk, ask: Kept) {
        self.record(ask.owner).kept.push(kept.0);
        self.kept.insert(kept.0, ask);
    }
}
