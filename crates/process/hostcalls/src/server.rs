//! The threads that serve a ring: one reads the queue, others do the work.
//!
//! A GPU cannot wake a thread of the host, so the queue is polled: without a pause while requests come, with short
//! naps when none have come for a while. Requests of a process always go to the same worker and keep their order,
//! because a device need not wait for the answer of an `OUTPUT` before it sends the next, or an `EXIT`. The price
//! is that processes which share a worker wait for each other's files. What touches no file and no stream is
//! answered by the poller itself, without a hop to another thread, and may be answered before what a worker has got
//! earlier. So is a read of what is in the page cache while nothing else is in the queue: to wake a worker takes
//! longer than such a read. While there is more, workers read.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use everwarp_contract::hostcall::{HOSTCALL_WAKE, number};

use crate::counters::Counters;
use crate::disk::Disk;
use crate::endings::Endings;
use crate::request::{DATA_BYTES, NEIGHBOURS, Reply, kind};
use crate::ring::{Entry, Head, Ring, Submissions, Ticket};
use crate::service::{Events, Served, Service, Woken};

/// How workers read files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// One after the other, by plain calls.
    Plain,
    /// Those that a worker has got at a time through an io_uring, if there are at least so many.
    Together(usize),
}

impl Default for Reads {
    /// Through an io_uring from two on.
    fn default() -> Self {
        Self::Together(2)
    }
}

/// How a ring is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// How workers read files; by plain calls where the system gives no io_uring.
    pub reads: Reads,
    /// Threads beside the poller that serve requests; with none the poller serves them all, one after the other.
    pub workers: usize,
    /// How long the poller goes on without a pause after the last request.
    pub spin: Duration,
    /// How long it naps at most after that. Naps begin at 20 microseconds and double.
    pub nap: Duration,
}

impl Default for ServerConfig {
    /// Four workers, 200 microseconds without a pause, naps up to one millisecond.
    fn default() -> Self {
        Self {
            reads: Reads::default(),
            workers: 4,
            spin: Duration::from_micros(200),
            nap: Duration::from_millis(1),
        }
    }
}

const FIRST_NAP: Duration = Duration::from_micros(20);
/// Looks at an empty queue from one question for the time to the next.
const LOOKS: u32 = 32;

/// A ring that is being served, until it is dropped.
#[derive(Debug)]
pub struct Server {
    reads: Reads,
    stop: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
}

/// Where answers go.
pub(crate) struct Answers {
    pub(crate) ring: Arc<Ring>,
    events: Arc<dyn Events>,
}

impl Answers {
    /// Answers a request; returns who is to be woken for it.
    fn answer(&self, ticket: Ticket, head: &Head, reply: &Reply) -> Option<Woken> {
        let woken = Woken {
            process: head.process,
            generation: head.generation,
            slot: ticket.slot(),
            sequence: ticket.sequence(),
        };
        self.ring.answer(ticket, reply);
        (head.call & HOSTCALL_WAKE != 0).then_some(woken)
    }
}

/// One thread's means of serving.
pub(crate) struct Hands {
    pub(crate) service: Arc<Service>,
    pub(crate) answers: Arc<Answers>,
    payload: Vec<u8>,
    pub(crate) reply: Reply,
    /// What files are read with, if there are so many reads.
    pub(crate) disk: Option<Disk>,
    pub(crate) together: usize,
    /// Who is to be woken, as soon as the thread has nothing else to do or there are many.
    woken: Vec<Woken>,
    /// The same of who has ended.
    endings: Endings,
}

pub(crate) type Job = (Ticket, Head);

/// Requests that a thread serves before it wakes anybody or hands anything on. A wake is a task for the GPU, and
/// many together cost less.
const BATCH: usize = 128;
/// Batches that a worker serves before others hear of the ends among them, and that the poller takes before every
/// worker gets what it has taken for it.
const BATCHES_MOST: usize = 8;

impl Hands {
    fn new(service: &Arc<Service>, answers: &Arc<Answers>) -> Self {
        Self {
            service: Arc::clone(service),
            answers: Arc::clone(answers),
            payload: Vec::with_capacity(DATA_BYTES),
            reply: Reply::default(),
            disk: None,
            together: usize::MAX,
            woken: Vec::with_capacity(BATCH),
            endings: Endings::default(),
        }
    }

    fn serve(&mut self, (ticket, head): Job) {
        let room = ticket.room();
        // One byte more than fits is too many, and what the service refuses a request for.
        let bytes = (head.data_bytes as usize).min(room + 1);
        self.answers.ring.payload(&ticket, bytes, &mut self.payload);
        self.payload.resize(bytes, 0);
        let request = head.request(&self.payload, room);
        let endings = &mut self.endings;
        match self.service.serve(&request, &mut self.reply, endings) {
            Served::Answered => self.answer(ticket, &head),
            Served::Waits(wait) => {
                let answers = Arc::clone(&self.answers);
                let slot = ticket.slot();
                let later = move |reply: &Reply| answers.answer(ticket, &head, reply);
                self.service.wait(wait.of_slot(slot), Box::new(later));
            }
        }
    }

    /// Serves a read of what is in the page cache; gives back what is not one.
    pub(crate) fn read_now(&mut self, (ticket, head): Job) -> Option<Job> {
        if head.data_bytes != 0 {
            return Some((ticket, head));
        }
        let request = head.request(&[], ticket.room());
        if !self.service.read_now(&request, &mut self.reply) {
            return Some((ticket, head));
        }
        self.answer(ticket, &head);
        None
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, head: &Head) {
        let woken = self.answers.answer(ticket, head, &self.reply);
        self.woken.extend(woken);
    }

    /// Serves them, and wakes who is to be woken. Of ends others hear later.
    fn serve_all(&mut self, jobs: Vec<Job>) {
        let mut jobs = self.read_together(jobs);
        let last = jobs.pop();
        if !jobs.is_empty() {
            // What all of them print is passed on together.
            let service = Arc::clone(&self.service);
            let _deferred = service.defer_output();
            jobs.into_iter().for_each(|job| self.serve(job));
        }
        last.into_iter().for_each(|job| self.serve(job));
        self.service.serve_openings();
        self.wake();
    }

    /// Serves what comes until nothing more does, or as long as those that have ended can wait for it.
    fn serve_from(&mut self, jobs: &mpsc::Receiver<Vec<Job>>) {
        while let Ok(first) = jobs.recv() {
            self.serve_all(first);
            for more in jobs.try_iter().take(BATCHES_MOST) {
                self.serve_all(more);
            }
            self.tell_of_ends();
        }
    }

    /// Does what others wait for who were served, or whom it made room for.
    fn settle(&mut self) {
        self.service.serve_openings();
        self.wake();
        self.tell_of_ends();
    }

    fn tell_of_ends(&mut self) {
        self.service.tell_of_ends(&mut self.endings);
    }

    pub(crate) fn wake(&mut self) {
        if !self.woken.is_empty() {
            self.answers.events.wake(&self.woken);
            self.woken.clear();
        }
    }
}

/// Whether a call is answered faster than handed on.
fn is_quick(call: u32) -> bool {
    matches!(
        kind(call),
        number::NOP | number::FD_PRESTAT_GET | number::FD_PRESTAT_DIR_NAME | number::SOCK_ACCEPT
            ..=number::SOCK_SHUTDOWN
    )
}

/// Whether a call may be a read of what is in the page cache.
pub(crate) fn may_be_cached(call: u32) -> bool {
    matches!(kind(call), number::FD_READ | number::FD_PREAD)
}

/// A worker's thread and what it is to be given.
struct Worker {
    jobs: mpsc::Sender<Vec<Job>>,
    next: Vec<Job>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Gives the worker what has been taken for it.
    fn hand_on(&mut self, hands: &mut Hands) {
        if self.next.is_empty() {
            return;
        }
        let jobs = std::mem::replace(&mut self.next, Vec::with_capacity(BATCH));
        if let Err(mpsc::SendError(jobs)) = self.jobs.send(jobs) {
            // The worker is gone, which only a panic explains. Its processes are served here.
            hands.serve_all(jobs);
            hands.tell_of_ends();
        }
    }
}

struct Poller {
    submissions: Submissions,
    hands: Hands,
    workers: Vec<Worker>,
    stop: Arc<AtomicBool>,
    config: ServerConfig,
}

impl Poller {
    fn run(mut self) {
        let mut last = Instant::now();
        let mut nap = FIRST_NAP;
        // Requests taken since the queue was last found empty, and looks that found it so. The clock is asked only
        // now and then: it takes longer than a look.
        let (mut taken, mut looks) = (0_usize, 0_u32);
        while !self.stop.load(Relaxed) {
            if let Some(entry) = self.submissions.next() {
                self.take(entry);
                taken += 1;
                if taken.is_multiple_of(BATCH * BATCHES_MOST) {
                    // Nobody waits longer because the queue is never empty.
                    self.hand_on();
                } else if taken.is_multiple_of(BATCH) {
                    self.hands.settle();
                }
                continue;
            }
            if taken > 0 {
                self.hand_on();
                (taken, looks) = (0, 0);
                (last, nap) = (Instant::now(), FIRST_NAP);
            }
            looks += 1;
            if !looks.is_multiple_of(LOOKS) {
                std::hint::spin_loop();
                continue;
            }
            // Room that was kept for more than there came is given to fewer.
            self.hands.service.serve_openings();
            if last.elapsed() >= self.config.spin {
                thread::sleep(nap.min(self.config.nap));
                nap = (nap * 2).min(self.config.nap);
                // After a nap one look decides.
                looks = LOOKS - 1;
            }
        }
        self.hand_on();
        for worker in self.workers {
            // A worker ends when its queue is empty and closed.
            drop(worker.jobs);
            drop(worker.thread.join());
        }
        self.hands.service.cancel_waits();
    }

    fn take(&mut self, entry: Entry) {
        let Entry::Request(ticket, head) = entry else {
            Counters::add(&self.hands.service.counters.bad_entries, 1);
            return;
        };
        if self.workers.is_empty() || is_quick(head.call) {
            return self.hands.serve((ticket, head));
        }
        // They share what is counted.
        let worker = (head.process / NEIGHBOURS) as usize % self.workers.len();
        let mut job = Some((ticket, head));
        if may_be_cached(head.call) && self.submissions.is_empty() {
            job = job.and_then(|job| self.hands.read_now(job));
        }
        let worker = &mut self.workers[worker];
        worker.next.extend(job);
        if worker.next.len() >= BATCH {
            worker.hand_on(&mut self.hands);
        }
    }

    /// Gives everybody what has been taken for them.
    fn hand_on(&mut self) {
        self.hands.settle();
        for worker in &mut self.workers {
            worker.hand_on(&mut self.hands);
        }
    }
}

impl Server {
    /// Serves a ring from which nothing has been taken yet. Whoever needs to be told is who the service tells.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub fn start(ring: Ring, service: &Arc<Service>, config: ServerConfig) -> io::Result<Self> {
        let ring = Arc::new(ring);
        let answers = Arc::new(Answers {
            ring: Arc::clone(&ring),
            events: Arc::clone(service.events()),
        });
        let disks = (0..config.workers).map(|_| Disk::new());
        let (reads, together, mut disks) = match config.reads {
            Reads::Plain => (Reads::Plain, usize::MAX, Vec::new()),
            Reads::Together(least) => match disks.collect() {
                Ok(disks) => (config.reads, least, disks),
                Err(_) => (Reads::Plain, usize::MAX, Vec::new()),
            },
        };
        let mut workers = Vec::with_capacity(config.workers);
        for index in 0..config.workers {
            let mut hands = Hands::new(service, &answers);
            (hands.disk, hands.together) = (disks.pop(), together);
            let (sender, jobs) = mpsc::channel::<Vec<Job>>();
            let thread = thread::Builder::new().name(format!("everwarp-wasi-{index}"));
            let serve = move || hands.serve_from(&jobs);
            workers.push(Worker {
                jobs: sender,
                next: Vec::new(),
                thread: thread.spawn(serve)?,
            });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let poller = Poller {
            submissions: Submissions::new(ring),
            hands: Hands::new(service, &answers),
            workers,
            stop: Arc::clone(&stop),
            config,
        };
        let thread = thread::Builder::new().name("everwarp-hostcalls".into());
        let poller = thread.spawn(move || poller.run())?;
        Ok(Self {
            reads,
            stop,
            poller: Some(poller),
        })
    }

    /// How workers read files; by plain calls, whatever was asked for, if the system gives no io_uring.
    pub fn reads(&self) -> Reads {
        self.reads
    }
}

impl Drop for Server {
    /// Serves what has been taken from the queue, calls off what waits, and returns when nothing of the ring's
    /// memory will be accessed any more.
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(poller) = self.poller.take() {
            drop(poller.join());
        }
    }
}
