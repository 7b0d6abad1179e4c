//! Waiting for conditions with locks that a panic does not close.

use std::sync::{Condvar, MutexGuard};
use std::time::Duration;

use everwarp_engine::sync::ignore_poison;
pub(crate) use everwarp_engine::sync::lock;

/// Waits for a condition, and takes the lock back as [`lock`] does.
pub(crate) fn wait<'m, T>(condition: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    ignore_poison(condition.wait(guard))
}

/// Waits for a condition up to `timeout`, and takes the lock back as [`lock`] does.
pub(crate) fn wait_for<'m, T>(
    condition: &Condvar,
    guard: MutexGuard<'m, T>,
    timeout: Duration,
) -> MutexGuard<'m, T> {
    ignore_poison(condition.wait_timeout(guard, timeout)).0
}
