//! Waking the threads that have something to do, and no others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// Threads that wait for a change of what a lock guards.
///
/// A thread changes it under the lock and rings afterwards. A waiter is counted before it gives the lock back, so a thread that
/// has the lock later sees it; a ring without a waiter makes no system call.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    condvar: Condvar,
    /// Changed under the lock only.
    waiting: AtomicUsize,
}

impl Bell {
    /// Waits for a ring. As with every condition variable, a wait may also end without one.
    pub(crate) fn wait<'g, T>(&self, guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self.condvar.wait(guard);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
    /// The same for a limited time.
    pub(crate) fn wait_for<'g, T>(
        &self,
        guard: MutexGuard<'g, T>,
        time: Duration,
    ) -> MutexGuard<'g, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self.condvar.wait_timeout(guard, time);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
    /// How many threads wait. It changes under the lock only.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
    /// Wakes up to `count` threads.
    pub(crate) fn ring(&self, count: usize) {
        match self.waiting.load(Ordering::Relaxed) {
            0 => {}
            waiting if count < waiting => (0..count).for_each(|_| self.condvar.notify_one()),
            _ => self.condvar.notify_all(),
        }
    }
}
