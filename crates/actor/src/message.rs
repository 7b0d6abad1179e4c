//! Messages as handlers see them.

use everwarp_contract::actor::{
    DEAD_DROPPED, DEAD_ENDED, DEAD_FAILED, DEAD_GONE, DEAD_NO_REPLY, DEAD_TIMEOUT, MESSAGE_ASK,
    MESSAGE_DEADLINE, MESSAGE_DOWN, MESSAGE_FAILED, MESSAGE_HOST, MESSAGE_MISSED, MESSAGE_REPLY,
    MESSAGE_RESET, MESSAGE_TIMER, MESSAGE_WORDS, MESSAGE_WORDS_SHIFT,
};

use everwarp_contract::DevType;

use crate::ending::Ending;
use crate::id::ActorId;
use crate::side::TimerId;

/// The most words of a message.
pub const MAX_WORDS: usize = MESSAGE_WORDS as usize;
/// The most words of an ask and of a reply: the last word belongs to the asker.
pub const MAX_ASK_WORDS: usize = MAX_WORDS - 1;

/// Why a message was not handled, or an ask has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeadReason {
    /// The receiver does not live.
    #[error("the actor does not live")]
    Gone,
    /// The receiver ended before it handled the message.
    #[error("the actor ended before it handled the message")]
    Ended,
    /// The receiver handled the ask without a reply.
    #[error("the actor handled the message without a reply")]
    NoReply,
    /// The receiver failed while it handled the message.
    #[error("the actor failed while it handled the message")]
    Failed,
    /// The receiver's kind keeps its latest messages only, and this was not one of them.
    #[error("the actor keeps its latest messages only, and later ones came")]
    Dropped,
    /// The ask had a deadline, which has passed. It is no dead letter: the receiver may still handle the ask.
    #[error("there was no reply within the time")]
    Timeout,
}

impl DeadReason {
    /// The reasons of dead letters, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Gone,
        Self::Ended,
        Self::NoReply,
        Self::Failed,
        Self::Dropped,
    ];

    pub(crate) const fn of(number: u32) -> Self {
        match number {
            DEAD_GONE => Self::Gone,
            DEAD_ENDED => Self::Ended,
            DEAD_NO_REPLY => Self::NoReply,
            DEAD_FAILED => Self::Failed,
            DEAD_DROPPED => Self::Dropped,
            DEAD_TIMEOUT => Self::Timeout,
            _ => panic!("a reason that does not exist"),
        }
    }
}

/// A message: a tag, up to five words, and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub(crate) head: u32,
    pub(crate) from: u64,
    pub(crate) words: [u64; MAX_WORDS],
}

impl Message {
    /// No message.
    pub(crate) const EMPTY: Self = Self {
        head: 0,
        from: 0,
        words: [0; MAX_WORDS],
    };
    /// On its way to a GPU, it says that the group of the receiver restarts it.
    pub(crate) const OF_RESET: Self = Self {
        head: MESSAGE_RESET,
        ..Self::EMPTY
    };
    /// The head of a message; `limit` words are allowed.
    ///
    /// # Panics
    /// There are more words.
    pub(crate) fn head_of(tag: u8, words: usize, limit: usize) -> u32 {
        assert!(
            words <= limit,
            "a message has up to {limit} words here, not {words}"
        );
        u32::from(tag) | (words as u32) << MESSAGE_WORDS_SHIFT
    }
    /// A message; `limit` words are allowed.
    ///
    /// # Panics
    /// There are more words.
    pub(crate) fn new(from: ActorId, tag: u8, words: &[u64], limit: usize) -> Self {
        let mut message = Self {
            head: Self::head_of(tag, words.len(), limit),
            from: from.bits(),
            words: [0; MAX_WORDS],
        };
        message.words[..words.len()].copy_from_slice(words);
        message
    }
    /// The tag, by which a handler knows what the message means.
    pub fn tag(&self) -> u8 {
        self.head as u8
    }
    /// The words.
    pub fn words(&self) -> &[u64] {
        let count = (self.head >> MESSAGE_WORDS_SHIFT) as usize & 0x7f;
        &self.words[..count.min(MAX_WORDS)]
    }
    /// Word number `index`; 0 where the message has none.
    pub fn word(&self, index: usize) -> u64 {
        self.words().get(index).copied().unwrap_or(0)
    }
    /// The sender; none if it is the host.
    pub fn from(&self) -> ActorId {
        match self.head & MESSAGE_HOST {
            0 => ActorId::from_bits(self.from),
            _ => ActorId::NONE,
        }
    }
    /// Whether the sender wants a reply.
    pub fn is_ask(&self) -> bool {
        self.head & MESSAGE_ASK != 0
    }
    /// Whether it ends an ask of the actor, with a reply or with the reason why there is none.
    pub fn is_reply(&self) -> bool {
        self.head & MESSAGE_REPLY != 0
    }
    /// Why an ask has no reply, if this ends one.
    pub fn failure(&self) -> Option<DeadReason> {
        let failed = self.head & MESSAGE_FAILED != 0;
        failed.then(|| DeadReason::of(self.head & 0xff))
    }
    /// The timer that sent it, if one did.
    pub fn timer(&self) -> Option<TimerId> {
        let sent = self.head & MESSAGE_TIMER != 0;
        sent.then(|| TimerId(self.words[MAX_ASK_WORDS]))
    }
    /// How an actor has ended that the receiver monitors, if this says so. The actor is the sender, and the number of the
    /// monitor is word 0.
    pub fn down(&self) -> Option<Ending> {
        let is_down = self.head & MESSAGE_DOWN != 0;
        is_down.then(|| Ending::ALL[usize::from(self.tag()) % Ending::ALL.len()])
    }
    /// How many messages of a topic the receiver has missed, if this says so. The topic is the sender.
    pub fn missed(&self) -> Option<u64> {
        let is_missed = self.head & MESSAGE_MISSED != 0;
        is_missed.then(|| self.word(0))
    }
    /// The value of a channel that ends a receive of this actor, or any value that its sender has put into the words.
    ///
    /// # Panics
    /// A value of this type takes more than [`MAX_ASK_WORDS`] words.
    pub fn value<T: DevType>(&self) -> T {
        let mut bytes = [0; MAX_WORDS * 8];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        assert!(
            size_of::<T>() <= MAX_ASK_WORDS * 8,
            "a value takes up to {MAX_ASK_WORDS} words"
        );
        T::from_bytes(&bytes[..size_of::<T>()])
    }
    /// A reply that is no actor's.
    pub(crate) fn of_reply(words: &[u64], number: u64) -> Self {
        let mut message = Self::new(ActorId::NONE, 0, words, MAX_ASK_WORDS);
        message.head |= MESSAGE_REPLY;
        message.words[MAX_ASK_WORDS] = number;
        message
    }
    /// The same when there is none because a channel is closed.
    pub(crate) fn of_closed(number: u64) -> Self {
        let mut message = Self::of_reply(&[], number);
        message.head |= MESSAGE_FAILED | DEAD_ENDED;
        message
    }
    /// The reply to a value that was not sent, because an earlier one of its actor waits.
    pub(crate) fn of_refused(number: u64) -> Self {
        let mut message = Self::of_reply(&[], number);
        message.head |= MESSAGE_FAILED | DEAD_DROPPED;
        message
    }
    pub(crate) fn of_down(actor: ActorId, ending: Ending, number: u64) -> Self {
        Self {
            head: Self::head_of(ending as u8, 1, MAX_WORDS) | MESSAGE_DOWN,
            from: actor.bits(),
            words: [number, 0, 0, 0, 0],
        }
    }
    pub(crate) fn is_down_of(&self, actor: ActorId) -> bool {
        self.head & MESSAGE_DOWN != 0 && self.from == actor.bits()
    }
    /// Whether it ends an ask that has a deadline.
    pub(crate) fn ends_deadline(&self) -> bool {
        let both = MESSAGE_REPLY | MESSAGE_DEADLINE;
        self.head & both == both
    }
    /// The number that the actor gave to its ask, in a reply.
    pub fn ask(&self) -> u64 {
        self.words[MAX_ASK_WORDS]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn head_keeps_tag_and_number_of_words() {
        let message = Message {
            head: Message::head_of(200, 2, MAX_WORDS),
            from: 7,
            words: [1, 2, 3, 4, 5],
        };
        assert_eq!((message.tag(), message.words()), (200, &[1, 2][..]));
        assert_eq!((message.word(1), message.word(2)), (2, 0));
        assert!(!message.is_ask() && !message.is_reply() && message.failure().is_none());
        for (number, reason) in DeadReason::ALL.into_iter().enumerate() {
            assert_eq!(DeadReason::of(number as u32), reason);
        }
    }

    #[test]
    #[should_panic(expected = "up to 4 words")]
    fn ask_with_five_words_is_refused() {
        Message::head_of(0, 5, MAX_ASK_WORDS);
    }
}
