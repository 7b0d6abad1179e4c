//! The cases. Each gets the engine to run on and panics when something is not as it must be.

use std::time::Duration;

use everwarp::{Device, Engine, EngineBuilder, EngineError, EngineKind, Error, Pools, Select};
use everwarp_graph::{Spec, generate};
use everwarp_programs::probe::{self, Probe};
use everwarp_programs::{ALL as PROGRAMS, bfs, fib, noop, pagerank, pingpong, tree};
use everwarp_runtime::{Linked, LinkedEngine};
use everwarp_testkit::cases;

pub(crate) type Case = (&'static str, fn(Select));

pub(crate) const ALL: &[Case] = cases![
    noop_round_trips,
    fib_is_right_and_counts_every_call,
    spawn_tree_of_ten_million,
    breadth_first_spread,
    deep_chain,
    pingpong_ends_with_the_right_one,
    wide_fan_joins_before_its_continuation,
    joins_under_load,
    warp_and_block_shapes,
    block_forks,
    block_tree,
    bfs_equals_the_reference,
    pagerank_equals_the_reference,
    batches_run_every_task_once,
    ten_million_from_the_host,
    full_rings_push_back,
    small_pools_suffice,
    urgent_work_overtakes,
    parks_and_resumes_with_other_sizes,
    swaps_under_load,
    exchanges_its_image_under_load,
    stops_in_the_middle,
    loads_a_program_while_parked,
    endless_spawning_is_an_error,
    a_task_that_does_not_end_is_an_error,
    faults_are_named,
    misuse_is_named,
    pieces_arrive_in_order,
    futures_complete,
    drops_in_any_order,
    two_hundred_instances_at_once,
];

fn with<'d>(device: &'d Device) -> EngineBuilder<'d> {
    PROGRAMS
        .iter()
        .fold(device.engine().program(&probe::PROGRAM), |b, p| {
            b.program(p)
        })
}

fn start(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    with(&device).start().expect("the engine starts")
}

/// A range argument: first | count << 32.
fn range(first: u32, count: u32) -> u64 {
    u64::from(count) << 32 | u64::from(first)
}

fn assert_marked_once(probe: &Probe) {
    let marks = probe.marks.read().expect("the marks can be read");
    let wrong: Vec<_> = marks
        .iter()
        .enumerate()
        .filter(|&(_, &m)| m != 1)
        .take(5)
        .collect();
    assert!(
        wrong.is_empty(),
        "places not marked exactly once (place, marks), the first of them: {wrong:?}"
    );
}

fn noop_round_trips(select: Select) {
    let engine = start(select);
    let instance = noop::instance(&engine).expect("noop is there");
    for _ in 0..1000 {
        let done = engine
            .submit(instance.task(noop::NOTHING))
            .and_then(|mut p| p.wait());
        assert_eq!(done.expect("it runs").value, 0);
    }
    engine.park().expect("it parks");
    assert_eq!(engine.stats().expect("there are counters").executed, 1000);
}

fn fib_is_right_and_counts_every_call(select: Select) {
    let engine = start(select);
    let instance = fib::instance(&engine).expect("fib is there");
    for n in [0, 1, 2, 5, 20, 25] {
        assert_eq!(
            fib::run(&engine, &instance, n).expect("it runs"),
            fib::reference(n),
            "fib({n})"
        );
    }
    let before = parked_count(&engine);
    assert_eq!(
        fib::run(&engine, &instance, 24).expect("it runs"),
        fib::reference(24)
    );
    // Every call runs once, and so does the addition after every call that is no leaf.
    let calls = fib::calls(24);
    assert_eq!(parked_count(&engine) - before, calls + calls / 2);
}

/// Tasks executed so far, read while parked so that the counters are final.
fn parked_count(engine: &Engine) -> u64 {
    engine.park().expect("it parks");
    let executed = engine.stats().expect("there are counters").executed;
    engine.resume().expect("it resumes");
    executed
}

fn mark_all(engine: &Engine, function: u32, places: u32) {
    let probe = Probe::new(engine, places as usize).expect("there is memory");
    let task = probe.instance.task(function).arg(range(0, places));
    engine
        .submit(task)
        .and_then(|mut p| p.wait())
        .expect("it runs");
    assert_marked_once(&probe);
}

fn spawn_tree_of_ten_million(select: Select) {
    let engine = start(select);
    mark_all(&engine, probe::SPLIT, 10_000_000);
    // A full binary tree has one node less above its leaves than leaves.
    assert_eq!(parked_count(&engine), 2 * 10_000_000 - 1);
}

fn breadth_first_spread(select: Select) {
    mark_all(&start(select), probe::SPREAD, 1_000_000);
}

fn deep_chain(select: Select) {
    let engine = start(select);
    let n = 100_000;
    let probe = Probe::new(&engine, n as usize).expect("there is memory");
    let task = probe.instance.task(probe::CHAIN).args(0, n - 1);
    engine
        .submit(task)
        .and_then(|mut p| p.wait())
        .expect("it runs");
    assert_marked_once(&probe);
}

fn pingpong_ends_with_the_right_one(select: Select) {
    let engine = start(select);
    let instance = pingpong::instance(&engine).expect("pingpong is there");
    for steps in [0, 1, 2, 999, 10_000] {
        let last = pingpong::run(&engine, &instance, steps).expect("it runs");
        assert_eq!(last, pingpong::reference(steps), "{steps} steps");
    }
}

fn wide_fan_joins_before_its_continuation(select: Select) {
    let engine = start(select);
    for places in [2u32, 3, 1000, 100_000] {
        let probe = Probe::new(&engine, places as usize).expect("there is memory");
        let task = probe.instance.task(probe::JOIN).arg(range(0, places));
        let sum = engine
            .submit(task)
            .and_then(|mut p| p.wait())
            .expect("it runs")
            .value;
        assert_eq!(sum, u64::from(places), "the continuation saw every mark");
        assert_marked_once(&probe);
    }
}

fn joins_under_load(select: Select) {
    let engine = start(select);
    let load = Probe::new(&engine, 2_000_000).expect("there is memory");
    let mut background = engine
        .submit(load.instance.task(probe::SPLIT).arg(range(0, 2_000_000)))
        .expect("room");
    let probes: Vec<_> = (0..50)
        .map(|_| Probe::new(&engine, 5000).expect("there is memory"))
        .collect();
    let mut joins: Vec<_> = probes
        .iter()
        .map(|p| {
            engine
                .submit(p.instance.task(probe::JOIN).arg(range(0, 5000)))
                .expect("room")
        })
        .collect();
    for join in &mut joins {
        assert_eq!(join.wait().expect("it runs").value, 5000);
    }
    background.wait().expect("it runs");
    assert_marked_once(&load);
    probes.iter().for_each(assert_marked_once);
}

fn warp_and_block_shapes(select: Select) {
    let engine = start(select);
    for (tag, places) in [(1u8, 320_000u32), (2, 2_560_000)] {
        let probe = Probe::new(&engine, places as usize).expect("there is memory");
        let task = probe
            .instance
            .task(probe::SPLIT)
            .tag(tag)
            .arg(range(0, places));
        engine
            .submit(task)
            .and_then(|mut p| p.wait())
            .expect("it runs");
        assert_marked_once(&probe);
    }
}

fn block_forks(select: Select) {
    let engine = start(select);
    let probe = Probe::new(&engine, 128).expect("there is memory");
    let sum = engine
        .submit(probe.instance.task(probe::JOIN_BLOCK))
        .and_then(|mut p| p.wait())
        .expect("it runs");
    assert_eq!(sum.value, 128);
    assert_marked_once(&probe);
}

fn block_tree(select: Select) {
    let engine = start(select);
    let tree = tree::Tree::new(&engine).expect("there is memory");
    for depth in [0, 1, 5, 12] {
        assert_eq!(
            tree.run(&engine, depth).expect("it runs"),
            tree::reference(depth),
            "depth {depth}"
        );
    }
}

fn graphs() -> Vec<everwarp_graph::Csr> {
    [
        "chain:500",
        "grid:60x40",
        "random:3000:9000:7",
        "rmat:12:16:3",
        "rmat:10:8:5,directed",
        "rmat:15:16:1",
        "random:60000:600000:2",
    ]
    .iter()
    .map(|s| generate(&s.parse::<Spec>().expect("a valid spec")).expect("it generates"))
    .collect()
}

fn bfs_equals_the_reference(select: Select) {
    let engine = start(select);
    let ways = [bfs::Way::Visits, bfs::Way::Levels];
    for (graph, way) in graphs().iter().flat_map(|g| ways.map(|w| (g, w))) {
        let search = bfs::Bfs::with_way(&engine, graph.rows(), graph.columns(), way)
            .expect("there is memory");
        for source in [0, graph.vertices() / 2, graph.vertices() - 1] {
            search.reset(&engine, source).expect("it resets");
            search.search(&engine, source).expect("it runs");
            let expected = bfs::reference(graph.rows(), graph.columns(), source);
            assert!(
                search.found().expect("it reads") == expected,
                "{way:?} from {source} of {} vertices",
                graph.vertices()
            );
        }
    }
}

fn pagerank_equals_the_reference(select: Select) {
    let engine = start(select);
    for graph in graphs() {
        let incoming = graph.transpose();
        let degrees: Vec<u32> = graph.rows().windows(2).map(|w| w[1] - w[0]).collect();
        let ranks =
            pagerank::PageRank::new(&engine, incoming.rows(), incoming.columns(), &degrees, 20)
                .and_then(|p| p.run(&engine))
                .expect("it runs");
        let expected = pagerank::reference(incoming.rows(), incoming.columns(), &degrees, 20);
        let worst = ranks
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs() / b)
            .fold(0.0, f64::max);
        assert!(worst < 1e-9, "relative error {worst}");
        assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

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
    assert_eq!(pending.len(), 4, "as many as the ring has slots");
    engine.resume().expect("it resumes");
    // submit() waits for room; dropping what it answers leaves the work in flight.
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
    engine
        .submit(task(0))
        .and_then(|mut p| p.wait())
        .expect("it runs");
    wait_until_marked(&probe, 5001);
}

/// Waits until there are this many marks; what was dropped is not waited for otherwise.
fn wait_until_marked(probe: &Probe, marks: u64) {
    let begin = std::time::Instant::now();
    loop {
        let sum: u64 = probe
            .marks
            .read()
            .expect("the marks can be read")
            .iter()
            .map(|&m| u64::from(m))
            .sum();
        if sum == marks {
            return;
        }
        assert!(
            sum < marks && begin.elapsed() < Duration::from_secs(20),
            "{sum} marks of {marks}"
        );
        std::thread::yield_now();
    }
}

/// Pools far smaller than the work, on the smallest engine that the device has.
fn small(select: Select, device: &Device) -> EngineBuilder<'_> {
    match device.kind() {
        EngineKind::Cpu => with(device).pools(Pools {
            tasks: 256,
            groups: 128,
            ..Pools::default()
        }),
        EngineKind::Cuda => {
            assert_eq!(select, Select::Cuda);
            // The least that two blocks of eight warps may have.
            with(device).size(2).pools(Pools {
                tasks: 16 * 512,
                groups: 16 * 512,
                ..Pools::default()
            })
        }
    }
}

fn small_pools_suffice(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = small(select, &device).start().expect("it starts");
    mark_all(&engine, probe::SPLIT, 1_000_000);
    let instance = fib::instance(&engine).expect("fib is there");
    assert_eq!(
        fib::run(&engine, &instance, 23).expect("it runs"),
        fib::reference(23)
    );
    let probe = Probe::new(&engine, 200_000).expect("there is memory");
    let tasks: Vec<_> = (0..200_000)
        .map(|i| probe.instance.task(probe::MARK).arg(i).build())
        .collect();
    engine.submit_all(&tasks).expect("it runs");
    assert_marked_once(&probe);
}

fn urgent_work_overtakes(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let size = if device.kind() == EngineKind::Cpu {
        1
    } else {
        2
    };
    let engine = with(&device).size(size).start().expect("it starts");
    let n = 200_000u32;
    let probe = Probe::new(&engine, n as usize + 1000).expect("there is memory");
    engine.park().expect("it parks");
    let task = |i: u32| probe.instance.task(probe::LOG).arg(i.into());
    let low: Vec<_> = (0..n)
        .map(|i| task(i).priority(everwarp::Priority::LOW).build())
        .collect();
    let mut low = engine.submit_batch(&low).expect("room");
    let urgent: Vec<_> = (0..1000)
        .map(|i| {
            task(1 << 31 | i)
                .priority(everwarp::Priority::URGENT)
                .build()
        })
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

/// A small generator of numbers for moments and sizes (Marsaglia's xorshift).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn parks_and_resumes_with_other_sizes(select: Select) {
    let engine = start(select);
    let (least, most) = (
        if engine.kind() == EngineKind::Cpu {
            1
        } else {
            2
        },
        engine.max_size(),
    );
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
    let again = engine
        .submit(fibs.task(fib::CALL).arg(10))
        .expect("room")
        .wait();
    assert_eq!(again.expect("it runs").value, fib::reference(10));
}

fn stops_in_the_middle(select: Select) {
    let engine = start(select);
    let probe = Probe::new(&engine, 20_000_000).expect("there is memory");
    let mut pending = engine
        .submit(probe.instance.task(probe::SPLIT).arg(range(0, 20_000_000)))
        .expect("room");
    engine.stop().expect("it stops");
    match pending.wait() {
        Err(Error::Stopped) | Ok(_) => {}
        other => panic!("{other:?}"),
    }
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
    // A thread or kernel that does not end must not keep the process: nothing is waited for at exit.
    std::process::exit(0);
}

fn faults_are_named(select: Select) {
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
        // The greedy task's batch may still complete; the fault shows at the latest in the next wait.
        let mut error = pending.wait().err();
        for _ in 0..1000 {
            if error.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            error = engine
                .submit(probe.instance.task(probe::MARK))
                .and_then(|mut p| p.wait())
                .err();
        }
        let text = error.expect("a fault").to_string();
        assert!(text.contains(expected), "{text}");
    }
}

fn misuse_is_named(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = with(&device).start().expect("it starts");
    let other = device.kind() == EngineKind::Cpu;
    let instance = noop::instance(&engine).expect("noop is there");
    let mut pending = engine.submit(instance.task(noop::NOTHING)).expect("room");
    pending.wait().expect("it runs");
    assert!(matches!(pending.wait(), Err(Error::AlreadyTaken)));
    assert!(matches!(engine.submit_batch(&[]), Err(Error::BatchEmpty)));
    if other {
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

/// Pieces that a device copies from where they lie, neighbours of each other or not, between others; and more of both than
/// passes through a staging area at a time.
fn pieces_arrive_in_order(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = with(&device).start().expect("the engine starts");
    let fill = |bytes: &mut [u8], seed: u32| {
        for (at, byte) in (0_u32..).zip(bytes) {
            *byte = (at.wrapping_add(seed).wrapping_mul(0x9e37_79b1) >> 24) as u8;
        }
    };
    const MANY: usize = 9 << 20;
    let mut plain = vec![0; MANY];
    fill(&mut plain, 1);
    let given = || device.host_bytes(MANY).expect("there is memory");
    let (mut one, mut two) = (given(), given());
    fill(&mut one, 2);
    fill(&mut two, 3);
    let ways: [&[&[u8]]; 5] = [
        &[&one],
        &[
            &plain[..5],
            &one[..2000],
            &one[2000..2001],
            &[],
            &one[2001..7000],
        ],
        &[
            &one[10..],
            &one[..10],
            &two,
            &two[7..9],
            &plain[..3],
            &two[9..],
        ],
        &[&plain, &one, &plain[1..], &two[MANY - 1..], &plain[..1]],
        &[&[], &one[MANY..], &plain[..0], &two[1..2]],
    ];
    for pieces in ways {
        let expected = pieces.concat();
        let buffer = engine
            .buffer::<u8>(expected.len() + 3)
            .expect("there is memory");
        buffer
            .write_pieces(3, pieces.iter().copied())
            .expect("there is room");
        let got = buffer.read().expect("it can be read");
        assert!(got[..3] == [0; 3] && got[3..] == expected[..]);
    }
    // Memory that was dropped is used again, and is nobody else's then.
    drop(one);
    let mut three = given();
    fill(&mut three, 4);
    let buffer = engine.buffer::<u8>(2 * MANY).expect("there is memory");
    buffer
        .write_pieces(0, [&two[..], &three].into_iter())
        .expect("there is room");
    assert!(buffer.read().expect("it can be read") == [&two[..], &three].concat());
}

fn futures_complete(select: Select) {
    use std::future::Future;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let engine = start(select);
    let instance = fib::instance(&engine).expect("fib is there");
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    for n in [10, 20, 24] {
        let mut future = Box::pin(
            engine
                .submit(instance.task(fib::CALL).arg(n))
                .expect("room"),
        );
        let value = loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(done) => break done.expect("it runs").value,
                Poll::Pending => std::thread::park(),
            }
        };
        assert_eq!(value, fib::reference(n as u32));
    }
}

fn drops_in_any_order(select: Select) {
    let engine = start(select);
    let probe = Probe::new(&engine, 3_000_000).expect("there is memory");
    let pending = engine
        .submit(probe.instance.task(probe::SPLIT).arg(range(0, 3_000_000)))
        .expect("room");
    let Probe {
        instance,
        marks,
        log,
        ..
    } = probe;
    drop(marks);
    drop(engine);
    drop(instance);
    drop(log);
    drop(pending);
}

fn two_hundred_instances_at_once(select: Select) {
    let engine = start(select);
    let probes: Vec<_> = (0..200)
        .map(|_| Probe::new(&engine, 1000).expect("there is memory"))
        .collect();
    let mut pending: Vec<_> = probes
        .iter()
        .map(|p| {
            engine
                .submit(p.instance.task(probe::SPLIT).arg(range(0, 1000)))
                .expect("room")
        })
        .collect();
    pending
        .iter_mut()
        .for_each(|p| p.wait().map(drop).expect("it runs"));
    probes.iter().for_each(assert_marked_once);
    let more: Vec<_> = (0..57).map(|_| noop::instance(&engine)).collect();
    assert!(matches!(more.last(), Some(Err(Error::TooManyInstances))));
}
