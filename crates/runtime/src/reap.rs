//! The host's end of the completion ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everwarp_contract::TokenId;
use everwarp_contract::ring::Slots;
use everwarp_engine::{EngineError, EngineRings, Pools};

use crate::core::EngineCore;
use crate::error::Error;
use crate::sync::{lock, try_lock};
use crate::token::Completed;
use crate::wait::WaitLoop;

/// The only reader of the completion ring.
#[derive(Debug)]
pub(crate) struct Consumer {
    rings: EngineRings,
    ring: Slots,
    head: u32,
}

impl Consumer {
    pub(crate) fn new(rings: EngineRings, pools: Pools) -> Self {
        Self {
            rings,
            ring: Slots::new(pools.tokens),
            head: 0,
        }
    }

    /// The next completion: token and value.
    fn next(&mut self) -> Option<(TokenId, u64)> {
        let token = peek(&self.rings, self.ring, self.head)?;
        // SAFETY: inside the ring, aligned, and accessed atomically; the engine wrote it together with the half that was
        // found valid.
        let value = unsafe {
            let slot = self.rings.completions.add(self.ring.slot(self.head));
            AtomicU64::from_ptr((&raw const (*slot).value).cast_mut()).load(Ordering::Relaxed)
        };
        self.head = self.head.wrapping_add(1);
        Some((token, value))
    }
}

/// The token in the slot of `head`, if the slot is valid.
fn peek(rings: &EngineRings, ring: Slots, head: u32) -> Option<TokenId> {
    // SAFETY: the slot is inside the ring, which lives as long as the core; its first half is an aligned word.
    // Acquire pairs with the engine's fence: results are visible once the completion is.
    let word = unsafe {
        let at = rings
            .completions
            .add(ring.slot(head))
            .cast::<u64>()
            .cast_mut();
        AtomicU64::from_ptr(at).load(Ordering::Acquire)
    };
    ring.is_valid(head, (word >> 32) as u32)
        .then_some(TokenId(word as u32))
}

impl EngineCore {
    /// Drains the completion ring, unless another thread is at it. Returns how many submissions completed.
    pub(crate) fn reap(&self) -> usize {
        // A look without the lock: many waiters then share the cache line instead of fighting over it. A stale head shows
        // an entry that the thread that moved the head is reaping.
        if peek(&self.rings, self.ring, self.head.load(Ordering::Relaxed)).is_none() {
            return 0;
        }
        let Some(mut consumer) = try_lock(&self.consumer) else {
            return 0;
        };
        let mut count = 0;
        while let Some((token, value)) = consumer.next() {
            self.head.store(consumer.head, Ordering::Relaxed);
            count += 1;
            self.complete(token, value);
        }
        if count > 0 {
            self.free_retired();
        }
        count
    }

    /// Completes one submission. The token is an allegation of the engine: if it is not in flight, the completion is
    /// counted and the engine ends with [`Error::BogusCompletion`], because the ring cannot be trusted any more.
    fn complete(&self, id: TokenId, value: u64) {
        let Some((token, info)) = self
            .tokens
            .get(id.0 as usize)
            .and_then(|t| Some((t, t.in_flight()?)))
        else {
            let count = self.bogus_completions.fetch_add(1, Ordering::Relaxed) + 1;
            let token = *self.bogus_token.get_or_init(|| id);
            let _ = self.fail(Error::BogusCompletion { token, count });
            return;
        };
        // Before the token is done: its owner may reuse everything at once.
        self.slot(info.instance).end();
        self.regions.end(info.counted);
        if let Some(sequence) = info.batch {
            lock(&self.producer).release(sequence);
        }
        match token.complete(value) {
            Completed::ForOwner { wake: true } => self.woke(token.wake()),
            Completed::ForOwner { wake: false } => {}
            Completed::Recycle => lock(&self.recycled).push(id),
        }
    }

    /// Makes sure that a thread reaps for futures, because no waiting thread polls for them.
    pub(crate) fn ensure_reaper(self: &Arc<Self>) -> Result<(), Error> {
        let mut reaper = lock(&self.reaper);
        let thread = match &*reaper {
            Some(thread) => thread,
            None => {
                let weak = Arc::downgrade(self);
                let spawned = std::thread::Builder::new()
                    .name("everwarp-reaper".into())
                    .spawn(move || {
                        let mut wait = WaitLoop::default();
                        while let Some(core) = weak.upgrade() {
                            if core.wakers.load(Ordering::Acquire) == 0 {
                                drop(core);
                                wait = WaitLoop::default();
                                std::thread::park_timeout(Duration::from_millis(100));
                            } else if core.reap() > 0 {
                                wait = WaitLoop::default();
                            } else {
                                // An error that ends the engine wakes every future, which then finds it.
                                let _ = wait.pause(&core, None);
                            }
                        }
                    });
                let spawned = spawned.map_err(|source| EngineError::System {
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
