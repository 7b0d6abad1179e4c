//! Rules that models break on purpose, to show that they would notice.

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A page leaves its frame although a task holds it.
    EvictsHeld,
    /// A task that releases a page does not say that it has done with the bytes.
    ReleaseUnordered,
    /// The word of a page does not say that its bytes are there.
    FillUnordered,
    /// The written parts are taken before the page is declared clean.
    TakesBeforeClean,
    /// A task looks whether the page is dirty before it notes what it wrote.
    MarksAfterLook,
    /// A page whose bytes are on their way to the file is not held.
    TakesUnheld,
    /// A task that found the page in no frame is not among its holders.
    MissUncounted,
    /// A page that has left its frame and comes back has the version that it had.
    VersionStays,
    /// A task that does not hold a page looks again before it has read.
    LooksEarly,
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
