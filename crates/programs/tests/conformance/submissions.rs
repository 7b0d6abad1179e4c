//! The host's end: batches, full rings, small pools, priorities.

use everwarp::{Device, Engine, EngineKind, Error, Pools, Priority, Select};
use everwarp_programs::fib;
use everwarp_programs::probe::{self, Probe};
use everwarp_testkit::cases;

use crate::support::{
    Case, assert_marked_once, least_size, mark_all, small, start, wait_until_marked, with,
};

pub(crate) const ALL: &[Case] = cases![
    batches_run_every_task_once,
    ten_million_from_the_host,
    full_rings_push_back,
    small_pools_suffice,
    many_batches_need_no_larger_pools,
    urgent_work_overtakes,
];

fn batches_run_every_task_once(select: Select) {
    let engine = start(select);
    for count in [1u32, 31, 32, 33, 1000, 100_000] {
        let probe = Probe::new(&engine, count as usize).expect("there is memory");
        let tasks: Vec<_> = (0..count)
            .map(|i| probe.instance.task(probe::MARK).arg(i.into()).build())
            .collect();
        engine
            .submit_batch(&tasks)
            .and_then(|mut p| p.wait())
            .expect("it runs");
        assert_marked_once(&probe);
    }
}

fn ten_million_from_the_host(select: Select) {
    let engine = start(select);
    let n = 10_000_000;
    let probe = Probe::new(&engine, n as usize).expect("there is memory");
    let tasks: Vec<_> = (0..n)
        .map(|i| probe.instance.task(probe::MARK).arg(i).build())
        .collect();
    engine.submit_all(&tasks).expect("it runs");
    assert_marked_once(&probe);
}

fn full_rings_push_back(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let pools = Pools {
        submission_slots: 4,
        tokens: 8,
        arena_tasks: 64,
        ..Pools::default()
    };
    let engine = with(&device).pools(pools).start().expect("it starts");
    let probe = Probe::new(&engine, 5000).expect("there is memory");
    engine.park().expect("it parks");
    let task = |i: u64| probe.instance.task(probe::MARK).arg(i);
    let mut pending = Vec::new();
    let refused = loop {
        match engine.try_submit(task(pending.len() as u64)) {
            Ok(p) => pending.push(p),
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert_eq!(pending.len(), 4, "one for each slot of the ring");
    engine.resume().expect("it resumes");
    // submit() waits for room; dropping its result leaves the work in flight.
    for i in 4..5000 {
        drop(engine.submit(task(i)).expect("room comes"));
    }
    for mut p in pending {
        p.wait().expect("it runs");
    }
    let tasks = vec![task(0).build(); 65];
    assert!(matches!(
        engine.try_submit_batch(&tasks),
        Err(Error::BatchTooLarge { .. })
    ));
    engine.park().expect("it parks");
    engine.resume().expect("it resumes");
    engine.run(task(0)).expect("it runs");
    wait_until_marked(&probe, 5001);
}

fn small_pools_suffice(select: Select) {
    let device = Device::open(select).expect("the device opens");
    suffice(&small(select, &device).start().expect("it starts"));
    if device.kind() == EngineKind::Cpu {
        // On a machine with 16 cores, the workers used to open all groups and wait for each other's.
        for size in [1, 3, 16, 48] {
            let engine = small(select, &device).size(size).start();
            suffice(&engine.expect("it starts"));
        }
    }
}

fn suffice(engine: &Engine) {
    mark_all(engine, probe::SPLIT, 1_000_000);
    let instance = fib::instance(engine).expect("fib is there");
    assert_eq!(
        fib::run(engine, &instance, 23).expect("it runs"),
        fib::reference(23)
    );
    let probe = Probe::new(engine, 200_000).expect("there is memory");
    let tasks: Vec<_> = (0..200_000)
        .map(|i| probe.instance.task(probe::MARK).arg(i).build())
        .collect();
    engine.submit_all(&tasks).expect("it runs");
    assert_marked_once(&probe);
}

fn many_batches_need_no_larger_pools(select: Select) {
    let device = Device::open(select).expect("the device opens");
    // A lone worker is the one that no other can help.
    let size = least_size(device.kind());
    let small = small(select, &device).size(size);
    let engine = small.start().expect("it starts");
    let (batches, each) = (100, 1000);
    let probe = Probe::new(&engine, batches * each).expect("there is memory");
    engine.park().expect("it parks");
    let mut pending: Vec<_> = (0..batches)
        .map(|batch| {
            let mark = |i| probe.instance.task(probe::MARK).arg(i as u64).build();
            let tasks: Vec<_> = (batch * each..(batch + 1) * each).map(mark).collect();
            engine.submit_batch(&tasks).expect("there is room")
        })
        .collect();
    engine.resume().expect("it resumes");
    for batch in &mut pending {
        batch.wait().expect("it runs");
    }
    assert_marked_once(&probe);
}

fn urgent_work_overtakes(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let size = least_size(device.kind());
    let engine = with(&device).size(size).start().expect("it starts");
    let n = 200_000u32;
    let probe = Probe::new(&engine, n as usize + 1000).expect("there is memory");
    engine.park().expect("it parks");
    let task = |i: u32| probe.instance.task(probe::LOG).arg(i.into());
    let low: Vec<_> = (0..n)
        .map(|i| task(i).priority(Priority::LOW).build())
        .collect();
    let mut low = engine.submit_batch(&low).expect("room");
    let urgent: Vec<_> = (0..1000)
        .map(|i| task(1 << 31 | i).priority(Priority::URGENT).build())
        .collect();
    let mut urgent = engine.submit_batch(&urgent).expect("room");
    engine.resume().expect("it resumes");
    urgent.wait().expect("it runs");
    low.wait().expect("it runs");
    let log = probe.log.read().expect("the log can be read");
    let mean = |urgent: bool| {
        let places: Vec<_> = (0..log.len())
            .filter(|&i| (log[i] >> 31 == 1) == urgent)
            .collect();
        places.iter().sum::<usize>() as f64 / places.len() as f64
    };
    assert!(
        mean(true) < mean(false) / 2.0,
        "urgent at {} on average, low at {}",
        mean(true),
        mean(false)
    );
}
