//! The way from a thread of the host to the actors that it is lent: tasks, and a region of memory that both sides reach.

use std::sync::Arc;

use everwarp_contract::actor::{
    PART_FAILED, PART_GOES_ON, PART_ITEM, PART_MESSAGE, PART_MESSAGES, PART_RECORDS, PART_STOPS,
};
use everwarp_contract::{DevMessage, DevType};
use everwarp_runtime::{Buffer, Error};

use crate::events::Reach;
use crate::id::ActorId;
use crate::program::Builtin;
use crate::system::{RECORD, from_words, to_words};

/// What was taken of an actor.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Whether the first message is one of its news.
    pub(crate) news: bool,
    /// The messages, with the numbers of their cells in `next`.
    pub(crate) messages: Vec<DevMessage>,
    pub(crate) notes: u32,
    pub(crate) parent: u64,
}

/// How an actor is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Back {
    pub(crate) actor: ActorId,
    /// Messages of its mailbox that were handled.
    pub(crate) handled: u32,
    pub(crate) stops: bool,
    pub(crate) failed: bool,
    pub(crate) goes_on: bool,
    /// Dead letters without a reply and failed ones, and restarts.
    pub(crate) counts: [u32; 3],
    /// The engine ends with this detail.
    pub(crate) fault: u64,
}

/// What a thread of the host does to the actors of a GPU. The actors that it is lent are its own.
pub(crate) trait Wire {
    /// Takes messages of the actor in a slot.
    fn take(&mut self, slot: u32) -> Result<Taken, Error>;
    /// Gives an actor back. The items go into its outbox, in their order; replies to asks of the host are sent.
    fn give_back(&mut self, back: Back, items: &[DevMessage]) -> Result<(), Error>;
    /// Does items in order; the link of each says what became of it. `stops`: the first message that does not fit is the
    /// last item that is done.
    fn act(&mut self, items: &mut [DevMessage], stops: bool) -> Result<(), Error>;
    /// Before an actor is given back: the thread that takes events is about to be woken, and the system settles when that has
    /// done what is to be done.
    fn wants(&mut self) {}
    /// Lets the thread that takes events look at what is to be done.
    fn wake(&mut self) -> Result<(), Error>;
}

/// A region of a GPU's system.
pub(crate) struct DeviceWire {
    pub(crate) reach: Reach,
    /// All regions.
    pub(crate) parts: Arc<Buffer<u64>>,
    pub(crate) region: u32,
    /// The last wish of the closures that this thread runs; see `wants`.
    pub(crate) wish: u64,
}

impl DeviceWire {
    fn at(&self, record: u32) -> usize {
        (self.region * PART_RECORDS + record) as usize * RECORD
    }
    fn write(&self, record: u32, records: &[DevMessage]) -> Result<(), Error> {
        let words: Vec<u64> = records.iter().flat_map(to_words).collect();
        self.parts.write_at(self.at(record), &words)
    }
    fn read(&self, record: u32, count: usize) -> Result<Vec<DevMessage>, Error> {
        let mut words = vec![0; count * RECORD];
        self.parts.read_at(self.at(record), &mut words)?;
        Ok(words.chunks_exact(RECORD).map(from_words).collect())
    }
}

impl Wire for DeviceWire {
    fn take(&mut self, slot: u32) -> Result<Taken, Error> {
        self.reach.run(Builtin::Take, 0, self.region, slot)?;
        let header = self.read(0, 1)?[0];
        let [news, count, notes, parent, _] = header.words;
        assert!(
            news <= 1 && count <= PART_MESSAGES.into(),
            "a GPU takes no more messages than there is room for"
        );
        let first = PART_MESSAGE + u32::from(news == 0);
        let messages = self.read(first, (news + count) as usize)?;
        Ok(Taken {
            news: news != 0,
            messages,
            notes: notes as u32,
            parent,
        })
    }
    fn give_back(&mut self, back: Back, items: &[DevMessage]) -> Result<(), Error> {
        let flag = |holds: bool, flag: u32| if holds { u64::from(flag) } else { 0 };
        let flags = flag(back.stops, PART_STOPS)
            | flag(back.failed, PART_FAILED)
            | flag(back.goes_on, PART_GOES_ON);
        let [unanswered, failed, restarts] = back.counts.map(u64::from);
        let counts = unanswered | failed << 16 | restarts << 32;
        let header = DevMessage {
            words: [
                back.handled.into(),
                items.len() as u64,
                flags,
                counts,
                back.fault,
            ],
            to: back.actor.bits(),
            ..DevMessage::ZERO
        };
        self.write(0, &[header])?;
        self.write(PART_ITEM, items)?;
        self.reach.run(Builtin::Return, 0, self.region, 0).map(drop)
    }
    fn act(&mut self, items: &mut [DevMessage], stops: bool) -> Result<(), Error> {
        self.write(PART_ITEM, items)?;
        let end = (items.len() as u32) << 16;
        self.reach
            .run(Builtin::Do, stops.into(), self.region, end)?;
        items.copy_from_slice(&self.read(PART_ITEM, items.len())?);
        Ok(())
    }
    fn wants(&mut self) {
        self.wish = self.reach.handled.want();
    }
    fn wake(&mut self) -> Result<(), Error> {
        let ring = || self.reach.run(Builtin::Ring, 0, 0, 0).map(drop);
        self.reach.handled.ring_until_known(self.wish, ring)
    }
}
