//! `echo`: a server that sends back what it receives, or one text for each request of HTTP. Each of its slots accepts a connection, serves it until its end, and
//! accepts the next one, in tasks that never wait.

#[path = "echo.rs"]
mod twin;

use std::sync::Arc;

use everwarp::files::{
    DevFiles, FILE_DOOR_STEP, FILE_SPAWNS, FileStats, Files, FilesConfig, FilesError, Listener,
};
use everwarp::{Buffer, DevPtr, DevTask, Engine, Instance, Pending, dev_struct, program};

use twin::{accepted, answer, begin, closed, door, received, sent};

dev_struct! {
    /// Parameters of `echo`.
    pub struct DevEcho: align 16, size 176 {
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
        /// Of each slot, how many requests have no reply yet, times 256, and how much of the end of the next one has come.
        pub asked: DevPtr<u32>,
        /// What is sent for each request that ends with an empty line; without it, what was received.
        pub reply: DevPtr<u8>,
        /// Bytes of the reply.
        pub reply_len: u32,
        /// Spelled-out hole.
        pub hole: u32,
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
        /// Replies to a request of slot `lo`, if there is one, and else receives more.
        ANSWER: lane(answer).spawns(FILE_SPAWNS).breadth_first(),
        /// Reports how many bytes were sent back, and receives more.
        SENT: lane(sent).spawns(FILE_SPAWNS).breadth_first(),
        /// Goes on with the next connection.
        CLOSED: lane(closed).spawns(FILE_SPAWNS).breadth_first(),
        /// The door of the files.
        DOOR: warp(door).spawns(FILE_DOOR_STEP as u16),
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
    _asked: Buffer<u32>,
    _reply: Arc<Buffer<u8>>,
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
        Self::answering(engine, listener, slots, piece, &[])
    }
    /// The same, but each request, up to its empty line, has this reply. Requests may come in parts and several at a time, and have
    /// no bodies.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn answering(
        engine: &Engine,
        listener: &Listener,
        slots: u32,
        piece: u32,
        reply: &[u8],
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
        let asked = engine.buffer_from(&vec![0; slots as usize])?;
        let text = files.buffer(reply.len().max(1))?;
        text.write_at(0, reply)?;
        let params = DevEcho {
            files: files.tables(),
            bytes: bytes.ptr(),
            connections: connections.ptr(),
            listener: files.give_listener(listener)?.0,
            piece,
            asked: asked.ptr(),
            reply: text.ptr(),
            reply_len: reply.len() as u32,
            hole: 0,
        };
        // SAFETY: the buffers have room for all slots, and are kept with the instance.
        let instance = Arc::new(unsafe { engine.instance(&PROGRAM, &params) }?);
        files.serve(&instance, DOOR)?;
        Ok(Self {
            files,
            instance,
            slots,
            _connections: connections,
            _asked: asked,
            _reply: text,
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
