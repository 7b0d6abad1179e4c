//! Asks of the host whose replies are waited for elsewhere: by a future, or by an event loop that has many of them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use everwarp_contract::DevMessage;
use everwarp_contract::actor::{
    ASK_ANSWERED, MESSAGE_FAILED, MESSAGE_HOST, TELL_DELIVERED, TELL_FULL,
};
use everwarp_runtime::{Buffer, Completion, Error, Pending};

use crate::error::ActorError;
use crate::id::ActorId;
use crate::message::{DeadReason, MAX_ASK_WORDS, Message};
use crate::program::Builtin;
use crate::system::{ActorSystem, RECORD, Tell, from_words};

/// How long a waiter looks at the record of its ask, where it can, before it waits for the completion.
const NEAR: Duration = Duration::from_micros(50);

/// The records of the host's asks.
#[derive(Debug)]
pub(crate) struct Records {
    free: Vec<u32>,
    /// Asks that the host has given up: those of a submission.
    left: Vec<(Vec<u32>, Pending)>,
}

impl Records {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            free: (0..count).rev().collect(),
            left: Vec::new(),
        }
    }
    /// A record for an ask. Records of asks that the host has given up are free again when those have ended.
    fn take(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            self.collect();
        }
        self.free.pop()
    }
    /// As many records as there are, up to `count`.
    pub(crate) fn take_up_to(&mut self, count: usize) -> Vec<u32> {
        if self.free.len() < count {
            self.collect();
        }
        let rest = self.free.len().saturating_sub(count);
        self.free.split_off(rest)
    }
    /// Frees the records of asks that were given up and have ended.
    fn collect(&mut self) {
        let (done, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.left)
            .into_iter()
            .partition(|(_, pending)| pending.is_done());
        self.left = left;
        self.free
            .extend(done.into_iter().flat_map(|(records, _)| records));
    }
    /// Records are free again.
    pub(crate) fn give(&mut self, records: &[u32]) {
        self.free.extend(records.iter().rev());
    }
    /// Records are free when what was submitted with them has ended.
    pub(crate) fn leave(&mut self, records: Vec<u32>, pending: Pending) {
        self.left.push((records, pending));
    }
}

pub(crate) fn lock(records: &Mutex<Records>) -> MutexGuard<'_, Records> {
    // No panic leaves them wrong.
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An ask of the host that was sent, and may not have ended yet. It is a future of its reply, for any executor. If it is
/// dropped before, its reply is dropped when it comes.
#[must_use]
pub struct Asked {
    to: ActorId,
    record: u32,
    /// None once it has ended.
    pending: Option<Pending>,
    records: Arc<Mutex<Records>>,
    replies: Arc<Buffer<u64>>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asked").field(&self.to).finish()
    }
}

impl Asked {
    /// The actor that was asked.
    pub fn to(&self) -> ActorId {
        self.to
    }
    /// The reply, if the ask has ended and this was not called before with that result.
    ///
    /// # Errors
    /// As [`ActorSystem::ask`]; [`ActorError::Full`] means that the ask was not sent.
    pub fn try_reply(&mut self) -> Option<Result<Message, ActorError>> {
        let pending = self.pending.as_mut()?;
        if !pending.is_done() {
            return None;
        }
        let done = pending.wait();
        Some(self.end(done))
    }
    /// Waits for the reply.
    pub(crate) fn wait(
        &mut self,
        within: Duration,
        explain: impl FnOnce(Error) -> ActorError,
    ) -> Result<Message, ActorError> {
        if let Some(reply) = self.near_reply(within) {
            return reply;
        }
        let pending = self.pending.as_mut().expect("it was not waited for before");
        match pending.wait_timeout(within) {
            // It is left when it is dropped.
            Err(Error::Timeout { after }) => Err(ActorError::Timeout { after }),
            Err(error) => {
                self.pending = None;
                Err(explain(error))
            }
            done => self.end(done),
        }
    }
    /// The state of its record, where a GPU has put the reply. None where records are copied.
    fn near_state(&self) -> Option<u32> {
        let near = self.replies.near()?.as_ptr();
        // SAFETY: the record is in the buffer. Its first word is aligned; a GPU writes it as a whole.
        let word = unsafe { AtomicU64::from_ptr(near.add(self.record as usize * RECORD)) };
        // Acquire: the words of the reply, which the GPU has written before.
        Some(word.load(Ordering::Acquire) as u32)
    }
    /// The reply, if a GPU has written it within a short time. The ask completes later; then its record is free.
    fn near_reply(&mut self, within: Duration) -> Option<Result<Message, ActorError>> {
        self.near_state()?;
        let begin = Instant::now();
        while self.near_state() != Some(ASK_ANSWERED) {
            // An ask that was not delivered completes without a reply.
            let pending = self.pending.as_ref()?;
            if begin.elapsed() >= NEAR.min(within) || pending.is_done() {
                return None;
            }
            std::hint::spin_loop();
        }
        let pending = self.pending.take()?;
        let mut words = [0; RECORD];
        let read = self
            .replies
            .read_at(self.record as usize * RECORD, &mut words);
        lock(&self.records).leave(vec![self.record], pending);
        Some(
            read.map_err(ActorError::from)
                .and_then(|()| self.message(&words)),
        )
    }
    fn message(&self, words: &[u64]) -> Result<Message, ActorError> {
        let DevMessage { head, words, .. } = from_words(words);
        if head & MESSAGE_FAILED != 0 {
            let reason = DeadReason::of(head & 0xff);
            return Err(ActorError::NoReply { reason });
        }
        Ok(Message {
            // The ask was the host's; its reply is the actor's.
            head: head & !MESSAGE_HOST,
            from: self.to.bits(),
            words,
        })
    }
    /// What the ask has ended with.
    fn end(&mut self, done: Result<Completion, Error>) -> Result<Message, ActorError> {
        self.pending = None;
        if done
            .as_ref()
            .is_ok_and(|done| done.value as u32 == TELL_DELIVERED)
        {
            // The completion may be there before the reply, which another warp has written.
            while self.near_state().is_some_and(|state| state != ASK_ANSWERED) {
                std::hint::spin_loop();
            }
        }
        let mut words = [0; RECORD];
        let read = self
            .replies
            .read_at(self.record as usize * RECORD, &mut words);
        // An ask that an ended engine has left is never used again, and neither is its record.
        let done = done?;
        lock(&self.records).free.push(self.record);
        read?;
        let status = done.value as u32;
        if status != TELL_DELIVERED {
            return Err(match status {
                TELL_FULL => ActorError::Full { actor: self.to },
                _ => ActorError::Gone { actor: self.to },
            });
        }
        self.message(&words)
    }
}

impl Future for Asked {
    type Output = Result<Message, ActorError>;

    /// # Panics
    /// The reply was taken before.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let pending = self.pending.as_mut();
        let pending = pending.expect("the reply of an ask is taken once");
        match Pin::new(pending).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(done) => Poll::Ready(self.end(done)),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            lock(&self.records).leave(vec![self.record], pending);
        }
    }
}

impl ActorSystem {
    /// Sends an ask and returns at once.
    ///
    /// # Errors
    /// [`ActorError::TooManyAsks`]; or the engine failed.
    ///
    /// # Panics
    /// There are more than [`MAX_ASK_WORDS`] words.
    pub fn ask_later(&self, to: ActorId, tag: u8, words: &[u64]) -> Result<Asked, ActorError> {
        Self::may_wait("ActorSystem::ask_later")?;
        let mut tell = Tell::new(to, tag, words);
        tell.head = Message::head_of(tag, words.len(), MAX_ASK_WORDS);
        let mut port = self.port();
        let record = lock(&self.records).take().ok_or(ActorError::TooManyAsks {
            limit: self.config.asks,
        })?;
        let sent = self
            .replies
            .write_at(record as usize * RECORD, &tell.words())
            .and_then(|()| {
                let task = self.instance.task(self.function(Builtin::Ask));
                self.engine.submit(task.arg(record.into()))
            });
        match sent {
            Ok(pending) => {
                port.asked += 1;
                Ok(Asked {
                    to,
                    record,
                    pending: Some(pending),
                    records: self.records.clone(),
                    replies: self.replies.clone(),
                })
            }
            Err(error) => {
                lock(&self.records).free.push(record);
                Err(error.into())
            }
        }
    }
}

const _: () = {
    // Threads hand asks over to each other.
    const fn is_send<T: Send>() {}
    is_send::<Asked>();
    assert!(size_of::<DevMessage>() == RECORD * 8);
};
