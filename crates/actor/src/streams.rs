//! Actors of the host: closures that handle messages, streams to and from the host with credits, and topics.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everwarp_contract::actor::{MESSAGE_MISSED, MESSAGE_PAYLOAD};

use crate::context::ActorCx;
use crate::credits::{Credits, Drained, Offered};
use crate::error::ActorError;
use crate::id::ActorId;
use crate::message::{MAX_WORDS, Message};
use crate::notes::KNOWN;
use crate::post::Post;
use crate::side::{Op, Side};
use crate::system::{ActorSystem, Local};

/// The most messages that an actor of the host sends for one message, unless its kind says otherwise.
pub(crate) const SENDS: u16 = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No panic leaves what is behind it wrong.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes a stream when its actor's closure is dropped, which ends with the actor.
struct Closes(Arc<Credits>);
impl Drop for Closes {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The system of a stream.
#[derive(Clone, Debug)]
struct Link {
    side: Arc<Side>,
    post: Post,
    actor: ActorId,
}

impl Link {
    fn of(local: &Local, actor: ActorId) -> Self {
        Self {
            side: local.side.clone(),
            post: local.post.clone(),
            actor,
        }
    }
    fn request(&self, op: Op) {
        self.side.request(self.actor, op);
        // An engine that has ended has no actors left.
        let _ = self.post.carry(&self.side);
    }
}

/// A stream from actors to the host: what is sent to its actor. Up to `credits` messages wait for the host; then the
/// actor handles nothing until half of them are taken, and its senders are muted when its mailbox is full, too.
#[derive(Debug)]
pub struct Outlet {
    link: Link,
    credits: Arc<Credits>,
}

impl Outlet {
    /// The actor to which messages are sent.
    pub fn id(&self) -> ActorId {
        self.link.actor
    }
    /// The next message. None if there is none within this time, or no more will come.
    pub fn next_within(&self, timeout: Duration) -> Option<Message> {
        let (message, goes_on) = self.credits.take(timeout);
        if goes_on {
            self.link.request(Op::Resume);
        }
        message
    }
    /// Whether no message waits and no more will come, because its actor has ended.
    pub fn is_closed(&self) -> bool {
        self.credits.is_over()
    }
}

impl Drop for Outlet {
    /// Ends its actor; what it has not taken is gone.
    fn drop(&mut self) {
        self.link.request(Op::Kill);
    }
}

/// A stream from the host to an actor. Up to `credits` messages wait until the actor has room for them.
#[derive(Debug)]
pub struct Inlet {
    link: Link,
    to: ActorId,
    credits: Arc<Credits>,
    patience: Duration,
}

impl Inlet {
    /// Sends a message; waits for a credit.
    ///
    /// # Errors
    /// [`ActorError::Gone`] when the receiver has ended; [`ActorError::Full`] when there is no credit for as long as
    /// [`ActorConfig::patience`](crate::ActorConfig::patience).
    ///
    /// # Panics
    /// There are more than [`MAX_WORDS`] words.
    pub fn send(&self, tag: u8, words: &[u64]) -> Result<(), ActorError> {
        self.send_within(tag, words, self.patience)
    }
    /// Sends a message, if there is a credit.
    ///
    /// # Errors
    /// As [`send`](Self::send), without waiting.
    ///
    /// # Panics
    /// There are more than [`MAX_WORDS`] words.
    pub fn try_send(&self, tag: u8, words: &[u64]) -> Result<(), ActorError> {
        self.send_within(tag, words, Duration::ZERO)
    }
    /// Sends a message; waits for a credit up to a time.
    ///
    /// # Errors
    /// As [`send`](Self::send), but for the time.
    ///
    /// # Panics
    /// There are more than [`MAX_WORDS`] words.
    pub fn send_within(&self, tag: u8, words: &[u64], wait: Duration) -> Result<(), ActorError> {
        let message = Message::new(ActorId::NONE, tag, words, MAX_WORDS);
        match self.credits.offer(message, wait) {
            Offered::Closed => return Err(ActorError::Gone { actor: self.to }),
            Offered::Full => return Err(ActorError::Full { actor: self.to }),
            Offered::Taken => {}
            Offered::Announce => {
                self.link
                    .side
                    .tell(self.link.actor, Message::new(ActorId::NONE, 0, &[], 0));
                self.link.post.carry(&self.link.side)?;
            }
        }
        Ok(())
    }
    /// Waits until the actor's mailbox, or that of this stream's own actor, has all messages. Returns whether it has.
    pub fn flush_within(&self, timeout: Duration) -> bool {
        self.credits.flush(timeout)
    }
}

impl Drop for Inlet {
    /// What was sent still arrives, and then the stream's own actor ends.
    fn drop(&mut self) {
        self.credits.close();
        self.link
            .side
            .tell(self.link.actor, Message::new(ActorId::NONE, 0, &[], 0));
        // An engine that has ended has no actors left.
        let _ = self.link.post.carry(&self.link.side);
    }
}

/// What a topic does when the mailbox of a subscriber is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// The topic waits for it, and so do publishers once the topic's own mailbox is full.
    Waits,
    /// The subscriber misses the message, and is notified how many it has missed: by a message whose
    /// [`missed`](Message::missed) says so, before the next one that it does not miss.
    Misses,
}

#[derive(Debug)]
struct Subscriber {
    actor: ActorId,
    slow: Slow,
    missed: u64,
}

/// A topic: what is sent to its actor goes on to all subscribers, with its sender.
#[derive(Debug)]
pub struct Topic {
    actor: ActorId,
    subscribers: Arc<Mutex<Vec<Subscriber>>>,
}

impl Topic {
    /// The actor to which messages are published.
    pub fn id(&self) -> ActorId {
        self.actor
    }
    /// Subscribes an actor, or changes how it subscribes. An actor that ends leaves the topic.
    pub fn subscribe(&self, actor: ActorId, slow: Slow) {
        self.subscribe_all(&[actor], slow);
    }
    /// Subscribes actors, each as [`subscribe`](Self::subscribe) does.
    pub fn subscribe_all(&self, actors: &[ActorId], slow: Slow) {
        let mut known = HashSet::with_capacity(actors.len());
        let subscribers = actors.iter().filter(|actor| known.insert(**actor));
        let subscribers: Vec<_> = subscribers
            .map(|&actor| Subscriber {
                actor,
                slow,
                missed: 0,
            })
            .collect();
        let mut all = lock(&self.subscribers);
        all.retain(|s| !known.contains(&s.actor));
        // Those that may miss come first: the others may make the topic wait.
        let at = match slow {
            Slow::Misses => 0,
            Slow::Waits => all.len(),
        };
        all.splice(at..at, subscribers);
    }
    /// Ends a subscription. Returns whether there was one.
    pub fn unsubscribe(&self, actor: ActorId) -> bool {
        let mut all = lock(&self.subscribers);
        let before = all.len();
        all.retain(|s| s.actor != actor);
        all.len() < before
    }
    /// How many actors subscribe.
    pub fn subscribers(&self) -> usize {
        lock(&self.subscribers).len()
    }
}

/// A message on its way to subscribers: those that are left, the next one last.
struct Publishing {
    message: Message,
    left: Vec<(ActorId, Slow)>,
}

fn publish(
    actor: &mut ActorCx<'_, '_, '_>,
    subscribers: &Mutex<Vec<Subscriber>>,
    now: &mut Publishing,
) {
    // One is kept for the handler's own use.
    let most = (actor.sends_left() as usize).saturating_sub(1);
    let part = now.left.split_off(now.left.len().saturating_sub(most));
    let ids: Vec<_> = part.iter().map(|(to, _)| *to).collect();
    let living = actor.living(&ids);
    for ((to, slow), lives) in part.into_iter().zip(living).rev() {
        if !lives {
            lock(subscribers).retain(|s| s.actor != to);
            continue;
        }
        let sent = actor.relay(to, &now.message, slow == Slow::Waits);
        if slow == Slow::Waits {
            continue;
        }
        let mut all = lock(subscribers);
        if let Some(subscriber) = all.iter_mut().find(|s| s.actor == to) {
            subscriber.missed += u64::from(!sent);
            if sent && subscriber.missed > 0 {
                let missed = std::mem::take(&mut subscriber.missed);
                drop(all);
                actor.notify(to, missed);
            }
        }
    }
    if !now.left.is_empty() {
        actor.go_on();
    }
}

impl ActorSystem {
    /// Launches an actor of the host: `handler` handles its messages, one at a time, in a thread of the engine. `kind` is a
    /// [`Kind::host`](crate::Kind::host). The handler should not block, since the engine's threads run all actors. On a GPU up
    /// to four threads of the host run the handlers of a system, and hand their messages on when a handler has returned.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`ActorError::NotHostKind`], or [`ActorError::NotOnEngine`].
    pub fn launch_host(
        &self,
        kind: u32,
        handler: impl FnMut(&mut ActorCx<'_, '_, '_>, &Message) + Send + 'static,
    ) -> Result<ActorId, ActorError> {
        let local = self.local("actors of the host")?;
        if !self.is_host_kind(kind) {
            return Err(ActorError::NotHostKind { kind });
        }
        let actor = self.launch(kind)?;
        local.side.set_part(actor, Box::new(handler));
        let _port = self.gate(local)?;
        Self::knows(local, actor, KNOWN);
        Ok(actor)
    }

    /// A stream from actors to the host.
    ///
    /// # Errors
    /// As [`launch_host`](Self::launch_host).
    ///
    /// # Panics
    /// `credits` is 0.
    pub fn outlet(&self, kind: u32, credits: usize) -> Result<Outlet, ActorError> {
        assert!(credits > 0, "a stream has one credit at least");
        let messages = Arc::new(Credits::new(credits));
        let closes = Closes(messages.clone());
        let actor = self.launch_host(kind, move |actor, message| {
            closes.0.put(*message, || actor.pause());
        })?;
        Ok(Outlet {
            link: Link::of(self.local("streams")?, actor),
            credits: messages,
        })
    }

    /// A stream from the host to an actor.
    ///
    /// # Errors
    /// As [`launch_host`](Self::launch_host).
    ///
    /// # Panics
    /// `credits` is 0.
    pub fn inlet(&self, kind: u32, to: ActorId, credits: usize) -> Result<Inlet, ActorError> {
        assert!(credits > 0, "a stream has one credit at least");
        let messages = Arc::new(Credits::new(credits));
        let closes = Closes(messages.clone());
        let mut watches = false;
        let actor = self.launch_host(kind, move |actor, message| {
            if !std::mem::replace(&mut watches, true) {
                actor.monitor(to, 0);
            }
            let most = actor.sends_left().saturating_sub(1) as usize;
            let Drained {
                messages,
                more,
                ends,
            } = closes.0.drain(most, message.down().is_some());
            for message in &messages {
                actor.relay(to, message, true);
            }
            if more {
                actor.go_on();
            } else if ends {
                actor.stop();
            }
        })?;
        Ok(Inlet {
            link: Link::of(self.local("streams")?, actor),
            to,
            credits: messages,
            patience: self.config.patience,
        })
    }

    /// A topic, to which actors and the host publish by sending messages to its [`id`](Topic::id).
    ///
    /// # Errors
    /// As [`launch_host`](Self::launch_host).
    pub fn topic(&self, kind: u32) -> Result<Topic, ActorError> {
        let subscribers = Arc::new(Mutex::new(Vec::<Subscriber>::new()));
        let own = subscribers.clone();
        let mut now: Option<Publishing> = None;
        let actor = self.launch_host(kind, move |actor, message| {
            // What is on its way goes on before the next message, because news overtake the mailbox.
            let publishing = now.get_or_insert_with(|| Publishing {
                message: *message,
                left: lock(&own).iter().rev().map(|s| (s.actor, s.slow)).collect(),
            });
            publish(actor, &own, publishing);
            if publishing.left.is_empty() {
                now = None;
            }
        })?;
        Ok(Topic { actor, subscribers })
    }
}

/// The bits of a message that a topic does not pass on.
pub(crate) const fn plain(head: u32) -> u32 {
    head & 0xffff & !MESSAGE_PAYLOAD
}
/// A message that says how many were missed.
pub(crate) fn of_missed(topic: ActorId, missed: u64) -> Message {
    let mut message = Message::new(topic, 0, &[missed], MAX_WORDS);
    message.head |= MESSAGE_MISSED;
    message
}
