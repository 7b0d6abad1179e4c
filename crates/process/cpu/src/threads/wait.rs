//! Who waits at which address of a shared memory.
//!
//! One list under one lock, in the order in which they came. Whoever waits compares the value under the lock, and a
//! notification takes the lock, so none falls between the comparison and the wait. Whose time is over takes itself
//! off under the lock: if it is not there any more, it has been notified.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// What a wait answers: it was notified.
const NOTIFIED: i32 = 0;
/// The value was another one.
const OTHER: i32 = 1;
/// The time is over.
const TIMED_OUT: i32 = 2;

struct Waiter {
    id: u64,
    address: u64,
    wake: oneshot::Sender<()>,
}

#[derive(Default)]
struct List {
    next: u64,
    waiters: VecDeque<Waiter>,
}

/// Everybody who waits in one memory.
#[derive(Default)]
pub(super) struct Waits(Mutex<List>);

impl Waits {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(
        &self,
        address: u64,
        as_expected: impl FnOnce() -> bool,
    ) -> Option<(u64, oneshot::Receiver<()>)> {
        let mut list = self.list();
        if !as_expected() {
            return None;
        }
        let (wake, woken) = oneshot::channel();
        let id = list.next;
        list.next += 1;
        list.waiters.push_back(Waiter { id, address, wake });
        Some((id, woken))
    }

    /// Takes a waiter off; whether it was still there.
    fn leave(&self, id: u64) -> bool {
        let mut list = self.list();
        let at = list.waiters.iter().position(|w| w.id == id);
        at.is_some_and(|at| list.waiters.remove(at).is_some())
    }

    /// Waits for so many nanoseconds at most, or as long as it takes if they are negative.
    pub(super) async fn wait(
        &self,
        address: u64,
        as_expected: impl FnOnce() -> bool,
        nanoseconds: i64,
    ) -> i32 {
        let Some((id, woken)) = self.begin(address, as_expected) else {
            return OTHER;
        };
        let over = match u64::try_from(nanoseconds) {
            Ok(most) => timeout(Duration::from_nanos(most), woken).await.is_err(),
            // Nobody drops the other end.
            Err(_) => woken.await.is_err(),
        };
        match over && self.leave(id) {
            true => TIMED_OUT,
            false => NOTIFIED,
        }
    }

    /// Wakes at most so many of those who wait at an address, the longest waiting first: how many.
    pub(super) fn notify(&self, address: u64, most: u32) -> u32 {
        let mut woken = 0;
        let mut list = self.list();
        let mut at = 0;
        while woken < most && at < list.waiters.len() {
            if list.waiters[at].address != address {
                at += 1;
                continue;
            }
            // One that does not hear it belongs to a process that is ending.
            let waiter = list.waiters.remove(at).expect("it is there");
            woken += u32::from(waiter.wake.send(()).is_ok());
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn the_longest_waiting_are_woken_and_no_more_than_asked() {
        let waits = Waits::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll =
            |waiter: &mut Pin<Box<dyn Future<Output = i32> + '_>>| waiter.as_mut().poll(&mut cx);
        let begin = |address| -> Pin<Box<dyn Future<Output = i32> + '_>> {
            Box::pin(waits.wait(address, || true, -1))
        };
        let (mut first, mut second, mut other) = (begin(8), begin(8), begin(16));
        for waiter in [&mut first, &mut second, &mut other] {
            assert_eq!(poll(waiter), Poll::Pending);
        }
        assert_eq!(waits.notify(24, 9), 0);
        assert_eq!(waits.notify(8, 1), 1);
        assert_eq!(poll(&mut second), Poll::Pending);
        assert_eq!(poll(&mut first), Poll::Ready(NOTIFIED));
        assert_eq!(waits.notify(8, u32::MAX), 1);
        assert_eq!(waits.notify(8, u32::MAX), 0);
        assert_eq!(poll(&mut second), Poll::Ready(NOTIFIED));
        assert_eq!(waits.notify(16, 1), 1);
        assert_eq!(poll(&mut other), Poll::Ready(NOTIFIED));
    }

    #[test]
    fn a_wait_for_another_value_or_for_no_time_is_over_at_once() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("it is made");
        let waits = Waits::default();
        assert_eq!(runtime.block_on(waits.wait(8, || false, -1)), OTHER);
        assert_eq!(runtime.block_on(waits.wait(8, || true, 0)), TIMED_OUT);
        assert_eq!(waits.notify(8, 1), 0, "it has left the list");
    }
}
