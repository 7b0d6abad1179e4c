//! Callers that wait for processes to exit, as threads or as futures.
//!
//! **No end is missed.** A caller first says which process it waits for, and then looks at the process table once more.
//! A thread that records an end changes the table first, and then looks here. So either the caller sees the end in the
//! table, or the recording thread sees the caller here.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Condvar, Mutex};
use std::task::Waker;
use std::time::Duration;

use everwarp_engine::sync::{ignore_poison, lock};
use everwarp_process::Pid;

/// How often a waiting thread looks for a failure of the engine while nothing ends.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct WaitState {
    /// The processes that threads wait for, once for each thread.
    awaited: Vec<Pid>,
    /// The wakers of the futures that wait for processes.
    wakers: HashMap<Pid, Waker>,
    /// How often an awaited process has exited.
    ends: u64,
    /// Why the host cannot go on.
    failed: Option<String>,
}

/// The callers that wait, and whether the host has failed.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    state: Mutex<WaitState>,
    /// An awaited process has exited, or the host has failed.
    changed: Condvar,
}

impl Waiters {
    /// Why the host has failed, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.state).failed.clone()
    }

    /// Records that the host cannot go on, and wakes all waiters. Only the first error is kept.
    pub(crate) fn fail(&self, error: &dyn Display) {
        let mut state = lock(&self.state);
        state.failed.get_or_insert_with(|| error.to_string());
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    /// Wakes the callers that wait for one of these processes, which have exited.
    pub(crate) fn ended(&self, pids: impl Iterator<Item = Pid> + Clone) {
        let mut state = lock(&self.state);
        // Mostly a caller waits for one process of many; the ends of the others need not wake it.
        let awaited = pids.clone().any(|pid| state.awaited.contains(&pid));
        let wakers: Vec<_> = match state.wakers.is_empty() {
            true => Vec::new(),
            false => pids.filter_map(|pid| state.wakers.remove(&pid)).collect(),
        };
        state.ends += u64::from(awaited);
        drop(state);
        if awaited {
            self.changed.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits up to `most` for a process to exit or the host to fail. It may return earlier. `is_alive` looks at the
    /// process table.
    pub(crate) fn await_end(&self, pid: Pid, most: Duration, is_alive: impl FnOnce() -> bool) {
        let mut state = lock(&self.state);
        state.awaited.push(pid);
        let before = state.ends;
        drop(state);
        let alive = is_alive();
        let mut state = lock(&self.state);
        if alive && state.ends == before && state.failed.is_none() {
            state = ignore_poison(self.changed.wait_timeout(state, most.min(LOOK))).0;
        }
        let mut awaited = state.awaited.iter();
        if let Some(at) = awaited.position(|other| *other == pid) {
            state.awaited.swap_remove(at);
        }
    }

    /// Keeps the waker of a future that waits for a process, in place of an earlier one.
    ///
    /// # Errors
    /// Why the host has failed.
    pub(crate) fn keep_waker(&self, pid: Pid, waker: &Waker) -> Result<(), String> {
        let mut state = lock(&self.state);
        if let Some(reason) = state.failed.clone() {
            return Err(reason);
        }
        let before = state.wakers.insert(pid, waker.clone());
        drop(state);
        // Dropping a waker may run the caller's code.
        drop(before);
        Ok(())
    }

    /// Forgets the waker of a process.
    pub(crate) fn forget_waker(&self, pid: Pid) {
        let waker = lock(&self.state).wakers.remove(&pid);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn pid(slot: u32) -> Pid {
        Pid::new(slot, 1)
    }

    #[test]
    fn an_end_wakes_its_own_future_once() {
        let waiters = Waiters::default();
        let wakes = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&wakes));
        waiters.keep_waker(pid(3), &waker).expect("no failure");
        waiters.ended([pid(1), pid(2)].into_iter());
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
        waiters.ended([pid(3)].into_iter());
        waiters.ended([pid(3)].into_iter());
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        waiters.keep_waker(pid(4), &waker).expect("no failure");
        waiters.forget_waker(pid(4));
        waiters.ended([pid(4)].into_iter());
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_failure_wakes_every_future_and_refuses_further_ones() {
        let waiters = Waiters::default();
        let wakes = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&wakes));
        for slot in 0..3 {
            waiters.keep_waker(pid(slot), &waker).expect("no failure");
        }
        waiters.fail(&"the first reason");
        waiters.fail(&"the second reason");
        assert_eq!(wakes.0.load(Ordering::SeqCst), 3);
        let refused = waiters.keep_waker(pid(9), &waker);
        assert_eq!(refused, Err("the first reason".to_owned()));
        assert_eq!(waiters.failure().as_deref(), Some("the first reason"));
    }

    #[test]
    fn an_end_between_the_first_and_the_second_look_is_not_missed() {
        let waiters = Waiters::default();
        // The process ends while the caller looks at the table, and the caller still sees it alive.
        waiters.await_end(pid(1), Duration::from_secs(60), || {
            waiters.ended([pid(1)].into_iter());
            true
        });
        assert!(lock(&waiters.state).awaited.is_empty());
    }

    #[test]
    fn a_thread_is_woken_by_the_end_that_it_waits_for() {
        let waiters = Waiters::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let begin = std::time::Instant::now();
                while lock(&waiters.state).ends == 0 {
                    waiters.await_end(pid(7), Duration::from_secs(60), || true);
                    assert!(begin.elapsed() < Duration::from_secs(60));
                }
            });
            while !waiter.is_finished() {
                waiters.ended([pid(6), pid(7)].into_iter());
            }
        });
    }
}
