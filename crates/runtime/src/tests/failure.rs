//! Errors are found, named, and final.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use everwarp_contract::telemetry::{WORKER_IDLE, WORKER_RUNNING, WORKER_STARVED};
use everwarp_contract::{TokenId, fault};

use super::instance;
use crate::device::{Device, Select};
use crate::engine::Engine;
use crate::error::{Error, StuckReason};
use crate::mock::{self, ASTRAY, ECHO, FAULT, HOLD, STAND, TWICE};

/// Submits one task that never completes, waits for it, and checks that the engine has ended. Returns the error.
fn ends(function: u32, arg: u32) -> Error {
    let watchdog = Duration::from_millis(100);
    let (engine, _hand) = mock::start(mock::pools(4, 4, 8), watchdog);
    let mock = instance(&engine);
    let begin = Instant::now();
    let mut pending = engine
        .submit(mock.task(function).arg(arg.into()))
        .expect("room");
    let mut other = engine.submit(mock.task(HOLD)).expect("room");
    let error = pending.wait().expect_err("it cannot complete");
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "the watchdog is late"
    );
    let lost = |error: Error| assert!(matches!(error, Error::Lost { .. }), "{error}");
    lost(other.wait().expect_err("the engine is lost"));
    lost(pending.wait().expect_err("the engine is lost"));
    lost(
        engine
            .submit(mock.task(ECHO))
            .expect_err("the engine is lost"),
    );
    lost(engine.buffer::<u8>(1).expect_err("the engine is lost"));
    lost(engine.park().expect_err("the engine is lost"));
    lost(engine.stop().expect_err("the engine is lost"));
    error
}

#[test]
fn task_that_does_not_end_is_named_in_the_error() {
    let error = ends(STAND, WORKER_RUNNING);
    assert!(
        matches!(
            error,
            Error::Stuck {
                reason: StuckReason::Running,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("1 running mock/stand"),
        "{error}"
    );
}

#[test]
fn deadlock_and_hang_are_different_errors() {
    let error = ends(STAND, WORKER_IDLE);
    assert!(
        matches!(
            error,
            Error::Stuck {
                reason: StuckReason::Deadlock,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn exhausted_pool_is_named_in_the_error() {
    let error = ends(STAND, WORKER_STARVED);
    assert!(
        matches!(
            error,
            Error::PoolExhausted {
                tasks: 64,
                task_refusals: 3,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().ends_with("Pools::tasks"), "{error}");
}

#[test]
fn faults_name_the_function_and_the_fix() {
    let error = ends(FAULT, fault::FAULT_SPAWN_LIMIT);
    let text = error.to_string();
    assert!(
        matches!(error, Error::Fault { detail: 0xbad, .. }),
        "{text}"
    );
    assert!(
        text.contains("mock/fault") && text.contains("max_spawn"),
        "{text}"
    );
}

/// Lets the engine complete a submission that is not in flight, and checks that every call reports it from then on.
fn bogus(function: u32, arg: u64) -> TokenId {
    let (engine, _hand) = super::engine(4, 4, 8);
    let mock = instance(&engine);
    let mut held = engine.submit(mock.task(HOLD)).expect("room");
    let mut future = engine.submit(mock.task(HOLD)).expect("room");
    let waker = Waker::noop();
    let poll = pin!(&mut future).poll(&mut Context::from_waker(waker));
    assert!(poll.is_pending());
    drop(engine.submit(mock.task(function).arg(arg)).expect("room"));
    let first = |error| match error {
        Error::BogusCompletion { token, count: 1 } => token,
        other => panic!("another error: {other}"),
    };
    let token = first(held.wait().expect_err("the engine is lost"));
    assert_eq!(token, first(future.wait().expect_err("the engine is lost")));
    assert_eq!(
        token,
        first(engine.submit(mock.task(ECHO)).expect_err("lost"))
    );
    assert_eq!(token, first(engine.park().expect_err("lost")));
    token
}

#[test]
fn completion_of_an_unknown_token_ends_the_engine() {
    assert_eq!(bogus(ASTRAY, 1000), TokenId(1000));
    assert_eq!(bogus(ASTRAY, 3), TokenId(3), "a free token");
}

#[test]
fn second_completion_of_a_token_ends_the_engine() {
    assert_eq!(bogus(TWICE, 7), TokenId(2));
}

#[test]
fn full_ring_of_a_parked_engine_does_not_block_for_ever() {
    let (engine, _hand) = super::engine(4, 16, 8);
    let mock = instance(&engine);
    engine.park().expect("it parks");
    let error = (0..5)
        .find_map(|_| engine.submit(mock.task(ECHO)).err())
        .expect("the ring has four slots");
    assert!(matches!(error, Error::Parked), "{error}");
}

#[test]
fn stop_is_final() {
    let (engine, _hand) = super::engine(4, 4, 8);
    let mock = instance(&engine);
    let mut held = engine.submit(mock.task(HOLD)).expect("room");
    let mut done = engine.submit(mock.task(ECHO).arg(9)).expect("room");
    while !done.is_done() {
        std::thread::yield_now();
    }
    engine.stop().expect("it stops");
    assert_eq!(done.wait().expect("it was done before").value, 9);
    assert!(matches!(held.wait(), Err(Error::Stopped)));
    assert!(matches!(
        engine.submit(mock.task(ECHO)),
        Err(Error::Stopped)
    ));
    assert!(matches!(
        engine.submit_all(&[mock.task(ECHO).build()]),
        Err(Error::Stopped)
    ));
    assert!(matches!(engine.resume(), Err(Error::Stopped)));
    assert!(matches!(engine.stop(), Err(Error::Stopped)));
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    let (engine, _hand) = super::engine(4, 4, 8);
    let mock = instance(&engine);
    let buffer = engine.buffer::<u64>(2).expect("memory");
    let mut pending = engine.submit(mock.task(ECHO).arg(1)).expect("room");
    drop(engine);
    assert_eq!(pending.wait().expect("the engine lives on").value, 1);
    drop(mock);
    drop(pending);
    buffer.write(&[1, 2]).expect("it is still there");
}

#[test]
fn handles_cross_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Engine>();
    shared::<crate::Buffer<u8>>();
    shared::<crate::Instance>();
    shared::<crate::Pending>();
    shared::<Error>();
}

#[test]
fn devices_are_chosen_by_name() {
    assert_eq!("cpu".parse::<Select>().expect("it is known"), Select::Cpu);
    let error = "gpu"
        .parse::<Select>()
        .expect_err("there is none")
        .to_string();
    assert!(
        ["cpu", "cuda", "auto"]
            .iter()
            .all(|name| error.contains(name)),
        "{error}"
    );
    let device = Device::open(Select::Auto).expect("there is always one");
    assert!(!device.why().is_empty() && !device.name().is_empty());
}
