//! The threads that serve a ring: one reads the queue, others do the work.
//!
//! A GPU cannot wake a thread of the host, so the queue is polled: without a pause while requests come, with short
//! naps when none have come for a while. Requests of a process always go to the same worker and keep their order,
//! because a device need not wait for the answer of an `OUTPUT` before it sends the next, or an `EXIT`. The price
//! is that processes which share a worker wait for each other's files. What touches no file and no stream is
//! answered by the poller itself, without a hop to another thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use everwarp_contract::hostcall::{
    HOSTCALL_FD_PRESTAT_DIR_NAME, HOSTCALL_FD_PRESTAT_GET, HOSTCALL_NOP, HOSTCALL_SOCK_ACCEPT,
    HOSTCALL_SOCK_SHUTDOWN, HOSTCALL_WAKE,
};

use crate::counters::Counters;
use crate::request::{DATA_BYTES, Reply, Request};
use crate::ring::{Entry, Head, Ring, Submissions, Ticket};
use crate::service::{Events, Service, Woken};

/// How a ring is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerConfig {
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
            workers: 4,
            spin: Duration::from_micros(200),
            nap: Duration::from_millis(1),
        }
    }
}

const FIRST_NAP: Duration = Duration::from_micros(20);

/// A ring that is being served, until it is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
}

/// Where answers go.
struct Answers {
    ring: Arc<Ring>,
    events: Arc<dyn Events>,
}

impl Answers {
    fn answer(&self, ticket: Ticket, head: &Head, reply: &Reply) {
        let woken = Woken {
            process: head.process,
            generation: head.generation,
            slot: ticket.slot(),
            sequence: ticket.sequence(),
        };
        self.ring.answer(ticket, reply);
        if head.call & HOSTCALL_WAKE != 0 {
            self.events.wake(woken);
        }
    }
}

/// One thread's means of serving.
struct Hands {
    service: Arc<Service>,
    answers: Arc<Answers>,
    payload: Vec<u8>,
    reply: Reply,
}

type Job = (Ticket, Head);

impl Hands {
    fn new(service: &Arc<Service>, answers: &Arc<Answers>) -> Self {
        Self {
            service: Arc::clone(service),
            answers: Arc::clone(answers),
            payload: Vec::with_capacity(DATA_BYTES),
            reply: Reply::default(),
        }
    }

    fn serve(&mut self, (ticket, head): Job) {
        // One byte more than fits is too many, and what the service refuses a request for.
        let bytes = (head.data_bytes as usize).min(DATA_BYTES + 1);
        self.answers.ring.payload(&ticket, bytes, &mut self.payload);
        self.payload.resize(bytes, 0);
        let request = Request {
            process: head.process,
            generation: head.generation,
            call: head.call,
            args: head.args,
            payload: &self.payload,
        };
        match self.service.answer(&request, &mut self.reply) {
            None => self.answers.answer(ticket, &head, &self.reply),
            Some(wait) => {
                let answers = Arc::clone(&self.answers);
                let later = move |reply: &Reply| answers.answer(ticket, &head, reply);
                self.service.later(wait, Box::new(later));
            }
        }
    }
}

/// Whether a call is answered faster than handed on.
fn is_quick(call: u32) -> bool {
    matches!(
        call & !HOSTCALL_WAKE,
        HOSTCALL_NOP | HOSTCALL_FD_PRESTAT_GET | HOSTCALL_FD_PRESTAT_DIR_NAME | HOSTCALL_SOCK_ACCEPT
            ..=HOSTCALL_SOCK_SHUTDOWN
    )
}

struct Poller {
    submissions: Submissions,
    hands: Hands,
    workers: Vec<(mpsc::Sender<Job>, JoinHandle<()>)>,
    stop: Arc<AtomicBool>,
    config: ServerConfig,
}

impl Poller {
    fn run(mut self) {
        let mut last = Instant::now();
        let mut nap = FIRST_NAP;
        while !self.stop.load(Relaxed) {
            if let Some(entry) = self.submissions.next() {
                self.take(entry);
                (last, nap) = (Instant::now(), FIRST_NAP);
            } else if last.elapsed() < self.config.spin {
                std::hint::spin_loop();
            } else {
                thread::sleep(nap.min(self.config.nap));
                nap = (nap * 2).min(self.config.nap);
            }
        }
        for (sender, worker) in self.workers {
            // A worker ends when its queue is empty and closed.
            drop(sender);
            drop(worker.join());
        }
        self.hands.service.cancel_waits();
    }

    fn take(&mut self, entry: Entry) {
        let Entry::Request(ticket) = entry else {
            Counters::add(&self.hands.service.counters.bad_entries, 1);
            return;
        };
        let head = self.submissions.ring.head(&ticket);
        if self.workers.is_empty() || is_quick(head.call) {
            return self.hands.serve((ticket, head));
        }
        let worker = head.process as usize % self.workers.len();
        if let Err(mpsc::SendError(job)) = self.workers[worker].0.send((ticket, head)) {
            // The worker is gone, which only a panic explains. Its processes are served here.
            self.hands.serve(job);
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
        let mut workers = Vec::with_capacity(config.workers);
        for index in 0..config.workers {
            let mut hands = Hands::new(service, &answers);
            let (sender, jobs) = mpsc::channel::<Job>();
            let thread = thread::Builder::new().name(format!("everwarp-wasi-{index}"));
            let worker = thread.spawn(move || jobs.into_iter().for_each(|job| hands.serve(job)))?;
            workers.push((sender, worker));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let poller = Poller {
            submissions: Submissions::new(ring),
            hands: Hands::new(service, &answers),
            workers,
            stop: Arc::clone(&stop),
            config,
        };
        let thread = thread::Builder::new().name("everwarp-wasi".into());
        let poller = thread.spawn(move || poller.run())?;
        Ok(Self {
            stop,
            poller: Some(poller),
        })
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
