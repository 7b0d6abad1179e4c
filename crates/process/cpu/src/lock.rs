//! Locks that a panic does not close.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks a mutex, even if a thread has panicked while it held it.
///
/// A panic in one process's host call must not stop the other processes, and every change under a lock of this crate
/// leaves the data consistent at each step. So a poisoned lock is taken as it is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a condition, and takes the lock back as [`lock`] does.
pub(crate) fn wait<'m, T>(condition: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a condition up to `timeout`, and takes the lock back as [`lock`] does.
pub(crate) fn wait_for<'m, T>(
    condition: &Condvar,
    guard: MutexGuard<'m, T>,
    timeout: Duration,
) -> MutexGuard<'m, T> {
    let waited = condition.wait_timeout(guard, timeout);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
