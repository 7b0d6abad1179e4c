//! Channels: bounded queues of values between actors, tasks and the host. Rules:
//! 1. Receivers wait only while the channel holds no value, and senders only while it is full; both in their order.
//! 2. A value has one owner at any time: a sender that waits, the channel, the news of an actor, or a receiver of the host.
//! 3. Values among the news of an actor that ends go back to the front of the channel, or to the next receiver.
//! 4. A closed channel takes no values, and neither senders nor receivers wait for it. What it holds is still received.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use crate::id::ActorId;
use crate::message::{MAX_ASK_WORDS, Message};
use crate::mutant::{Mutant, broken};
use crate::sync::{Condvar, Mutex};

use super::{News, State};

/// The words of a value.
pub(crate) type Words = [u64; MAX_ASK_WORDS];
/// What a receiver that is no actor runs: with a value, or with none when the channel is closed.
pub(crate) type Continuation = Box<dyn FnOnce(Option<Words>) + Send>;

/// What the values of a channel are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueType {
    /// None if a handler on a GPU means the type.
    pub(crate) id: Option<std::any::TypeId>,
    /// Its `type_number`, which such a handler gives.
    pub(crate) number: TypeNumber,
    pub(crate) name: &'static str,
    /// Words that a value takes.
    pub(crate) words: usize,
}

/// A number that is there, or is computed when it is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TypeNumber {
    Is(u32),
    Of(fn() -> u32),
}

impl ValueType {
    /// The type with a number that a GPU gives.
    pub(crate) fn on_gpu(number: u32) -> Self {
        Self {
            id: None,
            number: TypeNumber::Is(number),
            name: "another type",
            words: 0,
        }
    }
    fn number(&self) -> u32 {
        match self.number {
            TypeNumber::Is(number) => number,
            TypeNumber::Of(compute) => compute(),
        }
    }
    /// Whether a channel of this type carries values of the other one.
    fn is(&self, other: &Self) -> bool {
        match other.id {
            Some(_) => self.id == other.id,
            None => self.number() == other.number(),
        }
    }
}

/// A thread of the host that waits.
#[derive(Debug, Default)]
pub(crate) struct Seat(Mutex<Option<Result<Words, Closed>>>);

impl Seat {
    pub(super) fn set(&self, end: Result<Words, Closed>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }
    pub(super) fn take(&self) -> Option<Result<Words, Closed>> {
        let mut end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        end.take()
    }
}

/// The channel is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// What waits for a channel.
pub(crate) enum Party {
    /// An actor, with its number for this.
    Actor(ActorId, u64),
    Host(Arc<Seat>),
    /// A receiver only.
    Call(Continuation),
    /// A sender that has ended; its value is still sent.
    Ended,
}

impl std::fmt::Debug for Party {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Actor(id, number) => f.debug_tuple("Actor").field(id).field(number).finish(),
            Self::Host(_) => f.write_str("Host"),
            Self::Call(_) => f.write_str("Call"),
            Self::Ended => f.write_str("Ended"),
        }
    }
}

impl Party {
    fn is(&self, actor: ActorId) -> bool {
        matches!(self, Self::Actor(id, _) if *id == actor)
    }
    fn is_seat(&self, seat: &Arc<Seat>) -> bool {
        matches!(self, Self::Host(own) if Arc::ptr_eq(own, seat))
    }
}

/// A channel.
#[derive(Debug)]
pub(super) struct Channel {
    ty: ValueType,
    capacity: usize,
    values: VecDeque<Words>,
    senders: VecDeque<(Party, Words)>,
    receivers: VecDeque<Party>,
    /// Values among the news of actors.
    announced: usize,
    closed: bool,
    /// For the threads of the host that wait.
    changed: Arc<Condvar>,
}

impl Channel {
    pub(super) fn new(ty: ValueType, capacity: usize, changed: Arc<Condvar>) -> Self {
        Self {
            ty,
            capacity,
            values: VecDeque::new(),
            senders: VecDeque::new(),
            receivers: VecDeque::new(),
            announced: 0,
            closed: false,
            changed,
        }
    }
    /// Whether a value of an actor waits.
    pub(super) fn has_sender(&self, actor: ActorId) -> bool {
        self.senders.iter().any(|(party, _)| party.is(actor))
    }
    /// How many values it holds.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
    /// A thread of the host does not wait any more.
    pub(super) fn leave(&mut self, seat: &Arc<Seat>) {
        self.senders.retain(|(party, _)| !party.is_seat(seat));
        self.receivers.retain(|party| !party.is_seat(seat));
    }
    /// A value that is put among the news of an actor, with the actor's number for it.
    pub(super) fn announce(&mut self, channel: u64, number: u64, words: Words) -> Announced {
        self.announced += 1;
        Announced {
            channel,
            number,
            words,
            count: self.ty.words,
        }
    }
}

/// A value among the news of an actor.
#[derive(Debug)]
pub(super) struct Announced {
    channel: u64,
    /// The actor's number for it.
    number: u64,
    words: Words,
    /// Words that the value takes.
    count: usize,
}

impl Announced {
    /// The message that the actor handles: a reply, whose number is that of an ask.
    pub(super) fn message(&self) -> Message {
        Message::of_reply(&self.words[..self.count], self.number)
    }
}

/// How sending has ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Sent,
    /// The value waits with its sender.
    Waits,
    /// There is no room, and nothing waits.
    Full,
    Closed,
    /// The channel carries values of this type.
    Wrong(&'static str),
}

/// How receiving has ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiving {
    Value(Words),
    Waits,
    Empty,
    Closed,
    Wrong(&'static str),
}

/// Continuations that run once the lock is free.
#[must_use]
#[derive(Default)]
pub(crate) struct After(pub(super) Vec<(Continuation, Option<Words>)>);

impl After {
    pub(crate) fn run(self) {
        for (call, value) in self.0 {
            call(value);
        }
    }
}

impl State {
    /// Gives a value to the first receiver. Returns it if there is none.
    fn hand_over(&mut self, number: u64, words: Words, after: &mut After) -> Option<Words> {
        let channel = self.channels.get_mut(&number)?;
        match channel.receivers.pop_front() {
            None => return Some(words),
            Some(Party::Actor(actor, own)) => {
                let value = channel.announce(number, own, words);
                self.push(actor, News::Value(value));
            }
            Some(Party::Host(seat)) => {
                seat.set(Ok(words));
                channel.changed.notify_all();
            }
            Some(Party::Call(call)) => after.0.push((call, Some(words))),
            Some(Party::Ended) => unreachable!("a receiver that has ended does not wait"),
        }
        None
    }
    /// The sending or receiving of a party has ended without a value.
    fn end_party(
        &mut self,
        changed: &Condvar,
        party: Party,
        end: Result<(), Closed>,
        after: &mut After,
    ) {
        match party {
            Party::Actor(actor, number) => self.tell(
                actor,
                match end {
                    Ok(()) => Message::of_reply(&[], number),
                    Err(Closed) => Message::of_closed(number),
                },
            ),
            Party::Host(seat) => {
                seat.set(end.map(|()| Words::default()));
                changed.notify_all();
            }
            Party::Call(call) => after.0.push((call, None)),
            Party::Ended => {}
        }
    }
    /// Lets the first sender's value in, if there is room.
    fn admit(&mut self, number: u64, after: &mut After) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        if channel.values.len() < channel.capacity
            && let Some((party, words)) = channel.senders.pop_front()
        {
            channel.values.push_back(words);
            let changed = channel.changed.clone();
            self.end_party(&changed, party, Ok(()), after);
        }
    }
    pub(super) fn send(
        &mut self,
        to: (u64, ValueType),
        words: Words,
        party: Option<Party>,
        after: &mut After,
    ) -> Sending {
        let Some(channel) = self.channels.get_mut(&to.0) else {
            return Sending::Closed;
        };
        if !channel.ty.is(&to.1) {
            return Sending::Wrong(channel.ty.name);
        }
        if channel.closed {
            return Sending::Closed;
        }
        if !channel.receivers.is_empty() {
            let kept = self.hand_over(to.0, words, after);
            debug_assert!(kept.is_none(), "there is a receiver");
            return Sending::Sent;
        }
        if channel.values.len() < channel.capacity && channel.senders.is_empty() {
            channel.values.push_back(words);
            return Sending::Sent;
        }
        match party {
            None => Sending::Full,
            Some(party) => {
                channel.senders.push_back((party, words));
                Sending::Waits
            }
        }
    }
    pub(super) fn receive(
        &mut self,
        from: (u64, ValueType),
        party: Option<Party>,
        after: &mut After,
    ) -> Receiving {
        let Some(channel) = self.channels.get_mut(&from.0) else {
            return Receiving::Closed;
        };
        if !channel.ty.is(&from.1) {
            return Receiving::Wrong(channel.ty.name);
        }
        if let Some(words) = channel.values.pop_front() {
            self.admit(from.0, after);
            return Receiving::Value(words);
        }
        match (channel.closed, party) {
            (true, _) => Receiving::Closed,
            (false, None) => Receiving::Empty,
            (false, Some(party)) => {
                channel.receivers.push_back(party);
                Receiving::Waits
            }
        }
    }
    /// The channel takes no more values, and what waits for it ends.
    pub(super) fn close_channel(&mut self, number: u64, after: &mut After) {
        let Some(channel) = self.channels.get_mut(&number) else {
            return;
        };
        channel.closed = true;
        let changed = channel.changed.clone();
        let receivers = std::mem::take(&mut channel.receivers);
        let senders = std::mem::take(&mut channel.senders);
        let senders = senders.into_iter().map(|(party, _)| party);
        for party in receivers.into_iter().chain(senders) {
            self.end_party(&changed, party, Err(Closed), after);
        }
        self.forget_channel(number);
    }
    /// A closed channel without values is not kept.
    pub(super) fn forget_channel(&mut self, number: u64) {
        let done = |c: &Channel| c.closed && c.values.is_empty() && c.announced == 0;
        if self.channels.get(&number).is_some_and(done) {
            self.channels.remove(&number);
        }
    }
    /// The message of a value that its actor handles.
    pub(super) fn handled(&mut self, value: &Announced) -> Message {
        if let Some(channel) = self.channels.get_mut(&value.channel) {
            channel.announced -= 1;
        }
        self.forget_channel(value.channel);
        value.message()
    }
    /// The news of an actor that has ended: the values among them come back.
    pub(super) fn bring_back(&mut self, news: impl IntoIterator<Item = News>, after: &mut After) {
        if broken(Mutant::ValuesForgotten) {
            return;
        }
        let mut left = Vec::new();
        for value in news {
            if let News::Value(value) = value {
                if let Some(channel) = self.channels.get_mut(&value.channel) {
                    channel.announced -= 1;
                }
                let kept = self.hand_over(value.channel, value.words, after);
                left.extend(kept.map(|words| (value.channel, words)));
            }
        }
        // The oldest is the first again.
        for (number, words) in left.into_iter().rev() {
            if let Some(channel) = self.channels.get_mut(&number) {
                channel.values.push_front(words);
            }
        }
    }
    /// An actor has ended that waits for these channels.
    pub(super) fn leave_channels(&mut self, actor: ActorId, waits: &BTreeSet<u64>) {
        for number in waits {
            if let Some(channel) = self.channels.get_mut(number) {
                channel.receivers.retain(|party| !party.is(actor));
                for (party, _) in &mut channel.senders {
                    if party.is(actor) {
                        *party = Party::Ended;
                    }
                }
            }
        }
    }
    /// An actor begins to wait for a channel.
    pub(super) fn waits_for(&mut self, actor: ActorId, number: u64) {
        self.record(actor).channels.insert(number);
    }
}

/// The channels of a system that has ended.
pub(super) fn abandon(channels: HashMap<u64, Channel>) {
    for channel in channels.into_values() {
        channel.changed.notify_all();
        for party in channel.receivers {
            if let Party::Call(call) = party
                && !broken(Mutant::AbandonsSilently)
            {
                call(None);
            }
        }
    }
}
