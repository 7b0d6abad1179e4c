//! The host's end of the completion ring.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, TryLockError};

use everwarp_backend::{Pools, SharedMemory};
use everwarp_contract::ring::{COMPLETION_LAP, Slots};

use crate::core::{Core, lock};
use crate::token::Completed;
use crate::watch::Watch;

/// The only reader of the completion ring.
#[derive(Debug)]
pub(crate) struct Consumer {
    shared: SharedMemory,
    ring: Slots,
    head: u32,
}

impl Consumer {
    pub(crate) fn new(shared: SharedMemory, pools: Pools) -> Self {
        Self { shared, ring: Slots::new(pools.tokens), head: 0 }
    }

    /// The next completion: token and value.
    fn next(&mut self) -> Option<(u32, u64)> {
        // SAFETY: the slot is inside the ring, which outlives the consumer; both halves are aligned words.
        let (first, second) = unsafe {
            let at = self.shared.completions.add(self.ring.slot(self.head)).cast::<u64>().cast_mut();
            (AtomicU64::from_ptr(at), AtomicU64::from_ptr(at.add(1)))
        };
        // Acquire pairs with the engine's fence: results are visible once the completion is.
        let word = first.load(Ordering::Acquire);
        if (word >> 32) as u32 & COMPLETION_LAP != self.ring.lap(self.head) {
            return None;
        }
        self.head = self.head.wrapping_add(1);
        Some((word as u32, second.load(Ordering::Relaxed)))
    }
}

impl Core {
    /// A submission of an instance begins.
    pub(crate) fn begin(&self, instance: u8) {
        self.slots[usize::from(instance)].in_flight.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    fn end(&self, instance: u8) {
        let slot = &self.slots[usize::from(instance)];
        if slot.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            // An instance dropped meanwhile frees its slot now.
            let _ = slot.held.compare_exchange(2, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Drains the completion ring, unless somebody else is at it. Answers how many completed.
    pub(crate) fn reap(&self) -> usize {
        let mut consumer = match self.consumer.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return 0,
        };
        let mut count = 0;
        while let Some((index, value)) = consumer.next() {
            count += 1;
            let Some(token) = self.tokens.get(index as usize) else { continue };
            // Before the token is done: its owner may reuse everything at once.
            self.end(token.instance());
            {
                let mut producer = lock(&self.producer);
                if producer.has_batches() {
                    producer.release(index);
                }
            }
            match token.complete(value) {
                Completed::ForOwner => {
                    if token.wake() {
                        self.wakers.fetch_sub(1, Ordering::AcqRel);
                    }
                }
                Completed::Recycle => lock(&self.recycled).push(index),
                Completed::NotInFlight => {}
            }
        }
        if count > 0 && !lock(&self.graveyard).is_empty() {
            self.dig();
        }
        count
    }

    /// Makes sure that a thread reaps for futures, which nobody else polls for.
    pub(crate) fn ensure_reaper(self: &Arc<Self>) {
        let thread = self.reaper.get_or_init(|| {
            let weak = Arc::downgrade(self);
            let spawned = std::thread::Builder::new().name("everwarp-reaper".into()).spawn(move || {
                let mut watch = Watch::default();
                let mut round = 0;
                while let Some(core) = weak.upgrade() {
                    if core.wakers.load(Ordering::Acquire) == 0 {
                        drop(core);
                        watch = Watch::default();
                        std::thread::park_timeout(std::time::Duration::from_millis(100));
                        continue;
                    }
                    if core.reap() > 0 {
                        round = 0;
                        continue;
                    }
                    round += 1;
                    // An error ends the engine and wakes every future, which then finds it.
                    let _ = watch.look(&core, round);
                    core.backend.idle_wait(round);
                }
            });
            spawned.expect("the system can start a thread").thread().clone()
        });
        thread.unpark();
    }
}
