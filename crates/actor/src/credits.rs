//! The messages of a stream between an actor and the host. Up to a number of them wait, the stream's credits. Rules:
//! 1. The actor of a stream to the host is paused under the lock when no credit is left, and the host notes under the lock
//!    that it is to go on. So the request to go on comes after the pause.
//! 2. While `busy` holds, the actor of a stream from the host has news, or runs; it looks at the messages once more before
//!    it clears the flag, under the lock. So a message is seen by that turn, or its sender gives the actor news.
//! 3. A side that ends closes the stream under the lock, and wakes the other side.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::message::Message;
use crate::mutant::{Mutant, broken};
use crate::sync::{Condvar, Mutex, MutexGuard};

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    /// Of a stream to the host: its actor is paused. Of a stream from the host: its actor has news, or runs.
    busy: bool,
    /// The other side has ended.
    closed: bool,
}

/// The messages of a stream that wait.
#[derive(Debug)]
pub(crate) struct Credits {
    most: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// What becomes of a message of the host.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The stream has it, and its actor sees it.
    Taken,
    /// The same, and the caller gives the actor news.
    Announce,
    /// There was no credit for as long as the caller waits.
    Full,
    /// The actor has ended.
    Closed,
}

/// Messages of the host that the actor sends on, and what it does then.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) messages: Vec<Message>,
    /// Others wait: the actor gives itself news.
    pub(crate) more: bool,
    /// There will be no others: the actor stops.
    pub(crate) ends: bool,
}

impl Credits {
    /// Up to `most` messages wait.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            queue: Mutex::default(),
            changed: Condvar::new(),
        }
    }
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No panic leaves the queue wrong.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The queue, as soon as `waits` does not hold any more, or when the time is over.
    fn queue_unless(
        &self,
        wait: Duration,
        waits: impl Fn(&Queue) -> bool,
    ) -> MutexGuard<'_, Queue> {
        let mut queue = self.queue();
        let until = Instant::now().checked_add(wait);
        while waits(&queue) {
            let left = match until {
                None => wait,
                Some(until) => until.saturating_duration_since(Instant::now()),
            };
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue
    }

    /// The actor of a stream to the host puts a message in. `pause` pauses it.
    pub(crate) fn put(&self, message: Message, pause: impl FnOnce()) {
        let mut queue = self.queue();
        queue.messages.push_back(message);
        let pauses = queue.messages.len() >= self.most && !queue.busy;
        queue.busy |= pauses;
        // Held until the actor is paused.
        let held = (!broken(Mutant::PausesLate)).then_some(queue);
        if pauses {
            pause();
        }
        drop(held);
        self.changed.notify_all();
    }
    /// The host takes a message out; waits up to a time. The second value says that the caller lets the actor go on: half of
    /// the credits are back.
    pub(crate) fn take(&self, wait: Duration) -> (Option<Message>, bool) {
        let mut queue = self.queue_unless(wait, |q| q.messages.is_empty() && !q.closed);
        let message = queue.messages.pop_front();
        let goes_on = queue.busy && queue.messages.len() <= self.most / 2;
        queue.busy &= !goes_on;
        (message, goes_on)
    }
    /// Whether no message waits and no more will come.
    pub(crate) fn is_over(&self) -> bool {
        let queue = self.queue();
        queue.closed && queue.messages.is_empty()
    }

    /// The host puts a message in; waits up to a time for a credit.
    pub(crate) fn offer(&self, message: Message, wait: Duration) -> Offered {
        let mut queue = self.queue_unless(wait, |q| q.messages.len() >= self.most && !q.closed);
        if queue.closed {
            return Offered::Closed;
        }
        if queue.messages.len() >= self.most {
            return Offered::Full;
        }
        queue.messages.push_back(message);
        match std::mem::replace(&mut queue.busy, true) {
            true => Offered::Taken,
            false => Offered::Announce,
        }
    }
    /// The actor of a stream from the host takes up to `most` messages out. `gone`: their receiver has ended.
    pub(crate) fn drain(&self, most: usize, gone: bool) -> Drained {
        let mut queue = self.queue();
        if gone {
            queue.closed = true;
            queue.messages.clear();
        }
        let count = queue.messages.len().min(most);
        let messages = queue.messages.drain(..count).collect();
        let more = !queue.messages.is_empty();
        if broken(Mutant::CreditUnseen) {
            drop(queue);
            queue = self.queue();
        }
        queue.busy = more;
        let ends = queue.closed && !more;
        drop(queue);
        if !broken(Mutant::CreditUnheard) {
            self.changed.notify_all();
        }
        Drained {
            messages,
            more,
            ends,
        }
    }
    /// Waits up to a time until no message waits, or the stream is closed. Returns whether none waits.
    pub(crate) fn flush(&self, wait: Duration) -> bool {
        let queue = self.queue_unless(wait, |q| !q.messages.is_empty() && !q.closed);
        queue.messages.is_empty()
    }

    /// One side has ended.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        if !broken(Mutant::CloseUnheard) {
            self.changed.notify_all();
        }
    }
}
