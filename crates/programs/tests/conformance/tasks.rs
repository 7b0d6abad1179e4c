//! Spawns, chains, joins and shapes: every task runs exactly once.

use std::time::Instant;

use everwarp::{Device, EngineKind, Select};
use everwarp_programs::probe::{self, Probe};
use everwarp_testkit::cases;

use crate::support::{Case, assert_marked_once, mark_all, parked_count, range, start, with};

pub(crate) const ALL: &[Case] = cases![
    spawn_tree_of_ten_million,
    breadth_first_spread,
    queue_without_room_for_a_batch_runs_each_task_once,
    deep_chain,
    wide_fan_joins_before_its_continuation,
    joins_under_load,
    warp_and_block_shapes,
    block_forks,
    times_of_a_function_are_within_the_time_of_the_run,
];

fn spawn_tree_of_ten_million(select: Select) {
    let engine = start(select);
    mark_all(&engine, probe::SPLIT, 10_000_000);
    // A full binary tree has one node less above its leaves than leaves.
    assert_eq!(parked_count(&engine), 2 * 10_000_000 - 1);
}

fn times_of_a_function_are_within_the_time_of_the_run(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let begin = Instant::now();
    let engine = with(&device).measure(true);
    let engine = engine.start().expect("the engine starts");
    mark_all(&engine, probe::SPLIT, 100_000);
    let wall = begin.elapsed().as_nanos() as u64;
    let times = engine.function_times("probe", "split");
    if engine.kind() == EngineKind::Wgpu {
        return assert!(times.is_none(), "{times:?}");
    }
    let [run, wait, handling] = times.expect("it measures");
    // A sample of the CPU engine stands for up to some thousand tasks of its thread, and one of a GPU for its batch.
    let size = u64::from(engine.size());
    assert!((1..=199_999 + 8_192 * size).contains(&run.count), "{run:?}");
    assert!(0 < run.most && run.most <= wall, "{wall}: {run:?}");
    assert!(run.mean() <= run.most && run.p50 <= run.p99, "{run:?}");
    // The first task is measured, and one of the two that it queues is marked.
    assert!(wait.count > 0 && wait.most <= wall, "{wall}: {wait:?}");
    assert_eq!(handling.count, 0, "they are not turns");
    // Whatever is sampled: a parked engine has counted each task, and no other function's.
    engine.park().expect("it parks");
    let calls = |function| engine.function_calls("probe", function);
    assert_eq!(
        (calls("split"), calls("mark")),
        (Some(99_999), Some(100_000))
    );
    assert_eq!(calls("chain"), Some(0));
    engine.resume().expect("it resumes");
    mark_all(&engine, probe::SPLIT, 1_000);
    engine.park().expect("it parks");
    assert_eq!(
        (calls("split"), calls("mark")),
        (Some(99_999 + 999), Some(100_000 + 1_000))
    );
}

fn breadth_first_spread(select: Select) {
    mark_all(&start(select), probe::SPREAD, 1_000_000);
}

fn queue_without_room_for_a_batch_runs_each_task_once(select: Select) {
    mark_all(&start(select), probe::CAUTIOUS, 1_000_000);
}

fn deep_chain(select: Select) {
    let engine = start(select);
    let n = 100_000;
    let probe = Probe::new(&engine, n as usize).expect("there is memory");
    let task = probe.instance.task(probe::CHAIN).args(0, n - 1);
    engine.run(task).expect("it runs");
    assert_marked_once(&probe);
}

fn wide_fan_joins_before_its_continuation(select: Select) {
    let engine = start(select);
    for places in [2u32, 3, 1000, 100_000] {
        let probe = Probe::new(&engine, places as usize).expect("there is memory");
        let task = probe.instance.task(probe::JOIN).arg(range(0, places));
        let sum = engine.run(task).expect("it runs").value;
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
        engine.run(task).expect("it runs");
        assert_marked_once(&probe);
    }
}

fn block_forks(select: Select) {
    let engine = start(select);
    let probe = Probe::new(&engine, 128).expect("there is memory");
    let sum = engine
        .run(probe.instance.task(probe::JOIN_BLOCK))
        .expect("it runs");
    assert_eq!(sum.value, 128);
    assert_marked_once(&probe);
}
