//! `file_probe`: tests of files. Tasks make the requests that a script in memory lists, and note their results.

#[path = "file_probe.rs"]
mod twin;

use std::sync::Arc;

use everwarp::files::{
    DevFiles, FILE_DOOR_STEP, FILE_SPAWNS, FileErrno, Files, FilesConfig, FilesError,
};
use everwarp::{Buffer, DevPtr, DevTask, Engine, Instance, Layout, Pending, dev_struct, program};

use twin::{ask, done, door};

/// The most requests that one task makes.
pub const MANY: u32 = 60;

dev_struct! {
    /// A request of a script.
    pub struct DevFileStep: align 16, size 48 {
        /// What is asked: the number of a method of `FileTask`, in their order, or another number.
        pub op: u32,
        /// The handle, or the number of the granted directory.
        pub handle: u32,
        /// Where in the file, or how to open it; to list, the address of the listing.
        pub offset: u64,
        /// The bytes.
        pub address: u64,
        /// How many.
        pub len: u32,
        /// The step whose result is the handle, plus one; 0: `handle` is.
        pub handle_of: u32,
        /// The step that follows when this one is done, plus one; 0: none.
        pub next: u32,
        /// The room for a listing.
        pub room: u32,
        /// The class of the request (`FILE_NORMAL`, …).
        pub klass: u32,
        /// How many microseconds a request of a file may take; 0: without a limit.
        pub within: u32,
    }
}

dev_struct! {
    /// Parameters of `file_probe`.
    pub struct DevFileProbe: align 16, size 160 {
        /// The files.
        pub files: DevFiles,
        /// The script.
        pub steps: DevPtr<DevFileStep>,
        /// The result of each step, and how often it was done (upper half).
        pub results: DevPtr<u64>,
        /// How many steps there are.
        pub count: u32,
        /// Spelled-out hole.
        pub hole: [u32; 3],
    }
}

program! {
    /// The program.
    pub static PROGRAM: file_probe(DevFileProbe; DevFileStep::write_struct), "file_probe.cu" {
        /// Asks for step `lo`, and for as many after it as `hi` says. Without room it tries again.
        ASK: lane(ask).spawns(2 * MANY as u16).breadth_first(),
        /// Notes a result, and asks for the next step. Reports 1.
        DONE: lane(done).spawns(FILE_SPAWNS),
        /// The door of the files.
        DOOR: warp(door).spawns(FILE_DOOR_STEP as u16),
    }
}

/// The operations, by their numbers in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see `FileTask`")]
#[repr(u32)]
pub enum Op {
    Open = 1,
    Read,
    Write,
    Append,
    Truncate,
    Stat,
    Sync,
    Close,
    List,
    Sleep,
    /// The period is in `address`.
    Timer,
    Tick,
    /// The address is in memory, here and of the next two.
    Listen,
    Connect,
    Datagrams,
    Accept,
    Receive,
    Send,
    /// The place for the sender is `offset`.
    ReceiveFrom,
    /// The address is in memory at `offset`.
    SendTo,
    /// The directions are `offset`.
    Shut,
    Address,
    Peer,
    /// The setting is `offset`, here and of the next one, and the value in `address`.
    SetOption,
    Option,
    /// The note, which is the number of a step, is `offset`.
    Cancel,
    /// The limit is `offset`, here and of the next three.
    ConnectWithin,
    AcceptWithin,
    ReceiveWithin,
    SendWithin,
    /// The sources are `offset`, the signals `address`.
    Watch,
    Events,
    /// Asks for nothing: the task goes on when step `offset` has ended, or after many looks at it.
    Linger,
}

/// How often a task of the CPU engine looks at the step for which it lingers; on a GPU a few looks must do.
pub(super) const LOOKS: u32 = 1 << 22;

impl DevFileStep {
    /// A step.
    pub const fn new(op: Op, handle: u32, offset: u64, address: u64, len: u32) -> Self {
        Self {
            op: op as u32,
            handle,
            offset,
            address,
            len,
            handle_of: 0,
            next: 0,
            room: 0,
            klass: 0,
            within: 0,
        }
    }
    /// A listing of the directory at a path, which goes to `room` bytes at an address.
    pub const fn list(dir: u32, path: u64, len: u32, to: u64, room: u32) -> Self {
        Self {
            room,
            ..Self::new(Op::List, dir, to, path, len)
        }
    }
    /// The same with the handle that an earlier step has opened.
    pub const fn of(self, step: u32) -> Self {
        Self {
            handle_of: step + 1,
            ..self
        }
    }
    /// The same in a class (`FILE_NORMAL`, …).
    pub const fn in_class(self, klass: u32) -> Self {
        Self { klass, ..self }
    }
    /// The same request of a file within this many microseconds.
    pub const fn within(self, micros: u32) -> Self {
        Self {
            within: micros,
            ..self
        }
    }
    /// The same, followed by another step.
    pub const fn then(self, step: u32) -> Self {
        Self {
            next: step + 1,
            ..self
        }
    }
}

/// A script that is ready to run.
#[derive(Debug)]
pub struct Script {
    /// Its files.
    pub files: Arc<Files>,
    /// Its instance.
    pub instance: Arc<Instance>,
    results: Buffer<u64>,
    _steps: Buffer<u64>,
}

impl Script {
    /// Serves a script with these files, which serve nothing else.
    ///
    /// # Errors
    /// As [`Files::serve`].
    pub fn new(
        engine: &Engine,
        files: Arc<Files>,
        steps: &[DevFileStep],
    ) -> Result<Self, FilesError> {
        let words = steps.iter().flat_map(|step| {
            let bytes = step.bytes().chunks_exact(8);
            bytes.map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
        });
        let buffer = engine.buffer_from(&words.collect::<Vec<_>>())?;
        let results = engine.buffer(steps.len())?;
        let params = DevFileProbe {
            files: files.tables(),
            steps: DevPtr::new(buffer.ptr().address()),
            results: results.ptr(),
            count: steps.len() as u32,
            hole: [0; 3],
        };
        // SAFETY: the buffers have as many steps as the parameters say, and are kept with the instance.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            files,
            instance,
            results,
            _steps: buffer,
        })
    }
    /// Files of default sizes for a script.
    ///
    /// # Errors
    /// As [`Files::new`].
    pub fn files(engine: &Engine, config: FilesConfig) -> Result<Arc<Files>, FilesError> {
        Files::new(engine, config).map(Arc::new)
    }
    /// The task that asks for `count` steps from the first on, up to [`MANY`].
    pub fn task(&self, first: u32, count: u32) -> DevTask {
        self.instance.task(ASK).args(first, count).build()
    }
    /// Submits the task of [`task`](Self::task). It reports how many steps were done.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    pub fn submit(&self, engine: &Engine, first: u32, count: u32) -> Result<Pending, FilesError> {
        Ok(engine.submit(self.instance.task(ASK).args(first, count))?)
    }
    /// The results, each of a step that was done once.
    ///
    /// # Panics
    /// A step was done more than once.
    ///
    /// # Errors
    /// The memory cannot be read.
    pub fn results(&self) -> Result<Vec<Option<Result<u32, FileErrno>>>, FilesError> {
        let words = self.results.read()?;
        let result = |(step, &word): (usize, &u64)| {
            let (value, times) = (word as u32 as i32, word >> 32);
            assert!(times < 2, "step {step} was done {times} times");
            let result = match value >= 0 {
                true => Ok(value as u32),
                false => Err(FileErrno(value.unsigned_abs())),
            };
            (times == 1).then_some(result)
        };
        Ok(words.iter().enumerate().map(result).collect())
    }
}
