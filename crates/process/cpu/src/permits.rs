//! The threads that all hosts of this program may have together: the pool has an instance for each of them.
//!
//! A host always has one thread, so that no host waits for another one. Further threads come and go with its work, as
//! long as there are any left.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Hosts at the same time.
const HOSTS_MOST: usize = 1024;
/// Threads beyond the first ones, of all hosts together. One host may ask for this many threads.
pub(crate) const EXTRAS_MOST: usize = 1024;
/// Threads that run processes, and so instances that exist at the same time.
pub(crate) const THREADS_MOST: usize = HOSTS_MOST + EXTRAS_MOST;

static HOSTS: AtomicUsize = AtomicUsize::new(0);
static EXTRAS: AtomicUsize = AtomicUsize::new(0);

/// Adds one to a count, unless it is at its limit. The counts order nothing else.
fn take(count: &AtomicUsize, most: usize) -> bool {
    let more = |have: usize| Some(have + 1).filter(|have| *have <= most);
    let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    taken.is_ok()
}

/// The right to be a host with one thread.
pub(crate) struct HostPermit(());

impl HostPermit {
    pub(crate) fn take() -> std::io::Result<Self> {
        match take(&HOSTS, HOSTS_MOST) {
            true => Ok(Self(())),
            false => Err(std::io::Error::other(format!(
                "this program has {HOSTS_MOST} hosts already: end one of them"
            ))),
        }
    }
}

impl Drop for HostPermit {
    fn drop(&mut self) {
        HOSTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right to have one more thread.
#[must_use]
pub(crate) fn take_extra() -> bool {
    take(&EXTRAS, EXTRAS_MOST)
}

/// Gives a thread's right back.
pub(crate) fn give_extra() {
    EXTRAS.fetch_sub(1, Ordering::Relaxed);
}

/// The right of a process to an instance of its own: its thread runs others while it waits for a socket.
pub(crate) struct WaitingPermit(());

impl WaitingPermit {
    pub(crate) fn take() -> Option<Self> {
        take_extra().then_some(Self(()))
    }
}

impl Drop for WaitingPermit {
    fn drop(&mut self) {
        give_extra();
    }
}
