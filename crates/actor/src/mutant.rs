//! Rules that models break on purpose, to show that they would notice.

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// An actor goes idle without looking whether a message came meanwhile.
    IdleUnseen,
    /// A stopping actor ends although its mailbox is not empty.
    EndsWithMessages,
    /// A sender that is about to be muted does not look whether there is room meanwhile.
    RoomUnseen,
    /// Waiting for a muted actor leaves it muted.
    CircleAllowed,
    /// A sender puts all messages of its outbox into a mailbox, however few there is room for.
    BoundUnseen,
    /// A new actor in a slot forgets the list of those that wait for the last one.
    ListForgotten,
    /// The author of a note looks at the mailbox's word without changing it.
    EndUnseen,
    /// A turn that goes idle does not look at its notes again.
    NewsUnseen,
    /// A thread that waits for a channel does not look whether it has been served before it waits.
    SeatUnseen,
    /// A thread whose time is over leaves a channel some time after it has looked.
    LeavesLate,
    /// A continuation waits for a channel some time after it was asked whether it has a value.
    JoinsLate,
    /// A thread waits for a channel of a system that has ended.
    SystemEndUnseen,
    /// Values on their way to an actor that ends do not go back to their channel.
    ValuesForgotten,
    /// A courier that ends says so some time after it has looked for more to do.
    CourierUnseen,
    /// The thread that lets a courier run is woken only if it waits.
    KickUnseen,
    /// The actor of a stream pauses some time after its last credit was used.
    PausesLate,
    /// The actor of a stream says that it does not run some time after it has looked for messages.
    CreditUnseen,
    /// The host does not learn that there are credits again.
    CreditUnheard,
    /// The other side of a stream does not learn that it is closed.
    CloseUnheard,
    /// A continuation is not called when the system ends.
    AbandonsSilently,
}

/// Whether a rule is broken. Outside of models none is.
#[cfg(not(loom))]
pub(crate) const fn broken(_: Mutant) -> bool {
    false
}

#[cfg(loom)]
std::thread_local! {
    /// The rule that the models of this thread break.
    pub(crate) static BROKEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}
#[cfg(loom)]
pub(crate) fn broken(mutant: Mutant) -> bool {
    BROKEN.get() == Some(mutant)
}
