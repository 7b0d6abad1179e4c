//! Sleeping and waking without a lost wake-up.
//!
//! A sleeper counts itself, fences, and looks for work once more before it waits; who publishes work
//! fences and looks at the count. One of the two sees the other. The lock closes the gap between the
//! sleeper's last look and its wait. Whoever wakes the sleepers also takes them off the count: until they
//! are up, which takes long, nobody else has to call them.

use std::sync::PoisonError;
use std::time::Duration;

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, fence};

#[derive(Debug, Default)]
pub(crate) struct Sleep {
    /// Those who have not been called; changed only under the lock.
    sleepers: AtomicU32,
    /// How often the sleepers were called.
    calls: Mutex<u64>,
    bell: Condvar,
}

impl Sleep {
    /// Waits until woken, or at most `limit`; not at all if `work` finds something.
    pub(crate) fn sleep(&self, limit: Duration, work: impl Fn() -> bool) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *calls;
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        if !work() {
            #[cfg(not(loom))]
            {
                let woken = self.bell.wait_timeout(calls, limit);
                calls = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            #[cfg(loom)]
            {
                let _ = limit;
                calls = self
                    .bell
                    .wait(calls)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
        if *calls == before {
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
    }
    /// Wakes all sleepers; nearly free when nobody sleeps. Called after work was published.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            *calls += 1;
            self.sleepers.store(0, Ordering::Relaxed);
            drop(calls);
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

    /// Two wake one sleeper: the second may find it off the count and not call it, but what it has published
    /// is seen all the same. Only schedules with two preemptions: all of them take more than minutes.
    #[test]
    fn loom_no_wake_up_is_lost_to_another() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new((Sleep::default(), AtomicU32::new(0)));
            let other = shared.clone();
            let publish = |shared: &(Sleep, AtomicU32)| {
                shared.1.fetch_add(1, Ordering::Release);
                shared.0.wake();
            };
            let waker = loom::thread::spawn(move || publish(&other));
            let other = shared.clone();
            let sleeper = loom::thread::spawn(move || {
                for seen in [0, 1] {
                    let more = || other.1.load(Ordering::Acquire) > seen;
                    while !more() {
                        other.0.sleep(Duration::MAX, more);
                    }
                }
            });
            publish(&shared);
            waker.join().expect("the model's thread ends");
            sleeper.join().expect("the model's thread ends");
        });
    }
}
