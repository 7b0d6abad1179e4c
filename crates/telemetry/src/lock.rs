//! Locks whose data no panic leaves wrong.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, whether a thread has panicked with it or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
