//! The atomics and locks of the host's own protocols: loom's under `--cfg loom`, else the standard library's.
//!
//! Words in memory that is shared with an engine are not among them: loom cannot see the engine's side.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

#[cfg(not(loom))]
pub(crate) use everwarp_engine::sync::{lock, try_lock};

/// The same for a model's mutex.
#[cfg(loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
    everwarp_engine::sync::ignore_poison(mutex.lock())
}
