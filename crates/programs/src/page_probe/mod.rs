//! `page_probe`: tests of the page cache. Walkers add 1 to numbers of a cached file, which they choose at random, and others hold
//! pages.

#[path = "page_probe.rs"]
mod twin;

use std::fs::File;
use std::sync::Arc;

use everwarp::files::{
    DevFiles, FILE_DOOR_STEP, FILE_SPAWNS, FileHandle, Files, FilesConfig, FilesError, Rights,
};
use everwarp::{Buffer, DevPtr, DevTask, Engine, Instance, dev_struct, program};

use crate::mix;
use twin::{ask, bump, bumped, door, hold, holding, let_go, read, sum};

dev_struct! {
    /// Parameters of `page_probe`.
    pub struct DevPageProbe: align 16, size 160 {
        /// The files.
        pub files: DevFiles,
        /// The steps that each walker has left.
        pub left: DevPtr<u64>,
        /// The numbers that the file has.
        pub count: u64,
        /// The file.
        pub handle: u32,
        /// The seed of the walkers.
        pub seed: u32,
        /// Spelled-out hole.
        pub hole: u64,
    }
}

program! {
    /// The program.
    pub static PROGRAM: page_probe(DevPageProbe), "../mix.cu", "page_probe.cu" {
        /// Walker `lo` adds 1 to its next number. Reports 1 for each, and 2^32 times the error number if it cannot.
        BUMP: lane(bump).spawns(8 * FILE_SPAWNS + 1).breadth_first(),
        /// The same once the page is there.
        BUMPED: lane(bumped).spawns(1),
        /// Acquires page `lo`, and keeps it. Reports as `BUMP`.
        HOLD: lane(hold).spawns(FILE_SPAWNS + 1).breadth_first(),
        /// The same once the page is there.
        HOLDING: lane(holding),
        /// Releases page `lo`.
        LET_GO: lane(let_go),
        /// Reports number `lo`.
        SUM: lane(sum).spawns(FILE_SPAWNS + 1).breadth_first(),
        /// The same once the page is there.
        READ: lane(read),
        /// Asks to sync, close or truncate handle `lo`, as its tag says; `hi` is the size. Reports as `BUMP`.
        ASK: lane(ask).spawns(FILE_SPAWNS + 1).breadth_first(),
        /// The door of the files.
        DOOR: warp(door).spawns(FILE_DOOR_STEP as u16),
    }
}

/// `ASK`: to sync.
pub const SYNC: u8 = 0;
/// `ASK`: to close.
pub const CLOSE: u8 = 1;
/// `ASK`: to truncate.
pub const TRUNCATE: u8 = 2;

/// The number that a walker changes when it has this many steps left.
pub const fn choice(seed: u32, walker: u32, left: u64, count: u64) -> u64 {
    mix((seed as u64) << 48 ^ (walker as u64) << 32 ^ left) % count
}

/// A cached file of numbers, and walkers.
#[derive(Debug)]
pub struct Walk {
    /// Its files.
    pub files: Files,
    /// Its instance.
    pub instance: Arc<Instance>,
    /// The file.
    pub handle: FileHandle,
    left: Buffer<u64>,
}

impl Walk {
    /// Prepares up to `walkers` walkers over a file, whose size is a multiple of 8.
    ///
    /// # Errors
    /// As [`Files::serve`], or the file cannot be cached.
    pub fn new(
        engine: &Engine,
        config: FilesConfig,
        file: File,
        size: u64,
        walkers: u32,
        seed: u32,
    ) -> Result<Self, FilesError> {
        let files = Files::new(engine, config)?;
        Self::with(engine, files, file, size, walkers, seed)
    }
    /// The same with files that have a cache and serve nothing else.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        engine: &Engine,
        files: Files,
        file: File,
        size: u64,
        walkers: u32,
        seed: u32,
    ) -> Result<Self, FilesError> {
        let handle = files.give_cached(file, Rights::ReadWrite, 0)?;
        let left = engine.buffer(walkers as usize)?;
        let params = DevPageProbe {
            files: files.tables(),
            left: left.ptr(),
            count: size / 8,
            handle: handle.0,
            seed,
            hole: 0,
        };
        // SAFETY: the buffers have these sizes, and are kept with the instance.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            files,
            instance,
            handle,
            left,
        })
    }
    /// The task that asks something of a handle: see `ASK`.
    pub fn ask(&self, what: u8, handle: FileHandle, size: u32) -> DevTask {
        let task = self.instance.task(ASK).tag(what);
        task.args(handle.0, size).build()
    }
    /// The tasks of all walkers, each with this many steps.
    ///
    /// # Errors
    /// The memory cannot be written.
    pub fn tasks(&self, steps: u64) -> Result<Vec<DevTask>, FilesError> {
        self.left.write(&vec![steps; self.left.len()])?;
        let walkers = 0..self.left.len() as u32;
        let task = |walker| self.instance.task(BUMP).args(walker, 0).build();
        Ok(walkers.map(task).collect())
    }
}
