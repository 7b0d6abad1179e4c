//! Sleeping and waking without a lost wake-up.
//!
//! A sleeper counts itself, fences, and looks for work once more before it waits; who publishes work
//! fences and looks at the count. One of the two sees the other. The lock closes the gap between the
//! sleeper's last look and its wait.

use std::time::Duration;

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, fence};

#[derive(Debug, Default)]
pub(crate) struct Sleep {
    sleepers: AtomicU32,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Sleep {
    /// Waits until woken, or at most `limit`; not at all if `work` finds something.
    pub(crate) fn sleep(&self, limit: Duration, work: impl Fn() -> bool) {
        let guard = self
            .lock
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        if !work() {
            #[cfg(not(loom))]
            drop(self.bell.wait_timeout(guard, limit));
            #[cfg(loom)]
            {
                let _ = limit;
                drop(self.bell.wait(guard));
            }
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
    /// Wakes all sleepers; nearly free when nobody sleeps. Called after work was published.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            drop(
                self.lock
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner),
            );
            self.bell.notify_all();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Work published before, while or after somebody goes to sleep is always seen: the model would
    /// deadlock on a lost wake-up.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Sleep::default(), AtomicU32::new(0)));
            let other = shared.clone();
            let thread = loom::thread::spawn(move || {
                while other.1.load(Ordering::Acquire) == 0 {
                    other
                        .0
                        .sleep(Duration::MAX, || other.1.load(Ordering::Acquire) != 0);
                }
            });
            shared.1.store(1, Ordering::Release);
            shared.0.wake();
            thread.join().expect("the model's thread ends");
        });
    }
}
