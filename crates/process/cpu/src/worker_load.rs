//! What a worker thread has to do, as the processes on it see it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The processes of one worker thread. Only the thread itself and the processes on it use the numbers, so they need no
/// order.
#[derive(Default)]
pub(crate) struct WorkerLoad {
    processes: AtomicUsize,
    /// Those that wait for other processes, and those that have instances apart from the thread's.
    apart: AtomicUsize,
    /// The thread waits until it has room for another process.
    full: AtomicBool,
    /// Another process has blocked, or has got an instance of its own, while it did.
    changed: Notify,
}

/// A process that waits for others, until this is dropped.
pub(crate) struct BlockedProcess<'l>(&'l WorkerLoad);

impl Drop for BlockedProcess<'_> {
    fn drop(&mut self) {
        self.0.remove_apart();
    }
}

impl WorkerLoad {
    /// The process that runs now waits for other processes until the result is dropped.
    pub(crate) fn block(&self) -> BlockedProcess<'_> {
        self.add_apart();
        BlockedProcess(self)
    }

    /// The process that runs now has an instance of its own, so that the thread may take another one.
    pub(crate) fn add_apart(&self) {
        self.apart.fetch_add(1, Ordering::Relaxed);
        if self.full.load(Ordering::Relaxed) {
            self.changed.notify_one();
        }
    }

    /// The process that runs now needs the thread's instance again, or gives its own back.
    pub(crate) fn remove_apart(&self) {
        self.apart.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether several processes share the thread.
    pub(crate) fn is_shared(&self) -> bool {
        self.processes.load(Ordering::Relaxed) > 1
    }

    /// Whether the thread may take another process: no process needs its instance.
    pub(crate) fn has_room(&self) -> bool {
        self.processes.load(Ordering::Relaxed) <= self.apart.load(Ordering::Relaxed)
    }

    /// Waits until another process needs the thread's instance no more, if the thread has no room; otherwise for ever.
    pub(crate) async fn changed(&self) {
        let full = !self.has_room();
        self.full.store(full, Ordering::Relaxed);
        match full {
            true => self.changed.notified().await,
            false => std::future::pending().await,
        }
    }

    /// Adds a process; returns whether the thread is shared from now on.
    pub(crate) fn add(&self) -> bool {
        self.processes.fetch_add(1, Ordering::Relaxed) == 1
    }

    /// Removes a process; returns whether the thread is shared no more.
    pub(crate) fn remove(&self) -> bool {
        self.processes.fetch_sub(1, Ordering::Relaxed) == 2
    }
}
