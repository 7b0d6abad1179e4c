//! Channels, as handlers use them.

use everwarp_contract::DevType;

use crate::channel::{ChannelId, received, sent, type_of, words_of, wrong};
use crate::context::ActorCx;
use crate::error::ActorError;
use crate::message::Message;
use crate::notes::NEWS;
use crate::side::{Op, Receiving, Sending};
use crate::sync::Ordering;

/// Channels, for handlers. None of these waits. Each takes the lock that timers and monitors take, too. A handler of an
/// atomic kind that fails does not undo them.
impl ActorCx<'_, '_, '_> {
    fn answer_own(&mut self, message: Message) {
        if let Some(side) = self.host.side() {
            if self.host.far.is_some() {
                side.tell(self.turn.id, message);
                return self.host.post(&side);
            }
            side.tell_own(self.turn.id, message);
            self.turn.slot.notes.fetch_or(NEWS, Ordering::Relaxed);
        }
    }
    /// Sends a value. When the channel has it, or is closed, this actor receives a [reply](Message::is_reply) whose
    /// [`ask`](Message::ask) is `number`; [`failure`](Message::failure) says which. While the channel is full, the value
    /// waits, also when the actor ends. Returns false, and sends nothing, while an earlier value of this actor waits for
    /// the same channel. An actor fails that sends a value of another type than the channel's.
    pub fn send_on<T: DevType + 'static>(
        &mut self,
        channel: ChannelId,
        value: &T,
        number: u64,
    ) -> bool {
        let (own, knows) = (self.turn.id, self.knows());
        let Some(side) = self.host.side() else {
            return false;
        };
        let to = (channel.0, type_of::<T>());
        let sending = side.send_of(to, words_of(value), own, number, |id| knows.know(id));
        self.host.post(&side);
        match sending {
            None => return false,
            Some(Sending::Waits) => {}
            Some(Sending::Sent) => self.answer_own(Message::of_reply(&[], number)),
            Some(Sending::Closed | Sending::Full) => self.answer_own(Message::of_closed(number)),
            Some(Sending::Wrong(carries)) => {
                self.fail_because(&wrong::<T>(channel, carries).to_string());
            }
        }
        true
    }
    /// Sends a value if there is room, or a receiver.
    ///
    /// # Errors
    /// [`ActorError::ChannelFull`], [`ActorError::ChannelClosed`] or [`ActorError::WrongValue`].
    pub fn try_send_on<T: DevType + 'static>(
        &mut self,
        channel: ChannelId,
        value: &T,
    ) -> Result<(), ActorError> {
        let side = self
            .host
            .side()
            .ok_or(ActorError::ChannelClosed { channel })?;
        let sending = side.try_send((channel.0, type_of::<T>()), words_of(value));
        self.host.post(&side);
        sent::<T>(channel, sending)
    }
    /// Receives a value by continuation: it comes as a [reply](Message::is_reply) whose [`value`](Message::value) it is and
    /// whose [`ask`](Message::ask) is `number`, or with the [`failure`](Message::failure) `Ended` when the channel is closed
    /// and empty. A value on its way to an actor that ends goes back to the channel. An actor fails that receives values of
    /// another type than the channel's.
    pub fn receive_on<T: DevType + 'static>(&mut self, channel: ChannelId, number: u64) {
        let (own, knows) = (self.turn.id, self.knows());
        let Some(side) = self.host.side() else { return };
        let from = (channel.0, type_of::<T>());
        let receiving = side.receive_of(from, own, number, |id| knows.know(id));
        match receiving {
            Receiving::Waits => {}
            Receiving::Value(_) if self.host.far.is_some() => side.request(own, Op::News),
            Receiving::Value(_) => {
                self.turn.slot.notes.fetch_or(NEWS, Ordering::Relaxed);
            }
            Receiving::Closed | Receiving::Empty => self.answer_own(Message::of_closed(number)),
            Receiving::Wrong(carries) => {
                self.fail_because(&wrong::<T>(channel, carries).to_string());
            }
        }
        self.host.post(&side);
    }
    /// Receives a value if there is one.
    ///
    /// # Errors
    /// [`ActorError::ChannelEmpty`], [`ActorError::ChannelClosed`] or [`ActorError::WrongValue`].
    pub fn try_receive_on<T: DevType + 'static>(
        &mut self,
        channel: ChannelId,
    ) -> Result<T, ActorError> {
        let side = self
            .host
            .side()
            .ok_or(ActorError::ChannelClosed { channel })?;
        let receiving = side.try_receive((channel.0, type_of::<T>()));
        self.host.post(&side);
        received(channel, receiving)
    }
    /// Closes a channel, as [`Channel::close`](crate::Channel::close) does.
    pub fn close_channel(&mut self, channel: ChannelId) {
        if let Some(side) = self.host.side() {
            side.close_channel(channel.0);
            self.host.post(&side);
        }
    }
}
