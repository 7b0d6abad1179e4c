//! The mailbox protocol: how messages, turns, muted senders and signals meet.
//!
//! `actor/mailbox.cuh` is the same protocol on a GPU, function by function. Rules:
//! 1. `mail` changes only by atomic read-modify-writes. A message is accepted by the change that puts its cell on top of
//!    the word's list; that change also checks that the actor lives and that there is room, and makes it busy. So an actor
//!    can neither go idle nor end between the check and the push.
//! 2. The change that makes an idle actor busy gives its author one turn to queue. A turn ends by giving that right back
//!    ([`Finished::Idle`]), by queueing the next one ([`Finished::Again`]), or by leaving it to the author of the change that
//!    clears `MAIL_MUTED`. So there is never more than one turn of an actor.
//! 3. Only the turn touches the taken list (`front`), the outbox and the state.
//! 4. A sender is muted in three steps: it sets `MUTED` and `LISTED` in its own word, unless it is full or waited for; it
//!    links itself to the receiver's `waiters`; it sets `WAIT` in the receiver's word if that is full, and takes the list
//!    and wakes all of it otherwise. From the first step on, only the author of the change that clears `MUTED` may run it.
//!    A deactivated actor handles nothing, so that it is muted all the same; the signal that activates it clears `MUTED`.
//! 5. Setting `WAIT` clears `MUTED`: an actor for which another one waits is never muted, so muted actors cannot wait for
//!    each other in a circle.
//! 6. `WAIT` implies that the mailbox is full, or that the author of the change that made room is about to clear it and
//!    takes the list then. So a sender that has linked itself and sees `WAIT` on a full mailbox need not set it again.
//! 7. An actor does not end while it is in a list. The author of the change that ends it owns the slot.

use everwarp_contract::actor::{
    ACTOR_GENERATION_MAX, MAIL_BUSY, MAIL_COUNT_SHIFT, MAIL_KILL, MAIL_LISTED, MAIL_LIVE,
    MAIL_MUTED, MAIL_PAUSED, MAIL_STOP, MAIL_WAIT,
};

use crate::id::ActorId;
use crate::mail::{Mail, WITHOUT_CELLS, flag};
use crate::mutant::{Mutant, broken};
use crate::pool::Pool;
use crate::sync::Ordering;
use crate::table::{Slot, Table};

/// The most messages that leave an outbox with one change of the receiver's word.
const SENT_TOGETHER: u32 = 32;

/// What became of a message.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The mailbox has it.
    Delivered,
    /// The mailbox has it, and the caller queues a turn of the receiver.
    Activate,
    /// The mailbox is full; the caller keeps the message.
    Full,
    /// The receiver does not live, or ends; the caller keeps the message.
    Gone,
}

/// What became of a sender whose message did not fit.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Muting {
    /// It is itself full, or waited for: it goes on.
    GoesOn,
    /// It is muted, and its turn is over; the caller must not touch it any more. It queues a turn of this actor.
    Muted(Option<u32>),
}

/// How a turn ends.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// The actor is idle; the caller must not touch it any more.
    Idle,
    /// The caller queues another turn.
    Again,
    /// The actor ends when it has left the list that it is in; the caller must not touch it any more.
    Later,
    /// The actor has ended, and the caller gives the slot back.
    Ended,
    /// The actor would have ended, and is idle instead; the caller must not touch it any more.
    Revived,
}

/// A signal to an actor. Signals overtake messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Accept no more messages, and end when those in the mailbox are handled.
    Stop,
    /// End; messages in the mailbox become dead letters.
    Kill,
    /// Keep messages and handle none.
    Pause,
    /// Handle messages again.
    Resume,
}

/// What became of a signal.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signalled {
    /// The actor has it.
    Done,
    /// The actor has it, and the caller queues a turn.
    Activate,
    /// The actor does not live.
    Gone,
}

/// The mailbox's bound, in a slot's `meta`.
pub(crate) const fn bound_of(meta: u64) -> u32 {
    (meta >> 16) as u32 & 0xffff
}
/// The generation, in a slot's `meta`.
pub(crate) const fn generation_of(meta: u64) -> u32 {
    (meta >> 32) as u32
}

impl<'t> Table<'t> {
    /// The slot that an id names, if it can name one.
    pub(crate) fn named(&self, id: ActorId) -> Option<&'t Slot> {
        let slot = self.slots.get(id.slot() as usize)?;
        (id.node() == 0 && id.generation() != 0).then_some(slot)
    }
    /// Whether the word is that of the actor with this id.
    pub(crate) fn lives(slot: &Slot, mail: Mail, id: ActorId) -> bool {
        let generation = generation_of(slot.meta.load(Ordering::Relaxed));
        mail.has(MAIL_LIVE) && mail.is_of(id.generation()) && generation == id.generation()
    }

    /// Whether the word is that of the actor with this id, and it accepts messages.
    fn accepts(slot: &Slot, mail: Mail, id: ActorId) -> bool {
        Self::lives(slot, mail, id) && !mail.has(MAIL_STOP | MAIL_KILL)
    }
    /// How many messages it accepts.
    fn room(slot: &Slot, mail: Mail, id: ActorId) -> u32 {
        let bound = bound_of(slot.meta.load(Ordering::Relaxed));
        match Self::accepts(slot, mail, id) {
            true => bound.saturating_sub(mail.count()),
            false => 0,
        }
    }

    /// Sends the message in a cell, which the caller owns until it is accepted. (On a GPU a handler's message goes into the outbox
    /// after a few changes of others, and leaves it together with later ones.)
    pub(crate) fn send(&self, to: ActorId, cell: u32) -> Sent {
        let Some(slot) = self.named(to) else {
            return Sent::Gone;
        };
        let mut seen = Mail(slot.mail.load(Ordering::Acquire));
        loop {
            if !Self::accepts(slot, seen, to) {
                return Sent::Gone;
            }
            if seen.count() >= bound_of(slot.meta.load(Ordering::Relaxed)) {
                return Sent::Full;
            }
            let rests = seen.has(MAIL_PAUSED) && !seen.has(MAIL_BUSY);
            let mut next = seen.pushed(cell + 1);
            if rests {
                next = next.without(MAIL_BUSY);
            }
            let link = &self.cells[cell as usize].next;
            link.store(seen.cell(), Ordering::Relaxed);
            // Release: the message, to the turn that takes it.
            match slot.mail.compare_exchange_weak(
                seen.0,
                next.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) if rests || seen.has(MAIL_BUSY) => return Sent::Delivered,
                Ok(_) => return Sent::Activate,
                Err(now) => seen = Mail(now),
            }
        }
    }

    /// Sends the first messages of an outbox, which are to actor `to`, as many of them as there is room for. Returns what became
    /// of them, or of the first one if none is delivered, and the outbox without those that are delivered.
    pub(crate) fn send_outbox(&self, to: ActorId, outbox: u32) -> (Sent, u32) {
        let Some(slot) = self.named(to) else {
            return (Sent::Gone, outbox);
        };
        let cell = |at: u32| &self.cells[at as usize - 1];
        // An outbox begins with the oldest message, and a mailbox with the newest.
        let (oldest, mut rest, mut newest, mut count) = (outbox, outbox, 0, 0);
        let mut seen = Mail(slot.mail.load(Ordering::Acquire));
        let most = Self::room(slot, seen, to).clamp(1, SENT_TOGETHER);
        while rest != 0 && count < most && cell(rest).to.load(Ordering::Relaxed) == to.bits() {
            let next = cell(rest).next.load(Ordering::Relaxed);
            cell(rest).next.store(newest, Ordering::Relaxed);
            (newest, rest) = (rest, next);
            count += 1;
        }
        loop {
            let room = match broken(Mutant::BoundUnseen) {
                true => count,
                false => Self::room(slot, seen, to),
            };
            // The newest of those for which there is no room go back.
            while count > room {
                let at = newest;
                newest = cell(at).next.load(Ordering::Relaxed);
                cell(at).next.store(rest, Ordering::Relaxed);
                rest = at;
                count -= 1;
            }
            if count == 0 {
                let accepts = Self::accepts(slot, seen, to);
                return (if accepts { Sent::Full } else { Sent::Gone }, rest);
            }
            let rests = seen.has(MAIL_PAUSED) && !seen.has(MAIL_BUSY);
            let mut next = seen.pushed_all(newest, count);
            if rests {
                next = next.without(MAIL_BUSY);
            }
            cell(oldest).next.store(seen.cell(), Ordering::Relaxed);
            // Release: the messages, to the turn that takes them.
            match slot.mail.compare_exchange_weak(
                seen.0,
                next.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) if rests || seen.has(MAIL_BUSY) => return (Sent::Delivered, rest),
                Ok(_) => return (Sent::Activate, rest),
                Err(now) => seen = Mail(now),
            }
        }
    }

    /// The turn: brings the messages that have arrived into `front`, the oldest first, if all taken ones are handled.
    pub(crate) fn refill(&self, slot: &Slot) {
        if slot.front.load(Ordering::Relaxed) != 0 {
            return;
        }
        // Acquire: the messages.
        let taken = Mail(slot.mail.fetch_and(WITHOUT_CELLS, Ordering::AcqRel));
        let (mut at, mut front) = (taken.cell(), 0);
        while at != 0 {
            let link = &self.cells[at as usize - 1].next;
            let next = link.load(Ordering::Relaxed);
            link.store(front, Ordering::Relaxed);
            (front, at) = (at, next);
        }
        slot.front.store(front, Ordering::Relaxed);
    }

    /// The turn, which is over: `handled` messages are done, and `outbox` says whether some could not be delivered. An
    /// actor about which `revives` returns true goes on instead of ending. Also returns an actor; the caller queues its turn.
    pub(crate) fn finish(
        &self,
        slot: &Slot,
        handled: u32,
        outbox: bool,
        mut revives: impl FnMut(Mail) -> bool,
    ) -> (Finished, Option<u32>) {
        let meta = slot.meta.load(Ordering::Relaxed);
        let mut seen = Mail(slot.mail.load(Ordering::Relaxed));
        let ends_early = broken(Mutant::EndsWithMessages) && seen.has(MAIL_STOP);
        let paused = seen.has(MAIL_PAUSED) && !seen.has(MAIL_KILL);
        if outbox || (seen.count() > handled && !paused && !ends_early) {
            // Another turn follows, whatever others do meanwhile, so nothing is compared: many that send at once would be
            // faster time and again. That turn finds out if the actor has been deactivated meanwhile.
            let handled = u64::from(handled) << MAIL_COUNT_SHIFT;
            // Release: the state, to the next turn. Acquire: the list of waiters.
            seen = Mail(slot.mail.fetch_sub(handled, Ordering::AcqRel));
            if !seen.has(MAIL_WAIT) {
                return (Finished::Again, None);
            }
            slot.mail.fetch_and(!flag(MAIL_WAIT), Ordering::AcqRel);
            return (Finished::Again, self.release(slot));
        }
        loop {
            let mut next = seen.handled(handled).without(MAIL_WAIT);
            let empty =
                next.count() == 0 || broken(Mutant::EndsWithMessages) && seen.has(MAIL_STOP);
            let finished = if outbox || (!empty && (!seen.has(MAIL_PAUSED) || seen.has(MAIL_KILL)))
            {
                Finished::Again
            } else if !empty || !seen.has(MAIL_STOP | MAIL_KILL) {
                next = next.without(MAIL_BUSY);
                Finished::Idle
            } else if revives(seen) {
                next = next.without(MAIL_BUSY | MAIL_STOP | MAIL_KILL);
                Finished::Revived
            } else if seen.has(MAIL_LISTED) {
                next = next.with(MAIL_MUTED);
                Finished::Later
            } else {
                next = Mail::free(generation_of(meta) + 1);
                Finished::Ended
            };
            if broken(Mutant::IdleUnseen) && finished == Finished::Idle {
                slot.mail.store(next.0, Ordering::Release);
                return (finished, None);
            }
            // Release: the state, to the next turn. Acquire: the list of waiters.
            match slot.mail.compare_exchange_weak(
                seen.0,
                next.0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let wakes = seen.has(MAIL_WAIT).then(|| self.release(slot)).flatten();
                    return (finished, wakes);
                }
                Err(now) => seen = Mail(now),
            }
        }
    }

    /// The turn of a sender whose oldest undelivered message is to `to`: mutes it, if it may be muted.
    pub(crate) fn mute(&self, sender: u32, to: ActorId) -> Muting {
        let own = &self.slots[sender as usize];
        let bound = bound_of(own.meta.load(Ordering::Relaxed));
        let mut seen = Mail(own.mail.load(Ordering::Relaxed));
        loop {
            let handles = !seen.has(MAIL_PAUSED) || seen.has(MAIL_KILL);
            if handles && (seen.count() >= bound || seen.has(MAIL_WAIT)) {
                return Muting::GoesOn;
            }
            let next = seen.with(MAIL_MUTED | MAIL_LISTED);
            // Release: all that the turn has written, to the one that wakes it.
            match own.mail.compare_exchange_weak(
                seen.0,
                next.0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => seen = Mail(now),
            }
        }
        if seen.has(MAIL_LISTED) {
            // It was woken because another actor waits for it, and is still in the list.
            return Muting::Muted(None);
        }
        let Some(slot) = self.named(to) else {
            unreachable!("a mailbox that was full has a slot");
        };
        let mut first = slot.waiters.load(Ordering::Relaxed);
        loop {
            own.wait_next.store(first, Ordering::Relaxed);
            match slot.waiters.compare_exchange_weak(
                first,
                sender + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        let mut seen = Mail(slot.mail.load(Ordering::Relaxed));
        loop {
            let full = seen.count() >= bound_of(slot.meta.load(Ordering::Relaxed));
            if !full && broken(Mutant::RoomUnseen) {
                return Muting::Muted(None);
            }
            if !full || !Self::lives(slot, seen, to) {
                return Muting::Muted(self.release(slot));
            }
            if seen.has(MAIL_WAIT) && !seen.has(MAIL_MUTED) {
                // Others wait already: the turn that clears this flag takes the list afterwards, and so this sender, too.
                return Muting::Muted(None);
            }
            let mut next = seen.with(MAIL_WAIT).without(MAIL_MUTED);
            if broken(Mutant::CircleAllowed) {
                next = seen.with(MAIL_WAIT);
            }
            // Release: the link, to the turn that takes the list.
            match slot.mail.compare_exchange_weak(
                seen.0,
                next.0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let cleared = seen.has(MAIL_MUTED) && !next.has(MAIL_MUTED);
                    return Muting::Muted(cleared.then(|| to.slot()));
                }
                Err(now) => seen = Mail(now),
            }
        }
    }

    /// Takes the list of senders that wait for an actor and wakes them. Returns one; the caller queues its
    /// turn, which wakes the others. (On a GPU, where a turn takes some microseconds, the caller wakes as many as it has room for,
    /// as `begin` would.)
    fn release(&self, slot: &Slot) -> Option<u32> {
        self.wake(slot.waiters.swap(0, Ordering::AcqRel))
    }
    fn wake(&self, list: u32) -> Option<u32> {
        let mut at = list;
        while at != 0 {
            let sender = &self.slots[at as usize - 1];
            let rest = sender.wait_next.load(Ordering::Relaxed);
            sender.wait_next.store(0, Ordering::Relaxed);
            let mail = &sender.mail;
            let old = Mail(mail.fetch_and(!flag(MAIL_MUTED | MAIL_LISTED), Ordering::AcqRel));
            if old.has(MAIL_MUTED) {
                sender.wait_next.store(rest, Ordering::Relaxed);
                return Some(at - 1);
            }
            at = rest;
        }
        None
    }
    /// A turn begins: its word, and an actor; the caller queues that actor's turn.
    pub(crate) fn begin(&self, slot: &Slot) -> (Mail, Option<u32>) {
        let mail = Mail(slot.mail.load(Ordering::Acquire));
        if mail.has(MAIL_LISTED) {
            return (mail, None);
        }
        let rest = slot.wait_next.load(Ordering::Relaxed);
        if rest == 0 {
            return (mail, None);
        }
        slot.wait_next.store(0, Ordering::Relaxed);
        (mail, self.wake(rest))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, to: ActorId, signal: Signal) -> Signalled {
        let Some(slot) = self.named(to) else {
            return Signalled::Gone;
        };
        let mut seen = Mail(slot.mail.load(Ordering::Acquire));
        loop {
            if !Self::lives(slot, seen, to) {
                return Signalled::Gone;
            }
            let (mut next, runs) = match signal {
                Signal::Stop => (seen.with(MAIL_STOP), true),
                Signal::Kill => (seen.with(MAIL_KILL), true),
                Signal::Pause => (seen.with(MAIL_PAUSED), false),
                Signal::Resume => (seen.without(MAIL_PAUSED), seen.count() != 0),
            };
            let mut activates = runs && !seen.has(MAIL_BUSY);
            // From here on it handles messages, so that others may wait for it.
            let resumes = matches!(signal, Signal::Kill | Signal::Resume);
            if resumes && seen.has(MAIL_MUTED) {
                next = next.without(MAIL_MUTED);
                activates = true;
            }
            if activates {
                next = next.with(MAIL_BUSY);
            }
            match slot.mail.compare_exchange_weak(
                seen.0,
                next.0,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) if activates => return Signalled::Activate,
                Ok(_) if signal == Signal::Resume && self.looks_again(to) => {
                    return Signalled::Activate;
                }
                Ok(_) => return Signalled::Done,
                Err(now) => seen = Mail(now),
            }
        }
    }

    /// Launches an actor with an empty mailbox, unless there is no slot. Its state is the caller's to clear before the id
    /// is known to any other.
    pub(crate) fn launch(
        &self,
        shard: u32,
        kind: u16,
        bound: u16,
        parent: ActorId,
        clear: impl FnOnce(u32),
    ) -> Option<ActorId> {
        let number = self.take(Pool::Slots, shard)?;
        clear(number);
        let slot = &self.slots[number as usize];
        // The generation of a slot that was never used is 0.
        let generation = generation_of(slot.meta.load(Ordering::Relaxed)).max(1);
        let meta = u64::from(kind) | u64::from(bound) << 16 | u64::from(generation) << 32;
        slot.meta.store(meta, Ordering::Relaxed);
        // A sender may still be linking itself to the slot's last actor, so the list of waiters stays: that sender takes it.
        for word in [&slot.front, &slot.outbox_first, &slot.wait_next] {
            word.store(0, Ordering::Relaxed);
        }
        if broken(Mutant::ListForgotten) {
            slot.waiters.store(0, Ordering::Relaxed);
        }
        slot.notes.store(0, Ordering::Relaxed);
        slot.again.store(0, Ordering::Relaxed);
        slot.handled.store(0, Ordering::Relaxed);
        slot.parent.store(parent.bits(), Ordering::Relaxed);
        slot.mail.store(Mail::idle(generation).0, Ordering::Release);
        Some(ActorId::new(number, generation))
    }

    /// Gives back the slot of an actor that has ended.
    pub(crate) fn retire(&self, shard: u32, number: u32) {
        let slot = &self.slots[number as usize];
        let meta = slot.meta.load(Ordering::Relaxed);
        slot.meta.store(meta + (1 << 32), Ordering::Relaxed);
        if generation_of(meta) >= ACTOR_GENERATION_MAX {
            self.control.retired.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.give(Pool::Slots, shard, number, number);
    }
}
