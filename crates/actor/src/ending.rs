//! How actors end.

use everwarp_contract::actor::MAIL_KILL;

use crate::mail::Mail;
use crate::notes::{FAILED, STOPPED};
use crate::sync::Ordering;
use crate::table::Slot;

/// How an actor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has stopped itself, or was stopped after it had handled what it had accepted.
    Stopped,
    /// Its handler has failed.
    Failed,
    /// It was killed.
    Killed,
    /// There was no such actor when it was to be watched.
    Unknown,
}

impl Ending {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Stopped, Self::Failed, Self::Killed, Self::Unknown];

    /// Whether it ended by a failure or by force.
    pub const fn is_abnormal(self) -> bool {
        matches!(self, Self::Failed | Self::Killed)
    }
    /// The ending of the actor in a slot whose mailbox has this word.
    pub(crate) fn of(slot: &Slot, mail: Mail) -> Self {
        if slot.notes.load(Ordering::Relaxed) & FAILED != 0 {
            Self::Failed
        } else if slot.again.load(Ordering::Relaxed) == STOPPED || !mail.has(MAIL_KILL) {
            Self::Stopped
        } else {
            Self::Killed
        }
    }
}
