//! Sleeping and waking without a lost wake-up.
//!
//! A sleeper counts itself, fences, and looks for work once more before it waits. A publisher of work publishes, fences,
//! and looks at the count. One of the two sees the other. The lock closes the gap between the sleeper's last look and its
//! wait. The waker also resets the count, so that no second thread calls the same sleepers while they get up, which takes
//! long.

use std::time::Duration;

use everwarp_engine::sync::ignore_poison;

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, fence};

/// Threads that wait for work.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// Sleepers that have not been called; changed only under the lock.
    waiting: AtomicU32,
    /// How often the sleepers were called.
    calls: Mutex<u64>,
    bell: Condvar,
}

impl Sleepers {
    /// Waits until woken, or for `limit`; does not wait if `work` finds something.
    pub(crate) fn sleep(&self, limit: Duration, work: impl Fn() -> bool) {
        let mut calls = ignore_poison(self.calls.lock());
        let before = *calls;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        if !work() {
            #[cfg(not(loom))]
            {
                let woken = self.bell.wait_timeout(calls, limit);
                calls = ignore_poison(woken).0;
            }
            #[cfg(loom)]
            {
                let _ = limit;
                calls = ignore_poison(self.bell.wait(calls));
            }
        }
        if *calls == before {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
    /// Whether a thread sleeps that has not been called. Only a hint.
    #[cfg_attr(loom, allow(dead_code, reason = "no model calls it"))]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }
    /// Wakes all sleepers. Called after work was published; nearly free when no thread sleeps.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            let mut calls = ignore_poison(self.calls.lock());
            *calls += 1;
            self.waiting.store(0, Ordering::Relaxed);
            drop(calls);
            self.bell.notify_all();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// A sleeper sees work that is published before, while or after it goes to sleep: the model would deadlock on a lost
    /// wake-up.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Sleepers::default(), AtomicU32::new(0)));
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

    /// Two threads wake one sleeper. The second may find the count reset and not call the sleeper, but the sleeper sees
    /// its work all the same. Only schedules with two preemptions: all schedules take more than minutes.
    #[test]
    fn loom_no_wake_up_is_lost_to_another() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new((Sleepers::default(), AtomicU32::new(0)));
            let other = shared.clone();
            let publish = |shared: &(Sleepers, AtomicU32)| {
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
