//! Submissions as futures, with the simplest executor.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use everwarp_contract::telemetry::WORKER_IDLE;

use super::{engine, instance};
use crate::error::Error;
use crate::mock::{self, ECHO, HOLD, STAND};

struct Unpark(Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn futures_complete() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    for i in 0..200 {
        let pending = engine.submit(mock.task(ECHO).arg(i)).expect("room");
        assert_eq!(block_on(pending).expect("it completes").value, i);
    }
    let pending = engine.submit(mock.task(HOLD)).expect("room");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            hand.release(1);
        });
        block_on(pending).expect("it was released");
    });
}

#[test]
fn future_dropped_after_a_poll_leaves_no_waker() {
    let (engine, hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let mut pending = engine.submit(mock.task(HOLD)).expect("room");
    assert!(
        pin!(&mut pending)
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    drop(pending);
    assert_eq!(
        engine
            .core
            .wakers
            .load(std::sync::atomic::Ordering::Acquire),
        0
    );
    hand.release(1);
    let mut again = engine.submit(mock.task(ECHO).arg(4)).expect("room");
    assert_eq!(block_on(&mut again).expect("it completes").value, 4);
    assert!(matches!(block_on(&mut again), Err(Error::AlreadyTaken)));
}

#[test]
fn futures_see_the_engine_stop() {
    let (engine, _hand) = engine(4, 4, 8);
    let mock = instance(&engine);
    let pending = engine.submit(mock.task(HOLD)).expect("room");
    let late = engine.submit(mock.task(HOLD)).expect("room");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            engine.stop().expect("it stops");
        });
        assert!(matches!(block_on(pending), Err(Error::Stopped)));
    });
    assert!(matches!(block_on(late), Err(Error::Stopped)));
}

#[test]
fn futures_see_the_watchdog() {
    let (engine, _hand) = mock::start(mock::pools(4, 4, 8), Duration::from_millis(100));
    let mock = instance(&engine);
    let pending = engine
        .submit(mock.task(STAND).arg(WORKER_IDLE.into()))
        .expect("room");
    let error = block_on(pending).expect_err("it cannot complete");
    assert!(error.to_string().contains("deadlock"), "{error}");
}
