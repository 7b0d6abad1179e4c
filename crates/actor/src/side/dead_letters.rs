//! Dead letters, for those that subscribe to them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::id::ActorId;
use crate::message::{DeadReason, Message};

/// A message that was not handled, or an ask that ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Why.
    pub reason: DeadReason,
    /// The actor that it was sent to.
    pub to: ActorId,
    /// The message: its sender, its tag and its words.
    pub message: Message,
}

/// A subscription to the dead letters of a system. It ends when it is dropped.
#[derive(Debug)]
pub struct DeadLetters {
    letters: Receiver<DeadLetter>,
    lost: Arc<AtomicU64>,
}

impl DeadLetters {
    /// The next dead letter; none if there is none within this time.
    pub fn next_within(&self, timeout: Duration) -> Option<DeadLetter> {
        self.letters.recv_timeout(timeout).ok()
    }
    /// The dead letters that are there.
    pub fn drain(&self) -> impl Iterator<Item = DeadLetter> + '_ {
        self.letters.try_iter()
    }
    /// How many were lost because the subscription was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Those that subscribe.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    count: AtomicU64,
    all: Mutex<Vec<(SyncSender<DeadLetter>, Arc<AtomicU64>)>>,
}

impl Subscribers {
    pub(crate) fn add(&self, most: usize) -> DeadLetters {
        let (sender, letters) = sync_channel(most);
        let lost = Arc::new(AtomicU64::new(0));
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((sender, lost.clone()));
        self.count.store(all.len() as u64, Ordering::Relaxed);
        DeadLetters { letters, lost }
    }
    pub(crate) fn send(&self, letter: DeadLetter) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(sender, lost)| match sender.try_send(letter) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        });
        self.count.store(all.len() as u64, Ordering::Relaxed);
    }
}
