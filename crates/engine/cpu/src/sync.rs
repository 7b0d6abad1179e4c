//! The atomics and locks of this crate's protocols: loom's under `--cfg loom`, the standard library's otherwise.

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
    thread::yield_now,
};
