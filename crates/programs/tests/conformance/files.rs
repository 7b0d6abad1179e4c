//! Files of native tasks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp::files::{
    ArenaConfig, Backend, DevFileEntry, DevFileList, DevFileStat, FILE_BACKGROUND, FILE_CREATE,
    FILE_EMPTY, FILE_FOR_READING, FILE_FOR_WRITING, FILE_INTERACTIVE, FILE_KIND_DIRECTORY,
    FILE_KIND_LINK, FILE_KIND_REGULAR, FILE_NEW, FILE_UNORDERED, Faults, FileErrno, Files,
    FilesConfig, FilesError, Rights,
};
use everwarp::{Buffer, DevType, Device, Engine, Error, Select};
use everwarp_programs::file_probe::{self, DevFileStep, MANY, Op, Script};
use everwarp_programs::words::{self, Words};
use everwarp_programs::{RunError, noop};
use everwarp_testkit::cases;

use crate::support::{Case, least_size, random, wait_until};

pub(crate) const ALL: &[Case] = cases![
    files_are_written_and_read_back,
    files_of_a_full_ring_are_asked_for_again,
    files_keep_the_order_of_a_handle,
    files_append_after_the_last_byte,
    files_list_a_tree,
    files_refuse_what_was_not_granted,
    files_refuse_handles_that_are_not_open,
    files_report_a_full_device,
    files_end_where_they_were_truncated,
    files_wait_while_the_engine_is_idle,
    files_outlast_a_park,
    files_of_two_instances_are_apart,
    files_that_are_dropped_answer_every_request,
    files_that_are_dropped_while_parked_end,
    files_check_their_sizes_and_doors,
    files_cancel_requests_that_wait,
    files_cancel_some_of_the_reads_of_a_job,
    files_give_up_at_a_deadline,
    files_in_the_background_let_others_pass,
    files_limit_the_bytes_in_flight,
    files_wait_for_room_in_the_arena,
    files_name_their_backend,
    words_of_a_file_larger_than_the_buffers,
    words_of_a_file_that_shrinks,
];

/// The cases for engines without files.
pub(crate) const REFUSED: &[Case] = cases![files_are_refused_by_name];

fn files_are_refused_by_name(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(&noop::PROGRAM).start();
    let engine = engine.expect("it starts");
    let refused = Files::new(&engine, FilesConfig::default());
    let error = refused.expect_err("this engine has no files");
    let named = matches!(error, FilesError::NotOnEngine { engine: kind } if kind == engine.kind());
    assert!(
        named && error.to_string().contains("--engine cpu"),
        "{error}"
    );
}

pub(crate) fn start(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    let builder = device.engine().program(&file_probe::PROGRAM);
    let builder = builder.program(&words::PROGRAM).size(2);
    builder.start().expect("the engine starts")
}

pub(crate) fn files(engine: &Engine, config: FilesConfig) -> Arc<Files> {
    Script::files(engine, config).expect("there is memory")
}

/// A shared buffer with these bytes.
pub(crate) fn shared(files: &Files, bytes: &[u8]) -> Arc<Buffer<u8>> {
    let buffer = files.buffer(bytes.len()).expect("there is memory");
    buffer.write(bytes).expect("it has that length");
    buffer
}

pub(crate) fn address(buffer: &Buffer<u8>) -> u64 {
    buffer.ptr().address()
}

pub(crate) fn script(engine: &Engine, files: &Arc<Files>, steps: &[DevFileStep]) -> Script {
    Script::new(engine, files.clone(), steps).expect("it can be served")
}

pub(crate) type Results = Vec<Option<Result<u32, FileErrno>>>;

/// Asks for the first `count` steps, waits until they and those that follow are done, and returns all results.
pub(crate) fn run(engine: &Engine, script: &Script, count: u32) -> Results {
    let mut pending = script.submit(engine, 0, count).expect("there is room");
    let done = pending.wait().expect("it runs").value;
    let results = script.results().expect("they can be read");
    let noted = results.iter().filter(|r| r.is_some()).count() as u64;
    assert_eq!(done, noted, "each reports once");
    wait_until("nothing is on its way", || {
        script.files.stats().expect("there are counters").in_flight == 0
    });
    results
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn text(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the file is there")
}

pub(crate) fn noise(bytes: usize, mut seed: u64) -> Vec<u8> {
    (0..bytes).map(|_| random(&mut seed) as u8).collect()
}

/// A chain of steps: each begins when the step before it is done.
pub(crate) fn chain(steps: &[DevFileStep]) -> Vec<DevFileStep> {
    let last = steps.len() - 1;
    let linked = steps.iter().enumerate().map(|(at, step)| match at < last {
        true => step.then(at as u32 + 1),
        false => *step,
    });
    linked.collect()
}

fn files_are_written_and_read_back(select: Select) {
    let (engine, folder) = (start(select), folder());
    let files = files(&engine, FilesConfig::default());
    let dir = files.grant(folder.path(), Rights::ReadWrite);
    let dir = dir.expect("it is there");
    let bytes = noise(300_000, 1);
    let source = shared(&files, &bytes);
    let target = shared(&files, &[7; 300_010]);
    let path = shared(&files, b"new.bin");
    let stat = shared(&files, &[0; size_of::<DevFileStat>()]);
    let flags = FILE_FOR_READING | FILE_FOR_WRITING | FILE_NEW;
    let steps = chain(&[
        DevFileStep::new(Op::Open, dir, flags.into(), address(&path), 7),
        DevFileStep::new(Op::Write, 0, 10, address(&source), 300_000).of(0),
        DevFileStep::new(Op::Stat, 0, 0, address(&stat), 0).of(0),
        DevFileStep::new(Op::Read, 0, 10, address(&target) + 3, 300_007).of(0),
        DevFileStep::new(Op::Read, 0, 300_010, address(&target), 1).of(0),
        DevFileStep::new(Op::Truncate, 0, 20, 0, 0).of(0),
        DevFileStep::new(Op::Sync, 0, 0, 0, 0).of(0),
        DevFileStep::new(Op::Close, 0, 0, 0, 0).of(0),
        DevFileStep::new(Op::Sync, 0, 0, 0, 0).of(0),
    ]);
    let script = script(&engine, &files, &steps);
    let results = run(&engine, &script, 1);
    let Some(Ok(handle)) = results[0] else {
        panic!("it opens: {results:?}");
    };
    assert!(handle > 0);
    let moved = [300_000, 0, 300_000, 0, 0, 0, 0].map(|n| Some(Ok(n)));
    assert_eq!(results[1..8], moved);
    assert_eq!(results[8], Some(Err(FileErrno::BADF)), "it is closed");
    let read = target.read().expect("it can be read");
    assert!(
        read[..3] == [7; 3] && read[300_003..] == [7; 7],
        "nothing else"
    );
    assert!(read[3..300_003] == bytes[..], "what was written");
    let on_disk = text(&folder.path().join("new.bin"));
    assert_eq!(on_disk, [&[0; 10], &bytes[..10]].concat());
    let stat = DevFileStat::from_bytes(&stat.read().expect("it can be read"));
    assert_eq!(
        (stat.size, stat.kind, stat.links),
        (300_010, FILE_KIND_REGULAR, 1)
    );
    assert!(stat.modified > 1_600_000_000_000_000_000);
    let stats = files.stats().expect("there are counters");
    assert_eq!((stats.served, stats.failed, stats.open), (8, 1, 0));
    // The name is taken now.
    let again = crate::files::files(&engine, FilesConfig::default());
    let dir = again
        .grant(folder.path(), Rights::ReadWrite)
        .expect("it is there");
    let path = shared(&again, b"new.bin");
    let step = DevFileStep::new(Op::Open, dir, flags.into(), address(&path), 7);
    let script = self::script(&engine, &again, &[step]);
    assert_eq!(run(&engine, &script, 1), [Some(Err(FileErrno::EXIST))]);
}

/// 3,000 reads through a ring of 4 slots.
fn files_of_a_full_ring_are_asked_for_again(select: Select) {
    const READS: usize = 3_000;
    let (engine, folder) = (start(select), folder());
    let config = FilesConfig {
        requests: 4,
        ..FilesConfig::default()
    };
    let files = files(&engine, config);
    let bytes = noise(READS * 40, 2);
    std::fs::write(folder.path().join("data"), &bytes).expect("it is writable");
    let file = File::open(folder.path().join("data")).expect("it was just made");
    let handle = files.give(file, Rights::Read, true).expect("there is room");
    let target = shared(&files, &vec![0; bytes.len()]);
    // Each piece goes to the place of the same number from the end.
    let steps: Vec<_> = (0..READS as u64)
        .map(|at| {
            let to = address(&target) + (READS as u64 - 1 - at) * 40;
            DevFileStep::new(Op::Read, handle.0, at * 40, to, 40)
        })
        .collect();
    let script = script(&engine, &files, &steps);
    let tasks: Vec<_> = (0..READS as u32)
        .step_by(MANY as usize)
        .map(|first| script.task(first, MANY))
        .collect();
    let mut pending = engine.submit_batch(&tasks).expect("there is room");
    assert_eq!(pending.wait().expect("it runs").value, READS as u64);
    let results = script.results().expect("they can be read");
    assert_eq!(results, vec![Some(Ok(40)); READS]);
    let read = target.read().expect("it can be read");
    let turned: Vec<u8> = bytes.chunks(40).rev().flatten().copied().collect();
    assert!(read == turned);
    let stats = files.stats().expect("there are counters");
    assert_eq!(stats.served, READS as u64);
    assert!(stats.refused > 0, "the ring was full");
}

/// Writes to one place, one after the other: the last one wins. With barriers on a handle without an order, too.
fn files_keep_the_order_of_a_handle(select: Select) {
    for unordered in [false, true] {
        let (engine, folder) = (start(select), folder());
        let files = files(&engine, FilesConfig::default());
        let path = folder.path().join("data");
        let open = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let handle = files.give(open.expect("it is writable"), Rights::ReadWrite, unordered);
        let handle = handle.expect("there is room").0;
        let source = shared(
            &files,
            &(0..MANY as u8).flat_map(|b| [b; 500]).collect::<Vec<_>>(),
        );
        let steps: Vec<_> = (0..MANY)
            .map(|at| match unordered && at % 2 == 0 {
                // All before it is on the disk, and all after it waits.
                true => DevFileStep::new(Op::Sync, handle, 0, 0, 0),
                false => {
                    let from = address(&source) + u64::from(at) * 500;
                    DevFileStep::new(Op::Write, handle, 0, from, 500)
                }
            })
            .collect();
        let script = script(&engine, &files, &steps);
        for result in run(&engine, &script, MANY) {
            assert!(matches!(result, Some(Ok(0 | 500))), "{result:?}");
        }
        assert_eq!(text(&path), [MANY as u8 - 1; 500]);
    }
}

fn files_append_after_the_last_byte(select: Select) {
    let (engine, folder) = (start(select), folder());
    let files = files(&engine, FilesConfig::default());
    let path = folder.path().join("log");
    std::fs::write(&path, "start\n").expect("it is writable");
    let source = shared(&files, b"line\n");
    let dir = files
        .grant(folder.path(), Rights::ReadWrite)
        .expect("it is there");
    let name = shared(&files, b"log");
    let flags = (FILE_FOR_WRITING | FILE_UNORDERED).into();
    let mut steps = vec![
        DevFileStep::new(Op::Open, dir, flags, address(&name), 3),
        DevFileStep::new(Op::Open, dir, flags, address(&name), 3),
    ];
    for at in 0..MANY - 2 {
        let step = DevFileStep::new(Op::Append, 0, 0, address(&source), 5);
        steps.push(step.of(at % 2));
    }
    let script = script(&engine, &files, &steps);
    let mut opened = script.submit(&engine, 0, 2).expect("there is room");
    assert_eq!(opened.wait().expect("it runs").value, 2);
    let mut appended = script.submit(&engine, 2, MANY - 2).expect("there is room");
    assert_eq!(appended.wait().expect("it runs").value, u64::from(MANY) - 2);
    let written = script.results().expect("they can be read");
    assert!(
        written[2..].iter().all(|r| *r == Some(Ok(5))),
        "{written:?}"
    );
    let expected = "start\n".to_owned() + &"line\n".repeat(MANY as usize - 2);
    let log = text(&path);
    // Under faults, a line that is written in two parts may have another line within it.
    match std::env::var_os("EVERWARP_FILE_FAULTS") {
        None => assert!(log == expected.as_bytes()),
        Some(_) => {
            let sorted = |mut bytes: Vec<u8>| {
                bytes.sort_unstable();
                bytes
            };
            assert!(sorted(log) == sorted(expected.into_bytes()));
        }
    }
}

/// The entries of a listing: path, kind and size.
fn entries(listing: &[u8]) -> Vec<(String, u32, u64)> {
    let head = DevFileList::from_bytes(&listing[..16]);
    let (mut at, mut entries) = (16, Vec::new());
    for _ in 0..head.entries {
        let entry = DevFileEntry::from_bytes(&listing[at..at + 16]);
        let path = &listing[at + 16..][..entry.path as usize];
        entries.push((
            String::from_utf8_lossy(path).into_owned(),
            entry.kind,
            entry.size,
        ));
        at = (at + 16 + path.len()).next_multiple_of(8);
    }
    assert_eq!(at as u64, head.bytes, "nothing is left over");
    entries
}

fn files_list_a_tree(select: Select) {
    let (engine, folder) = (start(select), folder());
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("b/deep/er")).expect("it is writable");
    std::fs::create_dir(tree.join("empty")).expect("it is writable");
    for (name, size) in [
        ("a", 5),
        ("b/deep/c", 0),
        ("b/deep/er/long name.txt", 300),
        ("z", 1),
    ] {
        std::fs::write(tree.join(name), vec![0; size]).expect("it is writable");
    }
    std::os::unix::fs::symlink("..", tree.join("b/up")).expect("it is writable");
    let files = files(&engine, FilesConfig::default());
    let dir = files
        .grant(folder.path(), Rights::Read)
        .expect("it is there");
    let names = shared(&files, b"tree..tree/atree/b/up");
    let target = shared(&files, &[9; 2000]);
    let (name, to) = (address(&names), address(&target));
    let steps = chain(&[
        DevFileStep::list(dir, name, 4, to, 1000),
        DevFileStep::list(dir, name, 4, to + 1000, 40),
        DevFileStep::list(dir, name, 4, to + 1040, 15),
        DevFileStep::list(dir, name, 4, to + 1900, 101),
        DevFileStep::list(dir, name + 4, 2, to, 1000),
        DevFileStep::list(dir + 1, name, 4, to, 1000),
        DevFileStep::list(dir, name + 6, 6, to, 1000),
        DevFileStep::list(dir, name, 3, to, 1000),
    ]);
    let script = script(&engine, &files, &steps);
    let results = run(&engine, &script, 1);
    let listing = target.read().expect("it can be read");
    let Some(Ok(bytes)) = results[0] else {
        panic!("it fits: {results:?}");
    };
    let (kind_dir, link) = (FILE_KIND_DIRECTORY, FILE_KIND_LINK);
    let expected = [
        ("a", FILE_KIND_REGULAR, 5),
        ("b", kind_dir, 0),
        ("b/deep", kind_dir, 0),
        ("b/deep/c", FILE_KIND_REGULAR, 0),
        ("b/deep/er", kind_dir, 0),
        ("b/deep/er/long name.txt", FILE_KIND_REGULAR, 300),
        ("b/up", link, 0),
        ("empty", kind_dir, 0),
        ("z", FILE_KIND_REGULAR, 1),
    ];
    let expected = expected.map(|(path, kind, size)| (path.to_owned(), kind, size));
    assert_eq!(entries(&listing[..bytes as usize]), expected);
    assert!(
        listing[bytes as usize..1000].iter().all(|&b| b == 9),
        "nothing else"
    );
    let errors = [
        FileErrno::NOBUFS,
        FileErrno::INVAL,
        FileErrno::FAULT,
        FileErrno::NOTCAPABLE,
        FileErrno::NOTCAPABLE,
        FileErrno::NOTDIR,
        FileErrno::NOENT,
    ];
    assert_eq!(results[1..], errors.map(|error| Some(Err(error))));
    // What does not fit says how large it is.
    let head = DevFileList::from_bytes(&listing[1000..1016]);
    assert_eq!((head.bytes, head.entries), (bytes.into(), 9));
    assert!(listing[1016..2000].iter().all(|&b| b == 9));
}

fn files_refuse_what_was_not_granted(select: Select) {
    let (engine, folder) = (start(select), folder());
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).expect("it is writable");
    std::fs::write(folder.path().join("secret"), "no").expect("it is writable");
    std::fs::write(inner.join("file"), "yes").expect("it is writable");
    std::os::unix::fs::symlink("../secret", inner.join("link")).expect("it is writable");
    let files = files(&engine, FilesConfig::default());
    let dir = files.grant(&inner, Rights::Read).expect("it is there");
    let missing = files.grant(folder.path().join("none"), Rights::Read);
    assert!(matches!(missing, Err(FilesError::Grant { .. })));
    let names = shared(&files, b"file../secretlinknone\xff/etc/passwd.");
    let at = |from: u64, len: u32| (address(&names) + from, len);
    let read = u64::from(FILE_FOR_READING);
    let open = |dir, flags, (address, len)| DevFileStep::new(Op::Open, dir, flags, address, len);
    let write = u64::from(FILE_FOR_WRITING);
    let (create, empty) = (u64::from(FILE_CREATE), u64::from(FILE_EMPTY));
    let unmapped = (0x10, 4);
    let expected = [
        (open(dir + 1, read, at(0, 4)), FileErrno::NOTCAPABLE),
        (open(u32::MAX, read, at(0, 4)), FileErrno::NOTCAPABLE),
        (open(dir, write, at(0, 4)), FileErrno::NOTCAPABLE),
        (open(dir, write | create, at(17, 4)), FileErrno::NOTCAPABLE),
        (open(dir, write | empty, at(0, 4)), FileErrno::NOTCAPABLE),
        (open(dir, read, at(4, 9)), FileErrno::NOTCAPABLE),
        (open(dir, read, at(13, 4)), FileErrno::NOTCAPABLE),
        (open(dir, read, at(22, 11)), FileErrno::NOTCAPABLE),
        (open(dir, read, at(17, 4)), FileErrno::NOENT),
        (open(dir, read, at(21, 1)), FileErrno::INVAL),
        (open(dir, read | 1 << 20, at(0, 4)), FileErrno::INVAL),
        (open(dir, read, at(33, 1)), FileErrno::ISDIR),
        (open(dir, read, at(30, 5)), FileErrno::FAULT),
        (open(dir, read, unmapped), FileErrno::FAULT),
        (open(dir, read, (u64::MAX - 1, 4)), FileErrno::FAULT),
        (open(dir, read, at(0, u32::MAX)), FileErrno::INVAL),
    ];
    let steps: Vec<_> = expected.iter().map(|(step, _)| *step).collect();
    let script = script(&engine, &files, &steps);
    let results = run(&engine, &script, steps.len() as u32);
    for (at, (result, (_, error))) in results.iter().zip(&expected).enumerate() {
        assert_eq!(*result, Some(Err(*error)), "step {at}");
    }
    let stats = files.stats().expect("there are counters");
    assert_eq!((stats.failed, stats.open), (expected.len() as u64, 0));
    assert_eq!(text(&folder.path().join("secret")), b"no");
    assert!(!inner.join("none").exists());
}

fn files_refuse_handles_that_are_not_open(select: Select) {
    let (engine, folder) = (start(select), folder());
    let path = folder.path().join("file");
    std::fs::write(&path, "0123456789").expect("it is writable");
    let config = FilesConfig {
        handles: 2,
        ..FilesConfig::default()
    };
    let files = files(&engine, config);
    let give = |rights| {
        let file = File::options().read(true).write(true).open(&path);
        files.give(file.expect("it is there"), rights, false)
    };
    let reads = give(Rights::Read).expect("there is room").0;
    let other = give(Rights::ReadWrite).expect("there is room").0;
    let full = give(Rights::Read).expect_err("all are in use");
    assert!(matches!(full, FilesError::Handles { limit: 2 }), "{full}");
    let dir = files
        .grant(folder.path(), Rights::Read)
        .expect("it is there");
    let buffer = shared(&files, b"file______");
    let bytes = address(&buffer);
    let read = |handle| DevFileStep::new(Op::Read, handle, 0, bytes, 4);
    let steps = chain(&[
        read(0),
        read(u32::MAX),
        read(reads ^ 1 << 16),
        read(reads ^ 1 << 31),
        read(reads + 2),
        DevFileStep::new(Op::Write, reads, 0, bytes, 4),
        DevFileStep::new(Op::Append, reads, 0, bytes, 4),
        DevFileStep::new(Op::Truncate, reads, 0, 0, 0),
        DevFileStep::new(Op::Open, dir, FILE_FOR_READING.into(), bytes, 4),
        DevFileStep::new(Op::Close, other, 0, 0, 0),
        DevFileStep::new(Op::Close, other, 0, 0, 0),
        // It takes the place of the one that was closed.
        DevFileStep::new(Op::Open, dir, FILE_FOR_READING.into(), bytes, 4),
        read(other),
        DevFileStep::new(Op::Read, 0, 0, bytes + 4, 4).of(11),
        DevFileStep::new(Op::Read, reads, u64::MAX, bytes, 4),
        DevFileStep::new(Op::Read, reads, 0, bytes + 7, 4),
    ]);
    let script = script(&engine, &files, &steps);
    let results = run(&engine, &script, 1);
    let badf = Some(Err(FileErrno::BADF));
    assert_eq!(results[..8], [badf; 8]);
    assert_eq!(results[8], Some(Err(FileErrno::MFILE)));
    assert_eq!(results[9..11], [Some(Ok(0)), badf]);
    let Some(Ok(opened)) = results[11] else {
        panic!("a place is free: {results:?}");
    };
    assert_eq!((opened & 0xffff, opened != other), (other & 0xffff, true));
    assert_eq!(results[12..14], [badf, Some(Ok(4))]);
    assert_eq!(results[14], Some(Err(FileErrno::INVAL)), "no such offset");
    assert_eq!(results[15], Some(Err(FileErrno::FAULT)), "one byte too far");
    assert_eq!(buffer.read().expect("it can be read"), b"file0123__");
    assert_eq!(text(&path), b"0123456789");
}

fn files_report_a_full_device(select: Select) {
    let engine = start(select);
    let files = files(&engine, FilesConfig::default());
    let full = File::options().read(true).write(true).open("/dev/full");
    let full = full.expect("Linux has it");
    let handle = files
        .give(full, Rights::ReadWrite, false)
        .expect("there is room")
        .0;
    let buffer = shared(&files, &[1; 100]);
    let steps = chain(&[
        DevFileStep::new(Op::Write, handle, 0, address(&buffer), 100),
        DevFileStep::new(Op::Read, handle, 0, address(&buffer), 100),
    ]);
    let script = script(&engine, &files, &steps);
    let results = run(&engine, &script, 1);
    assert_eq!(results, [Some(Err(FileErrno::NOSPC)), Some(Ok(100))]);
    assert_eq!(buffer.read().expect("it can be read"), [0; 100]);

    // A device that fails every time: also a sync, which then fails for good.
    let folder = folder();
    let config = FilesConfig {
        faults: Some(Faults {
            seed: 1,
            failed: 1000,
            ..Faults::default()
        }),
        ..FilesConfig::default()
    };
    let files = crate::files::files(&engine, config);
    let file = File::create(folder.path().join("file")).expect("it is writable");
    let handle = files
        .give(file, Rights::ReadWrite, false)
        .expect("there is room")
        .0;
    let buffer = shared(&files, &[1; 100]);
    let steps = chain(&[
        DevFileStep::new(Op::Write, handle, 0, address(&buffer), 100),
        DevFileStep::new(Op::Sync, handle, 0, 0, 0),
        DevFileStep::new(Op::Stat, handle, 0, address(&buffer), 0),
        DevFileStep::new(Op::Truncate, handle, 5, 0, 0),
    ]);
    let script = self::script(&engine, &files, &steps);
    let results = run(&engine, &script, 1);
    assert_eq!(results, [Some(Err(FileErrno::IO)); 4]);
}

fn files_end_where_they_were_truncated(select: Select) {
    let (engine, folder) = (start(select), folder());
    let path = folder.path().join("file");
    std::fs::write(&path, [1; 1000]).expect("it is writable");
    let files = files(&engine, FilesConfig::default());
    let file = File::options().read(true).write(true).open(&path);
    let file = file.expect("it is there");
    let other = file.try_clone().expect("it can be cloned");
    let handle = files
        .give(file, Rights::Read, false)
        .expect("there is room")
        .0;
    let buffer = shared(&files, &[9; 1200]);
    let read = |from| DevFileStep::new(Op::Read, handle, from, address(&buffer) + from, 500);
    let steps = [read(0), read(500), read(300), read(700)];
    let script = script(&engine, &files, &steps);
    let mut first = script.submit(&engine, 0, 1).expect("there is room");
    first.wait().expect("it runs");
    other.set_len(600).expect("it is writable");
    let mut second = script.submit(&engine, 1, 3).expect("there is room");
    second.wait().expect("it runs");
    let results = script.results().expect("they can be read");
    assert_eq!(results, [500, 100, 300, 0].map(|n| Some(Ok(n))));
    let bytes = buffer.read().expect("it can be read");
    assert!(bytes[..600] == [1; 600] && bytes[600..] == [9; 600]);
}

/// Every call takes far longer than the watchdog waits, and meanwhile nothing runs.
fn files_wait_while_the_engine_is_idle(select: Select) {
    let device = Device::open(select).expect("the device opens");
    let builder = device.engine().program(&file_probe::PROGRAM).size(2);
    let engine = builder.watchdog(Duration::from_secs(3)).start();
    let engine = engine.expect("it starts");
    let folder = folder();
    let config = FilesConfig {
        faults: Some(Faults {
            seed: 5,
            delayed: 1000,
            delay: Duration::from_secs(12),
            ..Faults::default()
        }),
        ..FilesConfig::default()
    };
    let files = files(&engine, config);
    let path = folder.path().join("file");
    std::fs::write(&path, [1; 100]).expect("it is writable");
    let file = File::open(&path).expect("it was just made");
    let handle = files
        .give(file, Rights::Read, false)
        .expect("there is room")
        .0;
    let buffer = shared(&files, &[0; 100]);
    let step = DevFileStep::new(Op::Read, handle, 0, address(&buffer), 100);
    let script = script(&engine, &files, &[step]);
    let begin = Instant::now();
    let mut pending = script.submit(&engine, 0, 1).expect("there is room");
    let short = pending.wait_timeout(Duration::from_millis(300));
    assert!(
        matches!(short, Err(Error::Timeout { .. })),
        "not finished: {short:?}"
    );
    assert_eq!(pending.wait().expect("it is not stuck").value, 1);
    assert!(
        begin.elapsed() >= Duration::from_secs(6),
        "the call was slow"
    );
    // A quiet engine with files that wait for requests is not stuck either.
    std::thread::sleep(Duration::from_secs(4));
    let again = DevFileStep::new(Op::Stat, 0, 0, 0, 0);
    drop((script, files));
    let files = crate::files::files(&engine, FilesConfig::default());
    let script = self::script(&engine, &files, &[again]);
    assert_eq!(run(&engine, &script, 1), [Some(Err(FileErrno::FAULT))]);
}

fn files_outlast_a_park(select: Select) {
    let (engine, folder) = (start(select), folder());
    let files = files(&engine, FilesConfig::default());
    let bytes = noise(64_000, 9);
    std::fs::write(folder.path().join("data"), &bytes).expect("it is writable");
    let file = File::open(folder.path().join("data")).expect("it was just made");
    let handle = files
        .give(file, Rights::Read, true)
        .expect("there is room")
        .0;
    let target = shared(&files, &[0; 64_000]);
    // 8 chains of 125 reads, each of 64 bytes.
    let steps: Vec<_> = (0..1000_u32)
        .map(|at| {
            let from = u64::from(at) * 64;
            let step = DevFileStep::new(Op::Read, handle, from, address(&target) + from, 64);
            if at + 8 < 1000 {
                step.then(at + 8)
            } else {
                step
            }
        })
        .collect();
    let script = script(&engine, &files, &steps);
    let mut pending = script.submit(&engine, 0, 8).expect("there is room");
    let least = least_size(engine.kind());
    for more in [0, 1, 0, 1, 1] {
        engine.park().expect("it parks");
        // What is on its way comes back to a parked engine.
        std::thread::sleep(Duration::from_millis(20));
        engine.resume_with(least + more).expect("it resumes");
    }
    assert_eq!(pending.wait().expect("it runs").value, 1000);
    assert!(target.read().expect("it can be read") == bytes);
    assert_eq!(
        script.results().expect("they can be read"),
        vec![Some(Ok(64)); 1000]
    );
}

fn files_of_two_instances_are_apart(select: Select) {
    let (engine, folder) = (start(select), folder());
    let mut scripts = Vec::new();
    for name in ["one", "two"] {
        let path = folder.path().join(name);
        std::fs::write(&path, name.repeat(1000)).expect("it is writable");
        let files = files(&engine, FilesConfig::default());
        let file = File::open(&path).expect("it was just made");
        let handle = files
            .give(file, Rights::Read, true)
            .expect("there is room")
            .0;
        let buffer = shared(&files, &[0; 3000]);
        let steps: Vec<_> = (0..MANY)
            .map(|at| {
                let from = u64::from(at) * 50;
                DevFileStep::new(Op::Read, handle, from, address(&buffer) + from, 50)
            })
            .collect();
        scripts.push((script(&engine, &files, &steps), buffer, name));
    }
    // A buffer of one is not shared with the other.
    let foreign = {
        let files = files(&engine, FilesConfig::default());
        let handle = files.give(
            File::open("/dev/zero").expect("Linux has it"),
            Rights::Read,
            false,
        );
        let handle = handle.expect("there is room").0;
        let step = DevFileStep::new(Op::Read, handle, 0, address(&scripts[0].1), 50);
        script(&engine, &files, &[step])
    };
    let mut pending: Vec<_> = scripts
        .iter()
        .map(|(script, ..)| script.submit(&engine, 0, MANY).expect("there is room"))
        .collect();
    let foreign = run(&engine, &foreign, 1);
    assert_eq!(foreign, [Some(Err(FileErrno::FAULT))]);
    for (pending, (_, buffer, name)) in pending.iter_mut().zip(&scripts) {
        assert_eq!(pending.wait().expect("it runs").value, u64::from(MANY));
        let bytes = buffer.read().expect("it can be read");
        assert!(bytes == name.repeat(1000).as_bytes());
    }
}

fn files_that_are_dropped_answer_every_request(select: Select) {
    let (engine, folder) = (start(select), folder());
    std::fs::write(folder.path().join("data"), noise(1000, 3)).expect("it is writable");
    for round in 0..30_u64 {
        let files = files(&engine, FilesConfig::default());
        let file = File::open(folder.path().join("data")).expect("it was just made");
        let handle = files
            .give(file, Rights::Read, true)
            .expect("there is room")
            .0;
        let target = shared(&files, &[0; 1000]);
        let steps: Vec<_> = (0..2000_u32)
            .map(|at| {
                let step = DevFileStep::new(Op::Read, handle, 0, address(&target), 1000);
                if at + 20 < 2000 {
                    step.then(at + 20)
                } else {
                    step
                }
            })
            .collect();
        let script = script(&engine, &files, &steps);
        let tasks: Vec<_> = (0..20).map(|first| script.task(first, 1)).collect();
        let mut pending = engine.submit_batch(&tasks).expect("there is room");
        std::thread::sleep(Duration::from_micros(round * 100));
        files.close();
        let done = pending.wait().expect("every request is answered");
        assert_eq!(done.value, 2000, "round {round}");
        let stats = files.stats().expect("there are counters");
        assert_eq!((stats.in_flight, stats.failed), (0, 0));
    }
}

fn files_that_are_dropped_while_parked_end(select: Select) {
    let engine = start(select);
    let files = files(&engine, FilesConfig::default());
    let script = script(&engine, &files, &[DevFileStep::new(Op::Sync, 0, 0, 0, 0)]);
    assert_eq!(run(&engine, &script, 1), [Some(Err(FileErrno::BADF))]);
    engine.park().expect("it parks");
    drop((script, files));
    engine.resume().expect("it resumes");
    // The engine goes on.
    let files = crate::files::files(&engine, FilesConfig::default());
    let script = self::script(&engine, &files, &[DevFileStep::new(Op::Sync, 0, 0, 0, 0)]);
    assert_eq!(run(&engine, &script, 1), [Some(Err(FileErrno::BADF))]);
}

fn files_check_their_sizes_and_doors(select: Select) {
    let engine = start(select);
    let default = FilesConfig::default();
    for wrong in [
        FilesConfig {
            requests: 3,
            ..default
        },
        FilesConfig {
            requests: 0,
            ..default
        },
        FilesConfig {
            handles: 0,
            ..default
        },
        FilesConfig {
            handles: 70_000,
            ..default
        },
        FilesConfig {
            threads: 1000,
            ..default
        },
    ] {
        let refused = Files::new(&engine, wrong);
        assert!(matches!(refused, Err(FilesError::Size { .. })), "{wrong:?}");
    }
    let files = files(&engine, default);
    let script = script(&engine, &files, &[DevFileStep::new(Op::Sync, 0, 0, 0, 0)]);
    let twice = files.serve(&script.instance, file_probe::DOOR);
    assert!(matches!(twice, Err(FilesError::Served)));
    let other = crate::files::files(&engine, default);
    for wrong in [file_probe::DONE, 99] {
        let refused = other.serve(&script.instance, wrong);
        let error = refused.expect_err("it is no door");
        assert!(error.to_string().contains("no door"), "{error}");
    }
}

/// A text with words that begin and end at the edges of pieces.
fn words_of(mut file: &File) -> u64 {
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("it is a file");
    file.read_to_end(&mut text).expect("it can be read");
    let words = text.split(|b| b" \t\n\x0b\x0c\r".contains(b));
    words.filter(|word| !word.is_empty()).count() as u64
}

fn words_of_a_file_larger_than_the_buffers(select: Select) {
    let (engine, folder) = (start(select), folder());
    let path = folder.path().join("text");
    let mut seed = 77;
    for (bytes, piece, buffers) in [
        (0_usize, 16, 2),
        (1, 16, 2),
        (16, 16, 3),
        (17, 16, 1),
        (100_003, 1, 7),
        (1 << 20, 1000, 5),
        (1 << 20, 1 << 20, 1),
    ] {
        let text: Vec<u8> = (0..bytes)
            .map(|_| b"ab \n\t\x00\xff"[random(&mut seed) as usize % 7])
            .collect();
        std::fs::write(&path, &text).expect("it is writable");
        let file = File::open(&path).expect("it was just made");
        let expected = words_of(&file);
        let words =
            Words::new(&engine, file, bytes as u64, buffers, piece).expect("there is memory");
        // The second run finds everything as the first one did.
        for _ in 0..2 {
            let count = words.count(&engine).expect("it can be read");
            assert_eq!(count, expected, "{bytes} bytes in pieces of {piece}");
        }
    }
}

fn words_of_a_file_that_shrinks(select: Select) {
    let (engine, folder) = (start(select), folder());
    let path = folder.path().join("text");
    std::fs::write(&path, "word ".repeat(10_000)).expect("it is writable");
    let file = File::open(&path).expect("it was just made");
    let words = Words::new(&engine, file, 50_000, 4, 1000).expect("there is memory");
    assert_eq!(words.count(&engine).expect("it can be read"), 10_000);
    std::fs::write(&path, "word ".repeat(5_000)).expect("it is writable");
    let error = words.count(&engine).expect_err("half of it is gone");
    let RunError::Shorter { at } = error else {
        panic!("another error: {error}");
    };
    assert!((25_000..50_000).contains(&at), "{at}");
}

/// Files whose every call takes between half of this time and this time, and an ordered or unordered handle of a file of 64 KiB.
fn slow(engine: &Engine, delay: Duration, unordered: bool, bytes: u64) -> (Arc<Files>, u32) {
    let config = FilesConfig {
        threads: 2,
        bytes,
        faults: Some(Faults {
            delayed: 1000,
            delay,
            ..Faults::default()
        }),
        ..FilesConfig::default()
    };
    let files = files(engine, config);
    let file = tempfile::tempfile().expect("a temporary file");
    file.set_len(1 << 16).expect("there is room");
    let handle = files.give(file, Rights::ReadWrite, unordered);
    (files, handle.expect("a free handle").0)
}

fn files_cancel_requests_that_wait(select: Select) {
    let engine = start(select);
    let (files, handle) = slow(&engine, Duration::from_millis(700), false, 0);
    let to = shared(&files, &[0; 4096]);
    let read = DevFileStep::new(Op::Read, handle, 0, address(&to), 4096);
    let cancel = |note: u64| DevFileStep::new(Op::Cancel, handle, note, 0, 0);
    let steps = [
        read,
        read,
        DevFileStep::new(Op::Sync, handle, 0, 0, 0),
        read,
        DevFileStep::new(Op::Close, handle, 0, 0, 0),
        cancel(3),
        cancel(2),
        // A close is done in any case, and there is no such note.
        cancel(4),
        cancel(99),
    ];
    // The close takes the handle away, so what cancels comes before it in the ring.
    let order = [0, 1, 2, 3, 5, 6, 7, 8, 4];
    let script = script(&engine, &files, &steps);
    let tasks: Vec<_> = order.map(|step| script.task(step, 1)).into();
    let mut pending = Vec::new();
    for task in tasks {
        let before = files.stats().expect("there are counters");
        let done = before.served + before.failed + before.in_flight;
        pending.push(engine.submit_batch(&[task]).expect("there is room"));
        wait_until("the host has it", || {
            let now = files.stats().expect("there are counters");
            now.served + now.failed + now.in_flight > done
        });
    }
    for one in &mut pending {
        one.wait().expect("it ends");
    }
    let results = script.results().expect("they can be read");
    let canceled = Some(Err(FileErrno::CANCELED));
    assert_eq!(results[..2], [Some(Ok(4096)); 2], "{results:?}");
    assert_eq!(results[2..4], [canceled; 2], "{results:?}");
    assert_eq!(results[5..], [Some(Ok(0)); 4], "{results:?}");
    assert_eq!(results[4], Some(Ok(0)));
    let stats = files.stats().expect("there are counters");
    assert_eq!((stats.open, stats.in_flight), (0, 0));
}

/// Reads that come together are one job. Two stats keep both threads busy while it waits.
fn files_cancel_some_of_the_reads_of_a_job(select: Select) {
    let engine = start(select);
    let (files, handle) = slow(&engine, Duration::from_millis(1000), true, 0);
    let to = shared(&files, &[0; 4096]);
    let stat = DevFileStep::new(Op::Stat, handle, 0, address(&to), 0);
    let read = DevFileStep::new(Op::Read, handle, 0, address(&to), 512);
    let cancel = |note: u64| DevFileStep::new(Op::Cancel, handle, note, 0, 0);
    let steps = [stat, stat, read, read, read, read, cancel(3), cancel(5)];
    let script = script(&engine, &files, &steps);
    let mut pending = Vec::new();
    for steps in [0..2, 2..6, 6..8] {
        let count = steps.len() as u64;
        let before = files.stats().expect("there are counters");
        let done = before.served + before.failed + before.in_flight;
        let tasks: Vec<_> = steps.map(|step| script.task(step, 1)).collect();
        pending.push(engine.submit_batch(&tasks).expect("there is room"));
        wait_until("the host has them", || {
            let now = files.stats().expect("there are counters");
            now.served + now.failed + now.in_flight == done + count
        });
    }
    for some in &mut pending {
        some.wait().expect("they end");
    }
    let results = script.results().expect("they can be read");
    assert_eq!(results[..2], [Some(Ok(0)); 2], "{results:?}");
    let (whole, canceled) = (Some(Ok(512)), Some(Err(FileErrno::CANCELED)));
    let reads = [whole, canceled, whole, canceled];
    assert_eq!(results[2..6], reads, "{results:?}");
    assert_eq!(results[6..], [Some(Ok(0)); 2], "{results:?}");
    let stats = files.stats().expect("there are counters");
    assert_eq!((stats.failed, stats.in_flight), (2, 0), "{stats:?}");
}

/// What a read may end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// All bytes that the file has there.
    Whole,
    /// The same, or a part of them, or this error.
    Maybe(FileErrno),
    Fails(FileErrno),
}

fn files_wait_for_room_in_the_arena(select: Select) {
    const READS: usize = 400;
    const LONGEST: u64 = 40_000;
    const SIZE: u64 = 200_000;
    let (engine, folder) = (start(select), folder());
    let bytes = noise(SIZE as usize, 77);
    let path = folder.path().join("data");
    std::fs::write(&path, &bytes).expect("it is writable");
    let least = least_size(engine.kind());
    for seed in 1..=4 {
        let mut state = seed;
        let mut below = |most: u64| random(&mut state) % most;
        // Two threads with four pages each, so that no piece is longer than a page.
        let config = FilesConfig {
            threads: 2,
            arena: ArenaConfig {
                bytes: 8 * 4096,
                always: true,
            },
            ..FilesConfig::default()
        };
        let files = files(&engine, config);
        let file = File::open(&path).expect("it was just made");
        let handle = files.give(file, Rights::Read, true);
        let handle = handle.expect("there is room").0;
        let (mut steps, mut reads, mut end) = (Vec::new(), Vec::new(), 0);
        let target = shared(&files, &vec![7; READS * (LONGEST as usize + 32)]);
        for number in 0..READS {
            // Some are long, and some end after the file.
            let len = below(if number % 8 == 0 { LONGEST } else { 6000 });
            let from = below(SIZE + 5000);
            end += below(32);
            let to = address(&target) + end;
            let step = DevFileStep::new(Op::Read, handle, from, to, len as u32);
            let (step, fate) = match below(16) {
                0 => (
                    DevFileStep {
                        handle: handle + 1,
                        ..step
                    },
                    Fate::Fails(FileErrno::BADF),
                ),
                1 => (
                    DevFileStep { address: 8, ..step },
                    Fate::Fails(FileErrno::FAULT),
                ),
                2 | 3 => (step.within(1), Fate::Maybe(FileErrno::TIMEDOUT)),
                4 | 5 => (step, Fate::Maybe(FileErrno::CANCELED)),
                6 => (step.in_class(FILE_BACKGROUND), Fate::Whole),
                7 => (step.in_class(FILE_INTERACTIVE), Fate::Whole),
                _ => (step, Fate::Whole),
            };
            let there = SIZE.saturating_sub(from).min(len) as usize;
            reads.push((steps.len(), from, end as usize, len as usize, there, fate));
            end += len;
            steps.push(step);
            if fate == Fate::Maybe(FileErrno::CANCELED) {
                let note = steps.len() as u64 - 1;
                steps.push(DevFileStep::new(Op::Cancel, handle, note, 0, 0));
            }
            if number % 100 == 50 {
                steps.push(DevFileStep::new(Op::Sync, handle, 0, 0, 0));
            }
        }
        let script = script(&engine, &files, &steps);
        let tasks: Vec<_> = (0..steps.len() as u32)
            .step_by(MANY as usize)
            .map(|at| script.task(at, MANY.min(steps.len() as u32 - at)))
            .collect();
        let mut pending = engine.submit_batch(&tasks).expect("there is room");
        if seed % 2 == 0 {
            // The copies of what has come wait for the next epoch.
            engine.park().expect("it parks");
            engine
                .resume_with(least + seed as u32 / 4)
                .expect("it resumes");
        }
        let done = pending.wait().expect("they run").value;
        assert_eq!(done, steps.len() as u64);
        let results = script.results().expect("they can be read");
        let found = target.read().expect("it can be read");
        let mut sure = vec![7; found.len()];
        for &(step, from, at, len, there, fate) in &reads {
            let result = results[step].expect("it has a result");
            let moved = match (fate, result) {
                (Fate::Whole, Ok(count)) if count as usize == there => there,
                (Fate::Maybe(_), Ok(count)) if count as usize <= there => count as usize,
                (Fate::Maybe(error) | Fate::Fails(error), Err(failed)) if failed == error => 0,
                _ => panic!("read {step} of {len} bytes at {from}: {fate:?}, {result:?}"),
            };
            sure[at..at + moved].copy_from_slice(&bytes[from.min(SIZE) as usize..][..moved]);
            // What was given up may have moved more than it says, but not beyond its range.
            if matches!(fate, Fate::Maybe(_)) {
                sure[at + moved..at + len].copy_from_slice(&found[at + moved..at + len]);
            }
        }
        assert!(found == sure, "seed {seed}");
        let others = results.iter().zip(&steps);
        let mut others = others.filter(|(_, step)| step.op != Op::Read as u32);
        assert!(others.all(|(result, _)| *result == Some(Ok(0))));
        let whole = reads.iter().filter(|read| read.5 == Fate::Whole).count();
        assert!(whole > READS / 2, "most reads are done");
        wait_until("nothing is on its way", || {
            script.files.stats().expect("there are counters").in_flight == 0
        });
        let stats = script.files.stats().expect("there are counters");
        assert_eq!(stats.arena, 0, "every place has come back");
    }
}

fn files_give_up_at_a_deadline(select: Select) {
    const BEFORE: usize = 8;
    let engine = start(select);
    // The thread that waits for deadlines is late by two delays at most, and what is in line before them takes four at least.
    let (files, handle) = slow(&engine, Duration::from_millis(50), false, 0);
    let to = shared(&files, &[0; 4096]);
    let read = DevFileStep::new(Op::Read, handle, 0, address(&to), 4096);
    let write = DevFileStep::new(Op::Write, handle, 0, address(&to), 4096);
    let mut steps = vec![read; BEFORE];
    // One that has the time ends as ever.
    steps[1] = read.within(u32::MAX);
    steps.extend([
        read.within(10_000),
        write.within(10_000),
        DevFileStep::new(Op::Truncate, handle, 7, 0, 0).within(1),
        DevFileStep::new(Op::Sync, handle, 0, 0, 0).within(10_000),
        read.within(u32::MAX),
        DevFileStep::new(Op::Close, handle, 0, 0, 0).within(1),
    ]);
    let script = script(&engine, &files, &steps);
    let begin = Instant::now();
    let results = run(&engine, &script, steps.len() as u32);
    assert_eq!(results[..BEFORE], [Some(Ok(4096)); BEFORE]);
    let late = Some(Err(FileErrno::TIMEDOUT));
    assert_eq!(results[BEFORE..][..4], [late; 4], "{results:?}");
    assert_eq!(results[BEFORE + 4..], [Some(Ok(4096)), Some(Ok(0))]);
    assert!(begin.elapsed() >= Duration::from_millis(200));
    let stats = files.stats().expect("there are counters");
    assert_eq!((stats.open, stats.in_flight), (0, 0));
}

fn files_in_the_background_let_others_pass(select: Select) {
    let engine = start(select);
    let (files, handle) = slow(&engine, Duration::from_millis(20), true, 0);
    let to = shared(&files, &[0; 64 * 4096]);
    let read = |at: u64| DevFileStep::new(Op::Read, handle, 0, address(&to) + at * 4096, 4096);
    let behind = (0..MANY).map(|at| read(at.into()).in_class(FILE_BACKGROUND));
    let ahead = (60..64).map(|at| read(at).in_class(FILE_INTERACTIVE));
    let mut steps: Vec<_> = behind.chain(ahead).collect();
    steps.push(read(0).in_class(3));
    let script = script(&engine, &files, &steps);
    let mut behind = script.submit(&engine, 0, MANY).expect("there is room");
    wait_until("the host has them", || {
        files.stats().expect("there are counters").in_flight > 0
    });
    let mut ahead = script.submit(&engine, MANY, 5).expect("there is room");
    assert_eq!(ahead.wait().expect("they end").value, 5);
    let left = files.stats().expect("there are counters").in_flight;
    assert!(left > u64::from(MANY) / 3, "{left} of {MANY} are left");
    assert_eq!(behind.wait().expect("they end").value, u64::from(MANY));
    let results = script.results().expect("they can be read");
    assert!(
        results[..64].iter().all(|r| *r == Some(Ok(4096))),
        "{results:?}"
    );
    assert_eq!(
        results[64],
        Some(Err(FileErrno::INVAL)),
        "there is no such class"
    );
}

fn files_limit_the_bytes_in_flight(select: Select) {
    let engine = start(select);
    let (files, handle) = slow(&engine, Duration::from_millis(100), true, 10_000);
    let to = shared(&files, &[0; 20_000]);
    let read = |len| DevFileStep::new(Op::Read, handle, 0, address(&to), len);
    let steps = [
        read(6000),
        read(6000),
        read(4000),
        read(1),
        read(10_001),
        read(10_000),
    ];
    let script = script(&engine, &files, &steps);
    let results = run(&engine, &script, 5);
    let refused = Some(Err(FileErrno::NOBUFS));
    let expected = [
        Some(Ok(6000)),
        refused,
        Some(Ok(4000)),
        refused,
        refused,
        None,
    ];
    assert_eq!(results, expected);
    let stats = files.stats().expect("there are counters");
    assert_eq!((stats.bytes, stats.in_flight), (0, 0));
    // There is room again, for all of it.
    let mut pending = script.submit(&engine, 5, 1).expect("there is room");
    pending.wait().expect("it ends");
    let results = script.results().expect("they can be read");
    assert_eq!(results[5], Some(Ok(10_000)));
}

fn files_name_their_backend(select: Select) {
    let engine = start(select);
    let with = |backend| {
        let config = FilesConfig {
            backend,
            ..FilesConfig::default()
        };
        Files::new(&engine, config)
    };
    let threads = with(Some(Backend::Threads)).expect("threads are always there");
    assert_eq!(threads.backend(), "threads");
    match with(Some(Backend::Uring)) {
        Ok(files) => assert_eq!(files.backend(), "io_uring"),
        Err(error) => assert!(error.to_string().contains("--io threads"), "{error}"),
    }
    let asked = std::env::var("EVERWARP_IO");
    let chosen = with(None).expect("there is memory").backend();
    assert!(asked.is_err() || asked.as_deref() == Ok(chosen), "{chosen}");
}
