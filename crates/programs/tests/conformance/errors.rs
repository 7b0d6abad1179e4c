//! Faults, tasks that never end and wrong calls: each is an error that says what happened.

use std::time::Duration;

use everwarp::{Device, Engine, EngineError, EngineKind, Error, Pools, Select};
use everwarp_programs::noop;
use everwarp_programs::probe::{self, Probe};
use everwarp_testkit::cases;

use crate::support::{Case, small, start, with};

pub(crate) const ALL: &[Case] = cases![
    endless_spawning_is_an_error,
    a_task_that_does_not_end_is_an_error,
    a_fault_names_its_function,
    misuse_is_a_typed_error,
    second_engine_on_a_gpu_is_refused,
];

fn endless_spawning_is_an_error(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = small(select, &device)
        .watchdog(Duration::from_secs(1))
        .start()
        .expect("it starts");
    let probe = Probe::new(&engine, 1).expect("there is memory");
    let mut pending = engine
        .submit(probe.instance.task(probe::ENDLESS))
        .expect("room");
    let error = pending.wait().expect_err("it cannot end");
    assert!(matches!(error, Error::PoolExhausted { .. }), "{error}");
    let later = engine.submit(probe.instance.task(probe::MARK));
    assert!(matches!(later, Err(Error::Lost { .. })), "{later:?}");
}

fn a_task_that_does_not_end_is_an_error(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = with(&device)
        .watchdog(Duration::from_secs(1))
        .start()
        .expect("it starts");
    let probe = Probe::new(&engine, 1).expect("there is memory");
    let mut pending = engine
        .submit(probe.instance.task(probe::HANG))
        .expect("room");
    let error = pending.wait().expect_err("it does not end");
    let text = error.to_string();
    assert!(
        matches!(error, Error::Stuck { .. }) && text.contains("running probe/hang"),
        "{text}"
    );
    // A thread or kernel that does not end must not keep the process, so the exit waits for nothing.
    std::process::exit(0);
}

fn a_fault_names_its_function(select: Select) {
    for (function, arg, expected) in [
        (
            probe::GREEDY,
            0,
            "spawned more than its function declares in probe/greedy",
        ),
        (
            probe::FAULT,
            77,
            "the program reported a fault in probe/fault (detail 0x4d)",
        ),
    ] {
        let engine = start(select);
        let probe = Probe::new(&engine, 8).expect("there is memory");
        let mut pending = engine
            .submit(probe.instance.task(function).arg(arg))
            .expect("room");
        // The greedy task may still complete; a wait soon afterwards returns the fault.
        let mut error = pending.wait().err();
        for _ in 0..1000 {
            if error.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            error = engine.run(probe.instance.task(probe::MARK)).err();
        }
        let text = error.expect("a fault").to_string();
        assert!(text.contains(expected), "{text}");
    }
}

fn misuse_is_a_typed_error(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = with(&device).start().expect("it starts");
    let instance = noop::instance(&engine).expect("noop is there");
    let mut pending = engine.submit(instance.task(noop::NOTHING)).expect("room");
    pending.wait().expect("it runs");
    assert!(matches!(pending.wait(), Err(Error::AlreadyTaken)));
    assert!(matches!(engine.submit_batch(&[]), Err(Error::BatchEmpty)));
    // A GPU holds one resident engine.
    if device.kind() == EngineKind::Cpu {
        let second = with(&device).start().expect("it starts");
        assert!(matches!(
            second.submit(instance.task(0)),
            Err(Error::OtherEngine)
        ));
    }
    engine.park().expect("it parks");
    let mut pending = engine.submit(instance.task(noop::NOTHING)).expect("room");
    assert!(matches!(pending.wait(), Err(Error::Parked)));
    assert!(matches!(
        pending.wait_timeout(Duration::from_millis(10)),
        Err(Error::Timeout { .. })
    ));
    let size = engine.resume_with(engine.max_size() + 1);
    assert!(
        matches!(size, Err(Error::Engine(EngineError::Size { .. }))),
        "{size:?}"
    );
    engine.resume().expect("it resumes");
    pending.wait().expect("it runs");
    let buffer = engine.buffer::<u32>(4).expect("there is memory");
    assert!(matches!(
        buffer.write(&[0; 5]),
        Err(Error::OutOfBounds { .. })
    ));
    let pools = Pools {
        tokens: 3,
        ..Pools::default()
    };
    let odd = device.engine().program(&noop::PROGRAM).pools(pools).start();
    assert!(
        matches!(odd, Err(Error::Engine(EngineError::Pool { .. }))),
        "{odd:?}"
    );
}

fn second_engine_on_a_gpu_is_refused(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let runs = |engine: &Engine| {
        let instance = noop::instance(engine).expect("noop is there");
        engine.run(instance.task(noop::NOTHING)).expect("it runs");
    };
    let first = with(&device).start().expect("it starts");
    // Two engines of wgpu take turns, which takes long on a software adapter.
    let second = (device.kind() != EngineKind::Wgpu).then(|| with(&device).start());
    match (device.kind(), second) {
        (EngineKind::Cuda, Some(Err(Error::Engine(EngineError::Occupied { device: named })))) => {
            assert_eq!(named, device.name());
        }
        (EngineKind::Cpu, Some(Ok(second))) => runs(&second),
        (EngineKind::Wgpu, None) => {}
        (kind, second) => panic!("{kind}: {second:?}"),
    }
    runs(&first);
    drop(first);
    runs(&with(&device).start().expect("the device is free again"));
}
