use std::ffi::c_void;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use everwarp_buffer::{BufferError, Buffers, DType, Holder, Number, Shape, Side, Strategy, Use};
use everwarp_ring::{
    CHandler, Failure, PROGRAM, RawKernel, Ring, RingError, RingKernel, Signature,
};
use everwarp_runtime::{Device, Engine, Pools, Select};

const LONG: Duration = Duration::from_secs(60);

fn launch<I: Number, O: Number>(kernel: RingKernel<I, O>, engine: &Engine) -> Ring<I, O> {
    let kernel = match AS_DEVICE {
        true => kernel.as_device(),
        false => kernel,
    };
    kernel.launch(engine).expect("it fits the CPU engine")
}

fn engine() -> Engine {
    let device = Device::open(Select::Cpu).expect("the host has cores");
    device
        .engine()
        .program(&PROGRAM)
        .size(2)
        .start()
        .expect("the engine starts")
}

/// A kernel that adds its number of messages so far, so that a message that is handled twice or out of turn is seen.
fn counting(engine: &Engine, capacity: usize) -> Ring<u64, u64> {
    let mut handled = 0;
    let kernel = RingKernel::new(
        "count",
        &[2],
        &[2],
        move |input: &[u64], output: &mut [u64]| {
            output.copy_from_slice(&[input[0], handled]);
            handled += 1;
            Ok(())
        },
    );
    let kernel = kernel
        .and_then(|kernel| kernel.capacity(capacity))
        .expect("it is small");
    launch(kernel, engine)
}

#[test]
fn a_thousand_messages_come_back_once_and_in_order() {
    let ring = counting(&engine(), 7);
    ring.activate().expect("it was launched");
    std::thread::scope(|scope| {
        scope.spawn(|| (0..10_000_u64).for_each(|n| ring.send(&[n, 0]).expect("it is active")));
        for n in 0..10_000_u64 {
            let result = ring.receive_timeout(LONG).expect("one for each message");
            assert_eq!((&*result, result.number()), (&[n, n][..], n));
        }
    });
    assert!(matches!(ring.try_receive(), Err(RingError::Empty { .. })));
    ring.terminate().expect("nothing is left");
    assert_eq!(
        (ring.stats().started, ring.stats().received),
        (10_000, 10_000)
    );
}

#[test]
fn messages_of_several_senders_are_each_handled_once_and_in_each_senders_order() {
    let ring = counting(&engine(), 16);
    ring.activate().expect("it was launched");
    let (senders, each) = (4_u64, 2_000_u64);
    let received = std::thread::scope(|scope| {
        for sender in 0..senders {
            let ring = &ring;
            scope.spawn(move || {
                (0..each).for_each(|n| ring.send(&[sender << 32 | n, 0]).expect("active"));
            });
        }
        let one = || {
            (0..senders * each / 2).map(|_| {
                let result = ring.receive_timeout(LONG).expect("one for each message");
                (result.number(), result[0], result[1])
            })
        };
        let other = scope.spawn(move || one().collect::<Vec<_>>());
        let mut all: Vec<_> = one().collect();
        all.extend(other.join().expect("it received its half"));
        all
    });
    let mut received = received;
    received.sort_unstable();
    let mut next = [0; 4];
    for (at, (number, value, handled)) in received.into_iter().enumerate() {
        assert_eq!(
            (number, handled),
            (at as u64, at as u64),
            "once, and in order"
        );
        let (sender, n) = ((value >> 32) as usize, value & 0xffff_ffff);
        assert_eq!(n, next[sender], "in the order of its sender");
        next[sender] += 1;
    }
    assert_eq!(next, [each; 4]);
}

#[test]
fn a_full_stream_says_so_and_a_waiting_sender_goes_on_when_there_is_room() {
    let ring = counting(&engine(), 3);
    for n in 0..3 {
        ring.try_send(&[n, 0]).expect("there is room");
    }
    let text = ring.try_send(&[3, 0]).expect_err("three wait").to_string();
    assert!(text.contains("`count` has 3 messages waiting"), "{text}");
    let waited = ring.raw().reserve(Some(Duration::from_millis(5)));
    let text = waited
        .map(drop)
        .expect_err("nothing is handled")
        .to_string();
    assert!(
        text.contains("no room") && text.contains("not active"),
        "{text}"
    );
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| ring.send(&[3, 0]));
        ring.activate().expect("it was launched");
        sender.join().expect("no panic").expect("room came");
        for n in 0..4 {
            assert_eq!(ring.receive_timeout(LONG).expect("a result")[0], n);
        }
    });
}

#[test]
fn results_that_are_not_received_stop_the_kernel_until_they_are() {
    let ring = counting(&engine(), 2);
    ring.activate().expect("it was launched");
    // Two results, then two messages that wait.
    for n in 0..4 {
        ring.send(&[n, 0]).expect("there is room in the end");
    }
    assert!(matches!(
        ring.try_send(&[4, 0]),
        Err(RingError::Full { .. })
    ));
    let first = ring.receive_timeout(LONG).expect("a result");
    assert_eq!(ring.stats().started, 2, "its slot is in use");
    assert_eq!(*first, [0, 0]);
    drop(first);
    ring.send(&[4, 0]).expect("a slot was free");
    for n in 1..5 {
        assert_eq!(ring.receive_timeout(LONG).expect("a result")[0], n);
    }
}

#[test]
fn a_kernel_that_is_not_active_keeps_its_messages() {
    let ring = counting(&engine(), 8);
    ring.send(&[1, 0]).expect("there is room");
    let waited = ring
        .receive_timeout(Duration::from_millis(5))
        .expect_err("it is not active");
    assert!(waited.to_string().contains("not active"), "{waited}");
    ring.activate().expect("it was launched");
    assert_eq!(ring.receive_timeout(LONG).expect("a result")[0], 1);
    ring.deactivate().expect("it is active");
    for n in 2..6 {
        ring.send(&[n, 0]).expect("there is room");
    }
    assert_eq!((ring.stats().waiting, ring.stats().started), (4, 1));
    ring.activate().expect("again");
    ring.activate().expect("once more does nothing");
    for n in 2..6 {
        assert_eq!(ring.receive_timeout(LONG).expect("a result")[0], n);
    }
}

#[test]
fn no_handler_runs_after_deactivate_has_returned() {
    let runs = Arc::new(AtomicBool::new(false));
    let inside = runs.clone();
    let kernel = RingKernel::new("slow", &[1], &[1], move |_: &[u8], _: &mut [u8]| {
        inside.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        inside.store(false, Ordering::SeqCst);
        Ok(())
    });
    let ring = launch(kernel.expect("small"), &engine());
    for _ in 0..20 {
        ring.send(&[0]).expect("there is room");
    }
    for _ in 0..5 {
        ring.activate().expect("it was launched");
        drop(ring.receive_timeout(LONG).expect("a result"));
        ring.deactivate().expect("it is active");
        assert!(!runs.load(Ordering::SeqCst));
        let before = ring.stats().started;
        std::thread::yield_now();
        assert_eq!(ring.stats().started, before);
    }
}

#[test]
fn terminate_handles_what_was_sent_and_takes_nothing_more() {
    for active in [true, false] {
        let ring = counting(&engine(), 4);
        if active {
            ring.activate().expect("it was launched");
        }
        for n in 0..4 {
            ring.send(&[n, 0]).expect("there is room");
        }
        // No thread receives, and there is room for fewer results than messages.
        let held = active.then(|| ring.receive_timeout(LONG).expect("a result"));
        if active {
            ring.send(&[4, 0]).expect("there is room");
        }
        ring.terminate().expect("it drains");
        ring.terminate().expect("again does nothing");
        for refused in [ring.send(&[9, 0]), ring.activate(), ring.deactivate()] {
            assert!(
                matches!(refused, Err(RingError::Ended { .. })),
                "{refused:?}"
            );
        }
        let (first, last) = if active { (1, 5) } else { (0, 4) };
        for n in first..last {
            assert_eq!(*ring.receive().expect("results stay"), [n, n]);
        }
        assert!(matches!(ring.receive(), Err(RingError::Ended { .. })));
        assert_eq!(held.map(|held| held[0]), active.then_some(0));
    }
}

#[test]
fn a_handler_that_fails_or_panics_fails_its_message_alone() {
    let kernel =
        RingKernel::new(
            "picky",
            &[1],
            &[1],
            |input: &[i32], output: &mut [i32]| match input[0] {
                1 => Err(Failure::new("one is not taken")),
                2 => panic!("two is worse"),
                n => {
                    output[0] = n;
                    Ok(())
                }
            },
        );
    let ring = launch(kernel.expect("small"), &engine());
    ring.activate().expect("it was launched");
    for n in 0..4 {
        ring.send(&[n]).expect("there is room");
    }
    assert_eq!(ring.receive().expect("zero is taken")[0], 0);
    let failed = ring.receive().expect_err("one is not").to_string();
    // Device code says why in a number.
    let why = |text: &'static str| if AS_DEVICE { "the handler returned 1" } else { text };
    assert_eq!(
        failed,
        format!(
            "the ring kernel `picky` failed for message 1: {}",
            why("one is not taken")
        )
    );
    let failed = ring.receive().expect_err("two panics").to_string();
    assert!(
        failed.contains("message 2: ")
            && failed.ends_with(why("the handler panicked: two is worse")),
        "{failed}"
    );
    assert_eq!(ring.receive().expect("three is taken")[0], 3);
    assert_eq!(ring.stats().failed, 2);
}

#[test]
fn slices_of_buffers_go_through_without_copies() {
    let engine = engine();
    let buffers = Buffers::cpu();
    let rows = 64;
    let mut from = buffers
        .zeros::<f32>(&[rows, 8], Strategy::Pinned)
        .expect("small");
    let into = buffers
        .zeros::<f32>(&[rows, 8], Strategy::Pinned)
        .expect("small");
    for (at, value) in from.host_mut().expect("unused").iter_mut().enumerate() {
        *value = at as f32;
    }
    let begin = from.device().expect("unused").ptr().address();
    let seen = Arc::new(AtomicU64::new(u64::MAX));
    let first = seen.clone();
    let kernel = RingKernel::new(
        "add",
        &[8],
        &[8],
        move |input: &[f32], output: &mut [f32]| {
            first.fetch_min(input.as_ptr().addr() as u64, Ordering::Relaxed);
            input
                .iter()
                .zip(output)
                .for_each(|(from, to)| *to = from + 0.5);
            Ok(())
        },
    );
    let ring = launch(kernel.expect("small"), &engine);
    for row in 0..4 {
        let (message, result) = (from.lend(row..row + 1), into.lend_mut(row..row + 1));
        ring.send_slices(message.expect("unused"), result.expect("unused"))
            .expect("room");
    }
    // The rows are in flight.
    let refused = into
        .host_rows(2..3)
        .expect_err("the kernel writes it")
        .to_string();
    assert!(refused.contains("cases.rs"), "{refused}");
    assert!(from.host_rows(2..3).is_ok() && from.host_mut().is_err());
    ring.activate().expect("it was launched");
    for row in 0..rows {
        let result = ring.receive_timeout(LONG).expect("a result");
        assert!(result.is_empty(), "it is in the buffer");
        let seen = into.host_rows(row..row + 1).expect("its lease has ended");
        let expected: Vec<f32> = (0..8).map(|at| (row * 8 + at) as f32 + 0.5).collect();
        assert_eq!(*seen, expected[..]);
        drop(seen);
        let next = row + 4;
        if next < rows {
            let (message, result) = (from.lend(next..next + 1), into.lend_mut(next..next + 1));
            ring.send_slices(message.expect("unused"), result.expect("unused"))
                .expect("room");
        }
    }
    assert_eq!(
        seen.load(Ordering::Relaxed),
        begin,
        "the handler saw the buffer itself"
    );
    let wrong = ring
        .send_slice(from.lend(0..2).expect("unused"))
        .expect_err("two rows");
    assert!(
        wrong
            .to_string()
            .contains("is f32 of the shape (8,), and 16 x f32 was given"),
        "{wrong}"
    );
    let elsewhere = Buffers::split()
        .zeros::<f32>(&[8], Strategy::Private)
        .expect("small");
    let other = ring.send_slice(elsewhere.lend(0..8).expect("unused"));
    assert!(matches!(other, Err(RingError::OtherEngine { .. })));
}

#[test]
fn messages_of_another_length_and_impossible_capacities_are_refused() {
    let ring = counting(&engine(), 1);
    let wrong = ring.send(&[1, 2, 3]).expect_err("three").to_string();
    assert!(
        wrong
            .contains("a message of the ring kernel `count` is u64 of the shape (2,), and 3 x u64")
    );
    let kernel = RingKernel::new("none", &[1], &[1], |_: &[u8], _: &mut [u8]| Ok(()));
    let refused = kernel
        .expect("small")
        .capacity(0)
        .expect_err("no room at all");
    assert!(refused.to_string().contains("1 to 1048576 messages, not 0"));
}

#[test]
fn a_kernel_on_an_engine_that_has_ended_says_so() {
    let engine = engine();
    let ring = counting(&engine, 4);
    ring.activate().expect("it was launched");
    ring.send(&[1, 0]).expect("there is room");
    assert_eq!(ring.receive_timeout(LONG).expect("a result")[0], 1);
    engine.stop().expect("it runs");
    let ended = ring.send(&[2, 0]).and_then(|()| ring.receive().map(drop));
    assert!(matches!(ended, Err(RingError::Engine(_))), "{ended:?}");
    drop(ring);
}

#[test]
fn an_engine_without_the_program_loads_it_and_is_parked_between_messages() {
    let device = Device::open(Select::Cpu).expect("the host has cores");
    let engine = device.engine().size(1).start().expect("it starts");
    let ring = counting(&engine, 4);
    ring.activate().expect("it was launched");
    for n in 0..50 {
        engine.park().expect("it runs");
        ring.send(&[n, 0]).expect("there is room");
        assert!(
            matches!(ring.try_receive(), Err(RingError::Empty { .. })),
            "it is parked"
        );
        engine.resume().expect("it is parked");
        assert_eq!(ring.receive_timeout(LONG).expect("a result")[0], n);
    }
    // A stream's length at once.
    let ring = counting(&engine, 200);
    ring.activate().expect("it was launched");
    engine.park().expect("it runs");
    for n in 0..200 {
        ring.try_send(&[n, 0]).expect("there is room");
    }
    engine.resume().expect("it is parked");
    for n in 0..200 {
        assert_eq!(ring.receive_timeout(LONG).expect("a result")[0], n);
    }
}

#[test]
fn kernels_that_never_rest_share_a_worker_with_others() {
    let device = Device::open(Select::Cpu).expect("the host has cores");
    let engine = device
        .engine()
        .program(&PROGRAM)
        // Kicks are tasks of the host. A worker that has other tasks takes few of them at a time.
        .size(if AS_DEVICE { 2 } else { 1 })
        .start()
        .expect("it starts");
    let busy = RingKernel::new("busy", &[1], &[1], |_: &[u8], _: &mut [u8]| {
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    let busy = busy.expect("small").capacity(4096).expect("in range");
    let busy = launch(busy, &engine);
    busy.activate().expect("it was launched");
    for _ in 0..4096 {
        busy.send(&[0]).expect("there is room");
    }
    let quick = counting(&engine, 4);
    quick.activate().expect("it was launched");
    for n in 0..10 {
        quick.send(&[n, 0]).expect("there is room");
        assert_eq!(quick.receive_timeout(LONG).expect("it has its turn")[0], n);
    }
    assert!(
        busy.stats().started < 4096,
        "the quick one did not wait for all"
    );
    // Dropped with messages that wait and a handler that runs.
    drop(busy);
    quick.send(&[10, 0]).expect("there is room");
    assert_eq!(quick.receive_timeout(LONG).expect("it goes on")[0], 10);
}

#[test]
fn futures_need_no_executor_of_ours() {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let ring = counting(&engine(), 2);
    ring.activate().expect("it was launched");
    let talk = async {
        let mut sum = 0;
        for n in 0..500 {
            ring.send_async(&[n, 0]).await?;
            sum += ring.receive_async().await?[0];
        }
        Ok::<_, RingError>(sum)
    };
    let mut talk = pin!(talk);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let sum = loop {
        match talk.as_mut().poll(&mut cx) {
            Poll::Ready(sum) => break sum.expect("it is active"),
            Poll::Pending => std::thread::park_timeout(LONG),
        }
    };
    assert_eq!(sum, 499 * 500 / 2);
}

#[test]
fn a_stream_may_have_more_messages_than_an_engine_has_places_for_submissions() {
    let device = Device::open(Select::Cpu).expect("the host has cores");
    let pools = Pools {
        tokens: 64,
        ..Pools::default()
    };
    let builder = device.engine().program(&PROGRAM).pools(pools).size(2);
    let engine = builder.start().expect("it starts");
    let sent = Arc::new(AtomicBool::new(false));
    let all = sent.clone();
    let patient = move |input: &[u64], output: &mut [u64]| {
        // The task that handles the first message lasts until all others were sent.
        while !all.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        output[0] = input[0];
        Ok(())
    };
    let kernel = RingKernel::new("patient", &[1], &[1], patient);
    let kernel = kernel.expect("small").capacity(500).expect("in range");
    let ring = launch(kernel, &engine);
    ring.activate().expect("it was launched");
    (0..500).for_each(|n| ring.send(&[n]).expect("it is active"));
    sent.store(true, Ordering::SeqCst);
    for n in 0..500 {
        assert_eq!(ring.receive_timeout(LONG).expect("a result")[0], n);
    }
}

unsafe extern "C" fn running_sum(
    input: *const c_void,
    inputs: u64,
    output: *mut c_void,
    outputs: u64,
    state: *mut c_void,
) -> i32 {
    assert!(outputs == 1 && !state.is_null());
    // SAFETY: the test passes f64 and a state of one i64.
    unsafe {
        let input = std::slice::from_raw_parts(input.cast::<f64>(), inputs as usize);
        if input[0] < 0.0 {
            return 7;
        }
        *state.cast::<i64>() += 1;
        *output.cast::<f64>() = input.iter().sum::<f64>();
    }
    0
}

#[test]
fn a_function_of_c_is_a_handler_with_a_state() {
    let state = Buffers::cpu()
        .raw(DType::I64, &[1], Strategy::Private)
        .expect("small");
    let lease = state.lease(Use::writes(Side::Device), Holder::here("a state"));
    let signature = |n: usize| Signature {
        dtype: DType::F64,
        shape: Shape::new(&[n]).expect("small"),
    };
    let (input, output) = (signature(3), signature(1));
    let lease = Some(lease.expect("unused"));
    // SAFETY: the function is as the handler needs it, and static.
    let handler = unsafe { CHandler::new(running_sum, &input, &output, lease, ()) };
    let ring = RawKernel::new("sum", input, output, handler)
        .launch(&engine())
        .expect("it fits");
    ring.activate().expect("it was launched");
    for numbers in [[1.0, 2.0, 3.5_f64], [-1.0, 0.0, 0.0], [4.0, 0.0, 0.0]] {
        let mut room = ring.reserve(None).expect("there is room");
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        room.bytes().copy_from_slice(&bytes);
        room.send().expect("it is active");
    }
    let first = ring.receive(Some(LONG)).expect("a result");
    assert_eq!(first.bytes(), 6.5_f64.to_ne_bytes());
    let failed = ring
        .receive(Some(LONG))
        .expect_err("a negative number")
        .to_string();
    assert!(
        failed.ends_with("message 1: the handler returned 7"),
        "{failed}"
    );
    assert_eq!(
        ring.receive(Some(LONG)).expect("a result").bytes(),
        4.0_f64.to_ne_bytes()
    );
    let read = state.lease(Use::reads(Side::Host), Holder::here("a look"));
    assert!(
        matches!(read, Err(BufferError::InUse(_))),
        "the kernel has its state"
    );
    ring.terminate(None).expect("nothing waits");
    let read = state
        .lease(Use::reads(Side::Host), Holder::here("a look"))
        .expect("it has ended");
    // SAFETY: the lease is for one number.
    assert_eq!(unsafe { *read.host_address().cast::<i64>() }, 2);
}
