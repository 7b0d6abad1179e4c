//! What a handler of an atomic kind has done so far, so that it can be undone.

use std::cell::Cell;

use crate::id::ActorId;
use crate::message::Message;
use crate::side::KeptAsk;

/// A message that is sent when the handler has returned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// A message, to this actor.
    Tell(ActorId),
    /// The reply to the ask in this place.
    Reply(usize),
    /// The ask in this place, which is passed on to this actor.
    Forward(ActorId, usize),
    /// The reply to an ask that was kept, whose message is in this place of `Undo::kept`.
    Kept(KeptAsk, usize),
}

/// The state before the call, and messages that are sent when the handler has returned, in their order.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// The state.
    pub(crate) state: Vec<u8>,
    /// The messages, with their cells.
    pub(crate) sends: Vec<(Held, u32)>,
    /// Asks that were kept before and have a reply now, as they were.
    pub(crate) kept: Vec<Message>,
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
        self.kept.clear();
        SPARE.set(Some(self));
    }
}
