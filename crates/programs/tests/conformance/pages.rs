//! The page cache of native tasks.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use everwarp::files::{
    ArenaConfig, CacheConfig, Faults, FileErrno, FileHandle, FilesConfig, Rights,
};
use everwarp::{DevTask, Device, Engine, Select};
use everwarp_programs::gather::{self, Features, Gather, Shape};
use everwarp_programs::page_probe::{self, CLOSE, HOLD, LET_GO, SUM, SYNC, TRUNCATE, Walk, choice};
use everwarp_programs::reads::{self, Reads, Sizes, Way};
use everwarp_testkit::cases;
use rustix::io::ReadWriteFlags;

use crate::support::{Case, random, wait_until};

pub(crate) const ALL: &[Case] = cases![
    pages_keep_every_addition,
    pages_of_many_threads_keep_every_addition,
    pages_of_one_miss_are_read_once,
    pages_that_are_all_held_are_an_error,
    pages_of_a_file_that_shrinks,
    pages_that_cannot_be_written_back,
    pages_follow_the_host_at_open_and_sync,
    pages_are_cut_with_their_file,
    pages_of_a_closed_handle_are_gone,
    pages_come_through_an_arena_with_too_little_room,
    pages_end_in_zeros_where_their_file_ends,
    gather_equals_the_reference,
    reads_of_a_benchmark_are_right_in_every_way,
    words_are_right_while_their_pages_leave,
];

const PAGE: u64 = 4096;

fn start(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    let builder = device.engine().program(&page_probe::PROGRAM);
    let builder = builder.program(&gather::PROGRAM).size(2);
    builder.start().expect("the engine starts")
}

fn config(frames: u64) -> FilesConfig {
    FilesConfig {
        cache: CacheConfig {
            // A test may wait long for a processor; the case of pages that are all held sets less.
            patience: Duration::from_secs(100),
            ..CacheConfig::of(frames * PAGE)
        },
        ..FilesConfig::default()
    }
}

fn open(path: &Path) -> File {
    let file = File::options().read(true).write(true).open(path);
    file.expect("the file is there")
}

/// A file of numbers, and its bytes.
fn numbers(folder: &Path, pages: u64) -> (File, Vec<u64>) {
    let mut seed = 99;
    let numbers: Vec<u64> = (0..pages * PAGE / 8)
        .map(|_| random(&mut seed) >> 34)
        .collect();
    let path = folder.join("numbers");
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    std::fs::write(&path, bytes).expect("it is writable");
    (open(&path), numbers)
}

fn numbers_of(folder: &Path) -> Vec<u64> {
    let bytes = std::fs::read(folder.join("numbers")).expect("the file is there");
    let number = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
    bytes.chunks_exact(8).map(number).collect()
}

/// Runs tasks. Returns the sum of what they report, and that of the error numbers.
fn run(engine: &Engine, tasks: &[DevTask]) -> (u64, u64) {
    let mut pending = engine.submit_batch(tasks).expect("there is room");
    let value = pending.wait().expect("they run").value;
    (value & 0xffff_ffff, value >> 32)
}

fn one(walk: &Walk, function: u32, arg: u32) -> DevTask {
    walk.instance.task(function).args(arg, 0).build()
}

fn errno(error: FileErrno, times: u64) -> u64 {
    u64::from(error.0) * times
}

/// Lets walkers with this seed take this number of steps each, and adds to the expected numbers what they add to the file's.
fn add(
    engine: &Engine,
    walk: &Walk,
    (walkers, steps, seed): (u32, u64, u32),
    expected: &mut [u64],
) {
    let tasks = walk.tasks(steps).expect("there is room");
    assert_eq!(run(engine, &tasks), (u64::from(walkers) * steps, 0));
    let count = expected.len() as u64;
    for walker in 0..walkers {
        for left in 1..=steps {
            expected[choice(seed, walker, left, count) as usize] += 1;
        }
    }
}

fn pages_keep_every_addition(select: Select) {
    let engine = start(select);
    for (frames, walkers, steps, seed) in [(16, 40, 250, 1), (3, 2, 300, 2), (64, 300, 60, 3)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pages = 8 * frames;
        let (file, mut expected) = numbers(folder.path(), pages);
        let walk = Walk::new(&engine, config(frames), file, pages * PAGE, walkers, seed);
        let walk = walk.expect("there is memory");
        for _ in 0..2 {
            add(&engine, &walk, (walkers, steps, seed), &mut expected);
            let synced = run(&engine, &[walk.ask(SYNC, walk.handle, 0)]);
            assert_eq!(synced, (1, 0));
            assert!(numbers_of(folder.path()) == expected, "{frames} frames");
        }
        let stats = walk.files.page_stats().expect("there is a cache");
        assert!(
            stats.evicted > 0 && stats.written > 0 && stats.failed == 0,
            "{stats:?}"
        );
        // Each page that has left has had an order.
        assert!(
            stats.orders > stats.evicted && stats.order_batches <= stats.orders,
            "{stats:?}"
        );
        let own = walk.files.stats().expect("there are counters");
        assert!(own.takes > 0 && own.queued_most > 0, "{own:?}");
        // What is not synced is written at the end.
        add(&engine, &walk, (walkers, 1, seed), &mut expected);
        walk.files.close();
        assert!(numbers_of(folder.path()) == expected, "{frames} frames");
    }
}

/// Threads leave events for the one that takes them to the pager, and pass that on.
fn pages_of_many_threads_keep_every_addition(select: Select) {
    let engine = start(select);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (frames, walkers, steps, seed) = (128, 1000, 60, 4);
    let pages = 8 * frames;
    let (file, mut expected) = numbers(folder.path(), pages);
    let config = FilesConfig {
        // The least arena that cases run with has room for 16.
        threads: (2 * cores).clamp(8, 16) as u32,
        ..config(frames)
    };
    let walk = Walk::new(&engine, config, file, pages * PAGE, walkers, seed);
    let walk = walk.expect("there is memory");
    for _ in 0..2 {
        add(&engine, &walk, (walkers, steps, seed), &mut expected);
    }
    let synced = run(&engine, &[walk.ask(SYNC, walk.handle, 0)]);
    assert_eq!(synced, (1, 0));
    assert!(numbers_of(folder.path()) == expected);
    let stats = walk.files.page_stats().expect("there is a cache");
    let own = walk.files.stats().expect("there are counters");
    assert!(stats.evicted > pages && stats.failed == 0, "{stats:?}");
    // Each turn of the pager has some events.
    let events = stats.missed + stats.runs + stats.written + stats.order_batches;
    assert!(
        own.page_turns > 0 && own.page_turns <= events,
        "{own:?} {stats:?}"
    );
}

fn pages_of_one_miss_are_read_once(select: Select) {
    let engine = start(select);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, expected) = numbers(folder.path(), 8);
    let walk = Walk::new(&engine, config(4), file, 8 * PAGE, 1, 0).expect("there is memory");
    let tasks: Vec<_> = (0..400)
        .map(|number| one(&walk, SUM, 1000 + number % 20))
        .collect();
    let sum: u64 = (0..400).map(|number| expected[1000 + number % 20]).sum();
    let mut pending = engine.submit_batch(&tasks).expect("there is room");
    assert_eq!(pending.wait().expect("they run").value, sum);
    assert_eq!(walk.files.page_stats().expect("there is a cache").read, 1);
}

fn pages_that_are_all_held_are_an_error(select: Select) {
    let engine = start(select);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, _) = numbers(folder.path(), 8);
    let mut config = config(4);
    config.cache.patience = Duration::from_millis(200);
    let walk = Walk::new(&engine, config, file, 8 * PAGE, 1, 0).expect("there is memory");
    let hold = |pages: std::ops::Range<u32>| -> Vec<DevTask> {
        pages.map(|page| one(&walk, HOLD, page)).collect()
    };
    let let_go = |pages: std::ops::Range<u32>| -> Vec<DevTask> {
        pages.map(|page| one(&walk, LET_GO, page)).collect()
    };
    assert_eq!(run(&engine, &hold(0..4)), (4, 0));
    assert_eq!(run(&engine, &hold(4..6)), (0, errno(FileErrno::NOBUFS, 2)));
    // A page that is held has room for more holders.
    assert_eq!(run(&engine, &hold(3..4)), (1, 0));
    assert_eq!(run(&engine, &let_go(0..4)), (0, 0));
    assert_eq!(run(&engine, &hold(4..7)), (3, 0), "page 3 is still held");
    assert_eq!(run(&engine, &let_go(3..7)), (0, 0));
    assert_eq!(run(&engine, &hold(0..4)), (4, 0));
}

fn pages_of_a_file_that_shrinks(select: Select) {
    let engine = start(select);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, numbers) = numbers(folder.path(), 8);
    let own = file.try_clone().expect("it is open");
    let walk = Walk::new(&engine, config(8), file, 8 * PAGE, 1, 0).expect("there is memory");
    assert_eq!(
        run(&engine, &[one(&walk, SUM, 6 * 512)]).0,
        numbers[6 * 512]
    );
    own.set_len(3 * PAGE + 8).expect("it is writable");
    // A page in the cache is what it was. Others are gone.
    assert_eq!(
        run(&engine, &[one(&walk, SUM, 6 * 512)]).0,
        numbers[6 * 512]
    );
    for page in [3, 7] {
        let held = run(&engine, &[one(&walk, HOLD, page)]);
        assert_eq!(held, (0, errno(FileErrno::STALE, 1)), "page {page}");
    }
    assert_eq!(run(&engine, &[one(&walk, SUM, 512)]).0, numbers[512]);
    // Writing back would make the file long again.
    let tasks = walk.tasks(20).expect("there is room");
    let (added, _) = run(&engine, &tasks);
    let synced = run(&engine, &[walk.ask(SYNC, walk.handle, 0)]);
    if added > 0 {
        assert_eq!(synced, (0, errno(FileErrno::STALE, 1)));
    }
    assert_eq!(own.metadata().expect("it is open").len(), 3 * PAGE + 8);
}

fn pages_that_cannot_be_written_back(select: Select) {
    let engine = start(select);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, before) = numbers(folder.path(), 8);
    let twin = file.try_clone().expect("it is open");
    let config = FilesConfig {
        faults: Some(Faults {
            seed: 1,
            full: 1000,
            ..Faults::default()
        }),
        ..config(8)
    };
    let walk = Walk::new(&engine, config, file, 8 * PAGE, 4, 9).expect("there is memory");
    let other = walk.files.give_cached(twin, Rights::ReadWrite, 0);
    let other = other.expect("there is a handle");
    let tasks = walk.tasks(5).expect("there is room");
    assert_eq!(run(&engine, &tasks), (20, 0));
    let full = (0, errno(FileErrno::NOSPC, 1));
    for handle in [walk.handle, other, walk.handle] {
        assert_eq!(run(&engine, &[walk.ask(SYNC, handle, 0)]), full);
    }
    // Each close tells of it, and the last one gives the pages up.
    for handle in [walk.handle, other] {
        assert_eq!(run(&engine, &[walk.ask(CLOSE, handle, 0)]), full);
    }
    assert_eq!(numbers_of(folder.path()), before);
    assert!(walk.files.page_stats().expect("there is a cache").failed > 0);
}

fn pages_follow_the_host_at_open_and_sync(select: Select) {
    let engine = start(select);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, mut numbers) = numbers(folder.path(), 8);
    let own = open(&folder.path().join("numbers"));
    let walk = Walk::new(&engine, config(8), file, 8 * PAGE, 1, 4).expect("there is memory");
    let number = 5 * 512 + 3;
    let sum = || run(&engine, &[one(&walk, SUM, number)]).0;
    assert_eq!(sum(), numbers[number as usize]);
    own.write_all_at(&7_u64.to_le_bytes(), u64::from(number) * 8)
        .expect("it is writable");
    assert_eq!(sum(), numbers[number as usize], "until it is opened again");
    let again = open(&folder.path().join("numbers"));
    let again = walk.files.give_cached(again, Rights::Read, 0);
    let again = again.expect("there is a handle");
    numbers[number as usize] = 7;
    assert_eq!(sum(), 7);
    // What tasks and the host write next to each other in a page stays.
    let changed = choice(4, 0, 1, numbers.len() as u64) as usize;
    let tasks = walk.tasks(1).expect("there is room");
    assert_eq!(run(&engine, &tasks), (1, 0));
    numbers[changed] += 1;
    let neighbour = changed ^ 8;
    own.write_all_at(&9_u64.to_le_bytes(), neighbour as u64 * 8)
        .expect("it is writable");
    numbers[neighbour] = 9;
    assert_eq!(run(&engine, &[walk.ask(SYNC, again, 0)]), (1, 0));
    assert!(numbers_of(folder.path()) == numbers);
}

fn pages_are_cut_with_their_file(select: Select) {
    let engine = start(select);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, numbers) = numbers(folder.path(), 8);
    let walk = Walk::new(&engine, config(8), file, 8 * PAGE, 4, 0).expect("there is memory");
    assert_eq!(run(&engine, &[one(&walk, HOLD, 5)]), (1, 0));
    let truncate = |size| run(&engine, &[walk.ask(TRUNCATE, walk.handle, size)]);
    let len = || {
        folder
            .path()
            .join("numbers")
            .metadata()
            .expect("it is there")
            .len()
    };
    assert_eq!(truncate(5 * 4096 + 16), (0, errno(FileErrno::BUSY, 1)));
    assert_eq!(len(), 8 * PAGE);
    assert_eq!(run(&engine, &[one(&walk, LET_GO, 5)]), (0, 0));
    assert_eq!(
        run(&engine, &[one(&walk, SUM, 5 * 512 + 1)]).0,
        numbers[5 * 512 + 1]
    );
    assert_eq!(truncate(5 * 4096 + 8), (1, 0));
    assert_eq!(len(), 5 * PAGE + 8);
    assert_eq!(
        run(&engine, &[one(&walk, SUM, 5 * 512)]).0,
        numbers[5 * 512]
    );
    let beyond = run(&engine, &[one(&walk, SUM, 5 * 512 + 1)]);
    assert_eq!(beyond, (0, errno(FileErrno::INVAL, 1)));
    // It may grow as far as it was large.
    assert_eq!(truncate(8 * 4096), (1, 0));
    assert_eq!(truncate(9 * 4096), (0, errno(FileErrno::FBIG, 1)));
    assert_eq!(
        run(&engine, &[one(&walk, SUM, 5 * 512 + 1)]),
        (0, 0),
        "zeros"
    );
}

fn pages_of_a_closed_handle_are_gone(select: Select) {
    let engine = start(select);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, _) = numbers(folder.path(), 8);
    let walk = Walk::new(&engine, config(4), file, 8 * PAGE, 4, 0).expect("there is memory");
    assert_eq!(run(&engine, &[one(&walk, HOLD, 1)]), (1, 0));
    let close = || run(&engine, &[walk.ask(CLOSE, walk.handle, 0)]);
    assert_eq!(close(), (0, errno(FileErrno::BUSY, 1)));
    assert_eq!(run(&engine, &[one(&walk, LET_GO, 1)]), (0, 0));
    assert_eq!(close(), (1, 0));
    assert_eq!(close(), (0, errno(FileErrno::BADF, 1)));
    let stale = run(&engine, &[one(&walk, SUM, 0)]);
    assert_eq!(stale, (0, errno(FileErrno::BADF, 1)));
    for forged in [1, walk.handle.0 ^ 1, u32::MAX] {
        let sync = walk.ask(SYNC, FileHandle(forged), 0);
        assert_eq!(run(&engine, &[sync]), (0, errno(FileErrno::BADF, 1)));
    }
    // Its words are used again.
    for _ in 0..40 {
        let file = open(&folder.path().join("numbers"));
        let handle = walk.files.give_cached(file, Rights::Read, 0);
        let handle = handle.expect("there is room in the table");
        assert_eq!(run(&engine, &[walk.ask(CLOSE, handle, 0)]), (1, 0));
    }
    assert_eq!(walk.files.stats().expect("there are counters").open, 0);
}

/// Two threads with four times 4 KiB each.
const SMALL_ARENA: ArenaConfig = ArenaConfig {
    bytes: 8 * PAGE,
    always: true,
};

fn pages_come_through_an_arena_with_too_little_room(select: Select) {
    let engine = start(select);
    for (page, frames, walkers, steps) in [
        (1 << 12, 64, 200, 40),
        (1 << 16, 8, 30, 20),
        (1 << 20, 4, 3, 20),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let size = 4 * frames * u64::from(page) - PAGE / 2;
        let (file, mut expected) = numbers(folder.path(), size.div_ceil(PAGE));
        file.set_len(size).expect("it is writable");
        expected.truncate(size as usize / 8);
        let count = expected.len() as u64;
        let config = FilesConfig {
            threads: 2,
            arena: SMALL_ARENA,
            cache: CacheConfig {
                page,
                ahead: 8 * page,
                patience: Duration::from_secs(100),
                ..CacheConfig::of(frames * u64::from(page))
            },
            ..FilesConfig::default()
        };
        let walk = Walk::new(&engine, config, file, size, walkers, 5);
        let walk = walk.expect("there is memory");
        let tasks = walk.tasks(steps).expect("there is room");
        let added = run(&engine, &tasks);
        assert_eq!(added, (u64::from(walkers) * steps, 0));
        for walker in 0..walkers {
            for left in 1..=steps {
                expected[choice(5, walker, left, count) as usize] += 1;
            }
        }
        // Every number is what it was or what it became, read in order: the host reads ahead.
        let tasks: Vec<DevTask> = (0..count.div_ceil(PAGE / 8))
            .map(|at| one(&walk, SUM, (at * PAGE / 8) as u32))
            .collect();
        let sum: u64 = expected.iter().step_by(PAGE as usize / 8).sum();
        for part in tasks.chunks(64) {
            let mut pending = engine.submit_batch(part).expect("there is room");
            pending.wait().expect("they run");
        }
        let mut pending = engine.submit_batch(&tasks).expect("there is room");
        assert_eq!(
            pending.wait().expect("they run").value,
            sum,
            "pages of {page}"
        );
        let synced = run(&engine, &[walk.ask(SYNC, walk.handle, 0)]);
        assert_eq!(synced, (1, 0));
        assert!(numbers_of(folder.path()) == expected, "pages of {page}");
        wait_until("every place has come back", || {
            walk.files.stats().expect("there are counters").arena == 0
        });
        let own = walk.files.stats().expect("there are counters");
        assert!(
            own.copy_batches > 0 && own.copies >= own.copy_batches,
            "{own:?}"
        );
        let waits = [own.copy_wait, own.order_wait];
        assert!(!waits.contains(&Duration::ZERO), "{own:?}");
    }
}

fn pages_end_in_zeros_where_their_file_ends(select: Select) {
    let engine = start(select);
    for arena in [ArenaConfig::default(), SMALL_ARENA] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, numbers) = numbers(folder.path(), 8);
        file.set_len(7 * PAGE + 8).expect("it is writable");
        let config = FilesConfig {
            threads: 2,
            arena,
            ..config(3)
        };
        let walk = Walk::new(&engine, config, file, 8 * PAGE, 1, 0).expect("there is memory");
        let sum = |word: u32| run(&engine, &[one(&walk, SUM, word)]);
        // No frame is empty.
        for page in (0..7).chain(0..7) {
            let word = page * 512 + 300;
            let value = numbers[word as usize];
            assert_eq!(sum(word), (value & 0xffff_ffff, value >> 32));
        }
        assert_eq!(run(&engine, &[one(&walk, HOLD, 7)]), (1, 0));
        let grown = run(&engine, &[walk.ask(TRUNCATE, walk.handle, 8 * 4096)]);
        assert_eq!(grown, (1, 0));
        let value = numbers[7 * 512];
        assert_eq!(sum(7 * 512), (value & 0xffff_ffff, value >> 32));
        for word in 1..512 {
            assert_eq!(sum(7 * 512 + word), (0, 0), "word {word}, {arena:?}");
        }
        assert_eq!(run(&engine, &[one(&walk, LET_GO, 7)]), (0, 0));
    }
}

fn gather_equals_the_reference(select: Select) {
    let engine = start(select);
    let spec = "rmat:10:8".parse().expect("a generated graph");
    let graph = everwarp_graph::generate(&spec).expect("it is small");
    for (row, fanouts, cache) in [
        (1024, vec![5, 3], 32 * PAGE),
        (64, vec![4], 8 * PAGE),
        (4096, vec![3, 2], 64 * PAGE),
    ] {
        let shape = Shape {
            row,
            seeds: 50,
            fanouts,
            slots: 3,
        };
        let features = Features::generate(&graph, row, 7).expect("there is room on the disk");
        let gather = Gather::new(&engine, &graph, &features, &shape, cache);
        let gather = gather.expect("there is memory");
        let mut count = 0;
        for batch in gather.batches(&engine, 8) {
            let batch = batch.expect("it can be read");
            assert_eq!(batch.number, count);
            let nodes = gather::reference(&graph, &shape, batch.number);
            assert!(batch.nodes == nodes, "batch {count}");
            let expected: Vec<u8> = nodes.iter().flat_map(|&node| features.row(node)).collect();
            assert!(batch.rows == expected, "batch {count}");
            count += 1;
        }
        assert_eq!(count, 8);
    }
}

/// Tasks on a GPU read words of pages that they do not hold.
fn words_are_right_while_their_pages_leave(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(&reads::PROGRAM).start();
    let engine = engine.expect("the engine starts");
    let bytes = 64 * PAGE;
    let file = reads::generate(bytes).expect("there is room");
    // Most words are of a page that is there, and some page leaves all the time.
    let sizes = Sizes {
        bytes,
        cache: bytes * 3 / 4,
        ahead: 0,
        slots: 1024,
        steps: 64,
        copy: false,
    };
    for seed in 0..4 {
        let reads = Reads::new(&engine, &file, sizes, seed).expect("there is memory");
        let round = reads.round(&engine, Way::Words).expect("it runs");
        assert!(round.right, "seed {seed}");
        let read = reads.page_stats().read;
        assert!(read > 64, "seed {seed}: pages were read {read} times");
    }
}

fn reads_of_a_benchmark_are_right_in_every_way(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(&reads::PROGRAM).size(2).start();
    let engine = engine.expect("the engine starts");
    let bytes = 64 * PAGE;
    let file = reads::generate(bytes).expect("there is room");
    let sizes = |cache, ahead, copy| Sizes {
        bytes,
        cache,
        ahead,
        slots: 4,
        steps: 16,
        copy,
    };
    for (sizes, ways) in [
        (sizes(0, 0, false), &[Way::Direct, Way::DirectInOrder][..]),
        (
            sizes(bytes / 8, 4 * PAGE as u32, false),
            &[Way::Cached, Way::CachedInOrder],
        ),
        (
            sizes(bytes / 8, 0, true),
            &[Way::Words, Way::Pages, Way::PlainWords, Way::PlainPages],
        ),
    ] {
        let reads = Reads::new(&engine, &file, sizes, 3).expect("there is memory");
        for &way in ways {
            for _ in 0..2 {
                let round = reads.round(&engine, way).expect("it runs");
                assert!(round.right && round.seconds > 0.0, "{way:?} {sizes:?}");
            }
        }
        match sizes.cache {
            0 => {
                let took = reads.took_s().expect("there are times");
                assert_eq!(took.len(), 64);
                assert!(took.iter().all(|&took| took > 0.0), "{took:?}");
            }
            _ => assert!(reads.page_stats().read >= 8, "{:?}", reads.page_stats()),
        }
    }
    let reads = Reads::new(&engine, &file, sizes(0, 0, false), 3).expect("there is memory");
    for others in [0, 3] {
        let (took, right, _) = reads.with_load(&engine, others).expect("it runs");
        assert!(took.len() == 16 && right, "{others}");
    }
    let alone = Reads::new(&engine, &file, sizes(0, 0, false), 3).expect("there is memory");
    let (_, right, _) = alone.with_load(&engine, 0).expect("it runs");
    let stats = alone.stats().expect("there are counters");
    assert!(right && stats.served == 16, "{stats:?}");
    // Faults are for reads that may wait, and not every file system says whether one waits.
    let mut page = [0; PAGE as usize];
    let parts = &mut [IoSliceMut::new(&mut page)];
    let says = rustix::io::preadv2(&file, parts, 0, ReadWriteFlags::NOWAIT).is_ok();
    let faulted = std::env::var_os("EVERWARP_FILE_FAULTS").is_some();
    assert_eq!(stats.lone_reads > 0, says && !faulted, "{stats:?}");
    // A file that has something else is noticed.
    file.write_at(&[1], 5 * PAGE).expect("it is writable");
    let reads = Reads::new(&engine, &file, sizes(0, 0, false), 3).expect("there is memory");
    let round = reads.round(&engine, Way::DirectInOrder).expect("it runs");
    assert!(!round.right);
}
