//! What a handler on the CPU engine can use next to messages: deadlines, timers, monitors, links, names and groups. Each
//! use takes a lock that the system's actors share; ordinary messages do not.

use std::time::Duration;

use everwarp_contract::actor::{MESSAGE_ASK, MESSAGE_DEADLINE, MESSAGE_HOST, MESSAGE_REPLY};

use crate::context::{ActorCx, message_in, write_message};
use crate::error::ActorError;
use crate::far::OF_HOST;
use crate::id::ActorId;
use crate::message::{MAX_ASK_WORDS, Message};
use crate::notes::{KNOWN, SUPERVISED};
use crate::side::{GroupId, KeptAsk, Member, Supervision, TimerId};
use crate::sync::Ordering;
use crate::undo::Held;

impl ActorCx<'_, '_, '_> {
    /// Sends an ask with a deadline. It ends as [`ask`](Self::ask) says, or with [`DeadReason::Timeout`] when `within` has
    /// passed; a later reply reaches no actor. The actor that is asked may still handle the ask.
    ///
    /// [`DeadReason::Timeout`]: crate::DeadReason::Timeout
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn ask_within(
        &mut self,
        to: ActorId,
        tag: u8,
        words: &[u64],
        number: u64,
        within: Duration,
    ) {
        let head = Message::head_of(tag, words.len(), MAX_ASK_WORDS) | MESSAGE_ASK;
        // The system ends: no reply will come.
        let Some(side) = self.host.side() else { return };
        if self.spend() {
            let number = side.deadline(self.turn.id, number, within);
            // The answer of an actor on a GPU comes back as an event.
            let number = number | self.host.far.map_or(0, |_| OF_HOST);
            if let Some(cell) = self.write(head | MESSAGE_DEADLINE, words, Some(number)) {
                self.send(to, cell);
            }
        }
    }
    /// An ask that is in a cell was undone.
    pub(crate) fn forget_deadline(&self, cell: u32) {
        let message = &self.turn.table.cells[cell as usize];
        let asks = MESSAGE_ASK | MESSAGE_DEADLINE;
        let own = message.from.load(Ordering::Relaxed) == self.turn.id.bits();
        if own
            && message.head.load(Ordering::Relaxed) & asks == asks
            && let Some(side) = self.host.side()
        {
            let number = message.words[MAX_ASK_WORDS].load(Ordering::Relaxed);
            side.forget_deadline(number & !OF_HOST);
        }
    }

    /// Keeps the ask that is being handled, so that a later handler of this actor replies to it with
    /// [`reply_kept`](Self::reply_kept). [`KeptAsk::NONE`] if the message is no ask or has a reply already.
    ///
    /// The ask ends with [`DeadReason::Ended`] when the actor ends before, with [`DeadReason::Failed`] when it begins anew or
    /// this handler fails.
    ///
    /// [`DeadReason::Ended`]: crate::DeadReason::Ended
    /// [`DeadReason::Failed`]: crate::DeadReason::Failed
    pub fn keep(&mut self) -> KeptAsk {
        self.keep_at(0)
    }
    /// Keeps the ask in this place of several, as [`keep`](Self::keep) does.
    ///
    /// # Panics
    /// There is no such message.
    pub fn keep_at(&mut self, place: usize) -> KeptAsk {
        let Some(side) = self.host.side() else {
            return KeptAsk::NONE;
        };
        let Some(cell) = self.asks[place].take() else {
            return KeptAsk::NONE;
        };
        // The end of this actor ends the ask.
        let _lives = self.knows().know(self.turn.id);
        let cell = self.host.far.map_or(cell, |far| far.cell_of_ask(cell));
        let kept = side.keep(self.turn.id, cell, self.messages[place].tag());
        self.keeps.push((place, kept));
        kept
    }
    /// Replies to an ask that this actor keeps. It counts as a message that the handler sends. Returns false, and does
    /// nothing, if the actor does not keep it: it has a reply, or its actor began anew.
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn reply_kept(&mut self, kept: KeptAsk, tag: u8, words: &[u64]) -> bool {
        let head = Message::head_of(tag, words.len(), MAX_ASK_WORDS) | MESSAGE_REPLY;
        let Some(side) = self.host.side() else {
            return false;
        };
        let Some(cell) = side.take_kept(kept, self.turn.id) else {
            return false;
        };
        if !self.spend() {
            return false;
        }
        let asked = Message {
            head: MESSAGE_ASK,
            ..Message::EMPTY
        };
        let Some(cell) = self.ask_in(cell, asked) else {
            return false;
        };
        let message = &self.turn.table.cells[cell as usize];
        let before = message_in(message);
        let flags = before.head & (MESSAGE_HOST | MESSAGE_DEADLINE);
        message.head.store(head | flags, Ordering::Relaxed);
        for (to, word) in message.words.iter().zip(words) {
            to.store(*word, Ordering::Relaxed);
        }
        match &mut self.undo {
            Some(undo) => {
                undo.sends.push((Held::Kept(kept, undo.kept.len()), cell));
                undo.kept.push(before);
            }
            None => self.turn.reply_with(self.host, cell),
        }
        true
    }
    /// The tag of an ask that this actor keeps.
    pub fn kept_tag(&self, kept: KeptAsk) -> Option<u8> {
        self.host.side()?.kept_tag(kept, self.turn.id)
    }
    /// How many asks this actor keeps.
    pub fn kept(&self) -> usize {
        let side = self.host.side();
        side.map_or(0, |side| side.kept_by(self.turn.id))
    }
    /// A reply was undone.
    pub(crate) fn keep_again(&self, kept: KeptAsk, cell: u32, before: &Message) {
        self.restore(cell, before);
        let cell = self.host.far.map_or(cell, |far| far.cell_of_ask(cell));
        if let Some(side) = self.host.side() {
            side.keep_again(kept, self.turn.id, cell, before.tag());
        }
    }
    /// The handler has failed: it keeps none of the asks that it handles, which end with it.
    pub(crate) fn keep_nothing(&mut self) {
        for (place, kept) in std::mem::take(&mut self.keeps) {
            let side = self.host.side();
            let cell = side.and_then(|side| side.take_kept(kept, self.turn.id));
            self.asks[place] = cell.and_then(|cell| self.ask_in(cell, self.messages[place]));
        }
    }
    /// The cell of an ask that was kept. One of a GPU gets a cell that stands for it.
    fn ask_in(&mut self, cell: u32, asked: Message) -> Option<u32> {
        let Some(far) = self.host.far else {
            return Some(cell);
        };
        let own = self.turn.cell(self.host)?;
        write_message(&self.turn.table.cells[own as usize], &asked);
        far.stands_for(own, cell);
        Some(own)
    }

    /// Sends this actor a message after a time, never before. It overtakes messages in the mailbox.
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn after(&mut self, time: Duration, tag: u8, words: &[u64]) -> TimerId {
        self.timer(time, false, tag, words)
    }
    /// Sends this actor a message each time that a period has passed, until the timer is cancelled or the actor ends. A
    /// message that would come while the last one is not handled yet is left out.
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn every(&mut self, period: Duration, tag: u8, words: &[u64]) -> TimerId {
        self.timer(period, true, tag, words)
    }
    fn timer(&mut self, time: Duration, repeats: bool, tag: u8, words: &[u64]) -> TimerId {
        let message = Message::new(self.turn.id, tag, words, MAX_ASK_WORDS);
        let Some(side) = self.host.side() else {
            return TimerId::NONE;
        };
        let knows = self.knows();
        side.timer(self.turn.id, time, repeats, message, |id| knows.know(id))
    }
    /// Cancels a timer. Returns whether a message was still to come; it does not come any more, not even if its time has
    /// passed.
    pub fn cancel(&mut self, timer: TimerId) -> bool {
        self.host.side().is_some_and(|side| side.cancel(timer))
    }
    /// Cancels a timer of this actor, as [`cancel`](Self::cancel) does; for handlers that must not touch other actors'.
    pub fn cancel_own(&mut self, timer: TimerId) -> bool {
        let own = self.turn.id;
        let side = self.host.side();
        side.is_some_and(|side| side.cancel_if(timer, |to| to == own))
    }
    /// How many timers of this actor have messages to come.
    pub fn timers(&mut self) -> usize {
        let own = self.turn.id;
        self.host.side().map_or(0, |side| side.timers_of(own))
    }

    /// Monitors an actor: when it ends, this one receives one message whose [`down`](Message::down) says how, and whose
    /// word 0 is `number`. For an actor that does not live it comes at once. A restart is no end.
    pub fn monitor(&mut self, actor: ActorId, number: u64) {
        let Some(side) = self.host.side() else { return };
        let knows = self.knows();
        // The end of this actor ends the monitor.
        let _lives = knows.know(self.turn.id);
        side.monitor(self.turn.id, number, actor, |id| knows.know(id));
        self.host.post(&side);
    }
    /// Ends the monitors of this actor on another one. Their message does not come any more. Returns whether the other
    /// one was monitored and had not ended.
    pub fn demonitor(&mut self, actor: ActorId) -> bool {
        let side = self.host.side();
        side.is_some_and(|side| side.demonitor(self.turn.id, actor))
    }
    /// Links this actor with another one: when one of them fails or is killed, the other one is killed. Returns false,
    /// and does nothing, if the other one does not live.
    pub fn link(&mut self, other: ActorId) -> bool {
        let knows = self.knows();
        let side = self.host.side();
        side.is_some_and(|side| side.link(self.turn.id, other, |id| knows.know(id)))
    }
    /// Ends a link.
    pub fn unlink(&mut self, other: ActorId) {
        if let Some(side) = self.host.side() {
            side.unlink(self.turn.id, other);
        }
    }

    /// Gives an actor a name, which it keeps until it ends.
    ///
    /// # Errors
    /// [`ActorError::NameTaken`], or [`ActorError::Gone`] if the actor does not live.
    pub fn register(&mut self, name: &str, actor: ActorId) -> Result<(), ActorError> {
        let knows = self.knows();
        let side = self.host.side().ok_or(ActorError::Gone { actor })?;
        side.register(name, actor, |id| knows.know(id))
            .map_err(|why| ActorError::not_named(why, name, actor))
    }
    /// Takes a name away. Returns the actor that had it.
    pub fn unregister(&mut self, name: &str) -> ActorId {
        let side = self.host.side();
        side.map_or(ActorId::NONE, |side| side.unregister(name))
    }
    /// The actor with a name; none if there is none.
    pub fn lookup(&mut self, name: &str) -> ActorId {
        let side = self.host.side();
        side.map_or(ActorId::NONE, |side| side.lookup(name))
    }
    /// The actor of a kind with a key. The first use of the key launches it, and so does the first after it has ended.
    /// None when there is no slot.
    pub fn at(&mut self, kind: u32, key: u64) -> ActorId {
        let Some(side) = self.host.side() else {
            return ActorId::NONE;
        };
        let knows = self.knows();
        side.at(kind, key, || self.launch(kind), |id| knows.know(id))
    }
    /// The key by which this actor was launched, if it was.
    pub fn key(&mut self) -> Option<u64> {
        self.host.side()?.key(self.turn.id)
    }

    /// Supervises actors and groups of this system.
    ///
    /// # Errors
    /// [`ActorError::Gone`], [`ActorError::Supervised`] or [`ActorError::NoGroup`] for a member.
    pub fn supervise(
        &mut self,
        supervision: Supervision,
        members: &[Member],
    ) -> Result<GroupId, ActorError> {
        let actor = self.turn.id;
        let side = self.host.side().ok_or(ActorError::Gone { actor })?;
        let knows = self.knows();
        side.supervise(supervision, members, |id| {
            knows.note_for(id, KNOWN | SUPERVISED)
        })
        .map_err(ActorError::not_supervised)
    }
}
