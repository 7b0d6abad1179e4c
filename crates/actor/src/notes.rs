//! Notes to an actor: bits of a word of its slot that its own turn looks at. `actor/news.cuh` has them on a GPU. Rules:
//! 1. A note is set before the mailbox's word is changed, and the turn reads the notes after it has changed that word. So
//!    a turn that goes idle or ends sees the note, or the author of the note sees that it has.
//! 2. The author of a note that asks for a turn makes an idle actor busy, and then queues its turn. A busy actor's turn
//!    looks at the notes before each message and once more when it has gone idle.
//! 3. `NEWS` is set after something was put into the actor's list of news, and cleared under the lock of that list while
//!    the list is empty.

use everwarp_contract::actor::{
    MAIL_BUSY, MAIL_KILL, MAIL_PAUSED, NOTE_FAILED, NOTE_KNOWN, NOTE_NEWS, NOTE_SUPERVISED,
};

use crate::id::ActorId;
use crate::mail::Mail;
use crate::mailbox::Signalled;
use crate::mutant::{Mutant, broken};
use crate::sync::Ordering;
use crate::table::{Slot, Table};

/// The actor has failed.
pub(crate) const FAILED: u32 = NOTE_FAILED;
/// The host keeps something about the actor, and wants to know when it ends.
pub(crate) const KNOWN: u32 = NOTE_KNOWN;
/// Messages wait that are not in the mailbox.
pub(crate) const NEWS: u32 = NOTE_NEWS;
/// The actor belongs to a supervised group.
pub(crate) const SUPERVISED: u32 = NOTE_SUPERVISED;

/// What an actor that stops itself has in `Slot::again`, which it does not need any more.
pub(crate) const STOPPED: u64 = u64::MAX;

impl Table<'_> {
    /// Sets notes of an actor. Returns its word, if it lives.
    fn note(&self, id: ActorId, notes: u32) -> Option<(&Slot, Mail)> {
        let slot = self.named(id)?;
        if !Self::lives(slot, Mail(slot.mail.load(Ordering::Acquire)), id) {
            return None;
        }
        slot.notes.fetch_or(notes, Ordering::Relaxed);
        if broken(Mutant::EndUnseen) {
            return Some((slot, Mail(slot.mail.load(Ordering::Acquire))));
        }
        // Release: the note, to the change that ends the actor or makes it idle, if that comes later. Acquire: the other case.
        let seen = Mail(slot.mail.fetch_or(0, Ordering::AcqRel));
        Self::lives(slot, seen, id).then_some((slot, seen))
    }

    /// Makes the end of an actor known to the host. Returns whether it lives; then its end will be reported.
    pub(crate) fn know(&self, id: ActorId) -> bool {
        self.note_for(id, KNOWN)
    }
    /// Sets notes that want no turn. Returns whether the actor lives.
    pub(crate) fn note_for(&self, id: ActorId, notes: u32) -> bool {
        self.note(id, notes).is_some()
    }

    /// Lets an actor look at its notes, once it handles messages.
    pub(crate) fn announce(&self, id: ActorId, notes: u32) -> Signalled {
        match self.note(id, notes) {
            Some((slot, seen)) => Self::rouse(slot, id, seen),
            None => Signalled::Gone,
        }
    }

    /// The turn has gone idle, or the actor was activated: whether its notes want another turn, which the caller queues.
    pub(crate) fn looks_again(&self, id: ActorId) -> bool {
        let slot = &self.slots[id.slot() as usize];
        if slot.notes.load(Ordering::Relaxed) & NEWS == 0 || broken(Mutant::NewsUnseen) {
            return false;
        }
        let seen = Mail(slot.mail.load(Ordering::Acquire));
        Self::rouse(slot, id, seen) == Signalled::Activate
    }

    fn rouse(slot: &Slot, id: ActorId, mut seen: Mail) -> Signalled {
        loop {
            if !Self::lives(slot, seen, id) {
                return Signalled::Gone;
            }
            let rests = seen.has(MAIL_PAUSED) && !seen.has(MAIL_KILL);
            if rests || seen.has(MAIL_BUSY) {
                return Signalled::Done;
            }
            match slot.mail.compare_exchange_weak(
                seen.0,
                seen.with(MAIL_BUSY).0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Signalled::Activate,
                Err(now) => seen = Mail(now),
            }
        }
    }
}
