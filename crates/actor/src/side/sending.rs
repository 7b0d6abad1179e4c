//! What senders and receivers of channels call. Each takes the side's lock once, and runs continuations when it is free.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::id::ActorId;
use crate::mutant::{Mutant, broken};
use crate::sync::{Condvar, MutexGuard};

use super::channels::{
    After, Channel, Closed, Continuation, Party, Receiving, Seat, Sending, ValueType, Words,
};
use super::{News, Side, State};

impl Side {
    /// Makes a channel.
    pub(crate) fn open_channel(&self, ty: ValueType, capacity: usize) -> (u64, Arc<Condvar>) {
        let mut state = self.state();
        let changed = Arc::new(Condvar::new());
        state.last_channel += 1;
        let number = state.last_channel;
        let channel = Channel::new(ty, capacity, changed.clone());
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
        if waiting.is_some_and(|c| c.has_sender(actor)) {
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
                let news = value.map(|value| state.listed(News::Value(value)));
                state.record(actor).news.extend(news);
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
                if broken(Mutant::JoinsLate) {
                    drop(state);
                    state = self.state();
                }
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
                let mut state = self.keep_or_mutate(state);
                if let Some(channel) = state.channels.get_mut(&to.0) {
                    channel.leave(&seat);
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
        let state = self.wait_for(&seat, changed, until);
        match seat.take() {
            Some(Ok(words)) => Receiving::Value(words),
            Some(Err(Closed)) => Receiving::Closed,
            None => {
                let mut state = self.keep_or_mutate(state);
                if let Some(channel) = state.channels.get_mut(&from.0) {
                    channel.leave(&seat);
                }
                Receiving::Empty
            }
        }
    }
    /// The lock under which a thread has seen that its time is over.
    fn keep_or_mutate<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        if broken(Mutant::LeavesLate) {
            drop(state);
            return self.state();
        }
        state
    }
    /// Waits until a thread's sending or receiving has ended, or the time is over. The system may end meanwhile.
    fn wait_for(
        &self,
        seat: &Arc<Seat>,
        changed: &Condvar,
        until: Option<Instant>,
    ) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if broken(Mutant::SeatUnseen) {
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        loop {
            let end = seat.take();
            if let Some(end) = end {
                seat.set(end);
                return state;
            }
            if state.closed && !broken(Mutant::SystemEndUnseen) {
                seat.set(Err(Closed));
                return state;
            }
            let now = Instant::now();
            let left = match until {
                None => Duration::from_secs(3600),
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
        state.close_channel(number, &mut after);
        drop(state);
        after.run();
    }
    /// Values that a channel holds.
    pub(crate) fn channel_length(&self, number: u64) -> usize {
        self.state().channels.get(&number).map_or(0, |c| c.len())
    }
}
