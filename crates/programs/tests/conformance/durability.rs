//! Writes that were acknowledged outlast a process that is killed at any moment, and a power cut.
//!
//! A case starts itself once more as a writer, kills it, and looks at its files; and again. `EVERWARP_KILLS` says how often:
//! `EVERWARP_KILLS=1000 EVERWARP_CASE_LIMIT_S=3600 cargo test --release -p everwarp-programs --test conformance -- are_killed`
//! is the long run.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everwarp::files::{CacheConfig, Faults, Files, FilesConfig, Record, Rights};
use everwarp::{Buffer, Device, Engine, Select};
use everwarp_programs::file_probe::{DevFileStep, Op, Script};
use everwarp_programs::page_probe::{self, SYNC, Walk};
use everwarp_testkit::cases;

use crate::files::{address, files, noise, script, shared, start};
use crate::support::{Case, random};

pub(crate) const ALL: &[Case] = cases![
    files_that_are_killed_lose_no_synced_write,
    pages_that_are_killed_lose_no_synced_write,
    files_lose_no_synced_write_in_a_power_cut,
    pages_lose_no_synced_write_in_a_power_cut,
];

/// The folder that a writer uses; without it, the case is not the writer.
const FOLDER: &str = "EVERWARP_KILLED_FOLDER";
/// The file to which a writer appends a number for each write that it knows to be safe.
const ACKNOWLEDGED: &str = "acknowledged";

fn kills() -> u64 {
    let Ok(text) = std::env::var("EVERWARP_KILLS") else {
        return 12;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("EVERWARP_KILLS is `{text}`: give a number, or unset it"))
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words
        .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        .collect()
}

fn acknowledged(folder: &Path) -> Vec<u64> {
    words_of(&std::fs::read(folder.join(ACKNOWLEDGED)).unwrap_or_default())
}

/// Starts this case as a writer, kills it at a random moment, and has its files checked; again and again.
fn kill_writers(prepare: impl Fn(&Path), check: impl Fn(&Path, &[u64])) {
    let (mut seed, mut all) = (0x5eed, 0);
    for _ in 0..kills() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        prepare(folder.path());
        // The environment names the case.
        let mut writer = Command::new(std::env::current_exe().expect("its own path"))
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let limit = Instant::now() + Duration::from_secs(60);
        while acknowledged(folder.path()).is_empty() {
            let ended = writer.try_wait().expect("it is a child");
            assert!(ended.is_none(), "the writer failed: {ended:?}");
            assert!(Instant::now() < limit, "the writer does not write");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random(&mut seed) % 30_000));
        writer.kill().expect("it is a child");
        writer.wait().expect("it is a child");
        let words = acknowledged(folder.path());
        check(folder.path(), &words);
        all += words.len();
    }
    eprintln!("{all} acknowledged writes after {} kills", kills());
}

const CHAINS: u32 = 4;
const RECORD: u32 = 1500;

fn records(chain: u32, count: u32) -> Vec<u8> {
    noise((RECORD * count) as usize, u64::from(chain) + 1)
}

/// A script whose tasks write records, sync, and then append the record's number: chains, each with a handle of its own.
struct Writer {
    script: Script,
    /// Of each chain, and last of the numbers.
    inodes: Vec<u64>,
    _sources: Vec<Arc<Buffer<u8>>>,
}

impl Writer {
    fn new(engine: &Engine, files: &Arc<Files>, folder: &Path, count: u32) -> Self {
        let mut inodes = Vec::new();
        let mut open = |name: &str| {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(true);
            let file = file.open(folder.join(name)).expect("it is writable");
            inodes.push(file.metadata().expect("it is open").ino());
            let handle = files.give(file, Rights::ReadWrite, false);
            handle.expect("a free handle").0
        };
        let handles: Vec<_> = (0..CHAINS).map(|chain| open(&chain.to_string())).collect();
        let acknowledges = open(ACKNOWLEDGED);
        let (mut steps, mut sources) = (Vec::new(), Vec::new());
        for (chain, handle) in (0..CHAINS).zip(handles) {
            let source = shared(files, &records(chain, count));
            let numbers: Vec<u8> = (0..count)
                .flat_map(|record| (u64::from(chain) << 32 | u64::from(record)).to_ne_bytes())
                .collect();
            let numbers = shared(files, &numbers);
            for record in 0..count {
                let (at, from) = (u64::from(record * RECORD), u64::from(record) * 8);
                let next = steps.len() as u32 + 1;
                let write = DevFileStep::new(Op::Write, handle, at, address(&source) + at, RECORD);
                let number = address(&numbers) + from;
                let append = DevFileStep::new(Op::Append, acknowledges, 0, number, 8);
                steps.push(write.then(next));
                steps.push(DevFileStep::new(Op::Sync, handle, 0, 0, 0).then(next + 1));
                steps.push(match record + 1 < count {
                    true => append.then(next + 2),
                    false => append,
                });
            }
            sources.extend([source, numbers]);
        }
        Self {
            script: script(engine, files, &steps),
            inodes,
            _sources: sources,
        }
    }
    /// Writes all records.
    fn run(&self, engine: &Engine, count: u32) {
        let first = |chain| self.script.task(chain * count * 3, 1);
        let tasks: Vec<_> = (0..CHAINS).map(first).collect();
        let mut pending = engine.submit_batch(&tasks).expect("there is room");
        let done = pending.wait().expect("it runs").value;
        assert_eq!(done, u64::from(CHAINS * count * 3));
    }
}

/// The first record that was acknowledged and is not in the files of its chain.
fn missing(words: &[u64], written: &[Vec<u8>], expected: &[Vec<u8>]) -> Option<u64> {
    let is_missing = |&word: &u64| {
        let (chain, record) = ((word >> 32) as usize, word as u32);
        let at = (record * RECORD) as usize..((record + 1) * RECORD) as usize;
        written[chain].get(at.clone()) != Some(&expected[chain][at])
    };
    words.iter().copied().find(is_missing)
}

/// Records of a writer that is killed.
const MANY: u32 = 2000;

fn write_records(select: Select, folder: &Path) {
    let engine = start(select);
    let files = files(&engine, FilesConfig::default());
    Writer::new(&engine, &files, folder, MANY).run(&engine, MANY);
    // The killer comes.
    std::thread::sleep(Duration::from_secs(60));
}

fn files_that_are_killed_lose_no_synced_write(select: Select) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_records(select, Path::new(&folder));
    }
    let expected: Vec<_> = (0..CHAINS).map(|chain| records(chain, MANY)).collect();
    kill_writers(
        |_| {},
        |folder, words| {
            let written = (0..CHAINS).map(|chain| {
                let file = std::fs::read(folder.join(chain.to_string()));
                file.expect("the writer has made it")
            });
            let written: Vec<_> = written.collect();
            assert_eq!(missing(words, &written, &expected), None);
        },
    );
}

const WALKERS: u32 = 8;
const STEPS: u64 = 20;
/// Bytes of the file, and of the cache: pages leave all the time.
const SIZES: (u64, u64) = (256 << 10, 64 << 10);

fn walking(select: Select) -> Engine {
    let device = Device::open(select).expect("the device opens");
    let engine = device.engine().program(&page_probe::PROGRAM).size(2);
    engine.start().expect("the engine starts")
}

fn cached(faults: Option<Faults>) -> FilesConfig {
    FilesConfig {
        cache: CacheConfig::of(SIZES.1),
        faults,
        ..FilesConfig::default()
    }
}

/// Each walker adds to numbers of the file; then they are synced. Returns how many were added.
fn walk_and_sync(engine: &Engine, walk: &Walk) -> u64 {
    let tasks = walk.tasks(STEPS).expect("there is memory");
    let mut walked = engine.submit_batch(&tasks).expect("there is room");
    let walked = walked.wait().expect("it runs").value;
    assert_eq!(walked, u64::from(WALKERS) * STEPS, "each step adds 1");
    let sync = walk.ask(SYNC, walk.handle, 0);
    let mut synced = engine.submit_batch(&[sync]).expect("there is room");
    assert_eq!(synced.wait().expect("it runs").value, 1, "it syncs");
    walked
}

/// Walks for ever. After each sync the sum that is safe is appended.
fn write_pages(select: Select, folder: &Path) {
    let engine = walking(select);
    let open = |name: &str| {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true);
        file.open(folder.join(name)).expect("it is writable")
    };
    let numbers = OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.join("numbers"));
    let numbers = numbers.expect("it is there");
    let walk = Walk::new(&engine, cached(None), numbers, SIZES.0, WALKERS, 9);
    let walk = walk.expect("there is memory");
    let mut acknowledges = open(ACKNOWLEDGED);
    let mut sum = 0_u64;
    loop {
        sum += walk_and_sync(&engine, &walk);
        let appended = acknowledges.write_all(&sum.to_ne_bytes());
        appended.expect("it is writable");
    }
}

fn pages_that_are_killed_lose_no_synced_write(select: Select) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_pages(select, Path::new(&folder));
    }
    kill_writers(
        |folder| {
            let file = File::create(folder.join("numbers")).expect("it is writable");
            file.set_len(SIZES.0).expect("it is writable");
        },
        |folder, words| {
            let bytes = std::fs::read(folder.join("numbers")).expect("it is there");
            let sum: u64 = words_of(&bytes).iter().sum();
            let safe = words.iter().copied().max().unwrap_or(0);
            assert!(
                sum >= safe,
                "{} of {safe} additions are missing",
                safe - sum
            );
        },
    );
}

/// Moments at which the power is cut.
const CUTS: usize = 400;

/// Cuts the power at random moments. `holds` says whether the image of a moment has what was acknowledged by then; it must
/// notice when syncs do nothing.
fn cut_power(record: &Record, mut holds: impl FnMut(usize, bool, &mut dyn FnMut() -> u64) -> bool) {
    let mut seed = 0xc0de;
    let mut random = || random(&mut seed);
    let mut noticed = 0;
    for _ in 0..CUTS {
        let moment = random() as usize % (record.moment() + 1);
        assert!(
            holds(moment, true, &mut random),
            "a cut after {moment} events"
        );
        noticed += usize::from(!holds(moment, false, &mut random));
    }
    assert!(
        noticed > CUTS / 4,
        "syncs made no difference: {noticed} of {CUTS}"
    );
}

fn files_lose_no_synced_write_in_a_power_cut(select: Select) {
    const COUNT: u32 = 60;
    let expected: Vec<_> = (0..CHAINS).map(|chain| records(chain, COUNT)).collect();
    for faults in [None, Some(Faults::hidden(6))] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (engine, record) = (start(select), Arc::<Record>::default());
        let config = FilesConfig {
            faults,
            ..FilesConfig::default()
        };
        let files = Files::recorded(&engine, config, record.clone());
        let files = Arc::new(files.expect("there is memory"));
        let writer = Writer::new(&engine, &files, folder.path(), COUNT);
        writer.run(&engine, COUNT);
        let (numbers, chains) = writer.inodes.split_last().expect("there are files");
        for (chain, inode) in (0..).zip(chains) {
            let seen = record.seen(record.moment(), *inode);
            assert!(seen == expected[chain], "the record is whole");
        }
        cut_power(&record, |moment, heeding, random| {
            let words = words_of(&record.seen(moment, *numbers));
            let images = chains.iter();
            let images = images.map(|inode| record.image(moment, *inode, heeding, random));
            let images: Vec<_> = images.collect();
            missing(&words, &images, &expected).is_none()
        });
    }
}

fn pages_lose_no_synced_write_in_a_power_cut(select: Select) {
    for faults in [None, Some(Faults::hidden(7))] {
        let (engine, record) = (walking(select), Arc::<Record>::default());
        let numbers = tempfile::tempfile().expect("a temporary file");
        numbers.set_len(SIZES.0).expect("it is writable");
        let inode = numbers.metadata().expect("it is open").ino();
        let files = Files::recorded(&engine, cached(faults), record.clone());
        let files = files.expect("there is memory");
        let walk = Walk::with(&engine, files, numbers, SIZES.0, WALKERS, 9);
        let walk = walk.expect("there is memory");
        let (mut sum, mut safe) = (0, Vec::new());
        for _ in 0..20 {
            sum += walk_and_sync(&engine, &walk);
            safe.push((record.moment(), sum));
        }
        cut_power(&record, |moment, heeding, random| {
            let image = record.image(moment, inode, heeding, random);
            let there: u64 = words_of(&image).iter().sum();
            let before = safe.iter().rfind(|(at, _)| *at <= moment);
            there >= before.map_or(0, |(_, sum)| *sum)
        });
    }
}
