//! Actors of the host on a GPU. Their slots and mailboxes are in the GPU's memory, like those of all actors, and a turn that
//! finds messages lends its actor to the host: `actor/lend.cuh` has the rules. A thread of the host takes messages, runs the
//! actor's closure with the [`ActorCx`](crate::ActorCx) of the CPU engine, and gives the actor back with what the closure has
//! sent.
//!
//! The closure's turn runs on tables of its thread ([`memory`]), whose only slot has an outbox that is never empty: so a
//! message that is sent is kept there, in its order. What cannot wait until the actor is back goes over the [`Wire`] at once:
//! whether an actor lives or a mailbox has room, signals, launches, and news for others.
//!
//! No lock of the system is needed for any of this: while an actor is lent, the group that counts turns is open. So a thread
//! that holds the port until the system has settled waits for closures, and not they for it.

mod memory;
mod run;
#[cfg(test)]
mod tests;
mod threads;
mod wire;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use everwarp_contract::actor::{
    ITEM_FORWARD, ITEM_LAUNCH, ITEM_NEWS, ITEM_NOTE, ITEM_REPLY, ITEM_SEND, ITEM_SIGNAL,
    MESSAGE_REPLY, PART_ITEMS, TELL_DELIVERED, TELL_FULL, TELL_GONE,
};
use everwarp_contract::{DevMessage, DevType};
use everwarp_runtime::Error;

use crate::id::ActorId;
use crate::mailbox::Signal;
use crate::message::Message;
use crate::sync::Ordering;
use crate::table::Table;
use crate::turn::Turn;

pub(crate) use memory::Own;
pub(crate) use run::Lent;
pub(crate) use threads::{Loan, REGION_OF_EVENTS, REGIONS, Threads};
pub(crate) use wire::{DeviceWire, Wire};

/// In the number of a deadline or a timer that the host has set, which a GPU does not know.
pub(crate) const OF_HOST: u64 = 1 << 63;

/// What a closure that runs in a thread of the host reaches of the actors of a GPU, and what it has sent so far.
pub(crate) struct Far {
    wire: RefCell<Box<dyn Wire>>,
    /// By which failures know the system.
    pub(crate) key: u64,
    /// Cells of the thread's tables that stand for asks, and their cells on the GPU.
    asks: RefCell<HashMap<u32, u32>>,
    /// What was sent, in its order, as items.
    sent: RefCell<Vec<DevMessage>>,
    /// The next message that the actor handles is an empty one.
    goes_on: Cell<bool>,
    /// The side has something to be done.
    wakes: Cell<bool>,
    /// The engine has ended.
    error: RefCell<Option<Error>>,
}

impl Far {
    pub(crate) fn new(wire: Box<dyn Wire>, key: u64) -> Self {
        Self {
            wire: RefCell::new(wire),
            key,
            asks: RefCell::default(),
            sent: RefCell::default(),
            goes_on: Cell::new(false),
            wakes: Cell::new(false),
            error: RefCell::default(),
        }
    }

    /// Does items, in order. After an error nothing is done, and no actor lives; the thread ends with it.
    fn act(&self, items: &mut [DevMessage], stops: bool) {
        for part in items.chunks_mut(PART_ITEMS as usize) {
            let acted = self.wire.borrow_mut().act(part, stops);
            if let Err(error) = acted {
                self.error.borrow_mut().get_or_insert(error);
            }
            if stops && part.iter().any(|item| item.next != TELL_DELIVERED) {
                return;
            }
        }
    }
    fn act_once(&self, item: DevMessage) -> DevMessage {
        let mut items = [item];
        self.act(&mut items, false);
        items[0]
    }
    /// Sets notes of an actor. Returns whether it lives.
    pub(crate) fn note(&self, actor: ActorId, notes: u32) -> bool {
        self.act_once(item(ITEM_NOTE, notes, actor)).next == TELL_DELIVERED
    }
    /// Which of some actors live.
    pub(crate) fn living(&self, actors: &[ActorId]) -> Vec<bool> {
        let mut items: Vec<_> = actors.iter().map(|&id| item(ITEM_NOTE, 0, id)).collect();
        self.act(&mut items, false);
        items.iter().map(|i| i.next == TELL_DELIVERED).collect()
    }
    /// Sends a signal, after what was sent before as far as that has room.
    pub(crate) fn signal(&self, turn: &mut Turn<'_>, to: ActorId, signal: Signal) {
        self.drain(turn);
        self.push();
        self.act_once(item(ITEM_SIGNAL, signal as u32, to));
    }
    /// Gives an actor news.
    pub(crate) fn news(&self, to: ActorId, message: &Message) {
        self.act_once(DevMessage {
            from: message.from,
            words: message.words,
            ..item(ITEM_NEWS, message.head, to)
        });
    }
    /// Launches an actor.
    pub(crate) fn launch(&self, kind: u32, parent: ActorId) -> ActorId {
        let launched = self.act_once(DevMessage {
            from: parent.bits(),
            ..item(ITEM_LAUNCH, kind, ActorId::NONE)
        });
        match launched.next {
            TELL_DELIVERED => ActorId::from_bits(launched.to),
            _ => ActorId::NONE,
        }
    }
    /// The next message of the actor is an empty one.
    pub(crate) fn go_on(&self) {
        self.goes_on.set(true);
    }
    /// The side has something to be done, when the closure has returned.
    pub(crate) fn wake(&self) {
        self.wakes.set(true);
    }

    /// Puts what the turn has kept in its outbox behind what was sent.
    fn drain(&self, turn: &mut Turn<'_>) {
        let Table { cells, .. } = turn.table;
        let mut at = memory::outbox(&turn.table, turn.slot);
        while let Some(cell) = at.checked_sub(1) {
            at = cells[cell as usize].next.load(Ordering::Relaxed);
            let item = self.item_of(&turn.table, cell);
            self.sent.borrow_mut().push(item);
            turn.free(cell);
        }
    }
    /// The item of a message in a cell: one of its own, or what becomes of an ask.
    fn item_of(&self, table: &Table<'_>, cell: u32) -> DevMessage {
        let message = crate::context::message_in(&table.cells[cell as usize]);
        let to = table.cells[cell as usize].to.load(Ordering::Relaxed);
        let item = DevMessage {
            next: ITEM_SEND,
            head: message.head,
            from: message.from,
            words: message.words,
            to,
        };
        match self.asks.borrow_mut().remove(&cell) {
            None => item,
            Some(ask) => DevMessage {
                next: match item.head & MESSAGE_REPLY {
                    0 => ITEM_FORWARD,
                    _ => ITEM_REPLY,
                },
                from: ask.into(),
                ..item
            },
        }
    }
    /// The reply to an ask of the host is in a cell.
    pub(crate) fn reply_to_host(&self, table: &Table<'_>, cell: u32) {
        let item = self.item_of(table, cell);
        self.sent.borrow_mut().push(item);
    }
    /// Delivers what was sent, as far as there is room; the others stay. Returns whether none does. What is no plain message
    /// waits until the actor is back, and all that comes after it.
    fn push(&self) -> bool {
        let mut sent = self.sent.borrow_mut();
        let plain = sent.iter().take_while(|item| item.next == ITEM_SEND);
        let count = plain.count();
        if count > 0 {
            self.act(&mut sent[..count], true);
            // A message to an actor that does not live becomes a dead letter when the actor is back.
            let delivered = |item: &&DevMessage| item.next == TELL_DELIVERED;
            let done = sent.iter().take_while(delivered).count();
            sent.drain(..done);
            for item in sent.iter_mut() {
                if item.next == TELL_FULL || item.next == TELL_GONE {
                    item.next = ITEM_SEND;
                }
            }
        }
        sent.is_empty()
    }
    /// Sends the message in a cell, unless the mailbox is full or an earlier message waits. Returns whether it was sent.
    pub(crate) fn try_send(&self, turn: &mut Turn<'_>, cell: u32) -> bool {
        self.drain(turn);
        let item = self.item_of(&turn.table, cell);
        turn.free(cell);
        if !self.push() {
            return false;
        }
        match self.act_once(item).next {
            TELL_DELIVERED => true,
            TELL_GONE => {
                self.sent.borrow_mut().push(item);
                true
            }
            _ => false,
        }
    }

    /// The GPU's cell of the ask that a cell stands for.
    pub(crate) fn cell_of_ask(&self, cell: u32) -> u32 {
        let asks = self.asks.borrow_mut().remove(&cell);
        asks.expect("the cell stands for an ask")
    }
    /// A cell stands for an ask.
    pub(crate) fn stands_for(&self, cell: u32, ask: u32) {
        self.asks.borrow_mut().insert(cell, ask);
    }
}

/// An item.
pub(crate) fn item(what: u32, head: u32, to: ActorId) -> DevMessage {
    DevMessage {
        next: what,
        head,
        to: to.bits(),
        ..DevMessage::ZERO
    }
}
