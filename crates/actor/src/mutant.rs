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
    /// A new actor in a slot forgets the list of those that wait for the last one.
    ListForgotten,
    /// The author of a note looks at the mailbox's word without changing it.
    EndUnseen,
    /// A turn that goes idle does not look at its notes again.
    NewsUnseen,
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
