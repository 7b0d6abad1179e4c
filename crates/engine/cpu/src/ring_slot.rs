//! Ring slots and the completion counter: the engine's ends of the protocols in `everwarp_contract::ring`.
//!
//! The atomics come from `sync`, so that loom checks the very code that the engine runs.

use everwarp_contract::ring::Slots;
use everwarp_contract::{DevTask, TokenId};

use crate::sync::{AtomicU64, Ordering, yield_now};

/// One slot of a ring: two words. The first word holds the lap bit and is written last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSlot<'a> {
    first: &'a AtomicU64,
    second: &'a AtomicU64,
}

impl<'a> RingSlot<'a> {
    /// # Safety
    /// - `at` is the address of 16 aligned bytes that live for `'a` and are only accessed as two atomic words.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_ptr(at: *mut u64) -> Self {
        // SAFETY: the caller vouches for both words.
        unsafe {
            Self {
                first: AtomicU64::from_ptr(at),
                second: AtomicU64::from_ptr(at.add(1)),
            }
        }
    }
    /// Whether the host has written the submission of this index.
    #[cfg(not(loom))]
    pub(crate) fn is_valid(self, ring: Slots, index: u32) -> bool {
        ring.is_valid(index, self.first.load(Ordering::Acquire) as u32)
    }
    /// The submission of this index, if the host has written it. The host may write the slot again only once `taken`
    /// has passed it, with release.
    pub(crate) fn submission(self, ring: Slots, index: u32) -> Option<DevTask> {
        // Acquire pairs with the host's release (`Producer::publish` in `crates/runtime/src/submit.rs`): the
        // other half, the arena and the parameters happen before.
        let word = self.first.load(Ordering::Acquire);
        if !ring.is_valid(index, word as u32) {
            return None;
        }
        let arg = self.second.load(Ordering::Relaxed);
        Some(DevTask {
            head: word as u32,
            group: (word >> 32) as u32,
            arg,
        })
    }
    /// Writes the completion of this index.
    pub(crate) fn complete(self, ring: Slots, index: u32, token: TokenId, value: u64) {
        self.second.store(value, Ordering::Relaxed);
        // Release: the value and all that the task wrote happen before the host sees the lap.
        let word = u64::from(ring.lap(index)) << 32 | u64::from(token.0);
        self.first.store(word, Ordering::Release);
    }
}

/// The consumer's place in the submission ring.
#[derive(Debug)]
#[cfg(not(loom))]
pub(crate) struct SubmissionCursor {
    pub(crate) ring: Slots,
    pub(crate) taken: u32,
}

#[cfg(not(loom))]
impl SubmissionCursor {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            ring: Slots::new(slots),
            taken: 0,
        }
    }
}

/// The bit of `reserved` that says that nothing more may complete.
const SHUT: u64 = 1 << 63;

/// Hands out the indices of the completion ring, and counts the completions that were written.
///
/// Rules:
/// 1. A writer reserves an index, writes its slot, then counts it as written. Waiters go by that count, so the
///    completion that a waiter is woken for is in the ring.
/// 2. A fault shuts the counter, in the same word from which indices are reserved: a writer that reserves later gets
///    none, and the faulting worker waits for the writers that reserved before. So nothing completes after a fault is
///    published.
#[derive(Debug, Default)]
pub(crate) struct CompletionCounter {
    reserved: AtomicU64,
    written: AtomicU64,
}

impl CompletionCounter {
    /// Reserves an index, unless the counter is shut. The caller writes the slot and calls [`wrote`](Self::wrote).
    pub(crate) fn reserve(&self) -> Option<u32> {
        let old = self.reserved.fetch_add(1, Ordering::Relaxed);
        (old & SHUT == 0).then_some(old as u32)
    }
    /// The slot of a reserved index has been written.
    pub(crate) fn wrote(&self) {
        // Release pairs with the acquire in `written`, for a waiter and for `shut`.
        self.written.fetch_add(1, Ordering::Release);
    }
    /// How many slots have been written.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }
    /// Shuts the counter, and waits until all reserved slots are written.
    pub(crate) fn shut(&self) {
        let before = self.reserved.fetch_or(SHUT, Ordering::Relaxed);
        if before & SHUT == 0 {
            // No writer blocks between reserving and writing, so this takes a moment.
            while self.written() != before {
                yield_now();
            }
        }
    }
    /// Whether the counter is shut.
    pub(crate) fn is_shut(&self) -> bool {
        self.reserved.load(Ordering::Relaxed) & SHUT != 0
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::sync::AtomicU32;

    #[derive(Default)]
    struct Words(AtomicU64, AtomicU64);

    impl Words {
        fn slot(&self) -> RingSlot<'_> {
            RingSlot {
                first: &self.0,
                second: &self.1,
            }
        }
    }

    /// Three submissions go through a ring of one slot: each is read whole and once, also after the slot is written
    /// again. The producer does the steps of `Producer::publish` and `has_room` in `crates/runtime/src/submit.rs`, the
    /// consumer those of `ingress::visit`.
    #[test]
    fn loom_submissions_are_read_whole() {
        loom::model(|| {
            const COUNT: u32 = 3;
            let ring = Slots::new(1);
            let shared = Arc::new((Words::default(), AtomicU32::new(0)));
            let host = shared.clone();
            let producer = thread::spawn(move || {
                for tail in 0..COUNT {
                    while !ring.has_room(tail, host.1.load(Ordering::Acquire)) {
                        thread::yield_now();
                    }
                    host.0.1.store(100 + u64::from(tail), Ordering::Relaxed);
                    let word = u64::from(tail) << 32 | u64::from(7 | ring.lap(tail));
                    host.0.0.store(word, Ordering::Release);
                }
            });
            for index in 0..COUNT {
                let task = loop {
                    match shared.0.slot().submission(ring, index) {
                        Some(task) => break task,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(
                    (task.function().0, task.group, task.arg),
                    (7, index, 100 + u64::from(index))
                );
                shared.1.store(index + 1, Ordering::Release);
            }
            producer.join().expect("the model's thread ends");
        });
    }

    /// The steps of `CpuShared::complete` without the waking.
    fn complete(counts: &CompletionCounter, words: &[Words; 2], ring: Slots, token: u32) {
        let Some(index) = counts.reserve() else {
            return;
        };
        words[ring.slot(index)]
            .slot()
            .complete(ring, index, TokenId(token), 50 + u64::from(token));
        counts.wrote();
    }

    /// Two workers complete at once: the consumer gets both completions, whole, in either order, and a count of two
    /// promises that both are there.
    #[test]
    fn loom_completions_are_read_whole() {
        loom::model(|| {
            let ring = Slots::new(2);
            let shared = Arc::new((CompletionCounter::default(), <[Words; 2]>::default()));
            let workers = [1, 2].map(|token| {
                let shared = shared.clone();
                thread::spawn(move || complete(&shared.0, &shared.1, ring, token))
            });
            let promised = shared.0.written();
            let mut tokens = 0;
            for index in 0..2 {
                let slot = shared.1[ring.slot(index)].slot();
                let word = loop {
                    let word = slot.first.load(Ordering::Acquire);
                    if ring.is_valid(index, (word >> 32) as u32) {
                        break word;
                    }
                    assert!(
                        promised < 2,
                        "a completion was counted before it was written"
                    );
                    thread::yield_now();
                };
                let token = word as u32;
                assert_eq!(slot.second.load(Ordering::Relaxed), 50 + u64::from(token));
                tokens |= token;
            }
            assert_eq!(tokens, 3);
            for worker in workers {
                worker.join().expect("the model's thread ends");
            }
        });
    }

    /// Once the counter is shut, no slot changes any more.
    #[test]
    fn loom_nothing_completes_after_shut() {
        loom::model(|| {
            let ring = Slots::new(2);
            let shared = Arc::new((CompletionCounter::default(), <[Words; 2]>::default()));
            let workers = [1, 2].map(|token| {
                let shared = shared.clone();
                thread::spawn(move || complete(&shared.0, &shared.1, ring, token))
            });
            shared.0.shut();
            let look = || [0, 1].map(|i| shared.1[i].0.load(Ordering::Relaxed));
            let before = look();
            for worker in workers {
                worker.join().expect("the model's thread ends");
            }
            assert_eq!(before, look());
            assert!(shared.0.is_shut());
        });
    }
}
