//! Tokens: what identifies a submission in flight.
//!
//! The state of a token, and who may change it:
//!
//! | state | meaning | next |
//! |---|---|---|
//! | `FREE` | on the free list | `PENDING`, by the submitter that took it off the list |
//! | `PENDING` | in flight, owned by a `Pending` | `DONE` by the reaper, `DROPPED` by the owner |
//! | `DROPPED` | in flight, nobody asks for it | `FREE` by the reaper |
//! | `DONE` | completed; `value` is valid | `FREE` by the owner |
//!
//! 1. `value` is written before `DONE` is stored with release, and read after it was loaded with acquire.
//! 2. Reaper and owner race only for `PENDING`: both use compare-and-swap, and the loser follows the winner.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

const FREE: u32 = 0;
const PENDING: u32 = 1;
const DROPPED: u32 = 2;
const DONE: u32 = 3;

/// What the reaper's transition led to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// Somebody owns the result.
    ForOwner,
    /// Nobody does: the token is free again and goes to the free list.
    Recycle,
    /// The token was not in flight: the engine completed it twice, or never was given it.
    NotInFlight,
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

#[derive(Debug, Default)]
pub(crate) struct Token {
    state: AtomicU32,
    /// The instance that the submission runs in.
    instance: AtomicU32,
    value: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Token {
    /// The submitter, having taken the token off the free list.
    pub(crate) fn begin(&self, instance: u8) {
        self.instance.store(instance.into(), Ordering::Relaxed);
        self.state.store(PENDING, Ordering::Release);
    }
    pub(crate) fn instance(&self) -> u8 {
        self.instance.load(Ordering::Relaxed) as u8
    }
    /// The reaper.
    pub(crate) fn complete(&self, value: u64) -> Completed {
        self.value.store(value, Ordering::Relaxed);
        match self.state.compare_exchange(PENDING, DONE, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Completed::ForOwner,
            Err(DROPPED) => {
                self.state.store(FREE, Ordering::Release);
                Completed::Recycle
            }
            Err(_) => Completed::NotInFlight,
        }
    }
    /// The owner: the value, once; the token is then free and goes to the free list.
    pub(crate) fn take(&self) -> Option<u64> {
        if self.state.load(Ordering::Acquire) != DONE {
            return None;
        }
        let value = self.value.load(Ordering::Relaxed);
        self.state.store(FREE, Ordering::Release);
        Some(value)
    }
    pub(crate) fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }
    /// The owner goes away without having taken the value.
    pub(crate) fn abandon(&self) -> Dropped {
        match self.state.compare_exchange(PENDING, DROPPED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Dropped::InFlight,
            Err(_) => {
                self.state.store(FREE, Ordering::Release);
                Dropped::Recycle
            }
        }
    }
    pub(crate) fn set_waker(&self, waker: Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }
    /// Forgets the waker; whether there was one.
    pub(crate) fn forget_waker(&self) -> bool {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
    /// Wakes the waiting future; whether there was one.
    pub(crate) fn wake(&self) -> bool {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        waker.map(Waker::wake).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_then_take() {
        let token = Token::default();
        token.begin(3);
        assert_eq!(token.take(), None);
        assert_eq!(token.complete(7), Completed::ForOwner);
        assert_eq!(token.complete(8), Completed::NotInFlight);
        assert!(token.is_done());
        assert_eq!(token.instance(), 3);
    }

    #[test]
    fn abandoned_tokens_are_recycled_once() {
        let token = Token::default();
        token.begin(0);
        assert_eq!(token.abandon(), Dropped::InFlight);
        assert_eq!(token.complete(1), Completed::Recycle);
        token.begin(0);
        assert_eq!(token.complete(1), Completed::ForOwner);
        assert_eq!(token.abandon(), Dropped::Recycle);
        assert_eq!(token.take(), None);
    }
}
