//! Ring kernels: each message has one result, in order, whether a handler is a closure, CUDA C++ or a module.

use std::time::{Duration, Instant};

use everwarp::buffer::{Buffers, Number, Strategy};
use everwarp::ring::{PROGRAM, Ring, RingError, RingKernel};
use everwarp::{Device, Engine, EngineKind, ProgramRef, Select};
use everwarp_programs::ring_kernels::{REFUSED, busy, count, scale};
use everwarp_testkit::cases;

use crate::ring_module;
use crate::support::{Case, block_on};

const LONG: Duration = Duration::from_secs(60);

pub(crate) const ALL: &[Case] = cases![
    rings_handle_each_message_once_and_in_order,
    rings_divide_a_message_among_threads,
    rings_run_modules_that_keep_their_memory,
    rings_keep_messages_while_they_are_not_active,
    rings_end_after_what_was_sent,
    rings_fail_messages_alone,
    rings_use_buffers_without_copies,
    rings_of_several_kernels_share_an_engine,
    rings_wait_while_the_engine_is_parked,
    rings_that_are_dropped_leave_the_engine,
];

/// An engine that holds a kernel's program.
fn engine(select: Select, program: Option<ProgramRef>) -> (Device, Engine) {
    let device = Device::open(select).expect("the device opens");
    let builder = match device.kind() {
        EngineKind::Cuda => device.engine().program(program.expect("it has CUDA C++")),
        _ => device.engine().program(&PROGRAM),
    };
    let engine = builder.start().expect("the engine starts");
    (device, engine)
}

fn active<I: Number, O: Number>(kernel: RingKernel<I, O>, engine: &Engine) -> Ring<I, O> {
    let ring = kernel.launch(engine).expect("it fits the engine");
    ring.activate().expect("it was launched");
    ring
}

fn counting(select: Select, capacity: usize) -> (Device, Engine, Ring<u64, u64>) {
    let kernel = count()
        .expect("small")
        .capacity(capacity)
        .expect("in range");
    let (device, engine) = engine(select, kernel.cuda_program());
    let ring = active(kernel, &engine);
    (device, engine, ring)
}

/// Messages that no kernel refuses.
fn message(n: u64) -> [u64; 2] {
    [n + REFUSED + 1, 0]
}

fn check(ring: &Ring<u64, u64>, n: u64) {
    let result = ring.receive_timeout(LONG).expect("one for each message");
    assert_eq!((&*result, result.number()), (&[n + REFUSED + 1, n][..], n));
}

fn rings_handle_each_message_once_and_in_order(select: Select) {
    let (_device, _engine, ring) = counting(select, 50);
    let all = 20_000;
    std::thread::scope(|scope| {
        scope.spawn(|| (0..all).for_each(|n| ring.send(&message(n)).expect("it is active")));
        (0..all).for_each(|n| check(&ring, n));
    });
    // Each after the last result, by waiting and by futures.
    for n in all..all + 500 {
        ring.send(&message(n)).expect("it is active");
        check(&ring, n);
    }
    for n in all + 500..all + 1000 {
        block_on(ring.send_async(&message(n))).expect("it is active");
        let result = block_on(ring.receive_async()).expect("a result");
        assert_eq!((result[1], result.number()), (n, n));
    }
    ring.terminate().expect("nothing is left");
    assert_eq!(
        (ring.stats().started, ring.stats().received),
        (all + 1000, all + 1000)
    );
}

fn rings_divide_a_message_among_threads(select: Select) {
    // More and fewer elements than threads, and a number that is no multiple of anything.
    for elements in [1, 100, 100_003] {
        let kernel = scale(elements).expect("it fits").capacity(3);
        let kernel = kernel.expect("in range");
        let (_device, engine) = engine(select, kernel.cuda_program());
        let ring = active(kernel, &engine);
        for round in 0..6 {
            let value = |i: usize| (i % 1000) as f32 + round as f32;
            let message: Vec<f32> = (0..elements).map(value).collect();
            ring.send(&message).expect("it is active");
            let result = ring.receive_timeout(LONG).expect("a result");
            let wrong = (0..elements).find(|&i| result[i] != 2.0 * value(i) + 1.0);
            assert_eq!((wrong, result.len()), (None, elements));
        }
    }
}

fn rings_run_modules_that_keep_their_memory(select: Select) {
    let kernel = ring_module::ring_sums();
    let (_device, engine) = engine(select, kernel.cuda_program());
    let ring = kernel.launch(&engine).expect("it fits the engine");
    ring.activate().expect("it was launched");
    let numbers = [1_i64, 20, 0, -3, 400];
    for n in numbers {
        let mut room = ring.reserve(None).expect("there is room");
        room.bytes().copy_from_slice(&n.to_ne_bytes());
        room.send().expect("it is active");
    }
    let mut sum = 0;
    for (at, n) in numbers.into_iter().enumerate() {
        let result = ring.receive(Some(LONG));
        if n == 0 {
            let failed = result.expect_err("it traps").to_string();
            let expected =
                "message 2: wasm trap: wasm `unreachable` instruction executed, in `sum`";
            assert!(failed.ends_with(expected), "{failed}");
            continue;
        }
        sum += n;
        let expected = [sum, 6 + at as i64, 0x0100_0000_0007];
        let expected: Vec<u8> = expected.iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(result.expect("a result").bytes(), expected);
    }
}

fn rings_keep_messages_while_they_are_not_active(select: Select) {
    let (_device, _engine, ring) = counting(select, 40);
    let mut next = 0;
    for round in 0..30 {
        ring.deactivate().expect("it was active");
        let before = ring.stats();
        let sent = next + 1 + round;
        for n in next..sent {
            ring.send(&message(n)).expect("there is room");
        }
        assert_eq!(ring.stats().started, before.started);
        assert_eq!(ring.stats().waiting as u64, sent - next);
        assert!(matches!(ring.try_receive(), Err(RingError::Empty { .. })));
        ring.activate().expect("it was launched");
        // The next round stops it while some of these are handled.
        let left = sent.saturating_sub(5).max(next);
        (next..left).for_each(|n| check(&ring, n));
        if round % 2 == 0 {
            ring.deactivate().expect("it is active");
            ring.activate().expect("again");
        }
        (left..sent).for_each(|n| check(&ring, n));
        next = sent;
    }
}

fn rings_end_after_what_was_sent(select: Select) {
    for was_active in [true, false] {
        let (_device, _engine, ring) = counting(select, 4);
        if !was_active {
            ring.deactivate().expect("it is active");
        }
        for n in 0..4 {
            ring.send(&message(n)).expect("there is room");
        }
        // No thread receives, and there is room for fewer results than messages.
        let held = was_active.then(|| ring.receive_timeout(LONG).expect("a result"));
        if was_active {
            ring.send(&message(4)).expect("there is room");
        }
        ring.terminate().expect("it drains");
        let refused = ring.send(&message(9));
        assert!(
            matches!(refused, Err(RingError::Ended { .. })),
            "{refused:?}"
        );
        let (first, last) = if was_active { (1, 5) } else { (0, 4) };
        (first..last).for_each(|n| check(&ring, n));
        assert!(matches!(ring.receive(), Err(RingError::Ended { .. })));
        assert_eq!(held.map(|held| held[1]), was_active.then_some(0));
    }
}

fn rings_fail_messages_alone(select: Select) {
    let (_device, _engine, ring) = counting(select, 8);
    for n in [0, REFUSED, 2] {
        ring.send(&[n, 0]).expect("it is active");
    }
    assert_eq!(*ring.receive_timeout(LONG).expect("a result"), [0, 0]);
    let failed = ring.receive_timeout(LONG).expect_err("it is refused");
    let text = "the ring kernel `count` failed for message 1: the handler returned 7";
    assert_eq!(failed.to_string(), text);
    assert_eq!(*ring.receive_timeout(LONG).expect("a result"), [2, 2]);
    assert_eq!(ring.stats().failed, 1);
}

fn rings_use_buffers_without_copies(select: Select) {
    let kernel = scale(64).expect("small");
    let (device, engine) = engine(select, kernel.cuda_program());
    let buffers = Buffers::on(&device, &engine);
    let rows = 32;
    let mut from = buffers
        .zeros::<f32>(&[rows, 64], Strategy::Pinned)
        .expect("small");
    let into = buffers
        .zeros::<f32>(&[rows, 64], Strategy::Pinned)
        .expect("small");
    for (at, value) in from.host_mut().expect("unused").iter_mut().enumerate() {
        *value = at as f32;
    }
    let ring = active(kernel, &engine);
    for row in 0..rows {
        let (message, result) = (from.lend(row..row + 1), into.lend_mut(row..row + 1));
        ring.send_slices(message.expect("unused"), result.expect("unused"))
            .expect("there is room");
        let received = ring.receive_timeout(LONG).expect("a result");
        assert!(received.is_empty(), "it is in the buffer");
        let seen = into.host_rows(row..row + 1).expect("its lease has ended");
        let expected: Vec<f32> = (0..64)
            .map(|at| 2.0 * (row * 64 + at) as f32 + 1.0)
            .collect();
        assert_eq!(*seen, expected[..]);
    }
    // The messages were copied to the device once, and the results back once.
    let bytes = (rows * 64 * 4) as u64;
    assert_eq!(from.transfers().to_device.bytes, bytes);
    assert_eq!(into.transfers().to_host.bytes, bytes);
    if engine.kind() == EngineKind::Cuda {
        let other = Buffers::cpu().zeros::<f32>(&[64], Strategy::Private);
        let other = other.expect("small");
        let refused = ring.send_slice(other.lend(0..64).expect("unused"));
        assert!(
            matches!(refused, Err(RingError::OtherEngine { .. })),
            "{refused:?}"
        );
    }
}

fn rings_of_several_kernels_share_an_engine(select: Select) {
    let first = count().expect("small");
    let (_device, engine) = engine(select, first.cuda_program());
    let first = active(first, &engine);
    first.send(&message(0)).expect("it is active");
    // The same handler again, and one that the engine loads while the first kernel has a message.
    let again = active(count().expect("small"), &engine);
    let other = active(scale(8).expect("small"), &engine);
    check(&first, 0);
    for n in 0..200 {
        first.send(&message(n + 1)).expect("it is active");
        again.send(&message(n)).expect("it is active");
        other.send(&[n as f32; 8]).expect("it is active");
        check(&again, n);
        let result = other.receive_timeout(LONG).expect("a result");
        assert_eq!(*result, [2.0 * n as f32 + 1.0; 8]);
        check(&first, n + 1);
    }
}

fn rings_wait_while_the_engine_is_parked(select: Select) {
    let (_device, engine, ring) = counting(select, 100);
    let mut next = 0;
    for burst in [1, 2, 1, 100, 1, 30] {
        engine.park().expect("it runs");
        for n in next..next + burst {
            ring.send(&message(n)).expect("there is room");
        }
        assert!(matches!(ring.try_receive(), Err(RingError::Empty { .. })));
        engine.resume().expect("it is parked");
        (next..next + burst).for_each(|n| check(&ring, n));
        next += burst;
    }
}

fn rings_that_are_dropped_leave_the_engine(select: Select) {
    let kernel = busy().expect("small");
    let (_device, engine) = engine(select, kernel.cuda_program());
    let mut other = Some(active(kernel, &engine));
    for _ in 0..20 {
        let ring = other.take().expect("there is one");
        for _ in 0..30 {
            ring.send(&[0, 1_000_000]).expect("it is active");
        }
        let begin = Instant::now();
        drop(ring);
        assert!(begin.elapsed() < LONG, "it waits for one message at most");
        let next = active(busy().expect("small"), &engine);
        next.send(&[5, 0]).expect("it is active");
        let result = next.receive_timeout(LONG).expect("the engine goes on");
        assert_eq!(*result, [5, 0]);
        drop(result);
        other = Some(next);
    }
}
