//! Channels: bounded queues of values between actors, tasks and the host. Rules:
//! 1. Receivers wait only while the channel holds no value, and senders only while it is full; both in their order.
//! 2. A value has one owner at any time: a sender that waits, the channel, the news of an actor, or a receiver of the host.
//! 3. Values among the news of an actor that ends go back to the front of the channel, or to the next receiver.
//! 4. A closed channel takes no values, and neither senders nor receivers wait for it. What it holds is still received.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::id::ActorId;
use crate::message::{MAX_ASK_WORDS, Message};

use super::{News, Side, State};

/// The words of a value.
pub(crate) type Words = [u64; MAX_ASK_WORDS];
/// What a receiver that is no actor runs: with a value, or with none when the channel is closed.
pub(crate) type Continuation = Box<dyn FnOnce(Option<Words>) + Send>;

/// What the values of a channel are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueType {
    pub(crate) id: std::any::TypeId,
    pub(crate) name: &'static str,
    /// Words that a value takes.
    pub(crate) words: usize,
}

/// A thread of the host that waits.
#[derive(Debug, Default)]
pub(crate) struct Seat(Mutex<Option<Result<Words, Closed>>>);

impl Seat {
    fn set(&self, end: Result<Words, Closed>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }
    fn take(&self) -> Option<Result<Words, Closed>> {
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
    /// A value that is put among the news of an actor, with the actor's number for it.
    fn announce(&mut self, channel: u64, number: u64, words: Words) -> Announced {
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
    fn message(&self) -> Message {
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
pub(crate) struct After(Vec<(Continuation, Option<Words>)>);

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
    fn send(
        &mut self,
        to: (u64, ValueType),
        words: Words,
        party: Option<Party>,
        after: &mut After,
    ) -> Sending {
        let Some(channel) = self.channels.get_mut(&to.0) else {
            return Sending::Closed;
        };
        if channel.ty.id != to.1.id {
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
    fn receive(
        &mut self,
        from: (u64, ValueType),
        party: Option<Party>,
        after: &mut After,
    ) -> Receiving {
        let Some(channel) = self.channels.get_mut(&from.0) else {
            return Receiving::Closed;
        };
        if channel.ty.id != from.1.id {
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
    /// A closed channel without values is not kept.
    fn forget_channel(&mut self, number: u64) {
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
    pub(super) fn bring_back(&mut self, news: VecDeque<News>, after: &mut After) {
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
    fn waits_for(&mut self, actor: ActorId, number: u64) {
        self.record(actor).channels.insert(number);
    }
}

impl Side {
    /// Makes a channel.
    pub(crate) fn open_channel(&self, ty: ValueType, capacity: usize) -> (u64, Arc<Condvar>) {
        let mut state = self.state();
        let changed = Arc::new(Condvar::new());
        state.last_channel += 1;
        let number = state.last_channel;
        let channel = Channel {
            ty,
            capacity,
            values: VecDeque::new(),
            senders: VecDeque::new(),
            receivers: VecDeque::new(),
            announced: 0,
            closed: false,
            changed: changed.clone(),
        };
        if !state.closed {
            state.channels.insert(number, channel);
        }
        (number, changed)
    }
    /// Sends a value, if there is room or a receiver.
    pub(crate) fn try_send(&self, to: (u64, ValueType), words: Words) -> Sending {
        let mut after = After::default();
        let sent = self.state().send(to, words, None, &mut after);
        after.run();
        sent
    }
    /// Receives a value, if there is one.
    pub(crate) fn try_receive(&self, from: (u64, ValueType)) -> Receiving {
        let mut after = After::default();
        let mut state = self.state();
        let received = state.receive(from, None, &mut after);
        state.forget_channel(from.0);
        drop(state);
        after.run();
        received
    }
    /// Sends a value of an actor, whose turn runs, and which learns when the channel has it. `know` makes the end of the
    /// actor known. None if an earlier value of the actor waits.
    pub(crate) fn send_of(
        &self,
        to: (u64, ValueType),
        words: Words,
        actor: ActorId,
        number: u64,
        know: impl FnOnce(ActorId) -> bool,
    ) -> Option<Sending> {
        let mut after = After::default();
        let mut state = self.state();
        let waiting = state.channels.get(&to.0);
        if waiting.is_some_and(|c| c.senders.iter().any(|(party, _)| party.is(actor))) {
            return None;
        }
        let party = know(actor).then_some(Party::Actor(actor, number));
        let sent = state.send(to, words, party, &mut after);
        if sent == Sending::Waits {
            state.waits_for(actor, to.0);
        }
        drop(state);
        after.run();
        Some(sent)
    }
    /// The same for receiving. A value that is there is among the actor's news then, whose note its turn sets.
    pub(crate) fn receive_of(
        &self,
        from: (u64, ValueType),
        actor: ActorId,
        number: u64,
        know: impl FnOnce(ActorId) -> bool,
    ) -> Receiving {
        let mut after = After::default();
        let mut state = self.state();
        let party = know(actor).then_some(Party::Actor(actor, number));
        let received = state.receive(from, party, &mut after);
        match received {
            Receiving::Waits => state.waits_for(actor, from.0),
            Receiving::Value(words) => {
                let channel = state.channels.get_mut(&from.0);
                let value = channel.map(|c| c.announce(from.0, number, words));
                let news = &mut state.record(actor).news;
                news.extend(value.map(News::Value));
            }
            _ => {}
        }
        drop(state);
        after.run();
        received
    }
    /// Receives a value with a continuation, which this thread or that of the sender runs.
    pub(crate) fn receive_then(
        &self,
        from: (u64, ValueType),
        call: Continuation,
    ) -> Result<(), &'static str> {
        let mut after = After::default();
        let mut state = self.state();
        // Not yet known is whether it waits, so it is asked for a value first.
        match state.receive(from, None, &mut after) {
            Receiving::Empty => {
                let waits = state.receive(from, Some(Party::Call(call)), &mut after);
                debug_assert!(waits == Receiving::Waits, "the lock is held");
            }
            Receiving::Value(words) => {
                state.forget_channel(from.0);
                after.0.push((call, Some(words)));
            }
            Receiving::Closed => after.0.push((call, None)),
            Receiving::Wrong(name) => return Err(name),
            Receiving::Waits => unreachable!("nothing waits"),
        }
        drop(state);
        after.run();
        Ok(())
    }
    /// Sends a value of the host, and waits up to this moment while the channel is full.
    pub(crate) fn send_until(
        &self,
        to: (u64, ValueType),
        words: Words,
        changed: &Condvar,
        until: Option<Instant>,
        mut carry: impl FnMut(),
    ) -> Sending {
        let (mut after, seat) = (After::default(), Arc::new(Seat::default()));
        let sent = self
            .state()
            .send(to, words, Some(Party::Host(seat.clone())), &mut after);
        after.run();
        carry();
        if sent != Sending::Waits {
            return sent;
        }
        let state = self.wait_for(&seat, changed, until);
        match seat.take() {
            Some(Ok(_)) => Sending::Sent,
            Some(Err(Closed)) => Sending::Closed,
            None => {
                let mut state = state;
                if let Some(channel) = state.channels.get_mut(&to.0) {
                    channel.senders.retain(|(party, _)| !party.is_seat(&seat));
                }
                Sending::Full
            }
        }
    }
    /// The same for receiving.
    pub(crate) fn receive_until(
        &self,
        from: (u64, ValueType),
        changed: &Condvar,
        until: Option<Instant>,
        mut carry: impl FnMut(),
    ) -> Receiving {
        let (mut after, seat) = (After::default(), Arc::new(Seat::default()));
        let mut state = self.state();
        let received = state.receive(from, Some(Party::Host(seat.clone())), &mut after);
        state.forget_channel(from.0);
        drop(state);
        after.run();
        carry();
        if received != Receiving::Waits {
            return received;
        }
        let mut state = self.wait_for(&seat, changed, until);
        match seat.take() {
            Some(Ok(words)) => Receiving::Value(words),
            Some(Err(Closed)) => Receiving::Closed,
            None => {
                if let Some(channel) = state.channels.get_mut(&from.0) {
                    channel.receivers.retain(|party| !party.is_seat(&seat));
                }
                Receiving::Empty
            }
        }
    }
    /// Waits until a thread's sending or receiving has ended, or the time is over. The system may end meanwhile.
    fn wait_for(
        &self,
        seat: &Arc<Seat>,
        changed: &Condvar,
        until: Option<Instant>,
    ) -> MutexGuard<'_, State> {
        let mut state = self.state();
        loop {
            let end = seat.take();
            if let Some(end) = end {
                seat.set(end);
                return state;
            }
            if state.closed {
                seat.set(Err(Closed));
                return state;
            }
            let now = Instant::now();
            let left = match until {
                None => std::time::Duration::from_secs(3600),
                Some(until) if until <= now => return state,
                Some(until) => until - now,
            };
            let waited = changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
    /// Closes a channel.
    pub(crate) fn close_channel(&self, number: u64) {
        let mut after = After::default();
        let mut state = self.state();
        if let Some(channel) = state.channels.get_mut(&number) {
            channel.closed = true;
            let changed = channel.changed.clone();
            let receivers = std::mem::take(&mut channel.receivers);
            let senders = std::mem::take(&mut channel.senders);
            let parties = receivers
                .into_iter()
                .chain(senders.into_iter().map(|s| s.0));
            for party in parties {
                state.end_party(&changed, party, Err(Closed), &mut after);
            }
            state.forget_channel(number);
        }
        drop(state);
        after.run();
    }
    /// Values that a channel holds.
    pub(crate) fn channel_length(&self, number: u64) -> usize {
        self.state()
            .channels
            .get(&number)
            .map_or(0, |c| c.values.len())
    }
}

/// The channels of a system that has ended.
pub(super) fn abandon(channels: HashMap<u64, Channel>) {
    for channel in channels.into_values() {
        channel.changed.notify_all();
        for party in channel.receivers {
            if let Party::Call(call) = party {
                call(None);
            }
        }
    }
}
