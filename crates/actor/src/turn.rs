//! A turn: one activation of an actor, which delivers what it could not deliver before and then handles messages.

use everwarp_contract::actor::{
    DEAD_DROPPED, DEAD_ENDED, DEAD_GONE, DEAD_REASONS, MAIL_KILL, MAIL_PAUSED, MESSAGE_ASK,
    MESSAGE_DEADLINE, MESSAGE_FAILED, MESSAGE_HOST, MESSAGE_REPLY, MESSAGE_WORDS,
};
use everwarp_telemetry::recorder::message_sent;

use crate::ending::Ending;
use crate::id::ActorId;
use crate::mail::flag;
use crate::mailbox::{Finished, Muting, Sent, bound_of, generation_of};
use crate::notes::{KNOWN, NEWS, STOPPED, SUPERVISED};
use crate::pool::Pool;
use crate::sync::Ordering;
use crate::table::{Cell, Slot, Table};

/// The most messages that one turn handles, unless half a mailbox is more.
pub(crate) const BATCH: u32 = 32;
/// The most messages that one turn handles, however long the mailbox is.
const LONGEST: u32 = 256;

/// The most messages that one turn of an actor handles. An actor with a long mailbox handles a good part of it at a time:
/// each turn that makes room wakes all senders that wait, and those that find none are muted again.
fn batch(slot: &Slot) -> u32 {
    let half = bound_of(slot.meta.load(Ordering::Relaxed)) / 2;
    half.clamp(BATCH, LONGEST)
}

/// What a turn needs of the engine that runs it.
pub(crate) trait TurnHost {
    /// Queues a turn of an actor.
    fn activate(&mut self, slot: u32);
    /// Whether there is room for the turns that one more message may cause.
    fn has_room(&self) -> bool;
    /// Completes an ask of the host: `from` is the message's, and the cell has the reply.
    fn reply_to_host(&mut self, table: &Table<'_>, from: u64, cell: u32);
    /// There is no cell for a message; the engine ends.
    fn out_of_cells(&mut self);
    /// A message to an actor becomes a dead letter; its cell still has it.
    fn dead(&mut self, _to: ActorId, _message: &Cell, _reason: u32) {}
    /// Whether a supervised actor goes on instead of ending.
    fn revives(&mut self, _actor: ActorId, _ending: Ending) -> bool {
        false
    }
    /// An actor that is known to the host has ended; or it goes on instead.
    fn ended(&mut self, _actor: ActorId, _ending: Ending, _revived: bool) {}
}

/// What a handler handles.
pub(crate) enum Work<'w> {
    /// The message in this cell, which the handler owns from then on.
    Message(u32),
    /// The same of several, in their order.
    Messages(&'w [u32]),
    /// The actor's oldest news.
    News,
}

/// How a kind's turns take messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Takes {
    /// The most messages that an actor that keeps its latest ones takes; 0 stands for all.
    pub(crate) keep: u32,
    /// The most that its handler handles in one call.
    pub(crate) at_once: u32,
}

impl Takes {
    /// All of them, one after the other.
    #[cfg(all(loom, test))]
    pub(crate) const EACH: Self = Self {
        keep: 0,
        at_once: 1,
    };
}

/// The most messages that a handler handles in one call.
pub(crate) const MOST_AT_ONCE: u32 = 32;

/// The running turn.
pub(crate) struct Turn<'t> {
    pub(crate) table: Table<'t>,
    pub(crate) slot: &'t Slot,
    pub(crate) number: u32,
    pub(crate) id: ActorId,
    /// Where this thread looks first for free cells.
    pub(crate) shard: u32,
    /// Free cells at hand: the first, plus one, and the last.
    spare: (u32, u32),
    /// The actor ends after this message.
    pub(crate) stopping: bool,
    /// The actor was deactivated by its own handler.
    pub(crate) pauses: bool,
}

/// Runs a turn.
pub(crate) fn run<'t, H: TurnHost>(
    table: Table<'t>,
    number: u32,
    shard: u32,
    takes: Takes,
    host: &mut H,
    mut handle: impl FnMut(&mut Turn<'t>, &mut H, Work<'_>),
) {
    let Takes { keep, at_once } = takes;
    let slot = &table.slots[number as usize];
    let (mail, woken) = table.begin(slot);
    woken.into_iter().for_each(|slot| host.activate(slot));
    let generation = generation_of(slot.meta.load(Ordering::Relaxed));
    let mut turn = Turn {
        table,
        slot,
        number,
        id: ActorId::new(number, generation),
        shard,
        spare: (0, 0),
        stopping: table.control.closing.load(Ordering::Relaxed) != 0,
        pauses: false,
    };
    if let Some(to) = turn.flush(host)
        && let Muting::Muted(woken) = table.mute(number, to)
    {
        table.control.mutes.fetch_add(1, Ordering::Relaxed);
        woken.into_iter().for_each(|slot| host.activate(slot));
        return turn.give_back();
    }
    let ends = mail.has(MAIL_KILL);
    let (mut handled, mut news) = (0, 0);
    if ends || turn.stopping || !mail.has(MAIL_PAUSED) {
        table.refill(slot);
        let mut last = batch(slot);
        if keep != 0 && !ends && !turn.stopping {
            // More only where a turn before this one had no room to drop all.
            let most = turn.taken().saturating_sub(keep);
            handled = turn.drop_oldest(host, most);
            last = if handled < most { 0 } else { handled + last };
        }
        while handled + news < last && host.has_room() {
            if slot.notes.load(Ordering::Relaxed) & NEWS != 0 && !ends && !turn.stopping {
                news += 1;
                handle(&mut turn, host, Work::News);
                if turn.is_blocked() || turn.pauses {
                    break;
                }
                continue;
            }
            let Some(cell) = turn.next() else { break };
            handled += 1;
            if ends || turn.stopping {
                turn.dead_letter(host, cell, DEAD_ENDED);
            } else if at_once == 1 {
                handle(&mut turn, host, Work::Message(cell));
            } else {
                let mut cells = [cell; MOST_AT_ONCE as usize];
                let most = at_once.min(1 + last - handled - news) as usize;
                let mut count = 1;
                while count < most
                    && let Some(cell) = turn.next()
                {
                    cells[count] = cell;
                    count += 1;
                }
                handled += count as u32 - 1;
                handle(&mut turn, host, Work::Messages(&cells[..count]));
            }
            if turn.is_blocked() || turn.pauses {
                break;
            }
        }
        let done = slot.handled.load(Ordering::Relaxed);
        let counted = if ends { 0 } else { handled };
        slot.handled
            .store(done + u64::from(counted), Ordering::Relaxed);
    }
    turn.give_back();
    if turn.stopping {
        slot.again.store(STOPPED, Ordering::Relaxed);
        slot.mail.fetch_or(flag(MAIL_KILL), Ordering::Relaxed);
    }
    let (id, mut ending) = (turn.id, Ending::Stopped);
    let (finished, woken) = table.finish(slot, handled, turn.is_blocked(), |mail| {
        ending = Ending::of(slot, mail);
        slot.notes.load(Ordering::Relaxed) & SUPERVISED != 0 && host.revives(id, ending)
    });
    woken.into_iter().for_each(|slot| host.activate(slot));
    match finished {
        Finished::Again => host.activate(number),
        Finished::Ended => {
            let known = slot.notes.load(Ordering::Relaxed) & KNOWN != 0;
            table.retire(shard, number);
            if known {
                host.ended(id, ending, false);
            }
        }
        Finished::Revived => {
            host.ended(id, ending, true);
            if table.looks_again(id) {
                host.activate(number);
            }
        }
        Finished::Idle => {
            if table.looks_again(id) {
                host.activate(number);
            }
        }
        Finished::Later => {}
    }
}

impl<'t> Turn<'t> {
    /// A turn of an actor that the host is lent, on tables of its own with one slot.
    pub(crate) fn far(table: Table<'t>, slot: &'t Slot, id: ActorId) -> Self {
        Self {
            table,
            slot,
            number: 0,
            id,
            shard: 0,
            spare: (0, 0),
            stopping: false,
            pauses: false,
        }
    }
}

impl Turn<'_> {
    /// Whether there are messages that could not be delivered.
    pub(crate) fn is_blocked(&self) -> bool {
        self.slot.outbox_first.load(Ordering::Relaxed) != 0
    }
    /// A free cell; none ends the engine.
    pub(crate) fn cell<H: TurnHost>(&mut self, host: &mut H) -> Option<u32> {
        if let Some(cell) = self.spare.0.checked_sub(1) {
            self.spare.0 = self.table.cells[cell as usize].next.load(Ordering::Relaxed);
            return Some(cell);
        }
        let cell = self.table.take(Pool::Cells, self.shard);
        if cell.is_none() {
            host.out_of_cells();
        }
        cell
    }
    /// A cell is free again.
    pub(crate) fn free(&mut self, cell: u32) {
        let link = &self.table.cells[cell as usize].next;
        link.store(self.spare.0, Ordering::Relaxed);
        if self.spare.0 == 0 {
            self.spare.1 = cell;
        }
        self.spare.0 = cell + 1;
    }
    /// Gives the free cells back to the pool.
    pub(crate) fn give_back(&mut self) {
        if let Some(first) = self.spare.0.checked_sub(1) {
            self.table
                .give(Pool::Cells, self.shard, first, self.spare.1);
            self.spare.0 = 0;
        }
    }

    /// Delivers a message, or keeps it in the outbox until there is room.
    pub(crate) fn deliver<H: TurnHost>(&mut self, host: &mut H, to: ActorId, cell: u32) {
        self.table.cells[cell as usize]
            .to
            .store(to.bits(), Ordering::Relaxed);
        if self.is_blocked() {
            return self.keep(cell);
        }
        message_sent(std::ptr::from_ref(self.table.control).addr(), cell);
        match self.table.send(to, cell) {
            Sent::Delivered => {}
            Sent::Activate => host.activate(to.slot()),
            Sent::Full => self.keep(cell),
            Sent::Gone => self.gone(host, cell),
        }
    }
    fn keep(&mut self, cell: u32) {
        let cells = self.table.cells;
        cells[cell as usize].next.store(0, Ordering::Relaxed);
        if self.is_blocked() {
            let last = self.slot.outbox_last.load(Ordering::Relaxed);
            cells[last as usize].next.store(cell + 1, Ordering::Relaxed);
        } else {
            self.slot.outbox_first.store(cell + 1, Ordering::Relaxed);
        }
        self.slot.outbox_last.store(cell, Ordering::Relaxed);
    }
    /// Delivers what is in the outbox, in order. Returns the receiver that has no room.
    fn flush<H: TurnHost>(&mut self, host: &mut H) -> Option<ActorId> {
        while let Some(cell) = self
            .slot
            .outbox_first
            .load(Ordering::Relaxed)
            .checked_sub(1)
        {
            if !host.has_room() {
                return None;
            }
            let message = &self.table.cells[cell as usize];
            let to = ActorId::from_bits(message.to.load(Ordering::Relaxed));
            let (sent, rest) = self.table.send_outbox(to, cell + 1);
            self.slot.outbox_first.store(rest, Ordering::Relaxed);
            match sent {
                Sent::Delivered => {}
                Sent::Activate => host.activate(to.slot()),
                Sent::Full => return Some(to),
                Sent::Gone => {
                    let next = message.next.load(Ordering::Relaxed);
                    self.slot.outbox_first.store(next, Ordering::Relaxed);
                    self.gone(host, cell);
                }
            }
        }
        None
    }

    /// The oldest of the messages that were taken and not handled.
    fn next(&mut self) -> Option<u32> {
        let front = &self.slot.front;
        let cell = front.load(Ordering::Relaxed).checked_sub(1)?;
        let next = &self.table.cells[cell as usize].next;
        front.store(next.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(cell)
    }
    /// How many messages were taken and not handled.
    fn taken(&self) -> u32 {
        let (mut at, mut count) = (self.slot.front.load(Ordering::Relaxed), 0);
        while at != 0 {
            count += 1;
            at = self.table.cells[at as usize - 1]
                .next
                .load(Ordering::Relaxed);
        }
        count
    }
    /// The oldest of the messages that were taken become dead letters. Returns how many.
    fn drop_oldest<H: TurnHost>(&mut self, host: &mut H, count: u32) -> u32 {
        for done in 0..count {
            // An ask that ends may cause a turn.
            if !host.has_room() {
                return done;
            }
            let Some(cell) = self.next() else {
                return done;
            };
            self.dead_letter(host, cell, DEAD_DROPPED);
        }
        count
    }

    /// Counts a dead letter.
    pub(crate) fn count_dead(&self, reason: u32) {
        const { assert!(DEAD_REASONS == 4, "the counters of the control words") };
        let control = self.table.control;
        let counter = match reason {
            DEAD_DROPPED => &control.dropped,
            _ => &control.dead[reason as usize],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    /// The receiver of a message does not live.
    pub(crate) fn gone<H: TurnHost>(&mut self, host: &mut H, cell: u32) {
        self.dead_letter(host, cell, DEAD_GONE);
    }
    /// A message will not be handled. It is counted by its reason, and an ask ends.
    pub(crate) fn dead_letter<H: TurnHost>(&mut self, host: &mut H, cell: u32, reason: u32) {
        self.count_dead(reason);
        let message = &self.table.cells[cell as usize];
        let to = match reason {
            DEAD_GONE => ActorId::from_bits(message.to.load(Ordering::Relaxed)),
            _ => self.id,
        };
        host.dead(to, message, reason);
        let head = message.head.load(Ordering::Relaxed);
        if head & MESSAGE_ASK == 0 {
            return self.free(cell);
        }
        let flags = head & (MESSAGE_HOST | MESSAGE_DEADLINE) | MESSAGE_REPLY | MESSAGE_FAILED;
        message.head.store(flags | reason, Ordering::Relaxed);
        self.reply_with(host, cell);
    }
    /// Sends a reply, whose cell still has the `from` and the last word of its ask.
    pub(crate) fn reply_with<H: TurnHost>(&mut self, host: &mut H, cell: u32) {
        const { assert!(MESSAGE_WORDS == 5, "the last word belongs to the asker") };
        let message = &self.table.cells[cell as usize];
        let from = message.from.load(Ordering::Relaxed);
        if message.head.load(Ordering::Relaxed) & MESSAGE_HOST != 0 {
            host.reply_to_host(&self.table, from, cell);
            return self.free(cell);
        }
        message.from.store(self.id.bits(), Ordering::Relaxed);
        self.deliver(host, ActorId::from_bits(from), cell);
    }
}
