//! Tokens: what identifies a submission in flight.
//!
//! `state` is one word of four bits:
//!
//! | bit | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `PENDING` | the token is off the free list | submitter (`begin`) | whoever frees it |
//! | `DONE` | completed, `value` is valid | reaper (`complete`) | whoever frees it |
//! | `DROPPED` | its `Pending` is gone | owner (`abandon`) | whoever frees it |
//! | `WAKER` | a waker may lie in `waker` | owner (`register`) | whoever frees it |
//!
//! 1. Only the submitter that took the token off the free list makes it `PENDING`, and until it is
//!    freed only one `Pending` owns it.
//! 2. Of `DONE` and `DROPPED`, whoever sets the **second** frees the token and puts it on the free
//!    list: the two are set by read-modify-writes of one word, so exactly one side comes second.
//! 3. `value` is written before `DONE` is set with release, and read after it was seen with acquire.
//! 4. The waker is put in place before `WAKER` is set. A reaper that sets `DONE` and sees `WAKER` wakes;
//!    an owner that sets `WAKER` and sees `DONE` need not wait. One of them sees the other's bit.
//! 5. A freed token may have a new owner before the reaper gets to wake the old one. The new owner's
//!    waker is then woken for nothing, and polling puts it back: spurious, never lost.

use std::task::Waker;

use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};

const FREE: u32 = 0;
const PENDING: u32 = 1;
const DONE: u32 = 2;
const DROPPED: u32 = 4;
const WAKER: u32 = 8;

/// What a submission is, for the reaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// The instance that it runs in.
    pub(crate) instance: u8,
    /// The phase in which it counts as in flight; see `grave.rs`.
    pub(crate) phase: bool,
    /// The batch's sequence number, if it is one.
    pub(crate) batch: Option<u32>,
}

impl Info {
    fn pack(self) -> u64 {
        let batch = self
            .batch
            .map_or(0, |sequence| 1 << 32 | u64::from(sequence) << 33);
        u64::from(self.instance) | u64::from(self.phase) << 8 | batch
    }
    fn unpack(word: u64) -> Self {
        let batch = (word >> 32 & 1 == 1).then_some((word >> 33) as u32);
        Self {
            instance: word as u8,
            phase: word >> 8 & 1 == 1,
            batch,
        }
    }
}

/// What the reaper's transition led to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// Somebody owns the result.
    ForOwner {
        /// Whether there may be a waker to wake.
        wake: bool,
    },
    /// Nobody does: the token is free again and goes to the free list.
    Recycle,
}

/// What dropping the owner led to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// Still in flight; the reaper recycles the token.
    InFlight,
    /// It was done: the token is free again and goes to the free list.
    Recycle,
}

/// What leaving a waker led to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// It will be woken.
    Waits,
    /// The completion came first; the waker may or may not be woken.
    AlreadyDone,
}

#[derive(Debug)]
pub(crate) struct Token {
    state: AtomicU32,
    info: AtomicU64,
    value: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Token {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            info: AtomicU64::new(0),
            value: AtomicU64::new(0),
            waker: Mutex::new(None),
        }
    }
    /// The submitter, having taken the token off the free list.
    pub(crate) fn begin(&self, info: Info) {
        self.info.store(info.pack(), Ordering::Relaxed);
        self.state.store(PENDING, Ordering::Release);
    }
    /// The reaper, before anything else: what completes, unless the token is not in flight, which means
    /// that the engine completed it twice or was never given it.
    pub(crate) fn in_flight(&self) -> Option<Info> {
        let pending = self.state.load(Ordering::Acquire) & (PENDING | DONE) == PENDING;
        pending.then(|| Info::unpack(self.info.load(Ordering::Relaxed)))
    }
    /// The reaper, for a token that is in flight; as only it sets `DONE`, that cannot change meanwhile.
    pub(crate) fn complete(&self, value: u64) -> Completed {
        self.value.store(value, Ordering::Relaxed);
        let before = self.state.fetch_or(DONE, Ordering::AcqRel);
        if before & DROPPED != 0 {
            self.state.store(FREE, Ordering::Release);
            return Completed::Recycle;
        }
        Completed::ForOwner {
            wake: before & WAKER != 0,
        }
    }
    /// The owner: the value, once; the token is then free and goes to the free list.
    pub(crate) fn take(&self) -> Option<u64> {
        if !self.is_done() {
            return None;
        }
        let value = self.value.load(Ordering::Relaxed);
        self.state.store(FREE, Ordering::Release);
        Some(value)
    }
    /// The owner: whether there is something to take.
    pub(crate) fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) & DONE != 0
    }
    /// The owner goes away without having taken the value.
    pub(crate) fn abandon(&self) -> Dropped {
        let before = self.state.fetch_or(DROPPED, Ordering::AcqRel);
        if before & DONE != 0 {
            self.state.store(FREE, Ordering::Release);
            return Dropped::Recycle;
        }
        Dropped::InFlight
    }
    /// The owner leaves a waker, having forgotten the one before.
    pub(crate) fn register(&self, waker: Waker) -> Registered {
        *lock(&self.waker) = Some(waker);
        match self.state.fetch_or(WAKER, Ordering::AcqRel) & DONE {
            0 => Registered::Waits,
            _ => Registered::AlreadyDone,
        }
    }
    /// The owner forgets its waker; whether it was still there.
    pub(crate) fn forget_waker(&self) -> bool {
        lock(&self.waker).take().is_some()
    }
    /// Wakes whoever waits; whether anybody did.
    pub(crate) fn wake(&self) -> bool {
        let waker = lock(&self.waker).take();
        waker.map(Waker::wake).is_some()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const INFO: Info = Info {
        instance: 255,
        phase: true,
        batch: Some(u32::MAX >> 1),
    };

    #[test]
    fn complete_then_take() {
        let token = Token::new();
        assert_eq!(token.in_flight(), None);
        token.begin(INFO);
        assert_eq!(token.in_flight(), Some(INFO));
        assert_eq!(token.take(), None);
        assert_eq!(token.complete(7), Completed::ForOwner { wake: false });
        assert_eq!(token.in_flight(), None, "a second completion is not one");
        assert_eq!(token.take(), Some(7));
        assert_eq!(token.take(), None);
    }

    #[test]
    fn abandoned_tokens_are_recycled_once() {
        let token = Token::new();
        token.begin(INFO);
        assert_eq!(token.abandon(), Dropped::InFlight);
        assert_eq!(token.complete(1), Completed::Recycle);
        token.begin(Info {
            batch: None,
            ..INFO
        });
        assert_eq!(token.in_flight().and_then(|i| i.batch), None);
        assert_eq!(token.complete(1), Completed::ForOwner { wake: false });
        assert_eq!(token.abandon(), Dropped::Recycle);
        assert_eq!(token.take(), None);
    }

    #[test]
    fn wakers() {
        let token = Token::new();
        token.begin(INFO);
        assert_eq!(token.register(Waker::noop().clone()), Registered::Waits);
        assert_eq!(token.complete(1), Completed::ForOwner { wake: true });
        assert!(token.wake());
        assert!(!token.wake() && !token.forget_waker());
        assert_eq!(
            token.register(Waker::noop().clone()),
            Registered::AlreadyDone
        );
    }
}
