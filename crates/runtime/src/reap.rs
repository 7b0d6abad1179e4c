//! The host's end of the completion ring.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use everwarp_contract::ring::Slots;
use everwarp_engine::{BackendError, Pools, SharedMemory};

use crate::core::Core;
use crate::error::Error;
use crate::sync::lock;
use crate::token::Completed;
use crate::watch::Wait;

/// The only reader of the completion ring.
#[derive(Debug)]
pub(crate) struct Consumer {
    shared: SharedMemory,
    ring: Slots,
    head: u32,
}

impl Consumer {
    pub(crate) fn new(shared: SharedMemory, pools: Pools) -> Self {
        Self {
            shared,
            ring: Slots::new(pools.tokens),
            head: 0,
        }
    }

    /// The next completion: token and value.
    fn next(&mut self) -> Option<(u32, u64)> {
        let token = peek(&self.shared, self.ring, self.head)?;
        // SAFETY: inside the ring, aligned, and accessed atomically; written together with the half that
        // was found valid.
        let value = unsafe {
            let slot = self.shared.completions.add(self.ring.slot(self.head));
            AtomicU64::from_ptr((&raw const (*slot).value).cast_mut()).load(Ordering::Relaxed)
        };
        self.head = self.head.wrapping_add(1);
        Some((token, value))
    }
}

/// The token in the slot of `head`, if that is valid.
fn peek(shared: &SharedMemory, ring: Slots, head: u32) -> Option<u32> {
    // SAFETY: the slot is inside the ring, which outlives the core; its first half is an aligned word.
    // Acquire pairs with the engine's fence: results are visible once the completion is.
    let word = unsafe {
        let at = shared
            .completions
            .add(ring.slot(head))
            .cast::<u64>()
            .cast_mut();
        AtomicU64::from_ptr(at).load(Ordering::Acquire)
    };
    ring.is_valid(head, (word >> 32) as u32)
        .then_some(word as u32)
}

impl Core {
    /// Drains the completion ring, unless somebody else is at it. Answers how many completed.
    pub(crate) fn reap(&self) -> usize {
        // A look without the lock: many waiters then share the line instead of fighting over it. A stale
        // head shows an entry that is being reaped by whoever moved it.
        if peek(&self.shared, self.ring, self.head.load(Ordering::Relaxed)).is_none() {
            return 0;
        }
        let mut consumer = match self.consumer.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return 0,
        };
        let mut count = 0;
        while let Some((index, value)) = consumer.next() {
            self.head.store(consumer.head, Ordering::Relaxed);
            count += 1;
            self.complete(index, value);
        }
        if count > 0 {
            self.dig();
        }
        count
    }

    /// One completion. The index is an allegation of the engine: what is not in flight is not completed.
    fn complete(&self, index: u32, value: u64) {
        let Some((token, info)) = self
            .tokens
            .get(index as usize)
            .and_then(|t| Some((t, t.in_flight()?)))
        else {
            debug_assert!(
                false,
                "the engine completed token {index}, which is not in flight"
            );
            return;
        };
        // Before the token is done: its owner may reuse everything at once.
        self.slots[usize::from(info.instance)].end();
        self.graveyard.end(info.phase);
        if let Some(sequence) = info.batch {
            lock(&self.producer).release(sequence);
        }
        match token.complete(value) {
            Completed::ForOwner { wake: true } => self.woke(token.wake()),
            Completed::ForOwner { wake: false } => {}
            Completed::Recycle => lock(&self.recycled).push(index),
        }
    }

    /// Makes sure that a thread reaps for futures, which nobody else polls for.
    pub(crate) fn ensure_reaper(self: &Arc<Self>) -> Result<(), Error> {
        let mut reaper = lock(&self.reaper);
        let thread = match &*reaper {
            Some(thread) => thread,
            None => {
                let weak = Arc::downgrade(self);
                let spawned = std::thread::Builder::new()
                    .name("everwarp-reaper".into())
                    .spawn(move || {
                        let mut wait = Wait::default();
                        while let Some(core) = weak.upgrade() {
                            if core.wakers.load(Ordering::Acquire) == 0 {
                                drop(core);
                                wait = Wait::default();
                                std::thread::park_timeout(Duration::from_millis(100));
                            } else if core.reap() > 0 {
                                wait = Wait::default();
                            } else {
                                // An error that ends the engine wakes every future, which then finds it.
                                let _ = wait.pause(&core, None);
                            }
                        }
                    });
                let spawned = spawned.map_err(|source| BackendError::System {
                    what: "starting the reaper",
                    source,
                })?;
                reaper.insert(spawned.thread().clone())
            }
        };
        thread.unpark();
        Ok(())
    }
}
