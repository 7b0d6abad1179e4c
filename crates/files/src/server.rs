//! The host's side: one thread takes requests, one waits for times and peers, and some do what may take long.
//!
//! Each thread hands over what it has done at the end of its round, unless another is at it: see [`giving`](crate::giving). What
//! does not wait is done by the thread that finds it: a request of a socket by the one that takes it, and what a peer has sent by the
//! one that learns of it. So an echo wakes two threads of the host and not six.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everwarp_contract::DevFileDone;
use everwarp_io::Network;
use everwarp_pages::{CachedFile, Run, WriteBack};
use everwarp_runtime::{Engine, Error, Pending};

use crate::arena::Arena;
use crate::bell::Bell;
use crate::cache::{self, Cache};
use crate::class::{Jobs, RequestClass};
use crate::counters::Counters;
use crate::cutting::Cut;
use crate::driver::Driver;
use crate::ended::EndedRequest;
use crate::errno::FileErrno;
use crate::execute;
use crate::giving::Giving;
use crate::grants::{Grant, How};
use crate::handles::Handles;
use crate::handover::Handover;
use crate::lines::Name;
use crate::memory::{Memory, Range};
use crate::open_file::OpenFile;
use crate::request::{After, Op, Request};
use crate::socket::OpenSocket;
use crate::system::System;
use crate::uring::Wake;
use crate::waits::Waits;

/// Requests between two looks for completions to be handed over.
pub(crate) const ROUND: usize = 32;
/// Small reads of a file that one thread does: how many, and how many bytes they have together. To wake a second thread takes as long.
const READS_EACH: usize = 16;
const BYTES_EACH: u64 = 64 << 10;
/// The most requests that wait for times and peers.
pub(crate) const WAITING: u64 = 1 << 20;

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
    /// Requests of a file. More than one are reads of one class, and not of the background.
    Of(Arc<OpenFile>, Vec<Request>),
    /// Pages of a file to be read.
    Read(Arc<File>, Vec<Run>),
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

/// Requests of a file that are given up, and with which error.
#[derive(Clone, Debug)]
pub(crate) struct Strike {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) name: Name,
    pub(crate) error: FileErrno,
}

#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) jobs: Jobs<Job>,
    /// The most jobs that have waited at a time.
    pub(crate) jobs_most: usize,
    /// Threads that wait for their rings, by their numbers.
    pub(crate) in_rings: Vec<usize>,
    /// Requests that each thread with a ring has to give up.
    pub(crate) strikes: Vec<Vec<Strike>>,
    /// Bytes in flight.
    pub(crate) bytes: u64,
    pub(crate) giving: Giving<DevFileDone>,
    /// Requests that have ended, without an error and with one.
    pub(crate) ended: [u64; 2],
    /// Requests that were taken and have not ended.
    pub(crate) unanswered: u64,
    /// Requests that were taken and whose completions were not handed back yet.
    pub(crate) in_flight: u64,
    /// Those of them that wait for times and peers, which do not keep others from being taken.
    pub(crate) waiting: u64,
    /// Those of them for which the engine's watchdog waits.
    pub(crate) outside: u64,
    /// No more requests are taken.
    pub(crate) closing: bool,
    /// What tasks have written to pages is in the files.
    pub(crate) written_back: bool,
}

impl Work {
    /// Takes completions that are to be handed over; `failed` of them are errors.
    pub(crate) fn end(&mut self, done: impl IntoIterator<Item = DevFileDone>, failed: usize) {
        let (all, failed) = (self.giving.add(done) as u64, failed as u64);
        self.unanswered -= all;
        self.ended[0] += all - failed;
        self.ended[1] += failed;
    }
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
    /// Where files are read first, if the host does not reach the memory of the engine.
    pub(crate) arena: Option<Arena>,
    pub(crate) waits: Waits,
    pub(crate) counters: Counters,
    /// Threads that do jobs.
    pub(crate) workers: usize,
    /// What wakes each of them while it waits for its ring; empty if they have none.
    wakes: Vec<Arc<Wake>>,
    /// Bytes that may be in flight; 0: without a limit.
    bytes_most: u64,
    /// The engine has ended, or is not waited for any more.
    lost: AtomicBool,
    work: Mutex<Work>,
    /// Rings when there are jobs, or all is over.
    pub(crate) jobs: Bell,
    /// Rings when completions have found no room, or all is over.
    pub(crate) full: Bell,
    /// Rings when fewer requests are on their way, or all is over.
    pub(crate) room: Bell,
    /// Locked by the thread that hands over.
    pub(crate) handover: Mutex<Option<Handover>>,
}

/// The sizes and parts of a server.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) system: System,
    pub(crate) handles: Handles,
    pub(crate) cache: Option<Cache>,
    pub(crate) arena: Option<Arena>,
    pub(crate) waits: Waits,
    pub(crate) workers: usize,
    pub(crate) wakes: Vec<Arc<Wake>>,
    pub(crate) bytes_most: u64,
}

impl Job {
    /// How many reads it has, or 1.
    pub(crate) fn reads(&self) -> usize {
        match self {
            Self::Of(_, requests) => requests.len(),
            Self::Read(_, runs) => runs.len(),
            _ => 1,
        }
    }
    pub(crate) fn class(&self) -> RequestClass {
        match self {
            Self::Open { after, .. } | Self::List { after, .. } | Self::Rest { after, .. } => {
                after.class
            }
            Self::Of(_, requests) => {
                let class = requests.first().map(|request| request.after.class);
                class.unwrap_or_default()
            }
            Self::Socket(_) => RequestClass::Interactive,
            Self::Read(..) | Self::Write(_) => RequestClass::Normal,
        }
    }
}

impl Server {
    pub(crate) fn new(engine: Engine, parts: Parts) -> Self {
        let Parts {
            system,
            handles,
            cache,
            arena,
            waits,
            workers,
            wakes,
            bytes_most,
        } = parts;
        let work = Work {
            jobs: Jobs::new(workers),
            jobs_most: 0,
            in_rings: Vec::new(),
            strikes: vec![Vec::new(); wakes.len()],
            bytes: 0,
            giving: Giving::default(),
            ended: [0; 2],
            unanswered: 0,
            in_flight: 0,
            waiting: 0,
            outside: 0,
            closing: false,
            written_back: false,
        };
        Self {
            memory: Memory::new(arena.is_none()),
            engine,
            handles,
            grants: Mutex::default(),
            network: Mutex::default(),
            system,
            cache,
            arena,
            waits,
            counters: Counters::default(),
            workers,
            wakes,
            bytes_most,
            lost: AtomicBool::new(false),
            work: Mutex::new(work),
            jobs: Bell::default(),
            full: Bell::default(),
            room: Bell::default(),
            handover: Mutex::default(),
        }
    }
    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn grant(&self, dir: u32) -> Option<Grant> {
        let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.get(dir as usize).cloned()
    }
    /// Ends all threads: the engine has ended or is parked, or there are too few threads. What is on its way gets no answer.
    pub(crate) fn abandon(&self) {
        self.lost.store(true, Ordering::Release);
        {
            let mut work = self.work();
            work.closing = true;
            self.engine.end_outside(std::mem::take(&mut work.outside));
        }
        self.waits.wake();
        self.ring_all();
    }
    /// Lets all threads look whether all is over.
    pub(crate) fn ring_all(&self) {
        for bell in [&self.jobs, &self.full, &self.room] {
            bell.ring(usize::MAX);
        }
        if let Some(cache) = &self.cache {
            cache.call(None, true);
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
    /// Has workers do something.
    pub(crate) fn push_jobs(&self, jobs: impl IntoIterator<Item = Job>) {
        let (added, rings) = {
            let mut work = self.work();
            let before = work.jobs.len();
            for job in jobs {
                let class = job.class();
                work.jobs.push(job, class);
            }
            let added = work.jobs.len() - before;
            work.jobs_most = work.jobs_most.max(before + added);
            // Those that wait for their rings have something to do already, so they come last.
            let wanted = added.saturating_sub(self.jobs.waiting());
            let first = work.in_rings.len().saturating_sub(wanted);
            (added, work.in_rings.split_off(first))
        };
        self.jobs.ring(added);
        self.wake_rings(&rings);
    }
    fn wake_rings(&self, threads: &[usize]) {
        threads.iter().for_each(|&thread| self.wakes[thread].wake());
    }
    /// Gives requests of a file up that are not done. One that is being done with a plain call, or that the cache has, ends as ever.
    pub(crate) fn give_up_file(&self, file: &Arc<OpenFile>, name: Name, error: FileErrno) {
        let mut ready = Vec::new();
        let in_line = file.strike(name, &mut ready);
        let (queued, rings) = {
            let mut work = self.work();
            let mut queued = Vec::new();
            let is_struck = |request: &mut Request| {
                request.may_be_struck(name) && !self.is_of_cache(file, request)
            };
            work.jobs.retain(|job| match job {
                Job::Of(of, requests) if Arc::ptr_eq(of, file) => {
                    queued.extend(requests.extract_if(.., is_struck));
                    !requests.is_empty()
                }
                _ => true,
            });
            for strikes in &mut work.strikes {
                strikes.push(Strike {
                    file: file.clone(),
                    name,
                    error,
                });
            }
            (queued, std::mem::take(&mut work.in_rings))
        };
        self.wake_rings(&rings);
        for request in in_line {
            self.finish(request.after, Err(error));
        }
        self.start(file, ready);
        for request in queued {
            self.complete(file, request.after, Err(error));
        }
    }
    /// Counts the bytes of a request. False if there are too many in flight.
    pub(crate) fn takes_bytes(&self, after: &mut After) -> bool {
        if self.bytes_most == 0 {
            after.bytes = 0;
            return true;
        }
        let mut work = self.work();
        let bytes = work.bytes + u64::from(after.bytes);
        if bytes > self.bytes_most {
            after.bytes = 0;
            return false;
        }
        work.bytes = bytes;
        true
    }

    pub(crate) fn start(&self, file: &Arc<OpenFile>, ready: Vec<Request>) {
        if !ready.is_empty() {
            let mut jobs = Vec::new();
            self.cut_requests(file, ready, &mut jobs);
            self.push_jobs(jobs);
        }
    }
    /// Whether threads have many reads on their way at a time. Else each waits for one after the other.
    pub(crate) fn has_rings(&self) -> bool {
        !self.wakes.is_empty()
    }
    /// Makes jobs of requests of a file that can be done now.
    pub(crate) fn cut_requests(
        &self,
        file: &Arc<OpenFile>,
        ready: Vec<Request>,
        jobs: &mut Vec<Job>,
    ) {
        let mut cut = Cut::new(READS_EACH, BYTES_EACH);
        for request in ready {
            let class = request.after.class;
            let joins = match self.shared_bytes(file, &request) {
                Some(bytes) => cut.joins(bytes),
                None => {
                    cut.end();
                    false
                }
            };
            match jobs.last_mut() {
                Some(Job::Of(_, requests)) if joins && requests[0].after.class == class => {
                    requests.push(request);
                }
                _ => jobs.push(Job::Of(file.clone(), vec![request])),
            }
        }
    }
    /// The bytes of a read that one thread may do together with others.
    fn shared_bytes(&self, file: &OpenFile, request: &Request) -> Option<u64> {
        match &request.op {
            Op::Read { to, .. } if self.has_rings() && file.is_for_ring() => {
                (request.after.class != RequestClass::Background).then_some(to.len() as u64)
            }
            _ => None,
        }
    }
    /// Notes what a request has ended with. The thread hands it over at the end of its round.
    pub(crate) fn finish(&self, after: After, result: Result<u32, FileErrno>) {
        if let Some(deadline) = after.deadline {
            self.waits.state().deadlines.remove(&deadline);
        }
        let mut work = self.work();
        work.bytes -= u64::from(after.bytes);
        work.end([after.done(result)], usize::from(result.is_err()));
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

    /// Does jobs with plain calls, until all are done and no more can come.
    pub(crate) fn do_jobs(&self) {
        let mut driver = Driver::default();
        loop {
            self.deliver();
            let job = {
                let mut work = self.work();
                loop {
                    if self.is_lost() {
                        return;
                    }
                    match work.jobs.pop() {
                        Some(job) => break job,
                        None if work.written_back => return,
                        None => work = self.jobs.wait(work),
                    }
                }
            };
            self.do_job(job, &mut driver);
        }
    }
    /// Does a job with plain calls.
    pub(crate) fn do_job(&self, job: Job, driver: &mut Driver) {
        let class = job.class();
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
            Job::Socket(socket) => self.drive(&socket, driver),
            Job::Read(file, runs) => self.read_pages(&file, runs),
            Job::Write(pages) => self.write_pages(pages),
            Job::Rest {
                file,
                cached,
                asked,
                after,
                before,
            } => self.do_rest(&file, cached, asked, after, before),
            Job::List {
                dir,
                path,
                to,
                after,
            } => {
                let listed = execute::list(self.grant(dir), &path, &to);
                self.finish(after, listed);
            }
            Job::Of(file, requests) => {
                for request in requests {
                    if self.is_of_cache(&file, &request) {
                        self.ask(file.clone(), &request);
                    } else {
                        let result = execute::of_file(&self.system, &file, &request.op);
                        self.complete(&file, request.after, result);
                    }
                }
            }
        }
        if class == RequestClass::Background {
            self.work().jobs.done(class);
        }
    }

    /// Ends requests of files that were jobs, with one lock for all; others of their handles may begin.
    pub(crate) fn complete_all(&self, ended: &[EndedRequest]) {
        if ended.is_empty() {
            return;
        }
        let deadlines = ended.iter().filter_map(|end| end.after.deadline);
        if deadlines.clone().next().is_some() {
            let mut state = self.waits.state();
            deadlines.for_each(|deadline| drop(state.deadlines.remove(&deadline)));
        }
        let failed = ended.iter().filter(|end| end.result.is_err()).count();
        let bytes: u64 = ended.iter().map(|end| u64::from(end.after.bytes)).sum();
        {
            let mut work = self.work();
            work.bytes -= bytes;
            work.end(ended.iter().map(|end| end.after.done(end.result)), failed);
            ended.iter().for_each(|end| work.jobs.done(end.after.class));
        }
        let mut jobs = Vec::new();
        for of in ended.chunk_by(|one, next| Arc::ptr_eq(&one.file, &next.file)) {
            let (file, mut ready) = (&of[0].file, Vec::new());
            file.done(of.len(), &mut ready);
            self.cut_requests(file, ready, &mut jobs);
        }
        if !jobs.is_empty() {
            self.push_jobs(jobs);
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
        file.done(1, &mut ready);
        self.start(file, ready);
    }
}
