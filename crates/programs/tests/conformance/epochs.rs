//! Parking, swapping, loading and stopping while work is in flight: nothing is lost.

use everwarp::{Device, EngineError, EngineKind, Error, Select};
use everwarp_programs::probe::{self, Probe};
use everwarp_programs::{fib, pingpong};
use everwarp_runtime::{Linked, LinkedEngine};
use everwarp_testkit::cases;

use crate::support::{
    Case, assert_marked_once, least_size, random, range, start, wait_until_marked,
};

pub(crate) const ALL: &[Case] = cases![
    parks_and_resumes_with_other_sizes,
    swaps_under_load,
    exchanges_its_image_under_load,
    stop_ends_the_work_in_flight,
    loads_a_program_while_parked,
];

fn parks_and_resumes_with_other_sizes(select: Select) {
    let engine = start(select);
    let (least, most) = (least_size(engine.kind()), engine.max_size());
    let mut state = 0x9e37_79b9;
    let n = 5_000_000;
    let probe = Probe::new(&engine, n as usize).expect("there is memory");
    let blocks = Probe::new(&engine, 512_000).expect("there is memory");
    let fibs = fib::instance(&engine).expect("fib is there");
    let mut pending = engine
        .submit(probe.instance.task(probe::SPLIT).arg(range(0, n)))
        .expect("room");
    let mut second = engine.submit(fibs.task(fib::CALL).arg(27)).expect("room");
    let mut third = engine
        .submit(
            blocks
                .instance
                .task(probe::SPLIT)
                .tag(2)
                .arg(range(0, 512_000)),
        )
        .expect("room");
    for _ in 0..30 {
        for _ in 0..random(&mut state) % 20_000 {
            std::hint::spin_loop();
        }
        engine.park().expect("it parks");
        let size = least + (random(&mut state) % u64::from(most - least + 1)) as u32;
        engine.resume_with(size).expect("it resumes");
    }
    pending.wait().expect("it runs");
    assert_eq!(second.wait().expect("it runs").value, fib::reference(27));
    third.wait().expect("it runs");
    assert_marked_once(&probe);
    assert_marked_once(&blocks);
}

fn swaps_under_load(select: Select) {
    let engine = start(select);
    let fibs = fib::instance(&engine).expect("fib is there");
    let mut pending: Vec<_> = (0..20)
        .map(|_| engine.submit(fibs.task(fib::CALL).arg(22)).expect("room"))
        .collect();
    for _ in 0..20 {
        engine.swap(None).expect("it swaps");
    }
    for p in &mut pending {
        assert_eq!(p.wait().expect("it runs").value, fib::reference(22));
    }
}

fn exchanges_its_image_under_load(select: Select) {
    let engine = start(select);
    let fibs = fib::instance(&engine).expect("fib is there");
    let mut pending: Vec<_> = (0..20)
        .map(|_| engine.submit(fibs.task(fib::CALL).arg(22)).expect("room"))
        .collect();
    let prepared = engine
        .prepare_linked(Linked::default())
        .expect("it compiles");
    for _ in 0..5 {
        let took = engine.exchange(&prepared).expect("it loads");
        eprintln!(
            "an image of {} bytes exchanged: {took:?}",
            prepared.code.len()
        );
    }
    for p in &mut pending {
        assert_eq!(
            p.wait().expect("nothing was lost").value,
            fib::reference(22)
        );
    }
    engine.park().expect("it parks");
    let parked = engine.exchange(&prepared);
    assert!(
        matches!(parked, Err(Error::Engine(EngineError::Parked { .. }))),
        "{parked:?}"
    );
    engine.resume().expect("it goes on as before");
    let again = engine.run(fibs.task(fib::CALL).arg(10));
    assert_eq!(again.expect("it runs").value, fib::reference(10));
}

/// A chain of four billion tasks has certainly not ended when the engine stops; the task that is queued with it may have.
fn stop_ends_the_work_in_flight(select: Select) {
    let engine = start(select);
    // Fewer where the memory that programs reach may have only 128 MiB.
    let places = match engine.kind() {
        EngineKind::Wgpu => 10_000_000,
        _ => 20_000_000,
    };
    let probe = Probe::new(&engine, places as usize).expect("there is memory");
    let queued = probe.instance.task(probe::SPLIT).arg(range(0, places));
    let mut queued = engine.submit(queued).expect("room");
    let chain = Probe::new(&engine, 1).expect("there is memory");
    let task = chain.instance.task(probe::CHAIN).args(0, u32::MAX);
    let mut pending = engine.submit(task).expect("room");
    wait_until_marked(&chain, 1);
    assert!(!pending.is_done(), "the chain still runs");
    engine.stop().expect("it stops");
    let outcome = pending.wait();
    assert!(matches!(outcome, Err(Error::Stopped)), "{outcome:?}");
    let outcome = queued.wait();
    assert!(
        matches!(outcome, Ok(_) | Err(Error::Stopped)),
        "{outcome:?}"
    );
    let again = engine.submit(probe.instance.task(probe::MARK));
    assert!(
        matches!(again, Err(Error::Stopped)),
        "submitting after stop is an error"
    );
}

fn loads_a_program_while_parked(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = device
        .engine()
        .program(&fib::PROGRAM)
        .start()
        .expect("it starts");
    let fibs = fib::instance(&engine).expect("fib is there");
    let mut pending = engine.submit(fibs.task(fib::CALL).arg(26)).expect("room");
    assert!(matches!(
        pingpong::instance(&engine),
        Err(Error::UnknownProgram { .. })
    ));
    let running = engine.load(&pingpong::PROGRAM);
    assert!(
        matches!(running, Err(Error::Engine(EngineError::NotParked { .. }))),
        "{running:?}"
    );
    engine.park().expect("it parks");
    engine.load(&pingpong::PROGRAM).expect("it loads");
    engine.resume().expect("it resumes");
    let instance = pingpong::instance(&engine).expect("pingpong is there now");
    assert_eq!(
        pingpong::run(&engine, &instance, 7).expect("it runs"),
        pingpong::reference(7)
    );
    assert_eq!(
        pending.wait().expect("nothing was lost").value,
        fib::reference(26)
    );
}
