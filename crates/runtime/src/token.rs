//! Tokens: each stands for a submission in flight.
//!
//! `state` is one word of four bits:
//!
//! | bit | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `PENDING` | the token is off the free list | submitter (`begin`) | the side that frees it |
//! | `DONE` | completed, `value` is valid | reaper (`complete`) | the side that frees it |
//! | `DROPPED` | the token's `Pending` is gone | owner (`abandon`) | the side that frees it |
//! | `WAKER` | there may be a waker in `waker` | owner (`register`) | the side that frees it |
//!
//! 1. Only the submitter that took the token off the free list makes it `PENDING`, and until it is
//!    freed only one `Pending` owns it.
//! 2. Of `DONE` and `DROPPED`, the side that sets the **second** bit frees the token and puts it on the free list. The
//!    bits are set by read-modify-writes of one word, so exactly one side comes second.
//! 3. `value` is written before `DONE` is set with release, and read after it was seen with acquire.
//! 4. The waker is put in place before `WAKER` is set. A reaper that sets `DONE` and sees `WAKER` wakes;
//!    an owner that sets `WAKER` and sees `DONE` need not wait. One of the two sees the other's bit.
//! 5. A freed token may have a new owner before the reaper gets to wake the old one. The new owner's
//!    waker is then woken for nothing, and polling puts it back: spurious, never lost.

use std::task::Waker;

use everwarp_contract::InstanceId;

use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};

const FREE: u32 = 0;
const PENDING: u32 = 1;
const DONE: u32 = 2;
const DROPPED: u32 = 4;
const WAKER: u32 = 8;

/// The number of a region of the engine's memory; see `retired.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionId(pub(crate) u8);

impl RegionId {
    /// The region whose buffers any task may reach.
    pub(crate) const COMMON: Self = Self(0);
}

/// How a submission counts as in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The phase among all submissions; none if it does not count.
    pub(crate) common: Option<bool>,
    /// The region of its instance.
    pub(crate) region: RegionId,
    /// The phase in that region; of no meaning in the common one.
    pub(crate) own: bool,
}

impl Counted {
    /// It does not count.
    #[cfg_attr(loom, allow(dead_code, reason = "no model has one"))]
    pub(crate) const NOT: Self = Self {
        common: None,
        region: RegionId::COMMON,
        own: false,
    };
}

/// A submission as the reaper must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubmissionInfo {
    /// The instance that it runs in.
    pub(crate) instance: InstanceId,
    /// How it counts as in flight.
    pub(crate) counted: Counted,
    /// The sequence number, if it is a batch.
    pub(crate) batch: Option<u32>,
}

impl SubmissionInfo {
    fn pack(self) -> u64 {
        let batch = self
            .batch
            .map_or(0, |sequence| 1 << 32 | u64::from(sequence) << 33);
        let Counted {
            common,
            region,
            own,
        } = self.counted;
        let common = common.map_or(0, |phase| 2 | u64::from(phase));
        let phases = common | u64::from(own) << 2;
        u64::from(self.instance.0) | phases << 8 | u64::from(region.0) << 16 | batch
    }
    fn unpack(word: u64) -> Self {
        let batch = (word >> 32 & 1 == 1).then_some((word >> 33) as u32);
        Self {
            instance: InstanceId(word as u8),
            counted: Counted {
                common: (word >> 9 & 1 == 1).then_some(word >> 8 & 1 == 1),
                region: RegionId((word >> 16) as u8),
                own: word >> 10 & 1 == 1,
            },
            batch,
        }
    }
}

/// The result of the reaper's transition.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// A `Pending` owns the result.
    ForOwner {
        /// Whether there may be a waker to wake.
        wake: bool,
    },
    /// No `Pending` does: the token is free again and goes to the free list.
    Recycle,
}

/// The result of dropping the owner.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// Still in flight; the reaper recycles the token.
    InFlight,
    /// The submission was done: the token is free again and goes to the free list.
    Recycle,
}

/// The result of leaving a waker.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// The waker will be woken.
    Waits,
    /// The completion came first; the waker may or may not be woken.
    AlreadyDone,
}

/// The state of one token.
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
    /// The submitter starts a submission, having taken the token off the free list.
    pub(crate) fn begin(&self, info: SubmissionInfo) {
        self.info.store(info.pack(), Ordering::Relaxed);
        self.state.store(PENDING, Ordering::Release);
    }
    /// Says how a submission counts that is in flight and cannot complete yet.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn set_counted(&self, counted: Counted) {
        let info = SubmissionInfo::unpack(self.info.load(Ordering::Relaxed));
        self.info
            .store(SubmissionInfo { counted, ..info }.pack(), Ordering::Relaxed);
    }
    /// The reaper asks, before anything else, which submission completes. `None` if the token is not in flight: the engine
    /// completed it twice or was never given it.
    pub(crate) fn in_flight(&self) -> Option<SubmissionInfo> {
        let pending = self.state.load(Ordering::Acquire) & (PENDING | DONE) == PENDING;
        pending.then(|| SubmissionInfo::unpack(self.info.load(Ordering::Relaxed)))
    }
    /// The reaper completes a token that is in flight. Only the reaper sets `DONE`, so the token stays in flight until
    /// here.
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
    /// The owner takes the value, once. The token is then free and goes to the free list.
    pub(crate) fn take(&self) -> Option<u64> {
        if !self.is_done() {
            return None;
        }
        let value = self.value.load(Ordering::Relaxed);
        self.state.store(FREE, Ordering::Release);
        Some(value)
    }
    /// Whether there is a value for the owner to take.
    pub(crate) fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) & DONE != 0
    }
    /// The owner is dropped without having taken the value.
    pub(crate) fn abandon(&self) -> Dropped {
        let before = self.state.fetch_or(DROPPED, Ordering::AcqRel);
        if before & DONE != 0 {
            self.state.store(FREE, Ordering::Release);
            return Dropped::Recycle;
        }
        Dropped::InFlight
    }
    /// The owner leaves a waker, having forgotten an earlier one.
    pub(crate) fn register(&self, waker: Waker) -> Registered {
        *lock(&self.waker) = Some(waker);
        match self.state.fetch_or(WAKER, Ordering::AcqRel) & DONE {
            0 => Registered::Waits,
            _ => Registered::AlreadyDone,
        }
    }
    /// The owner forgets its waker. Returns whether the waker was still there.
    pub(crate) fn forget_waker(&self) -> bool {
        lock(&self.waker).take().is_some()
    }
    /// Wakes the waiting future. Returns whether there was one.
    pub(crate) fn wake(&self) -> bool {
        let waker = lock(&self.waker).take();
        waker.map(Waker::wake).is_some()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const INFO: SubmissionInfo = SubmissionInfo {
        instance: InstanceId(255),
        counted: Counted {
            common: Some(true),
            region: RegionId(5),
            own: true,
        },
        batch: Some(u32::MAX >> 1),
    };

    #[test]
    fn completed_value_is_taken_once() {
        let token = Token::new();
        assert_eq!(token.in_flight(), None);
        token.begin(INFO);
        assert_eq!(token.in_flight(), Some(INFO));
        assert_eq!(token.take(), None);
        assert_eq!(token.complete(7), Completed::ForOwner { wake: false });
        assert_eq!(token.in_flight(), None, "a second completion is refused");
        assert_eq!(token.take(), Some(7));
        assert_eq!(token.take(), None);
    }

    #[test]
    fn abandoned_token_is_recycled_once() {
        let token = Token::new();
        token.begin(INFO);
        assert_eq!(token.abandon(), Dropped::InFlight);
        assert_eq!(token.complete(1), Completed::Recycle);
        token.begin(SubmissionInfo {
            batch: None,
            ..INFO
        });
        assert_eq!(token.in_flight().and_then(|i| i.batch), None);
        assert_eq!(token.complete(1), Completed::ForOwner { wake: false });
        assert_eq!(token.abandon(), Dropped::Recycle);
        assert_eq!(token.take(), None);
    }

    #[test]
    fn waker_is_woken_or_told_that_it_is_done() {
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
