//! What a handler of an atomic kind has done so far, so that it can be undone.

use std::cell::Cell;

use crate::id::ActorId;

/// The state before the message, and messages that are sent when the handler has returned.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// The state.
    pub(crate) state: Vec<u8>,
    /// Messages in their cells, with their receivers.
    pub(crate) sends: Vec<(ActorId, u32)>,
    /// The cell with the reply.
    pub(crate) reply: Option<u32>,
    /// The cell of an ask that is passed on; it is in `sends`, too.
    pub(crate) forwarded: Option<u32>,
}

std::thread_local! {
    /// The vectors of the last handler of this thread.
    static SPARE: Cell<Option<Undo>> = const { Cell::new(None) };
}

impl Undo {
    /// An empty one, with the memory of the last.
    pub(crate) fn take() -> Self {
        SPARE.take().unwrap_or_default()
    }
    /// Keeps the memory for the next.
    pub(crate) fn put_back(mut self) {
        self.state.clear();
        self.sends.clear();
        (self.reply, self.forwarded) = (None, None);
        SPARE.set(Some(self));
    }
}
