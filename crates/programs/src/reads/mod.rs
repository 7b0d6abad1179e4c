//! `reads`: a benchmark of files. Tasks read pages of a file, directly or through the page cache, at random or in order, and compare
//! them with what the file has. Next to them are the same reads of a buffer.

#[path = "reads.rs"]
mod twin;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Instant;

use everwarp::files::{
    CacheConfig, DevFiles, FILE_BACKGROUND, FILE_DOOR_STEP, FILE_INTERACTIVE, FILE_SPAWNS,
    FileStats, Files, FilesConfig, FilesError, PageStats, Rights,
};
use everwarp::{
    Buffer, DevPtr, DevTask, Engine, Instance, Priority, dev_consts, dev_struct, program,
};

use crate::mix;
use twin::{ask, door, flat, get, got, held, hit, plain, taken, visit, visited};

dev_consts! {
    /// Writes them as CUDA C++.
    fn write_consts;
    /// Bytes of a page.
    const READS_PAGE = 4096;
    /// Words of a page.
    const READS_WORDS = 512;
    /// Pages that one task visits.
    const READS_VISITS = 8;
}

/// Bytes of a page.
pub const PAGE: u64 = READS_PAGE as u64;
const WORDS: u64 = READS_WORDS as u64;

dev_struct! {
    /// Parameters of `reads`.
    pub struct DevReads: align 16, size 192 {
        /// The files.
        pub files: DevFiles,
        /// A page for each slot.
        pub bytes: DevPtr<u8>,
        /// When each slot has asked, in nanoseconds.
        pub began: DevPtr<u64>,
        /// How many nanoseconds each step of each slot has taken.
        pub took: DevPtr<u64>,
        /// What the file has, in memory.
        pub plain: DevPtr<u64>,
        /// Words of the file, a power of two.
        pub words: u64,
        /// The file, without the cache.
        pub handle: u32,
        /// The file, through the cache.
        pub cached: u32,
        /// Steps of a slot.
        pub steps: u32,
        /// The seed of the choices.
        pub seed: u32,
        /// Spelled-out hole.
        pub hole: u64,
    }
}

program! {
    /// The program. `lo` is a slot, and `hi` how many steps it has left. The lowest bit of the tag says that a slot reads the pages of
    /// its part of the file in order, and the others are the class of direct reads. Each step that was right is reported as 1, and an error as 2^48 times its number.
    pub static PROGRAM: reads(DevReads; write_consts), "../mix.cu", "reads.cu" {
        /// Reads a page directly.
        ASK: lane(ask).spawns(FILE_SPAWNS + 1).breadth_first(),
        /// Goes on with the page.
        GOT: lane(got).spawns(1),
        /// Visits pages of the cache.
        VISIT: lane(visit).spawns(READS_VISITS as u16 * FILE_SPAWNS + 1).breadth_first(),
        /// Goes on with a page that was not there.
        VISITED: lane(visited).spawns(1),
        /// Reads random words through the cache.
        GET: lane(get).spawns(FILE_SPAWNS + 1).breadth_first(),
        /// Goes on with a word that was not there.
        TAKEN: lane(taken).spawns(1),
        /// Reads random words of the memory.
        PLAIN: lane(plain),
        /// A warp that reads random pages of the cache.
        HIT: warp(hit).spawns(FILE_SPAWNS + 1).breadth_first(),
        /// Goes on with a page that was not there.
        HELD: warp(held).spawns(1),
        /// A warp that reads random pages of the memory.
        FLAT: warp(flat),
        /// The door of the files.
        DOOR: warp(door).spawns(FILE_DOOR_STEP as u16),
    }
}

/// A word of the file.
pub const fn word(number: u64) -> u64 {
    number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x5bd1_e995)
}

/// A random number of a step, below a power of two.
pub const fn choice(seed: u32, slot: u32, left: u32, count: u64) -> u64 {
    mix((seed as u64) << 48 ^ (slot as u64) << 24 ^ left as u64) & (count - 1)
}

/// Writes a file of this many bytes, which has no name.
///
/// # Errors
/// There is no room.
pub fn generate(bytes: u64) -> io::Result<File> {
    let file = tempfile::tempfile()?;
    let mut out = BufWriter::with_capacity(1 << 20, &file);
    for number in 0..bytes / 8 {
        out.write_all(&word(number).to_le_bytes())?;
    }
    out.flush()?;
    drop(out);
    Ok(file)
}

/// How pages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without the cache, at random.
    Direct,
    /// Without the cache, in order.
    DirectInOrder,
    /// Through the cache, at random.
    Cached,
    /// Through the cache, in order.
    CachedInOrder,
    /// Words at random, through the cache.
    Words,
    /// Words at random, of the memory.
    PlainWords,
    /// Pages at random, by warps, through the cache.
    Pages,
    /// Pages at random, by warps, of the memory.
    PlainPages,
}

/// The sizes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes of the file, a power of two.
    pub bytes: u64,
    /// Bytes of the cache.
    pub cache: u64,
    /// Bytes that are read ahead.
    pub ahead: u32,
    /// Slots, and the steps of each. Slots and steps multiplied are less than 2^31.
    pub slots: u32,
    /// See `slots`.
    pub steps: u32,
    /// Whether the engine's memory has a copy of the file.
    pub copy: bool,
}

/// A round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// How long it took.
    pub seconds: f64,
    /// Whether every step was right.
    pub right: bool,
}

/// A file that tasks read.
#[derive(Debug)]
pub struct Reads {
    // The files end before the memory that they fill does.
    files: Files,
    instance: Arc<Instance>,
    sizes: Sizes,
    took: Buffer<u64>,
    _began: Buffer<u64>,
    _plain: Buffer<u64>,
    _bytes: Arc<Buffer<u8>>,
}

impl Reads {
    /// Prepares to read a file that [`generate`] has made.
    ///
    /// # Panics
    /// A size is no power of two, or slots and steps are too many.
    ///
    /// # Errors
    /// The engine has no files or no memory left, or does not hold the program.
    pub fn new(engine: &Engine, file: &File, sizes: Sizes, seed: u32) -> Result<Self, FilesError> {
        let steps = u64::from(sizes.slots) * (u64::from(sizes.steps) + 1);
        assert!(sizes.bytes.is_power_of_two() && sizes.bytes >= PAGE && steps < 1 << 31);
        let config = FilesConfig {
            requests: (2 * sizes.slots).next_power_of_two().clamp(64, 1 << 14),
            cache: CacheConfig {
                files: sizes.bytes,
                ahead: sizes.ahead,
                ..CacheConfig::of(sizes.cache)
            },
            ..FilesConfig::default()
        };
        let files = Files::new(engine, config)?;
        let another = || {
            file.try_clone()
                .map_err(|source| FilesError::Waiting { source })
        };
        let handle = files.give(another()?, Rights::Read, true)?;
        let cached = match sizes.cache {
            0 => 0,
            _ => files.give_cached(another()?, Rights::Read, 0)?.0,
        };
        // Only slots that read without the cache have pieces and times.
        let timed = match sizes.cache {
            0 => sizes.slots,
            _ => 1,
        };
        let bytes = files.buffer(timed as usize * PAGE as usize)?;
        let began = engine.buffer(timed as usize)?;
        let took = engine.buffer(match sizes.cache {
            0 => steps as usize,
            _ => 1,
        })?;
        let plain = match sizes.copy {
            true => {
                let words: Vec<u64> = (0..sizes.bytes / 8).map(word).collect();
                engine.buffer_from(&words)?
            }
            false => engine.buffer(1)?,
        };
        let params = DevReads {
            files: files.tables(),
            bytes: bytes.ptr(),
            began: began.ptr(),
            took: took.ptr(),
            plain: plain.ptr(),
            words: sizes.bytes / 8,
            handle: handle.0,
            cached,
            steps: sizes.steps,
            seed,
            hole: 0,
        };
        // SAFETY: the buffers have these sizes, and are kept with the instance. `round` checks what a way of reading needs.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            files,
            instance,
            sizes,
            took,
            _began: began,
            _plain: plain,
            _bytes: bytes,
        })
    }
    /// Lets every slot make all its steps.
    ///
    /// # Panics
    /// The sizes do not allow this way: see [`Sizes`].
    ///
    /// # Errors
    /// As [`Engine::submit_batch`].
    pub fn round(&self, engine: &Engine, way: Way) -> Result<Round, FilesError> {
        let sizes = &self.sizes;
        let (function, in_order, fits) = match way {
            Way::Direct => (ASK, 0, sizes.cache == 0),
            Way::DirectInOrder => (ASK, 1, sizes.cache == 0),
            Way::Cached => (VISIT, 0, sizes.cache > 0),
            Way::CachedInOrder => (VISIT, 1, sizes.cache > 0),
            Way::Words => (GET, 0, sizes.cache > 0 && sizes.ahead == 0),
            Way::Pages => (HIT, 0, sizes.cache > 0 && sizes.ahead == 0),
            Way::PlainWords => (PLAIN, 0, sizes.copy),
            Way::PlainPages => (FLAT, 0, sizes.copy),
        };
        assert!(fits, "{way:?} does not fit {sizes:?}");
        let all = u64::from(sizes.slots) * u64::from(sizes.steps);
        assert!(in_order == 0 || all * PAGE <= sizes.bytes, "{sizes:?}");
        let task = |slot| {
            let task = self.instance.task(function).tag(in_order);
            task.args(slot, sizes.steps).build()
        };
        let tasks: Vec<DevTask> = (0..sizes.slots).map(task).collect();
        let begin = Instant::now();
        let right = engine.submit_batch(&tasks)?.wait()?.value;
        Ok(Round {
            seconds: begin.elapsed().as_secs_f64(),
            right: right == all,
        })
    }
    /// Lets the first slot make its steps, in the class of those that someone waits for, while the first `others` of the others make
    /// theirs in the background. Returns how long each of its steps took, in seconds; whether every step of all was right; and whether
    /// the others were at it until the end.
    ///
    /// # Panics
    /// There is a cache, or there are fewer slots.
    ///
    /// # Errors
    /// As [`Engine::submit_batch`].
    pub fn with_load(
        &self,
        engine: &Engine,
        others: u32,
    ) -> Result<(Vec<f64>, bool, bool), FilesError> {
        let sizes = &self.sizes;
        assert!(sizes.cache == 0 && others < sizes.slots, "{sizes:?}");
        // The tasks of the first slot are before the others, too.
        let task = |slot, class: u32, priority| {
            let task = self.instance.task(ASK).tag((class << 1) as u8);
            task.priority(priority).args(slot, sizes.steps).build()
        };
        let load: Vec<DevTask> = (1..=others)
            .map(|slot| task(slot, FILE_BACKGROUND, Priority::LOW))
            .collect();
        let mut load = match load.is_empty() {
            true => None,
            false => Some(engine.submit_batch(&load)?),
        };
        let own = task(0, FILE_INTERACTIVE, Priority::HIGH);
        let own = engine.submit_batch(&[own])?.wait()?.value;
        let lasted = load.as_ref().is_none_or(|load| !load.is_done());
        let mut took = self.took_s()?;
        took.truncate(sizes.steps as usize);
        let rest = match &mut load {
            Some(load) => load.wait()?.value,
            None => 0,
        };
        let all = u64::from(others) * u64::from(sizes.steps);
        let right = own == u64::from(sizes.steps) && rest == all;
        Ok((took, right, lasted))
    }
    /// How long each step of the last round without the cache took, in seconds.
    ///
    /// # Errors
    /// The engine's memory cannot be read.
    pub fn took_s(&self) -> Result<Vec<f64>, FilesError> {
        let steps = self.sizes.slots as usize * self.sizes.steps as usize;
        let mut nanos = self.took.read()?;
        nanos.truncate(steps);
        Ok(nanos.into_iter().map(|nanos| nanos as f64 * 1e-9).collect())
    }
    /// How files are read: the name of the backend.
    pub fn backend(&self) -> &'static str {
        self.files.backend()
    }
    /// The counters of the files.
    ///
    /// # Errors
    /// As [`Files::stats`].
    pub fn stats(&self) -> Result<FileStats, FilesError> {
        self.files.stats()
    }
    /// The cache's counters.
    pub fn page_stats(&self) -> PageStats {
        self.files.page_stats().unwrap_or_default()
    }
}
