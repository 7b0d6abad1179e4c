//! The heap as tasks use it, on every engine: blocks do not overlap, nothing is lost, the blocks of an owner can be
//! freed together, and errors are reported.

use everwarp::{
    DevTask, Device, Engine, EngineError, EngineKind, Error, HeapConfig, HeapErrorKind, HeapMode,
    HeapOwner, Select,
};
use everwarp_contract::heap::{HEAP_CLASSES, HEAP_LARGEST_CLASS, HEAP_PAGE_SHIFT, block_bytes};
use everwarp_programs::heap_probe::{self, HeapProbe};
use everwarp_testkit::cases;

use crate::support::Case;

pub(crate) const ALL: &[Case] = cases![
    heap_serves_tasks,
    heap_serves_warps_and_blocks,
    heap_random_operations,
    heap_random_operations_checked,
    heap_random_operations_of_all_sizes,
    heap_is_full_and_then_empty,
    heap_of_few_pages_serves_a_herd,
    heap_resizes_keep_contents,
    heap_owner_is_released,
    heap_quotas_are_exact,
    heap_mistakes_are_reported,
    heap_grows_while_tasks_run,
    no_heap_is_an_error,
];

const MIB: u64 = 1 << 20;
/// In a task's report: a request was refused.
const REFUSED: u64 = 1 << 32;

/// The largest heap where the memory that programs reach may have only 128 MiB.
const SMALL: u64 = 96 * MIB;

fn start(select: Select, heap: HeapConfig) -> Engine {
    let device = Device::open(select).expect("the device opens");
    let heap = match device.kind() {
        EngineKind::Wgpu => HeapConfig {
            bytes: heap.bytes.min(SMALL),
            limit: heap.limit.min(SMALL),
            ..heap
        },
        EngineKind::Cpu | EngineKind::Cuda => heap,
    };
    let builder = device.engine().program(&heap_probe::PROGRAM).heap(heap);
    builder.start().expect("the engine starts")
}

/// Fewer on the host, whose cores take the steps one by one.
fn scaled(engine: &Engine, gpu: u32) -> u32 {
    match engine.kind() {
        EngineKind::Cuda => gpu,
        EngineKind::Cpu | EngineKind::Wgpu => gpu / 16,
    }
}

/// Fewer in a small heap.
fn fitting(engine: &Engine, large: u32, small: u32) -> u32 {
    match engine.kind() {
        EngineKind::Wgpu => small,
        EngineKind::Cpu | EngineKind::Cuda => large,
    }
}

/// Runs a function for each argument and returns the sum of its tasks' reports.
fn run(engine: &Engine, probe: &HeapProbe, function: u32, tag: u8, args: &[(u32, u32)]) -> u64 {
    let task = |&(lo, hi): &(u32, u32)| probe.instance.task(function).tag(tag).args(lo, hi).build();
    let tasks: Vec<DevTask> = args.iter().map(task).collect();
    let mut sum = 0;
    for part in tasks.chunks(1 << 18) {
        let mut pending = engine.submit_batch(part).expect("room");
        sum += pending.wait().expect("it runs").value;
    }
    sum
}
fn each(engine: &Engine, probe: &HeapProbe, function: u32, places: std::ops::Range<u32>) -> u64 {
    let args: Vec<_> = places.map(|place| (place, 0)).collect();
    run(engine, probe, function, 0, &args)
}

fn in_use(engine: &Engine) -> u64 {
    engine.heap_stats().expect("there is a heap").in_use
}
fn is_empty(engine: &Engine) {
    let stats = engine.heap_stats().expect("there is a heap");
    assert_eq!(
        (stats.in_use, stats.wrong_frees, stats.errors),
        (0, 0, 0),
        "{stats:?}"
    );
}
/// Bytes that the heap counts for the sizes that were requested at places with blocks.
fn rounded(probe: &HeapProbe, guard: u64) -> u64 {
    let blocks = probe.blocks.read().expect("it is read");
    let sizes = probe.sizes.read().expect("it is read");
    let there = blocks.iter().zip(&sizes).filter(|&(&block, _)| block != 0);
    there
        .map(|(_, &size)| block_bytes(u64::from(size) + guard))
        .sum()
}

/// Generations of blocks of all sizes exist at the same time, and are freed in another order, in each mode of the heap.
fn heap_serves_tasks(select: Select) {
    for mode in [HeapMode::Plain, HeapMode::Owned, HeapMode::Checked] {
        let engine = start(select, HeapConfig::of(1024 * MIB).mode(mode));
        let n = scaled(&engine, 200_000);
        let small = HeapProbe::new(&engine, n as usize, 1, 96).expect("it is made");
        let mixed = HeapProbe::new(&engine, n as usize / 4, 4, 8192).expect("it is made");
        let many = fitting(&engine, 256, 32);
        let large = HeapProbe::new(&engine, many as usize, 30_000, 700_000).expect("it is made");
        let counts = [(&small, n), (&mixed, n / 4), (&large, many)];
        for round in 0..3 {
            for &(probe, count) in &counts {
                // The smallest stay until the end.
                if round > 0 && count == n {
                    continue;
                }
                let served = each(&engine, probe, heap_probe::FILL, 0..count);
                assert_eq!(served, u64::from(count), "{mode:?}, round {round}");
            }
            for &(probe, count) in &counts {
                let wrong = each(&engine, probe, heap_probe::CHECK, 0..count);
                assert_eq!(wrong, 0, "{mode:?}, round {round}");
            }
            let guard = if mode == HeapMode::Checked { 8 } else { 0 };
            let held = |probe| rounded(probe, guard);
            assert_eq!(in_use(&engine), held(&small) + held(&mixed) + held(&large));
            if mode != HeapMode::Plain {
                for &(probe, _) in &counts {
                    let owner = engine
                        .heap_owner(probe.instance.owner())
                        .expect("it is one");
                    assert_eq!(owner.in_use, held(probe), "{mode:?}");
                }
            }
            each(&engine, &large, heap_probe::EMPTY, 0..many);
            each(&engine, &mixed, heap_probe::EMPTY, 0..n / 4);
        }
        each(&engine, &small, heap_probe::EMPTY, 0..n);
        is_empty(&engine);
    }
}

fn heap_serves_warps_and_blocks(select: Select) {
    let engine = start(select, HeapConfig::of(512 * MIB).mode(HeapMode::Checked));
    let probe = HeapProbe::new(&engine, 2000, 1, 1).expect("it is made");
    let n = fitting(&engine, 1000, 150);
    for (function, bytes) in [
        (heap_probe::WARP, 700),
        (heap_probe::BLOCK, 5000),
        (heap_probe::BLOCK, 70_000),
    ] {
        let args: Vec<_> = (0..n).map(|place| (place, bytes)).collect();
        assert_eq!(run(&engine, &probe, function, 0, &args), 0);
        let blocks = probe.blocks.read().expect("it is read");
        let there = blocks[..n as usize].iter().filter(|&&b| b != 0).count();
        assert_eq!(there, n as usize / 2);
        assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..n), 0);
        assert_eq!(in_use(&engine), rounded(&probe, 8));
        each(&engine, &probe, heap_probe::EMPTY, 0..n);
    }
    is_empty(&engine);
}

/// All workers take millions of steps and read back every byte that they wrote.
fn random_operations(select: Select, mode: HeapMode, high: u32, tasks: u32) {
    let engine = start(select, HeapConfig::of(4096 * MIB).mode(mode));
    let mut tasks = scaled(&engine, tasks);
    // What tasks free comes back after a dispatch, so a small heap has room for the runs of a few at a time.
    if u64::from(high) > 32_768 {
        tasks = fitting(&engine, tasks, 20);
    }
    let probe = HeapProbe::new(&engine, 4 * tasks as usize, 1, high).expect("it is made");
    let args: Vec<_> = (0..tasks).map(|i| (i, 40)).collect();
    assert_eq!(run(&engine, &probe, heap_probe::CHURN, 0, &args), 0);
    assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..4 * tasks), 0);
    if mode == HeapMode::Checked {
        let parts: Vec<_> = (0..64).map(|i| (i, 64)).collect();
        assert_eq!(run(&engine, &probe, heap_probe::SWEEP, 0, &parts), 0);
        let owner = engine
            .heap_owner(probe.instance.owner())
            .expect("it is one");
        assert_eq!(owner.in_use, in_use(&engine));
    }
    each(&engine, &probe, heap_probe::EMPTY, 0..4 * tasks);
    is_empty(&engine);
}
fn heap_random_operations(select: Select) {
    random_operations(select, HeapMode::Plain, 600, 100_000);
}
fn heap_random_operations_checked(select: Select) {
    random_operations(select, HeapMode::Checked, 600, 100_000);
}
fn heap_random_operations_of_all_sizes(select: Select) {
    random_operations(select, HeapMode::Checked, 60_000, 4000);
}

/// Filled until refused, freed, and filled with something else: nothing is lost.
fn heap_is_full_and_then_empty(select: Select) {
    const HEAP: u64 = 64 * MIB;
    let engine = start(select, HeapConfig::of(HEAP));
    let places = (HEAP / 512 + 1000) as u32;
    let probe = HeapProbe::new(&engine, places as usize, 16, 2048).expect("it is made");
    for round in 0..2 {
        for bytes in [512, 0, 131_072, 300_000, 512] {
            let asked = match bytes {
                0 => places / 2,
                bytes => (HEAP / u64::from(bytes) + 1000) as u32,
            };
            let args: Vec<_> = (0..asked).map(|place| (place, bytes)).collect();
            let before = engine.heap_stats().expect("there is a heap").refused;
            let served = run(&engine, &probe, heap_probe::FILL, 0, &args);
            let stats = engine.heap_stats().expect("there is a heap");
            assert_eq!(stats.refused - before, u64::from(asked) - served);
            assert!(served < asked.into(), "{bytes}: {stats:?}");
            // Requests that came while pages changed hands may have been refused early: one by one they fit.
            let refill = || {
                let blocks = probe.blocks.read().expect("it is read");
                let none = args.iter().filter(|a| blocks[a.0 as usize] == 0).take(100);
                let none: Vec<_> = none.copied().collect();
                run(&engine, &probe, heap_probe::FILL, 0, &none)
            };
            while refill() != 0 {}
            let stats = engine.heap_stats().expect("there is a heap");
            // Requests of several pages cannot use every page. Of so small a heap mixed sizes that come all at
            // once leave many pages half used, because every multiprocessor takes pages of every class first.
            let least = match bytes {
                0 => HEAP / 2,
                300_000 => HEAP / 10 * 8,
                _ => HEAP / 100 * 97,
            };
            assert!(
                stats.in_use >= least && stats.in_use <= HEAP,
                "{bytes}: {stats:?}"
            );
            if bytes == 131_072 || bytes == 512 {
                assert_eq!(stats.in_use, HEAP, "round {round}");
            }
            assert_eq!(
                in_use(&engine),
                rounded(&probe, 0),
                "round {round}, {bytes}"
            );
            assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..asked), 0);
            each(&engine, &probe, heap_probe::EMPTY, 0..asked);
            is_empty(&engine);
        }
    }
}

/// Very many tasks at once need the same pages, and there are only as many as all of them fill.
fn heap_of_few_pages_serves_a_herd(select: Select) {
    const PAGE: u64 = 1 << HEAP_PAGE_SHIFT;
    const CLASSES: u64 = HEAP_CLASSES as u64;
    // On CUDA, every multiprocessor has pages of its own for each class.
    let bytes = match Device::open(select).expect("the device opens").kind() {
        EngineKind::Cuda => 1024 * MIB,
        EngineKind::Cpu | EngineKind::Wgpu => 16 * MIB,
    };
    let pages = 16 * MIB / PAGE;
    let class_bytes: Vec<u32> = (1..=HEAP_LARGEST_CLASS)
        .filter(|&size| block_bytes(size.into()) == u64::from(size))
        .collect();
    assert_eq!(class_bytes.len() as u64, CLASSES);
    let few = |bytes: u32| bytes < 1024;
    let in_pages = |bytes: u32, pages: u64| vec![bytes; (PAGE / u64::from(bytes) * pages) as usize];
    // All of one class; then of all classes at once, a few blocks of the small ones and full pages of the large ones.
    let (small, large): (Vec<u32>, Vec<u32>) = class_bytes.iter().partition(|&&b| few(b));
    let rest = (pages - small.len() as u64) / large.len() as u64;
    let mut mixed: Vec<u32> = small.iter().flat_map(|&b| [b; 60]).collect();
    mixed.extend(large.iter().flat_map(|&b| in_pages(b, rest)));
    let ways = [
        in_pages(32_768, pages),
        in_pages(1024, pages),
        in_pages(24_576, pages),
        mixed,
    ];
    let engine = start(select, HeapConfig::of(bytes));
    let most = ways.iter().map(Vec::len).max().expect("there are some");
    let probe = HeapProbe::new(&engine, most, 1, 1).expect("it is made");
    for round in 0..2 {
        for sizes in &ways {
            // Neighbours need blocks of different classes.
            let n = sizes.len();
            let step = (n / 3..).find(|&s| gcd(s, n) == 1).expect("there is one");
            let args: Vec<_> = (0..n).map(|i| (i as u32, sizes[i * step % n])).collect();
            let served = run(&engine, &probe, heap_probe::FILL, 0, &args);
            let stats = engine.heap_stats().expect("there is a heap");
            let largest = sizes.iter().max().expect("there are some");
            assert_eq!(
                served, n as u64,
                "round {round}, up to {largest} bytes: {stats:?}"
            );
            assert_eq!(in_use(&engine), rounded(&probe, 0));
            assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..n as u32), 0);
            each(&engine, &probe, heap_probe::EMPTY, 0..n as u32);
            is_empty(&engine);
        }
    }
}
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn heap_resizes_keep_contents(select: Select) {
    for mode in [HeapMode::Plain, HeapMode::Checked] {
        let engine = start(select, HeapConfig::of(1024 * MIB).mode(mode));
        let n = scaled(&engine, 32_000);
        let probe = HeapProbe::new(&engine, n as usize, 1, 300).expect("it is made");
        assert_eq!(each(&engine, &probe, heap_probe::FILL, 0..n), u64::from(n));
        // Up and down, within a class and across, for some lanes of a warp and not for others.
        for step in 1..6u32 {
            let sizes = |place: u32| {
                1 + (place * 37 + step * 901) % [0, 300, 5000, 40, 9000, 17][step as usize]
            };
            let args: Vec<_> = (0..n)
                .filter(|p| p % 7 != step)
                .map(|p| (p, sizes(p)))
                .collect();
            assert_eq!(
                run(&engine, &probe, heap_probe::RESIZE, 0, &args),
                0,
                "step {step}"
            );
            assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..n), 0);
        }
        each(&engine, &probe, heap_probe::EMPTY, 0..n);
        is_empty(&engine);
        // Runs of pages, which grow into the pages after them or move.
        assert_eq!(
            run(
                &engine,
                &probe,
                heap_probe::FILL,
                0,
                &[(0, 200_000), (1, 200_000), (2, 40_000)]
            ),
            3
        );
        for sizes in [
            [200_000, 900_000, 40_000],
            [1_000_000, 140_000, 100],
            [50_000, 20_000, 2_000_000],
        ] {
            let args: Vec<_> = (0..3).zip(sizes).collect();
            assert_eq!(run(&engine, &probe, heap_probe::RESIZE, 0, &args), 0);
            assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..3), 0);
            let guard = if mode == HeapMode::Checked { 8 } else { 0 };
            assert_eq!(in_use(&engine), rounded(&probe, guard), "{sizes:?}");
        }
        // A block whose new size does not fit stays as it was.
        assert_eq!(
            run(&engine, &probe, heap_probe::RESIZE, 0, &[(0, 1 << 30)]),
            REFUSED
        );
        assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..3), 0);
        each(&engine, &probe, heap_probe::EMPTY, 0..3);
        is_empty(&engine);
    }
}

fn heap_owner_is_released(select: Select) {
    let engine = start(select, HeapConfig::of(1024 * MIB).mode(HeapMode::Checked));
    let n = scaled(&engine, 60_000);
    let probe = HeapProbe::new(&engine, n as usize, 1, 4000).expect("it is made");
    // Neighbours of three owners in the same pages.
    for owner in [101, 102, 103u8] {
        let args: Vec<_> = (0..n)
            .filter(|p| p % 3 == u32::from(owner) - 101)
            .map(|p| (p, if p < 30 { 300_000 } else { 0 }))
            .collect();
        let served = run(&engine, &probe, heap_probe::FILL, owner, &args);
        assert_eq!(served, args.len() as u64);
    }
    let held = |owner| {
        engine
            .heap_owner(HeapOwner(owner))
            .expect("it is one")
            .in_use
    };
    let before = [101, 102, 103].map(held);
    assert!(before.iter().all(|&b| b > 3_000_000), "{before:?}");
    assert_eq!(in_use(&engine), before.iter().sum::<u64>());
    let parts: Vec<_> = (0..50).map(|i| (i, 50)).collect();
    assert_eq!(
        run(&engine, &probe, heap_probe::RELEASE, 102, &parts),
        before[1]
    );
    assert_eq!([101, 102, 103].map(held), [before[0], 0, before[2]]);
    assert_eq!(in_use(&engine), before[0] + before[2]);
    let others: Vec<_> = (0..n).filter(|p| p % 3 != 1).map(|p| (p, 0)).collect();
    assert_eq!(run(&engine, &probe, heap_probe::CHECK, 0, &others), 0);
    // Another owner can get the freed memory; the neighbours stay as they are.
    let again: Vec<_> = (0..n).filter(|p| p % 3 == 1).map(|p| (p, 0)).collect();
    assert_eq!(
        run(&engine, &probe, heap_probe::FILL, 104, &again),
        again.len() as u64
    );
    assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..n), 0);
    each(&engine, &probe, heap_probe::EMPTY, 0..n);
    assert_eq!([101, 102, 103, 104].map(held), [0; 4]);
    is_empty(&engine);
}

fn heap_quotas_are_exact(select: Select) {
    let engine = start(select, HeapConfig::of(256 * MIB).mode(HeapMode::Owned));
    let n = scaled(&engine, 160_000);
    let probe = HeapProbe::new(&engine, n as usize, 1, 1).expect("it is made");
    let owner = probe.instance.owner();
    let quota = u64::from(n / 2) * 64;
    engine
        .set_heap_quota(owner, Some(quota))
        .expect("it is set");
    let args: Vec<_> = (0..n).map(|place| (place, 60)).collect();
    assert_eq!(
        run(&engine, &probe, heap_probe::FILL, 0, &args),
        u64::from(n / 2)
    );
    let held = engine.heap_owner(owner).expect("it is one");
    assert_eq!((held.in_use, held.quota), (quota, Some(quota)));
    assert_eq!(held.refused, u64::from(n - n / 2));
    // Another owner is not concerned, nor is this one without the limit.
    assert_eq!(run(&engine, &probe, heap_probe::CHECK, 0, &args), 0);
    each(&engine, &probe, heap_probe::EMPTY, 0..n);
    assert_eq!(
        run(&engine, &probe, heap_probe::FILL, 99, &args),
        u64::from(n)
    );
    each(&engine, &probe, heap_probe::EMPTY, 0..n);
    engine.set_heap_quota(owner, None).expect("it is set");
    assert_eq!(
        run(&engine, &probe, heap_probe::FILL, 0, &args),
        u64::from(n)
    );
    each(&engine, &probe, heap_probe::EMPTY, 0..n);
    is_empty(&engine);
    let error = engine
        .heap_owner(HeapOwner(257))
        .expect_err("there is no such owner");
    assert!(
        matches!(
            error,
            Error::NoOwner {
                owner: HeapOwner(257),
                limit: 257
            }
        ),
        "{error}"
    );
}

fn heap_mistakes_are_reported(select: Select) {
    let engine = start(select, HeapConfig::of(64 * MIB).mode(HeapMode::Checked));
    let _first = HeapProbe::new(&engine, 1, 1, 1).expect("it is made");
    let probe = HeapProbe::new(&engine, 8, 1, 1).expect("it is made");
    let owner = probe.instance.owner();
    assert_eq!(owner, HeapOwner(2));
    let kinds = [
        (1, 100, HeapErrorKind::FreedTwice, 128, owner),
        (2, 100, HeapErrorKind::Foreign, 0, HeapOwner(0)),
        (3, 100, HeapErrorKind::MiddleOfBlock, 128, owner),
        (4, 100, HeapErrorKind::Overflow, 128, owner),
        (4, 4, HeapErrorKind::Overflow, 16, owner),
        (4, 50_001, HeapErrorKind::Overflow, 131_072, owner),
        (3, 300_000, HeapErrorKind::MiddleOfBlock, 393_216, owner),
    ];
    for (i, (mistake, asked, kind, bytes, whose)) in kinds.into_iter().enumerate() {
        run(&engine, &probe, heap_probe::MISTAKE, 0, &[(mistake, asked)]);
        let errors = engine.heap_errors().expect("they are read");
        assert_eq!(errors.len(), i + 1, "{errors:?}");
        let last = errors[i];
        assert_eq!(
            (last.kind, last.bytes, last.owner, last.by),
            (kind, bytes, whose, owner)
        );
        let place = probe.blocks.read().expect("it is read")[mistake as usize];
        let address = match mistake {
            2 => probe.blocks.ptr().address(),
            3 => place + 16,
            _ => place,
        };
        assert_eq!(last.address, address);
        let text = last.to_string();
        assert!(
            text.contains("owner 2") && text.contains(&format!("{address:#x}")),
            "{text}"
        );
        if mistake == 3 {
            each(&engine, &probe, heap_probe::EMPTY, 3..4);
        }
    }
    // This block was not freed: a sweep finds its overwritten guard.
    run(&engine, &probe, heap_probe::MISTAKE, 0, &[(5, 1000)]);
    let parts: Vec<_> = (0..8).map(|i| (i, 8)).collect();
    assert_eq!(run(&engine, &probe, heap_probe::SWEEP, 0, &parts), 1);
    let last = *engine
        .heap_errors()
        .expect("they are read")
        .last()
        .expect("there are some");
    assert_eq!((last.kind, last.owner), (HeapErrorKind::Overflow, owner));
    // All of a thousand errors are counted, and the first ones are kept.
    run(&engine, &probe, heap_probe::MISTAKE, 0, &[(2, 0); 1000]);
    let stats = engine.heap_stats().expect("there is a heap");
    assert_eq!((stats.errors, stats.wrong_frees), (1008, 1004));
    assert_eq!(engine.heap_errors().expect("they are read").len(), 64);
    assert_eq!(stats.in_use, 1024);
}

fn heap_grows_while_tasks_run(select: Select) {
    let engine = start(
        select,
        HeapConfig::of(16 * MIB)
            .up_to(256 * MIB)
            .mode(HeapMode::Owned),
    );
    let probe = HeapProbe::new(&engine, 4000, 1, 1).expect("it is made");
    // Several times as much as there is; tasks whose requests are refused ask again and again.
    let n = fitting(&engine, 1000, 400);
    let ask: Vec<_> = (0..n)
        .map(|place| {
            probe
                .instance
                .task(heap_probe::UNTIL)
                .args(place, 65_536)
                .build()
        })
        .collect();
    let mut pending = engine.submit_batch(&ask).expect("it is submitted");
    while engine.heap_stats().expect("there is a heap").refused == 0 {
        std::thread::yield_now();
    }
    let before = engine.heap_stats().expect("there is a heap");
    assert!(before.bytes == 16 * MIB && !pending.is_done(), "{before:?}");
    let limit = before.limit;
    let mut size = before.bytes;
    while size < u64::from(n) * 131_072 {
        let next = engine.grow_heap(5 * MIB).expect("there is memory");
        assert_eq!(next, size + 16 * MIB);
        size = next;
    }
    pending.wait().expect("it runs");
    assert_eq!(each(&engine, &probe, heap_probe::CHECK, 0..n), 0);
    assert_eq!(in_use(&engine), rounded(&probe, 0));
    // A block that is larger than the heap was.
    let large = [(n, 30 << 20)];
    assert_eq!(run(&engine, &probe, heap_probe::FILL, 0, &large), 0);
    let size = engine.grow_heap(limit - size).expect("there is memory");
    assert_eq!(size, limit);
    assert_eq!(run(&engine, &probe, heap_probe::FILL, 0, &large), 1);
    let error = engine.grow_heap(1).expect_err("that is the limit");
    assert!(
        matches!(error, Error::Engine(EngineError::HeapLimit { .. })),
        "{error}"
    );
    each(&engine, &probe, heap_probe::EMPTY, 0..n + 1);
    is_empty(&engine);
}

fn no_heap_is_an_error(select: Select) {
    let engine = start(select, HeapConfig::default());
    let probe = HeapProbe::new(&engine, 8, 1, 1).expect("it is made");
    // Every request is refused.
    assert_eq!(each(&engine, &probe, heap_probe::FILL, 0..8), 0);
    let error = engine.heap_stats().expect_err("there is none");
    assert!(error.to_string().contains("EngineBuilder::heap"), "{error}");
    drop((probe, engine));
    let plain = start(select, HeapConfig::of(1));
    let error = plain
        .heap_owner(HeapOwner(1))
        .expect_err("it has no owners");
    assert!(error.to_string().contains("owners"), "{error}");
}
