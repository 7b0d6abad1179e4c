//! What the host keeps of all processes, and what it does for them.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use everwarp_contract::hostcall::number;

use crate::config::Config;
use crate::counters::{CALLS, Counters, Counts};
use crate::endings::Endings;
use crate::errno::{Errno, Result};
use crate::exit::{Exit, Reason};
use crate::openings::{Openings, Waiting};
use crate::poll::Poll;
use crate::process::{Given, Process, STREAMS, Slot};
use crate::request::{DATA_BYTES, Reply, Request, kind};
use crate::sink::{Deferred, lock};
use crate::streams::Streams;
use crate::wait::{Later, Wait, Waits};
use crate::{dir, file, readdir};

/// A process that has been answered and wants to be told, named as its request named it: an allegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The process's slot in the process table.
    pub process: u32,
    /// Which of the slot's processes.
    pub generation: u32,
    /// The slot of the request.
    pub slot: u32,
    /// The sequence of the request, which the slot's status shows by now.
    pub sequence: u32,
}

/// What whoever embeds the service is told, on the service's threads, which must not panic there.
pub trait Events: Send + Sync {
    /// Requests that asked for it have been answered.
    fn wake(&self, woken: &[Woken]);
    /// Processes have said how they ended. Their descriptors are closed and their slots may be opened again. Whoever is
    /// told takes them out of the list.
    fn exited(&self, ended: &mut Vec<Ended>);
}

/// A process that has said how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The process's slot in the process table.
    pub process: u32,
    /// Which of the slot's processes.
    pub generation: u32,
    /// What it was opened with; 0 for one that another process has spawned.
    pub tag: u64,
    /// How it ended.
    pub exit: Exit,
}

/// For whoever needs to be told nothing.
impl Events for () {
    fn wake(&self, _: &[Woken]) {}
    fn exited(&self, _: &mut Vec<Ended>) {}
}

/// A process that could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The caller named a slot beyond the table.
    #[error("slot {slot} is beyond the process table, which has {slots}")]
    NoSuchSlot {
        /// The slot.
        slot: u32,
        /// How many there are.
        slots: usize,
    },
    /// The caller named a slot whose process has not been closed.
    #[error("slot {slot} still has process {slot}.{generation}")]
    InUse {
        /// The slot.
        slot: u32,
        /// Its process's generation.
        generation: u32,
    },
    /// The caller gave a process more directories than it lets it have descriptors.
    #[error("{handles} descriptors do not hold three streams and {directories} directories")]
    TooFewHandles {
        /// The limit.
        handles: u32,
        /// The directories.
        directories: usize,
    },
}

/// What has become of a request.
pub(crate) enum Served {
    /// The reply is the answer.
    Answered,
    /// There is no answer yet.
    Waits(Wait),
}

/// The host's side of processes that run elsewhere.
///
/// It may be asked from many threads at a time. Requests of one process that are to take effect in order must be
/// asked in order; [`Server`](crate::Server) does so.
pub struct Service {
    slots: Box<[Mutex<Slot>]>,
    streams: Streams,
    events: Arc<dyn Events>,
    waits: Arc<Waits>,
    openings: Arc<Openings>,
    waiter: Option<JoinHandle<()>>,
    pub(crate) counters: Arc<Counters>,
    /// Processes that are to end and that the host does not know yet, by slot.
    pub(crate) doomed: Mutex<HashMap<u32, u32>>,
}

impl Service {
    /// A service for a table of `slots` processes.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(slots: u32, streams: Streams, events: Arc<dyn Events>) -> io::Result<Self> {
        let waits = Arc::new(Waits::default());
        let listener: Weak<Waits> = Arc::downgrade(&waits);
        streams.stdin.listen(Box::new(move || {
            if let Some(waits) = listener.upgrade() {
                waits.input();
            }
        }));
        let of_thread = Arc::clone(&waits);
        let waiter = thread::Builder::new()
            .name("everwarp-waits".into())
            .spawn(move || of_thread.run())?;
        Ok(Self {
            slots: (0..slots).map(|_| Mutex::default()).collect(),
            streams,
            events,
            waits,
            openings: Openings::new(),
            waiter: Some(waiter),
            counters: Arc::default(),
            doomed: Mutex::default(),
        })
    }

    pub(crate) fn events(&self) -> &Arc<dyn Events> {
        &self.events
    }

    /// As long as the answer lives, lines that processes write may wait to be passed on.
    pub(crate) fn defer_output(&self) -> [Deferred<'_>; 2] {
        [self.streams.stdout.defer(), self.streams.stderr.defer()]
    }

    /// Lets processes have so many files and directories open together, rather than as many as the system grants. To
    /// be called before anything is opened.
    pub fn limit_files(&self, files: u64) {
        self.openings.limit(files);
    }

    /// What has been asked and answered until now.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Opens process `generation` of slot `process`.
    pub fn open(
        &self,
        process: u32,
        generation: u32,
        config: impl Into<Arc<Config>>,
    ) -> std::result::Result<(), OpenError> {
        self.open_as(process, generation, config.into(), 0, 0)
    }

    /// Opens process `generation` of slot `process` as number `number` of those that share a configuration
    /// ([`Config::own`]). Who hears of its end is told the tag.
    ///
    /// # Errors
    /// As [`Service::open`].
    pub fn open_as(
        &self,
        process: u32,
        generation: u32,
        config: Arc<Config>,
        number: u32,
        tag: u64,
    ) -> std::result::Result<(), OpenError> {
        let slots = self.slots.len();
        let slot = self.slots.get(process as usize);
        let slot = slot.ok_or(OpenError::NoSuchSlot {
            slot: process,
            slots,
        })?;
        let (handles, directories) = (config.handles, config.directories.len());
        if (handles as usize) < STREAMS + directories {
            return Err(OpenError::TooFewHandles {
                handles,
                directories,
            });
        }
        let mut slot = lock(slot);
        if let Some(generation) = slot.generation() {
            return Err(OpenError::InUse {
                slot: process,
                generation,
            });
        }
        *slot = Slot::Given(
            generation,
            Given {
                config,
                number,
                tag,
            },
        );
        Ok(())
    }

    /// Ends a process that did not do so itself: what it left, or nothing if it is not there.
    ///
    /// Requests of its that wait are answered with `ECANCELED`, and those that have not been served yet with
    /// `ESRCH`: where output that is on its way matters, have the device send an `EXIT` behind it instead.
    pub fn close(&self, process: u32, generation: u32, reason: Reason) -> Option<Exit> {
        let ended = self.end((process, generation), reason, b"", &mut Endings::default());
        self.serve_openings();
        ended.map(|ended| ended.exit)
    }

    /// Ends a process behind the last of its standard output. If that is not taken, nobody is left to be told.
    fn end(
        &self,
        (process, generation): (u32, u32),
        reason: Reason,
        last: &[u8],
        endings: &mut Endings,
    ) -> Option<Ended> {
        let ended = |tag, stdout, stderr| Ended {
            process,
            generation,
            tag,
            exit: Exit {
                reason,
                fuel_left: 0,
                stdout,
                stderr,
            },
        };
        let there = match self.take(process, generation)? {
            Slot::Free => return None,
            Slot::Given(_, given) => {
                let names = (process, generation);
                let [stdout, stderr] = endings.last_words(names, &given, last, &self.streams);
                return Some(ended(given.tag, stdout, stderr));
            }
            Slot::Open(there) => there,
        };
        if !last.is_empty() {
            let _ = there.stdout.write(last);
        }
        there.ended.store(true, SeqCst);
        self.waits.ended(&there);
        let (stdout, stderr) = (there.stdout.finish(), there.stderr.finish());
        // A request that is being served may hold the process a while longer, but its files close now.
        let table = std::mem::replace(&mut *lock(&there.table), crate::table::Table::new(0));
        drop(table);
        self.call_off_openings_of(&there);
        Some(ended(there.tag, stdout, stderr))
    }

    /// Answers what a process waits for with `ECANCELED`, now and from now on; it stays open. For one that is
    /// being ended, so that it hears of it.
    pub fn interrupt(&self, process: u32, generation: u32) {
        if let Ok(there) = self.process(process, generation) {
            there.ended.store(true, SeqCst);
            self.waits.ended(&there);
            self.call_off_openings_of(&there);
        }
    }

    /// Serves those for whom there is room now to open something.
    pub(crate) fn serve_openings(&self) {
        let mut woken = Vec::new();
        loop {
            let next = self.openings.next();
            if next.is_empty() {
                return;
            }
            for (waiting, permit) in next {
                let mut reply = Reply::default();
                let opened = permit.ok_or(Errno::CANCELED).and_then(|permit| {
                    dir::open(
                        &waiting.process,
                        &waiting.request.request(),
                        &mut reply,
                        permit,
                    )
                });
                reply.set(opened);
                woken.extend((waiting.later)(&reply));
            }
            self.wake(&woken);
            woken.clear();
        }
    }

    fn wake(&self, woken: &[Woken]) {
        if !woken.is_empty() {
            self.events().wake(woken);
        }
    }

    /// For a process that has been ended.
    fn call_off_openings_of(&self, process: &Process) {
        if process.waits.load(SeqCst) > 0 {
            self.call_off_openings(false);
        }
    }

    fn call_off_openings(&self, all: bool) {
        let mut reply = Reply::default();
        reply.set(Err(Errno::CANCELED));
        let off = self.openings.called_off(all).into_iter();
        let woken: Vec<_> = off.filter_map(|waiting| (waiting.later)(&reply)).collect();
        self.wake(&woken);
    }

    pub(crate) fn slot(&self, slot: u32) -> Option<&Mutex<Slot>> {
        self.slots.get(slot as usize)
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Empties a process's slot; nothing if it is not there.
    fn take(&self, process: u32, generation: u32) -> Option<Slot> {
        let mut slot = lock(self.slots.get(process as usize)?);
        let there = slot.generation() == Some(generation);
        there.then(|| std::mem::take(&mut *slot))
    }

    fn knows(&self, process: u32, generation: u32) -> Result {
        let slot = self.slots.get(process as usize).ok_or(Errno::SRCH)?;
        match lock(slot).generation() == Some(generation) {
            true => Ok(()),
            false => Err(Errno::SRCH),
        }
    }

    pub(crate) fn process(&self, process: u32, generation: u32) -> Result<Arc<Process>> {
        let slot = self.slots.get(process as usize).ok_or(Errno::SRCH)?;
        lock(slot).open(process, generation, &self.streams)
    }

    /// Serves a request: `reply` is the answer, unless the request must wait, which [`Service::later`] does. Of an
    /// end others have heard when this returns.
    #[must_use = "a request that must wait has not been answered"]
    pub fn answer(&self, request: &Request<'_>, reply: &mut Reply) -> Option<Wait> {
        let mut endings = Endings::default();
        let served = self.serve(request, reply, &mut endings);
        self.tell_of_ends(&mut endings);
        self.serve_openings();
        match served {
            Served::Answered => None,
            Served::Waits(wait) => Some(wait),
        }
    }

    /// Serves a request; an end is noted there, and told to nobody.
    pub(crate) fn serve(
        &self,
        request: &Request<'_>,
        reply: &mut Reply,
        endings: &mut Endings,
    ) -> Served {
        reply.clear();
        if matches!(request.kind(), number::ADOPT | number::INTERRUPT) {
            reply.set(self.of_families(request));
            return Served::Answered;
        }
        let known = if request.payload.len() > request.room.min(DATA_BYTES) {
            Err(Errno::INVAL)
        } else if request.kind() == number::EXIT {
            self.knows(request.process, request.generation)
                .map(|()| None)
        } else {
            self.process(request.process, request.generation).map(Some)
        };
        let result = match known {
            Ok(Some(process)) => self.serve_known(process, request, reply),
            Ok(None) => self.serve_exit(request, endings),
            Err(errno) => {
                Counters::add(&self.counters.refused, 1);
                Err(errno)
            }
        };
        let served = result.unwrap_or_else(|errno| {
            reply.set(Err(errno));
            Served::Answered
        });
        match served {
            Served::Waits(_) => Counters::add(&self.counters.waited, 1),
            _ => self.counters.answered(reply),
        }
        served
    }

    /// Answers a read of a file that needs nothing from a disk; false if it is none, and then nothing has happened.
    pub(crate) fn read_now(&self, request: &Request<'_>, reply: &mut Reply) -> bool {
        reply.clear();
        let known = self.process(request.process, request.generation).ok();
        let read = known.and_then(|process| file::read_now(&process, request, reply));
        if read.is_some() {
            self.counters.served(request.call, reply);
        }
        read.is_some()
    }

    /// Waits on a thread of the service's own or with others for room, and does `later` when there is an answer.
    pub fn later(&self, wait: Wait, later: Later) {
        self.wait(wait, later);
        self.serve_openings();
    }

    /// The same, but that the caller sees to it that openings are served before long.
    pub(crate) fn wait(&self, wait: Wait, later: Later) {
        let counters = Arc::clone(&self.counters);
        let later: Later = Box::new(move |reply| {
            counters.answered(reply);
            later(reply)
        });
        match wait.into_open() {
            Ok((process, request)) => {
                let there = Arc::clone(&process);
                self.openings.wait(Waiting {
                    process,
                    request,
                    later,
                });
                if there.ended.load(SeqCst) {
                    self.call_off_openings(false);
                }
            }
            Err(wait) => {
                let events = Arc::clone(self.events());
                let done = move |reply: &Reply| {
                    if let Some(woken) = later(reply) {
                        events.wake(&[woken]);
                    }
                };
                self.waits.add(wait, Box::new(done));
            }
        }
    }

    /// Answers everything that waits with `ECANCELED`, and returns when that is done.
    pub fn cancel_waits(&self) {
        self.call_off_openings(true);
        self.waits.cancel();
    }

    fn serve_known(
        &self,
        process: Arc<Process>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Served> {
        let kind = request.kind();
        if let Some(counter) = self.counters.calls.get(kind as usize) {
            Counters::add(counter, 1);
        }
        Counters::add(&self.counters.bytes_in, request.payload.len());
        match kind {
            number::FD_READ => {
                if !file::read(&process, request, reply)? {
                    if request.word(0)? > 2 && !request.patient() {
                        return Err(Errno::LATER);
                    }
                    let limit = request.length(1)?;
                    return Ok(Served::Waits(Wait::input(process, limit)));
                }
            }
            number::POLL_ONEOFF => {
                let now = Instant::now();
                let poll = Poll::new(&process, request, now)?;
                reply.values[0] = poll.finish(&process, now, &mut reply.data);
                if reply.values[0] == 0 {
                    return Ok(Served::Waits(Wait::poll(process, poll)));
                }
            }
            number::PATH_OPEN => match self.openings.take(&process.held)? {
                Some(permit) => dir::open(&process, request, reply, permit)?,
                None if request.patient() => {
                    return Ok(Served::Waits(Wait::open(process, request)));
                }
                None => return Err(Errno::LATER),
            },
            number::CALL_OFF => self.waits.call_off(&process, request.word(0)?),
            _ => self.serve_at_once(&process, request, reply)?,
        }
        Ok(Served::Answered)
    }

    fn serve_exit(&self, request: &Request<'_>, endings: &mut Endings) -> Result<Served> {
        endings.count(request.payload);
        let reason = Reason::of(request)?;
        let (process, generation) = (request.process, request.generation);
        let ended = self.end((process, generation), reason, request.payload, endings);
        let mut ended = ended.ok_or(Errno::SRCH)?;
        ended.exit.fuel_left = request.args[5];
        endings.ended.push(ended);
        Ok(Served::Answered)
    }

    fn serve_at_once(&self, process: &Process, request: &Request<'_>, reply: &mut Reply) -> Result {
        match request.kind() {
            number::NOP => {
                reply.values.copy_from_slice(&request.args[..3]);
                reply.data.extend_from_slice(request.payload);
                Ok(())
            }
            number::OUTPUT => {
                let sink = match request.args[0] {
                    1 => &process.stdout,
                    2 => &process.stderr,
                    _ => return Err(Errno::INVAL),
                };
                sink.write(request.payload)?;
                reply.values[0] = request.payload.len() as u64;
                Ok(())
            }
            number::FD_ADVISE => file::advise(process, request),
            number::FD_ALLOCATE => file::allocate(process, request),
            number::FD_CLOSE => file::close(process, request),
            number::FD_DATASYNC => file::sync(process, request, File::sync_data),
            number::FD_SYNC => file::sync(process, request, File::sync_all),
            number::FD_FDSTAT_GET => file::fdstat(process, request, reply),
            number::FD_FDSTAT_SET_FLAGS => file::set_flags(process, request),
            number::FD_FDSTAT_SET_RIGHTS => file::set_rights(process, request),
            number::FD_FILESTAT_GET => file::filestat_get(process, request, reply),
            number::FD_FILESTAT_SET_SIZE => file::set_size(process, request),
            number::FD_FILESTAT_SET_TIMES => file::set_times(process, request),
            number::FD_PREAD => file::pread(process, request, reply),
            number::FD_PRESTAT_GET => dir::prestat(process, request, reply),
            number::FD_PRESTAT_DIR_NAME => dir::prestat_name(process, request, reply),
            number::FD_PWRITE => file::pwrite(process, request, reply),
            number::FD_READDIR => readdir::readdir(process, request, reply),
            number::FD_RENUMBER => file::renumber(process, request),
            number::FD_SEEK => file::seek(process, request, reply),
            number::FD_TELL => file::tell(process, request, reply),
            number::FD_WRITE => file::write(process, request, reply),
            number::PATH_CREATE_DIRECTORY => {
                dir::change(process, request, |dir, path| dir.create_dir(path))
            }
            number::PATH_FILESTAT_GET => dir::filestat_get(process, request, reply),
            number::PATH_FILESTAT_SET_TIMES => dir::set_times(process, request),
            number::PATH_LINK => dir::link(process, request),
            number::PATH_READLINK => dir::readlink(process, request, reply),
            number::PATH_REMOVE_DIRECTORY => dir::change(process, request, dir::remove),
            number::PATH_RENAME => dir::rename(process, request),
            number::PATH_SYMLINK => dir::symlink(process, request),
            number::PATH_UNLINK_FILE => {
                dir::change(process, request, |dir, path| dir.remove_file(path))
            }
            number::SOCK_ACCEPT..=number::SOCK_SHUTDOWN => file::socket(process, request),
            _ => {
                Counters::add(&self.counters.refused, 1);
                Err(Errno::NOSYS)
            }
        }
    }
}

impl Counters {
    /// Counts a request without a payload and its answer.
    pub(crate) fn served(&self, call: u32, reply: &Reply) {
        Self::add(&self.calls[kind(call) as usize], 1);
        self.answered(reply);
    }

    fn answered(&self, reply: &Reply) {
        if reply.errno != 0 {
            Self::add(&self.failed, 1);
        }
        Self::add(&self.bytes_out, reply.data.len());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.waits.stop();
        // Whoever is told things there may be the last to hold the service, and a thread cannot wait for itself.
        let elsewhere = |waiter: &JoinHandle<()>| waiter.thread().id() != thread::current().id();
        if let Some(waiter) = self.waiter.take().filter(elsewhere) {
            // It cannot have panicked: what it runs for others are answers, which write memory.
            drop(waiter.join());
        }
    }
}

const _: () = assert!((number::SOCK_SHUTDOWN as usize) < CALLS);
