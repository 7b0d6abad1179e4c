//! The host's side: one thread takes requests, some threads do them, and one hands completions back.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use everwarp_contract::files::{
    FILE_DOOR_CLOSE, FILE_DOOR_DELIVER, FILE_DOOR_STEP, FILE_DOOR_WAIT, FILE_ENDED, FILE_PAGE,
    FILE_PREFETCH, FILE_TAKE_STEP,
};
use everwarp_contract::{DevFileDone, DevFileRequest, DevType, Layout, Priority};
use everwarp_io::Network;
use everwarp_pages::{CachedFile, Run, WriteBack};
use everwarp_runtime::{
    Buffer, DevTask, Engine, Error, Instance, LinkedEngine, Pending, TaskBuilder,
};

use crate::cache::{self, Cache};
use crate::errno::FileErrno;
use crate::execute;
use crate::grants::{Grant, How};
use crate::handles::{Handles, Open};
use crate::memory::{Memory, Range};
use crate::open_file::OpenFile;
use crate::request::{After, Asked, OfTime, Op, Request, after, decode};
use crate::socket::OpenSocket;
use crate::system::System;
use crate::table_words::words_of;
use crate::waits::Waits;

/// 64-bit words of a request, and of a completion.
pub(crate) const REQUEST: usize = size_of::<DevFileRequest>() / 8;
pub(crate) const DONE: usize = size_of::<DevFileDone>() / 8;

/// The most requests on their way. With more, the ring fills up, and tasks try again until there is room.
const IN_FLIGHT: u64 = 1 << 18;
/// The most requests that wait for times and peers.
const WAITING: u64 = 1 << 20;

/// Something that a worker can do now.
#[derive(Debug)]
pub(crate) enum Job {
    Open {
        dir: u32,
        how: How,
        path: Range,
        room: u64,
        after: After,
    },
    List {
        dir: u32,
        path: Range,
        to: Range,
        after: After,
    },
    Of(Arc<OpenFile>, Request),
    /// Pages to be read.
    Read(Vec<(Arc<File>, Run)>),
    /// Written parts of pages, with how long their files are at least.
    Write(Vec<(Arc<File>, u64, WriteBack)>),
    /// The rest of a request of a cached file, once its pages are written back or gone.
    Rest {
        file: Arc<OpenFile>,
        cached: CachedFile,
        asked: cache::Asked,
        after: After,
        before: Result<(), FileErrno>,
    },
    /// A socket that may go on.
    Socket(Arc<OpenSocket>),
}

#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) done: Vec<DevFileDone>,
    /// Requests that were taken and whose completions were not handed back yet.
    pub(crate) in_flight: u64,
    /// Those of them that wait for times and peers, which do not keep others from being taken.
    pub(crate) waiting: u64,
    /// Those of them for which the engine's watchdog waits.
    outside: u64,
    /// No more requests are taken.
    pub(crate) closing: bool,
    /// What tasks have written to pages is in the files.
    pub(crate) written_back: bool,
}

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) memory: Memory,
    pub(crate) handles: Handles,
    pub(crate) grants: Mutex<Vec<Grant>>,
    /// What of the network tasks may use.
    pub(crate) network: Mutex<Arc<Network>>,
    pub(crate) system: System,
    pub(crate) cache: Option<Cache>,
    pub(crate) waits: Waits,
    /// Threads that do jobs.
    pub(crate) workers: usize,
    pub(crate) served: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// The engine has ended, or is not waited for any more.
    lost: AtomicBool,
    work: Mutex<Work>,
    /// Rings when there are jobs, completions or room, or all is over.
    bell: Condvar,
}

/// The instance whose tasks are served, and the rings.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) instance: Arc<Instance>,
    pub(crate) door: u32,
    pub(crate) requests: Arc<Buffer<u64>>,
    pub(crate) done: Arc<Buffer<u64>>,
}

impl Port {
    /// A task of the door. It is urgent, because tasks that try again until there is room may keep all workers busy.
    pub(crate) fn task(&self, tag: u32) -> TaskBuilder<'_> {
        let task = self.instance.task(self.door).tag(tag as u8);
        task.priority(Priority::URGENT)
    }
}

impl Server {
    pub(crate) fn new(
        engine: Engine,
        system: System,
        handles: u32,
        cache: Option<Cache>,
        waits: Waits,
        workers: usize,
    ) -> Self {
        Self {
            memory: Memory::new(engine.kind()),
            engine,
            handles: Handles::new(handles),
            grants: Mutex::default(),
            network: Mutex::default(),
            system,
            cache,
            waits,
            workers,
            served: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            work: Mutex::default(),
            bell: Condvar::new(),
        }
    }
    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn sleep<'w>(&self, work: MutexGuard<'w, Work>) -> MutexGuard<'w, Work> {
        self.bell.wait(work).unwrap_or_else(PoisonError::into_inner)
    }
    fn grant(&self, dir: u32) -> Option<Grant> {
        let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.get(dir as usize).cloned()
    }
    pub(crate) fn in_flight(&self) -> u64 {
        self.work().in_flight
    }
    /// Ends all threads: the engine has ended or is parked, or there are too few threads. What is on its way gets no answer.
    pub(crate) fn abandon(&self) {
        self.lost.store(true, Ordering::Release);
        self.set(|work| {
            work.closing = true;
            self.engine.end_outside(std::mem::take(&mut work.outside));
        });
        self.waits.wake();
        if let Some(cache) = &self.cache {
            cache.ring();
        }
    }
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
    /// Waits for a submission of the door; an error once all is lost.
    pub(crate) fn wait(&self, pending: &mut Pending) -> Result<u64, Error> {
        let done = pending.wait_lasting(|| !self.is_lost())?;
        done.map(|done| done.value).ok_or(Error::Stopped)
    }
    pub(crate) fn set(&self, change: impl FnOnce(&mut Work)) {
        change(&mut self.work());
        self.bell.notify_all();
    }

    /// Takes requests until the ring is closed and empty. If the engine ends, so does everything.
    pub(crate) fn take(&self, port: &Port) {
        match self.take_all(port) {
            Ok(()) => {
                self.end_waits();
                self.set(|work| {
                    work.closing = true;
                    work.written_back |= work.in_flight == 0 && self.cache.is_none();
                });
                if let Some(cache) = &self.cache {
                    cache.ring();
                }
            }
            Err(_) => self.abandon(),
        }
    }
    fn take_all(&self, port: &Port) -> Result<(), Error> {
        let slots = port.requests.len() / REQUEST;
        let mut words = vec![0; FILE_TAKE_STEP as usize * REQUEST];
        let mut taken = 0_u64;
        loop {
            let wait = port.task(FILE_DOOR_WAIT);
            let mut pending = self.engine.submit_lasting(wait.arg(taken))?;
            let count = self.wait(&mut pending)?;
            if count == u64::from(FILE_ENDED) {
                return Ok(());
            }
            // A task that wrote elsewhere could report anything.
            let count = count.min(FILE_TAKE_STEP.into()) as usize;
            let first = (taken % slots as u64) as usize;
            let split = count.min(slots - first);
            let (one, two) = words[..count * REQUEST].split_at_mut(split * REQUEST);
            port.requests.read_at(first * REQUEST, one)?;
            port.requests.read_at(0, two)?;
            let records = words[..count * REQUEST].chunks_exact(REQUEST);
            let records: Vec<DevFileRequest> = records.map(record_of).collect();
            let answered = records.iter().filter(|r| r.op != FILE_PREFETCH).count();
            self.set(|work| {
                if !self.is_lost() {
                    work.outside += answered as u64;
                    self.engine.begin_outside(answered as u64);
                }
            });
            let is_page = |record: &&DevFileRequest| matches!(record.op, FILE_PAGE | FILE_PREFETCH);
            let (pages, others): (Vec<_>, Vec<_>) = records.iter().partition(is_page);
            others.into_iter().for_each(|record| self.accept(record));
            if !pages.is_empty() {
                self.accept_pages(&pages);
            }
            taken += count as u64;
            let mut work = self.work();
            while work.in_flight - work.waiting >= IN_FLIGHT && !self.is_lost() {
                work = self.sleep(work);
            }
        }
    }
    /// Takes one request in.
    fn accept(&self, record: &DevFileRequest) {
        let after = after(record);
        let mut closed = None;
        let asked = decode(record, &self.memory).and_then(|asked| match asked {
            Asked::Open { .. }
            | Asked::List { .. }
            | Asked::Time(_)
            | Asked::Network(_)
            | Asked::Socket { .. } => Ok((None, asked)),
            Asked::Of { handle, op } => {
                let file = match self.handles.get(handle).ok_or(FileErrno::BADF)? {
                    Open::File(file) => file,
                    Open::Timer if matches!(op, Op::Close(_)) => {
                        return Ok((None, Asked::Time(OfTime::Stop(handle))));
                    }
                    Open::Socket(socket) if matches!(op, Op::Close(_)) => {
                        self.handles.remove(handle);
                        closed = Some(socket);
                        return Ok((None, Asked::Of { handle, op }));
                    }
                    Open::Timer | Open::Socket(_) => return Err(FileErrno::BADF),
                };
                // The handle of a cached file stays until its pages have left.
                if matches!(op, Op::Close(_)) && file.cached.is_none() {
                    self.handles.remove(handle);
                }
                Ok((Some(file), Asked::Of { handle, op }))
            }
        });
        let mut ready = Vec::new();
        self.work().in_flight += 1;
        if let Some(socket) = closed {
            return self.close_socket(&socket, after);
        }
        match asked {
            Err(error) => self.finish(after, Err(error)),
            Ok((Some(file), Asked::Of { op, .. })) => {
                file.push(Request { op, after }, &mut ready);
                self.start(&file, ready);
            }
            Ok((
                _,
                Asked::Open {
                    dir,
                    how,
                    path,
                    room,
                },
            )) => {
                let job = Job::Open {
                    dir,
                    how,
                    path,
                    room,
                    after,
                };
                self.set(|work| work.jobs.push_back(job));
            }
            Ok((_, Asked::List { dir, path, to })) => {
                let job = Job::List {
                    dir,
                    path,
                    to,
                    after,
                };
                self.set(|work| work.jobs.push_back(job));
            }
            Ok((_, Asked::Time(asked))) => self.ask_clock(asked, after),
            Ok((_, Asked::Network(asked))) => self.ask_network(&asked, after),
            Ok((_, Asked::Socket { handle, op })) => match self.handles.get(handle) {
                Some(Open::Socket(socket)) => self.ask_socket(&socket, op, after),
                Some(_) => self.finish(after, Err(FileErrno::NOTSOCK)),
                None => self.finish(after, Err(FileErrno::BADF)),
            },
            Ok((None, Asked::Of { .. })) => unreachable!("a request of a file has its file"),
        }
    }
    pub(crate) fn start(&self, file: &Arc<OpenFile>, ready: Vec<Request>) {
        if !ready.is_empty() {
            let jobs = ready.into_iter().map(|r| Job::Of(file.clone(), r));
            self.set(|work| work.jobs.extend(jobs));
        }
    }
    pub(crate) fn finish(&self, after: After, result: Result<u32, FileErrno>) {
        let counter = match result {
            Ok(_) => &self.served,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.set(|work| work.done.push(after.done(result)));
    }

    /// Counts a request as one that waits, unless there are too many of them.
    pub(crate) fn begin_wait(&self, after: After) -> bool {
        let counted = {
            let mut work = self.work();
            let counted = work.waiting < WAITING;
            work.waiting += u64::from(counted);
            counted
        };
        if !counted {
            self.finish(after, Err(FileErrno::NOBUFS));
        }
        counted
    }

    /// Does jobs until all are done and no more can come.
    pub(crate) fn do_jobs(&self) {
        let mut stage = Vec::new();
        loop {
            let job = {
                let mut work = self.work();
                loop {
                    if self.is_lost() {
                        return;
                    }
                    match work.jobs.pop_front() {
                        Some(job) => break job,
                        None if work.written_back => return,
                        None => work = self.sleep(work),
                    }
                }
            };
            match job {
                Job::Open {
                    dir,
                    how,
                    path,
                    room,
                    after,
                } if how.cached => {
                    let file = execute::open_file(self.grant(dir), &path, how);
                    self.open_cached(file, how, room, after);
                }
                Job::Open {
                    dir,
                    how,
                    path,
                    after,
                    ..
                } => {
                    let opened = execute::open(self.grant(dir), &path, how, &self.handles);
                    self.finish(after, opened);
                }
                Job::Socket(socket) => self.drive(&socket, &mut stage),
                Job::Read(runs) => self.read_pages(runs),
                Job::Write(pages) => self.write_pages(pages),
                Job::Rest {
                    file,
                    cached,
                    asked,
                    after,
                    before,
                } => self.do_rest(&file, cached, asked, after, before),
                Job::Of(file, request) if self.is_of_cache(&file, &request) => {
                    self.ask(file, &request);
                }
                Job::List {
                    dir,
                    path,
                    to,
                    after,
                } => {
                    let listed = execute::list(self.grant(dir), &path, &to);
                    self.finish(after, listed);
                }
                Job::Of(file, request) => {
                    let result = execute::of_file(&self.system, &file, &request.op);
                    self.complete(&file, request.after, result);
                }
            }
        }
    }

    /// Ends a request of a file; others of its handle may begin.
    pub(crate) fn complete(
        &self,
        file: &Arc<OpenFile>,
        after: After,
        result: Result<u32, FileErrno>,
    ) {
        self.finish(after, result);
        let mut ready = Vec::new();
        file.done(&mut ready);
        self.start(file, ready);
    }

    /// Hands completions back until all are and no more can come.
    pub(crate) fn give(&self, port: &Port) {
        if self.give_all(port).is_err() {
            self.abandon();
        }
    }
    fn give_all(&self, port: &Port) -> Result<(), Error> {
        let slots = port.done.len() / DONE;
        let mut given = VecDeque::<(Pending, usize)>::new();
        let (mut next, mut used) = (0_usize, 0);
        loop {
            let done = {
                let mut work = self.work();
                loop {
                    if self.is_lost() || work.closing && work.in_flight == 0 {
                        return Ok(());
                    }
                    if !work.done.is_empty() {
                        break std::mem::take(&mut work.done);
                    }
                    work = self.sleep(work);
                }
            };
            for part in done.chunks(slots / 2) {
                // The slots of completions whose tasks are spawned are free.
                while slots - used < part.len() {
                    let (mut oldest, count) = given.pop_front().expect("they use the slots");
                    self.wait(&mut oldest)?;
                    used -= count;
                }
                let words: Vec<u64> = part.iter().flat_map(words).collect();
                let first = next % slots;
                let split = part.len().min(slots - first) * DONE;
                port.done.write_at(first * DONE, &words[..split])?;
                port.done.write_at(0, &words[split..])?;
                let step = FILE_DOOR_STEP as usize;
                let task = |at: usize| {
                    let count = step.min(part.len() - at);
                    let task = port.task(FILE_DOOR_DELIVER);
                    task.args((next + at) as u32, count as u32).build()
                };
                let tasks: Vec<DevTask> = (0..part.len()).step_by(step).map(task).collect();
                given.push_back((self.engine.submit_batch(&tasks)?, part.len()));
                (next, used) = (next + part.len(), used + part.len());
                self.set(|work| {
                    // Nothing is left of it if all was abandoned meanwhile.
                    let count = (part.len() as u64).min(work.outside);
                    work.outside -= count;
                    self.engine.end_outside(count);
                });
            }
            let mut closing = false;
            self.set(|work| {
                work.in_flight -= done.len() as u64;
                closing = work.closing;
                work.written_back |= closing && work.in_flight == 0 && self.cache.is_none();
            });
            if let (Some(cache), true) = (&self.cache, closing) {
                cache.ring();
            }
        }
    }

    /// Closes the ring of requests.
    pub(crate) fn close(&self, port: &Port) -> Result<(), Error> {
        let task = port.task(FILE_DOOR_CLOSE);
        self.engine.submit(task)?.wait().map(drop)
    }
}

fn words(done: &DevFileDone) -> [u64; DONE] {
    words_of(done.bytes())
}

/// A request, from its words.
fn record_of(words: &[u64]) -> DevFileRequest {
    let mut bytes = [0; REQUEST * 8];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    DevFileRequest::from_bytes(&bytes)
}
