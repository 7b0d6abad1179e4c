//! `arrivals`: events that arrive by themselves. A handler gets the keys, the mouse and the size of the terminal, signals, and the
//! events of an input device, in batches and in their order, and notes them where the host reads them.

#[path = "arrivals.rs"]
mod twin;

use std::sync::Arc;

use everwarp::files::{
    DevEvent, DevFiles, Events, FILE_DOOR_STEP, FILE_SPAWNS, FileStats, Files, FilesConfig,
    FilesError,
};
use everwarp::{Buffer, DevPtr, DevType, Engine, Instance, Pending, dev_struct, program};

use twin::{arrived, begin, closed, door, watched};

/// Events of a batch, at most.
const BATCH: u32 = 64;

dev_struct! {
    /// Parameters of `arrivals`.
    pub struct DevArrivals: align 16, size 192 {
        /// The files.
        pub files: DevFiles,
        /// The place for a batch.
        pub batch: DevPtr<DevEvent>,
        /// The last events, in a ring.
        pub log: DevPtr<DevEvent>,
        /// How many events have come.
        pub count: DevPtr<u64>,
        /// Signals that are watched, as bits.
        pub signals: u64,
        /// Sources that are watched, as bits.
        pub sources: u32,
        /// The stream of events.
        pub handle: u32,
        /// Events of a batch, at most.
        pub most: u32,
        /// Events of the log.
        pub room: u32,
        /// The key with which the program ends.
        pub last_key: u32,
        /// Spelled-out hole.
        pub hole: [u32; 3],
    }
}

program! {
    /// The program. Each function asks for what comes next, and tries again if there is no room.
    pub static PROGRAM: arrivals(DevArrivals), "arrivals.cu" {
        /// Chooses what is watched.
        BEGIN: lane(begin).spawns(FILE_SPAWNS).breadth_first(),
        /// Waits for the first batch.
        WATCHED: lane(watched).spawns(FILE_SPAWNS).breadth_first(),
        /// The handler: notes a batch, reports how many events it has, and waits for the next one.
        ARRIVED: lane(arrived).spawns(FILE_SPAWNS).breadth_first(),
        /// The stream is closed.
        CLOSED: lane(closed),
        /// The door of the files.
        DOOR: warp(door).spawns(FILE_DOOR_STEP as u16),
    }
}

/// What is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Sources (`SOURCE_…`).
    pub sources: u32,
    /// Signals: bit *n* for signal *n*.
    pub signals: u64,
    /// The key with which the program ends. It ends with its sources, too.
    pub last_key: u32,
}

/// A program that watches.
#[derive(Debug)]
pub struct Arrivals {
    // The files end before the memory that they fill does.
    files: Files,
    instance: Arc<Instance>,
    log: Buffer<u64>,
    count: Buffer<u64>,
    _batch: Arc<Buffer<u8>>,
}

impl Arrivals {
    /// Prepares to watch, and to keep the last `room` events.
    ///
    /// # Errors
    /// The engine has no files or no memory left, or does not hold the program.
    pub fn new(
        engine: &Engine,
        events: &Events,
        watched: Watched,
        room: u32,
    ) -> Result<Self, FilesError> {
        let files = Files::new(engine, FilesConfig::default())?;
        let batch = files.buffer(BATCH as usize * size_of::<DevEvent>())?;
        let log = engine.buffer(room as usize * size_of::<DevEvent>() / 8)?;
        let count = engine.buffer(1)?;
        let params = DevArrivals {
            files: files.tables(),
            batch: DevPtr::new(batch.ptr().address()),
            log: DevPtr::new(log.ptr().address()),
            count: count.ptr(),
            signals: watched.signals,
            sources: watched.sources,
            handle: files.give_events(events)?.0,
            most: BATCH,
            room,
            last_key: watched.last_key,
            hole: [0; 3],
        };
        // SAFETY: the buffers have the sizes that the parameters say, and are kept with the instance.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            files,
            instance,
            log,
            count,
            _batch: batch,
        })
    }
    /// Watches until the last key, the end of the sources, or [`stop`](Self::stop). The submission's value is how many events came.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub fn start(&self, engine: &Engine) -> Result<Pending, FilesError> {
        Ok(engine.submit(self.instance.task(BEGIN))?)
    }
    /// How many events have come so far.
    ///
    /// # Errors
    /// The engine's memory cannot be read.
    pub fn count(&self) -> Result<u64, FilesError> {
        Ok(self.count.read()?[0])
    }
    /// The events from number `first` on, in the order in which they came. The log has only the last ones.
    ///
    /// # Errors
    /// The engine's memory cannot be read.
    pub fn since(&self, first: u64) -> Result<Vec<DevEvent>, FilesError> {
        let count = self.count()?;
        let words = self.log.read()?;
        let events = words.as_chunks::<4>().0;
        let first = first.max(count.saturating_sub(events.len() as u64));
        let event = |number: u64| {
            let words = events[number as usize % events.len()];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            DevEvent::from_bytes(&bytes)
        };
        Ok((first..count).map(event).collect())
    }
    /// Ends the service.
    pub fn stop(&self) {
        self.files.close();
    }
    /// The counters of its files.
    ///
    /// # Errors
    /// The engine's memory cannot be read.
    pub fn stats(&self) -> Result<FileStats, FilesError> {
        self.files.stats()
    }
}
