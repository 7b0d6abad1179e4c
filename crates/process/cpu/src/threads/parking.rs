//! Threads that wait at addresses of a shared memory.
//!
//! One list under one lock, in the order in which the waiters came. A waiter compares the value under the lock, and a
//! notification takes the lock, so no notification falls between the comparison and the wait. A waiter whose time is
//! over removes itself under the lock; if it is no longer in the list, it was notified.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::lock::lock;

/// The result of a wait that was notified.
const NOTIFIED: i32 = 0;
/// The result of a wait for a value that was not there.
const DIFFERENT: i32 = 1;
/// The result of a wait whose time is over.
const TIMED_OUT: i32 = 2;

struct Waiter {
    id: u64,
    address: u64,
    wake: oneshot::Sender<()>,
}

#[derive(Default)]
struct WaiterList {
    next: u64,
    waiters: VecDeque<Waiter>,
}

/// All waiters in one memory.
#[derive(Default)]
pub(crate) struct ParkingLot(Mutex<WaiterList>);

impl ParkingLot {
    /// Adds a waiter; `None` if the value is a different one.
    fn enter(
        &self,
        address: u64,
        as_expected: impl FnOnce() -> bool,
    ) -> Option<(u64, oneshot::Receiver<()>)> {
        let mut list = lock(&self.0);
        if !as_expected() {
            return None;
        }
        let (wake, woken) = oneshot::channel();
        let id = list.next;
        list.next += 1;
        list.waiters.push_back(Waiter { id, address, wake });
        Some((id, woken))
    }

    /// Removes a waiter; returns whether it was still in the list.
    fn leave(&self, id: u64) -> bool {
        let mut list = lock(&self.0);
        let at = list.waiters.iter().position(|w| w.id == id);
        at.is_some_and(|at| list.waiters.remove(at).is_some())
    }

    /// Waits on `address` for up to `nanoseconds`, or without a limit if they are negative.
    pub(crate) async fn wait(
        &self,
        address: u64,
        as_expected: impl FnOnce() -> bool,
        nanoseconds: i64,
    ) -> i32 {
        let Some((id, woken)) = self.enter(address, as_expected) else {
            return DIFFERENT;
        };
        let over = match u64::try_from(nanoseconds) {
            Ok(most) => timeout(Duration::from_nanos(most), woken).await.is_err(),
            // The list keeps the sender until it wakes this waiter.
            Err(_) => woken.await.is_err(),
        };
        match over && self.leave(id) {
            true => TIMED_OUT,
            false => NOTIFIED,
        }
    }

    /// Wakes up to `count` waiters on `address`, oldest first. Returns how many.
    pub(crate) fn notify(&self, address: u64, count: u32) -> u32 {
        let mut woken = 0;
        let mut list = lock(&self.0);
        let mut at = 0;
        while woken < count && at < list.waiters.len() {
            if list.waiters[at].address != address {
                at += 1;
                continue;
            }
            // A waiter that cannot be woken belongs to a process that is ending.
            let waiter = list.waiters.remove(at).expect("it is in the list");
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
    fn notify_wakes_the_oldest_waiters_up_to_the_count() {
        let lot = ParkingLot::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll =
            |waiter: &mut Pin<Box<dyn Future<Output = i32> + '_>>| waiter.as_mut().poll(&mut cx);
        let begin = |address| -> Pin<Box<dyn Future<Output = i32> + '_>> {
            Box::pin(lot.wait(address, || true, -1))
        };
        let (mut first, mut second, mut other) = (begin(8), begin(8), begin(16));
        for waiter in [&mut first, &mut second, &mut other] {
            assert_eq!(poll(waiter), Poll::Pending);
        }
        assert_eq!(lot.notify(24, 9), 0);
        assert_eq!(lot.notify(8, 1), 1);
        assert_eq!(poll(&mut second), Poll::Pending);
        assert_eq!(poll(&mut first), Poll::Ready(NOTIFIED));
        assert_eq!(lot.notify(8, u32::MAX), 1);
        assert_eq!(lot.notify(8, u32::MAX), 0);
        assert_eq!(poll(&mut second), Poll::Ready(NOTIFIED));
        assert_eq!(lot.notify(16, 1), 1);
        assert_eq!(poll(&mut other), Poll::Ready(NOTIFIED));
    }

    #[test]
    fn wait_for_a_different_value_or_for_no_time_returns_at_once() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("it is made");
        let lot = ParkingLot::default();
        assert_eq!(runtime.block_on(lot.wait(8, || false, -1)), DIFFERENT);
        assert_eq!(runtime.block_on(lot.wait(8, || true, 0)), TIMED_OUT);
        assert_eq!(lot.notify(8, 1), 0, "it has left the list");
    }
}
