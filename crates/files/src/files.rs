//! The files of an instance, as the host sees them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use everwarp_contract::files::{FILE_DOOR_STEP, FILE_TAKE_STEP};
use everwarp_contract::{DevFileControl, DevFiles, DevPages, DevPtr, DevType};
use everwarp_io::{Backend, Connection, Events, Listener, Network};
use everwarp_pages::PageStats;
use everwarp_runtime::{Buffer, Engine, EngineKind, Instance, Shape};

use crate::arena::Arena;
use crate::cache::Cache;
use crate::config::{FileHandle, FileStats, FilesConfig, Rights};
use crate::errno::FileErrno;
use crate::error::FilesError;
use crate::event_stream::EventStream;
use crate::faults::Faults;
use crate::grants::{Grant, How};
use crate::handles::{Handles, Open};
use crate::handover::Handover;
use crate::open_file::OpenFile;
use crate::port::{DONE, Port, REQUEST};
use crate::record::Record;
use crate::server::{Parts, Server};
use crate::socket::OpenSocket;
use crate::system::System;
use crate::uring::Ring;
use crate::waits::Waits;

/// The least slots of completions. They cost 128 KiB, and a thread that finds one needs not wait.
const DONE_SLOTS: u32 = 4096;

/// Whether requests are served.
#[derive(Debug, Default)]
enum Serving {
    #[default]
    NotYet,
    Now(Port, Vec<JoinHandle<()>>),
    NoMore,
}

/// The files of one instance's tasks.
///
/// Make them, grant directories and share buffers, put [`tables`](Self::tables) into the parameters of an instance, and
/// [`serve`](Self::serve) it. Dropping them ends the service: what was asked is still done, and later requests end with
/// [`FileErrno::CANCELED`](crate::FileErrno::CANCELED).
///
/// While requests are on their way, an engine in which nothing else moves is idle: its watchdog waits.
#[derive(Debug)]
pub struct Files {
    server: Arc<Server>,
    control: Arc<Buffer<u64>>,
    requests: Arc<Buffer<u64>>,
    copied: Arc<Buffer<u64>>,
    done: Arc<Buffer<u64>>,
    serving: Mutex<Serving>,
    backend: Backend,
    /// A ring for each thread that is not started yet.
    rings: Mutex<Vec<Ring>>,
}

/// A ring for each thread, or none if files are read with plain calls.
fn rings(asked: Option<Backend>, threads: usize) -> Result<Vec<Ring>, FilesError> {
    let asked = match asked {
        Some(asked) => Some(asked),
        None => Backend::asked().map_err(|source| FilesError::Backend { source })?,
    };
    if asked == Some(Backend::Threads) {
        return Ok(Vec::new());
    }
    let rings: io::Result<Vec<Ring>> = (0..threads).map(|_| Ring::new()).collect();
    match rings {
        Ok(rings) => Ok(rings),
        Err(source) if asked.is_some() => Err(FilesError::NoRing { source }),
        Err(_) => Ok(Vec::new()),
    }
}

impl Files {
    /// Files for one instance of a program on this engine.
    ///
    /// # Errors
    /// [`FilesError::NotOnEngine`]: the wgpu engine does not have them. A size cannot work, or memory is short.
    pub fn new(engine: &Engine, config: FilesConfig) -> Result<Self, FilesError> {
        Self::with(engine, config, None)
    }
    /// The same with a record of what happens to the files, for tests of what a power cut leaves.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[doc(hidden)]
    pub fn recorded(
        engine: &Engine,
        config: FilesConfig,
        record: Arc<Record>,
    ) -> Result<Self, FilesError> {
        Self::with(engine, config, Some(record))
    }
    fn with(
        engine: &Engine,
        config: FilesConfig,
        record: Option<Arc<Record>>,
    ) -> Result<Self, FilesError> {
        if engine.kind() == EngineKind::Wgpu {
            return Err(FilesError::NotOnEngine {
                engine: engine.kind(),
            });
        }
        let size = |what, rule, value: u32| {
            Err(FilesError::Size {
                what,
                rule,
                value: value.into(),
            })
        };
        if !config.requests.is_power_of_two() || config.requests > 1 << 20 {
            return size(
                "FilesConfig::requests",
                "a power of two up to 2^20",
                config.requests,
            );
        }
        if !(1..=1 << 16).contains(&config.handles) {
            return size("FilesConfig::handles", "from 1 to 65,536", config.handles);
        }
        if config.timers > 1 << 20 {
            return size("FilesConfig::timers", "up to 2^20", config.timers);
        }
        if config.threads > 256 {
            return size("FilesConfig::threads", "at most 256", config.threads);
        }
        let faults = match config.faults {
            Some(faults) => Some(faults),
            None => Faults::of_environment()?,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let buffer = |words: usize| engine.buffer(words).map(Arc::new);
        let slots = config.requests.max(DONE_SLOTS) as usize;
        let waits = Waits::new(config.timers as usize);
        let waits = waits.map_err(|source| FilesError::Waiting { source })?;
        let threads = match config.threads {
            0 => cores.clamp(2, 8),
            threads => threads as usize,
        };
        let rings = rings(config.backend, threads)?;
        let arena = Arena::new(engine, config.arena.or_environment(threads)?, threads)?;
        let cache = Cache::new(engine, config.cache, config.handles, arena.is_none())?;
        let sockets = match config.sockets {
            0 => config.handles,
            sockets => sockets,
        };
        let parts = Parts {
            system: System::new(faults, record),
            handles: Handles::new(config.handles, sockets),
            cache,
            arena,
            waits,
            workers: threads,
            wakes: rings.iter().map(Ring::wake).collect(),
            bytes_most: config.bytes,
        };
        Ok(Self {
            server: Arc::new(Server::new(engine.clone(), parts)),
            backend: match rings.is_empty() {
                true => Backend::Threads,
                false => Backend::Uring,
            },
            rings: Mutex::new(rings),
            control: buffer(size_of::<DevFileControl>() / 8)?,
            requests: buffer(config.requests as usize * REQUEST)?,
            copied: Arc::new(engine.near_buffer(FILE_TAKE_STEP as usize * REQUEST)?),
            done: Arc::new(engine.near_buffer(slots * DONE)?),
            serving: Mutex::default(),
        })
    }

    /// The field of the instance's parameters.
    pub fn tables(&self) -> DevFiles {
        DevFiles {
            requests: DevPtr::new(self.requests.ptr().address()),
            done: DevPtr::new(self.done.ptr().address()),
            control: DevPtr::new(self.control.ptr().address()),
            slots: (self.requests.len() / REQUEST) as u32,
            copied: DevPtr::new(self.copied.ptr().address()),
            done_slots: (self.done.len() / DONE) as u32,
            pages: match &self.server.cache {
                Some(cache) => cache.tables(),
                None => DevPages::ZERO,
            },
            ..match &self.server.arena {
                Some(arena) => arena.tables(),
                None => DevFiles::ZERO,
            }
        }
    }
    /// Grants the directory at a path. Returns its number, which counts from 0.
    ///
    /// # Errors
    /// [`FilesError::Grant`].
    pub fn grant(&self, path: impl AsRef<Path>, rights: Rights) -> Result<u32, FilesError> {
        let path = path.as_ref();
        let grant = Grant::new(path, rights == Rights::ReadWrite);
        let grant = grant.map_err(|source| FilesError::Grant {
            path: path.to_owned(),
            source,
        })?;
        let grants = self.server.grants.lock();
        let mut grants = grants.unwrap_or_else(PoisonError::into_inner);
        grants.push(grant);
        Ok(grants.len() as u32 - 1)
    }
    /// Gives tasks an open file. Reads, writes and stats of an `unordered` handle are done together and end in any order;
    /// else the requests of a handle are done one after the other.
    ///
    /// # Errors
    /// [`FilesError::Handles`].
    pub fn give(
        &self,
        file: File,
        rights: Rights,
        unordered: bool,
    ) -> Result<FileHandle, FilesError> {
        let how = How {
            read: true,
            write: rights == Rights::ReadWrite,
            unordered,
            ..How::default()
        };
        let handles = &self.server.handles;
        let handle = handles.insert(Arc::new(OpenFile::new(file, how)));
        handle.map(FileHandle).ok_or(FilesError::Handles {
            limit: handles.limit,
        })
    }
    /// Gives tasks an open file whose pages are cached. It may grow to `room` bytes.
    ///
    /// # Errors
    /// [`FilesError::Cached`]: there is no cache, it is too small for the file's table, or all handles are in use.
    pub fn give_cached(
        &self,
        file: File,
        rights: Rights,
        room: u64,
    ) -> Result<FileHandle, FilesError> {
        let how = How {
            read: true,
            write: rights == Rights::ReadWrite,
            cached: true,
            ..How::default()
        };
        let error = |source| FilesError::Cached { source };
        let cache = self.server.cache.as_ref();
        let cache = cache.ok_or(error(FileErrno::NOTSUP))?;
        let serves = {
            let serving = self.serving.lock();
            let serving = serving.unwrap_or_else(PoisonError::into_inner);
            matches!(*serving, Serving::Now(..))
        };
        let given = self.server.give_cached(cache, file, how, room, serves);
        given.map(FileHandle).map_err(error)
    }
    /// Lets tasks use what of the network these rules say, in the place of earlier rules. Without rules they open no sockets.
    pub fn allow(&self, network: Network) {
        let own = self.server.network.lock();
        *own.unwrap_or_else(PoisonError::into_inner) = Arc::new(network);
    }
    /// Gives tasks a listener, from which they accept connections.
    ///
    /// # Errors
    /// [`FilesError::Handles`].
    pub fn give_listener(&self, listener: &Listener) -> Result<FileHandle, FilesError> {
        self.give_socket(listener.clone().into())
    }
    /// Gives tasks a connection.
    ///
    /// # Errors
    /// [`FilesError::Handles`].
    pub fn give_connection(&self, connection: &Connection) -> Result<FileHandle, FilesError> {
        self.give_socket(connection.clone().into())
    }
    /// Gives tasks a stream of events: the keys, the mouse and the size of the terminal, signals, and input devices. Nothing comes before
    /// a task [watches](crate::FileTask::watch) something. The terminal, the signals and the input device belong to the first stream
    /// that asks for them, until it is closed or watches nothing.
    ///
    /// # Errors
    /// [`FilesError::Waiting`]: the system gives no descriptors; or [`FilesError::Handles`].
    pub fn give_events(&self, events: &Events) -> Result<FileHandle, FilesError> {
        let stream = events.open();
        let stream = stream.map_err(|source| FilesError::Waiting { source })?;
        self.give_socket(EventStream::new(stream).into())
    }
    fn give_socket(&self, socket: OpenSocket) -> Result<FileHandle, FilesError> {
        let handles = &self.server.handles;
        let handle = handles.insert(Open::Socket(Arc::new(socket)));
        handle.map(FileHandle).ok_or(FilesError::Handles {
            limit: handles.limit,
        })
    }
    /// The counters of the page cache; `None` without one.
    pub fn page_stats(&self) -> Option<PageStats> {
        let cache = self.server.cache.as_ref()?;
        Some(cache.brain().pager.stats())
    }
    /// How files are read and written: the name of the backend.
    pub fn backend(&self) -> &'static str {
        self.backend.name()
    }
    /// Makes a buffer that requests may name.
    ///
    /// # Errors
    /// The engine has no memory left.
    pub fn buffer(&self, bytes: usize) -> Result<Arc<Buffer<u8>>, FilesError> {
        let buffer = Arc::new(self.server.engine.buffer(bytes)?);
        self.server.memory.share(buffer.clone());
        Ok(buffer)
    }
    /// Serves the requests of an instance, whose parameters hold [`tables`](Self::tables) and whose program's function number
    /// `door` calls [`door`](crate::door).
    ///
    /// # Errors
    /// [`FilesError::Door`], [`FilesError::Served`], or the system refuses a thread.
    pub fn serve(&self, instance: &Arc<Instance>, door: u32) -> Result<(), FilesError> {
        let program = instance.program();
        let room = FILE_DOOR_STEP as u16;
        let function = program.functions.get(door as usize);
        let fits = |f: &&everwarp_runtime::Function| {
            f.shape == Shape::Warp && f.spawns && f.max_spawn >= room
        };
        if function.filter(fits).is_none() {
            return Err(FilesError::Door {
                program: program.name.to_string(),
                function: door,
                room,
            });
        }
        let serving = self.serving.lock();
        let mut serving = serving.unwrap_or_else(PoisonError::into_inner);
        if !matches!(*serving, Serving::NotYet) {
            return Err(FilesError::Served);
        }
        let port = Port {
            instance: instance.clone(),
            door,
            copied: self.copied.clone(),
            done: self.done.clone(),
        };
        let handover = self.server.handover.lock();
        *handover.unwrap_or_else(PoisonError::into_inner) = Some(Handover::new(port.clone()));
        // The thread that takes requests comes last: without it the others have nothing to end.
        let mut threads = Vec::new();
        let last = self.server.workers + 3;
        let rings = self.rings.lock();
        let mut rings = std::mem::take(&mut *rings.unwrap_or_else(PoisonError::into_inner));
        // The last one is taken first, and its wake is that of the first thread.
        rings.reverse();
        for number in 0..=last {
            let (server, port) = (self.server.clone(), port.clone());
            let ring = match number {
                n if n > 2 && n < last => rings.pop(),
                _ => None,
            };
            let name = match number {
                0 => "everwarp-files-give".to_owned(),
                1 => "everwarp-files-pages".to_owned(),
                2 => "everwarp-files-wait".to_owned(),
                n if n == last => "everwarp-files-take".to_owned(),
                n => format!("everwarp-files-{}", n - 2),
            };
            let spawned = std::thread::Builder::new().name(name).spawn(move || {
                if number == 0 {
                    server.give();
                } else if number == 1 {
                    server.keep_pages(&port);
                } else if number == 2 {
                    server.keep_waits();
                } else if number == last {
                    server.take(&port);
                } else {
                    server.work_as(number - 3, ring, &port);
                }
            });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    self.server.abandon();
                    threads.into_iter().for_each(|t| drop(t.join()));
                    *serving = Serving::NoMore;
                    return Err(FilesError::Thread { source });
                }
            }
        }
        *serving = Serving::Now(port, threads);
        Ok(())
    }
    /// The counters.
    ///
    /// # Errors
    /// The engine's memory cannot be read.
    pub fn stats(&self) -> Result<FileStats, FilesError> {
        let server = &self.server;
        let mut refused = [0];
        self.control.read_at(1, &mut refused)?;
        let ([served, failed], in_flight, bytes, queued_most) = {
            let work = server.work();
            (work.ended, work.unanswered, work.bytes, work.jobs_most)
        };
        let counters = &server.counters;
        Ok(FileStats {
            served,
            failed,
            in_flight,
            refused: refused[0],
            bytes,
            open: server.handles.open(),
            arena: server.arena.as_ref().map_or(0, Arena::used),
            takes: counters.takes.get(),
            lone_reads: counters.lone_reads.get(),
            queued_most: queued_most as u64,
            copies: counters.copies.get(),
            copy_batches: counters.copy_batches.get(),
            copy_wait: counters.copy_wait.get(),
            order_wait: counters.order_wait.get(),
            page_turns: counters.page_turns.get(),
            lock_wait: match &server.cache {
                Some(cache) => cache.lock_wait.get(),
                None => Duration::ZERO,
            },
        })
    }
}

// `stats` reads the second word.
const _: () = assert!(std::mem::offset_of!(DevFileControl, refused) == 8);

impl Files {
    /// Ends the service and waits for it: what was asked is still done, except what waits for times and peers. That and later requests
    /// end with [`FileErrno::CANCELED`](crate::FileErrno::CANCELED). If the engine is parked and stays so, tasks cannot be told: then
    /// requests get no answer any more.
    pub fn close(&self) {
        let serving = self.serving.lock();
        let mut serving = serving.unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *serving, Serving::NoMore);
        let Serving::Now(port, threads) = before else {
            return;
        };
        if self.server.close(&port).is_err() {
            // The engine has ended, or is parked. If it is resumed, tasks of the door may still look at the rings.
            self.server.abandon();
            std::mem::forget((port.clone(), self.requests.clone(), self.control.clone()));
        }
        // A panic of a thread was printed.
        threads.into_iter().for_each(|t| drop(t.join()));
        let handover = self.server.handover.lock();
        *handover.unwrap_or_else(PoisonError::into_inner) = None;
        // A thread may have accepted a connection in the last moment.
        self.server.handles.remove_sockets();
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.close();
    }
}
