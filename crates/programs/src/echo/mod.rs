//! `echo`: a server that sends back what it receives. Each of its slots accepts a connection, serves it until its end, and
//! accepts the next one, in tasks that never wait.

#[path = "echo.rs"]
mod twin;

use std::sync::Arc;

use everwarp::files::{
    DevFiles, FILE_DOOR_STEP, FILE_SPAWNS, FileStats, Files, FilesConfig, FilesError, Listener,
};
use everwarp::{Buffer, DevPtr, DevTask, Engine, Instance, Pending, dev_struct, program};

use twin::{accepted, begin, closed, door, received, sent};

dev_struct! {
    /// Parameters of `echo`.
    pub struct DevEcho: align 16, size 128 {
        /// The files.
        pub files: DevFiles,
        /// A piece of memory for each slot.
        pub bytes: DevPtr<u8>,
        /// The connection of each slot.
        pub connections: DevPtr<u32>,
        /// The listener.
        pub listener: u32,
        /// Bytes of a piece.
        pub piece: u32,
        /// Spelled-out hole.
        pub hole: [u32; 2],
    }
}

program! {
    /// The program. Each function asks for what comes next, and tries again if there is no room.
    pub static PROGRAM: echo(DevEcho), "echo.cu" {
        /// Accepts a connection for slot `lo`.
        BEGIN: lane(begin).spawns(FILE_SPAWNS).breadth_first(),
        /// Receives from the connection that has come.
        ACCEPTED: lane(accepted).spawns(FILE_SPAWNS).breadth_first(),
        /// Sends back what was received; after the last byte it closes.
        RECEIVED: lane(received).spawns(FILE_SPAWNS).breadth_first(),
        /// Reports how many bytes were sent back, and receives more.
        SENT: lane(sent).spawns(FILE_SPAWNS).breadth_first(),
        /// Goes on with the next connection.
        CLOSED: lane(closed).spawns(FILE_SPAWNS).breadth_first(),
        /// The door of the files.
        DOOR: lane(door).spawns(FILE_DOOR_STEP as u16),
    }
}

/// How long a slot pauses when the system is out of descriptors or memory.
pub const PAUSE_NANOS: u64 = 10_000_000;

/// A server.
#[derive(Debug)]
pub struct Echo {
    // The files end before the memory that they fill does.
    files: Files,
    instance: Arc<Instance>,
    slots: u32,
    _connections: Buffer<u32>,
    _bytes: Arc<Buffer<u8>>,
}

impl Echo {
    /// Prepares to serve `slots` connections at a time, with `piece` bytes of memory for each.
    ///
    /// # Errors
    /// The engine has no sockets or no memory left, or does not hold the program.
    pub fn new(
        engine: &Engine,
        listener: &Listener,
        slots: u32,
        piece: u32,
    ) -> Result<Self, FilesError> {
        let config = FilesConfig {
            requests: (slots * 2).next_power_of_two(),
            handles: slots + 1,
            timers: slots,
            ..FilesConfig::default()
        };
        let files = Files::new(engine, config)?;
        let bytes = files.buffer(slots as usize * piece as usize)?;
        let connections = engine.buffer(slots as usize)?;
        let params = DevEcho {
            files: files.tables(),
            bytes: bytes.ptr(),
            connections: connections.ptr(),
            listener: files.give_listener(listener)?.0,
            piece,
            hole: [0; 2],
        };
        // SAFETY: the buffers have room for all slots, and are kept with the instance.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            files,
            instance,
            slots,
            _connections: connections,
            _bytes: bytes,
        })
    }
    /// Serves until [`stop`](Self::stop). The submission's value is how many bytes were sent back.
    ///
    /// # Errors
    /// As [`Engine::submit_batch`].
    pub fn start(&self, engine: &Engine) -> Result<Pending, FilesError> {
        let task = |slot| self.instance.task(BEGIN).arg(slot).build();
        let tasks: Vec<DevTask> = (0..u64::from(self.slots)).map(task).collect();
        Ok(engine.submit_batch(&tasks)?)
    }
    /// Ends all connections and the service.
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
