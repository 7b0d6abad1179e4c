//! The threads that serve a ring: one reads the queue, others do the work.
//!
//! A GPU cannot wake a thread of the host, so the queue is polled: without a pause while requests come, with short
//! naps when none have come for a while. Requests of a process always go to the same worker and keep their order,
//! because a device need not wait for the answer of an `OUTPUT` before it sends the next, or an `EXIT`. The price
//! is that processes which share a worker wait for each other's files.
//!
//! `plan.rs` says which thread serves a call. A call that needs no file and no stream is served by the poller itself,
//! without a hop to another thread, and may be answered before an earlier request that a worker has got. So is a read
//! of bytes in the page cache while nothing else is in the queue: to wake a worker takes longer than such a read. While
//! there is more in the queue, workers read.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use everwarp_engine::sync::lock;
use everwarp_io::Backend;
use everwarp_process::Reads;

use crate::disk::Disk;
use crate::hands::ServingThread;
use crate::poller::{Command, Lane, Poller, PollerControl, Worker};
use crate::ring::Ring;
use crate::service::Service;
use crate::submissions::{Job, Submissions};

/// How a ring is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// How workers read files. Where the system gives no io_uring they use plain calls.
    pub reads: Reads,
    /// Threads that serve requests, not counting the poller. Without any the poller serves all requests, one after
    /// another.
    pub workers: usize,
    /// How long the poller polls without a pause after the last request.
    pub spin: Duration,
    /// The longest nap of the poller after that. A nap takes an eighth of the time since the last request, so that a request
    /// waits for a sixteenth of that on average.
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

/// A ring that is being served, until it is dropped.
///
/// One thread polls the ring. The requests of its slots go to the services that are attached, each with workers of its
/// own: so a service whose streams block holds up no other.
#[derive(Debug)]
pub struct Server {
    shared: Arc<ServerShared>,
    /// The service that the server was started with.
    first: Option<Attached>,
    poller: Option<JoinHandle<()>>,
}

/// What the server and its attached services share.
#[derive(Debug)]
struct ServerShared {
    ring: Arc<Ring>,
    control: Arc<PollerControl>,
    commands: Mutex<mpsc::Sender<Command>>,
    /// The polling thread, which may nap.
    thread: Thread,
}

impl ServerShared {
    /// Has the polling thread carry out a command. The command is dropped if the thread has ended.
    fn send(&self, command: Command) {
        let sender = lock(&self.commands);
        drop(sender.send(command));
        drop(sender);
        self.control.changed.store(true, Release);
        self.thread.unpark();
    }
}

/// A service that serves the requests of its slots, until it is dropped. To be dropped when its processes have ended.
#[derive(Debug)]
pub struct Attached {
    shared: Arc<ServerShared>,
    slots: Range<u32>,
    reads: Reads,
}

impl Attached {
    /// How workers read files: by plain calls, whatever the configuration says, if the system gives no io_uring.
    pub fn reads(&self) -> Reads {
        self.reads
    }
}

impl Drop for Attached {
    /// Serves the requests that have been taken from the queue, and cancels those that wait.
    fn drop(&mut self) {
        let (sender, receiver) = mpsc::channel();
        let slots = self.slots.clone();
        self.shared.send(Command::Detach(slots, sender));
        // Nothing comes if the polling thread has ended, which has ended the lane then.
        if let Ok(lane) = receiver.recv() {
            lane.end();
        }
    }
}

/// The io_urings of the workers, if they are wanted and the system has them.
fn disks(config: &ServerConfig) -> Option<Vec<Disk>> {
    // A wrong name in the environment is reported by `everwarp doctor`; here it asks for nothing.
    if matches!(Backend::asked(), Ok(Some(Backend::Threads))) {
        return None;
    }
    match config.reads {
        Reads::Plain => None,
        Reads::Batched(_) => (0..config.workers)
            .map(|_| Disk::new())
            .collect::<Result<_, _>>()
            .ok(),
    }
}

impl Server {
    /// Serves a ring from which nothing has been taken yet. The service's [`Events`](crate::Events) receive the reports.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn start(ring: Ring, service: &Arc<Service>, config: ServerConfig) -> io::Result<Self> {
        // Also requests of slots that the service does not have are answered.
        let slots = 0..ring.memory.slot_count;
        let mut server = Self::without_services(ring, config)?;
        server.first = Some(server.attach_slots(slots, service, config)?);
        Ok(server)
    }

    /// Polls a ring from which nothing has been taken yet, for services that are attached later.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn without_services(ring: Ring, config: ServerConfig) -> io::Result<Self> {
        let ring = Arc::new(ring);
        let control = Arc::<PollerControl>::default();
        let (commands, received) = mpsc::channel();
        let poller = Poller {
            submissions: Submissions::new(Arc::clone(&ring)),
            lanes: Vec::new(),
            commands: received,
            control: Arc::clone(&control),
            spin: config.spin,
            nap: config.nap,
        };
        let thread = thread::Builder::new().name("everwarp-hostcalls".into());
        let poller = thread.spawn(move || poller.run())?;
        let shared = ServerShared {
            ring,
            control,
            commands: Mutex::new(commands),
            thread: poller.thread().clone(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            first: None,
            poller: Some(poller),
        })
    }

    /// Lets a service serve the requests of its slots, which no other attached service has. The processes in these slots
    /// count their calls from 0.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn attach(&self, service: &Arc<Service>, config: ServerConfig) -> io::Result<Attached> {
        self.attach_slots(service.slots(), service, config)
    }

    fn attach_slots(
        &self,
        slots: Range<u32>,
        service: &Arc<Service>,
        config: ServerConfig,
    ) -> io::Result<Attached> {
        let ring = &self.shared.ring;
        let disks = disks(&config);
        let (reads, batch_least) = match (config.reads, &disks) {
            (Reads::Batched(least), Some(_)) => (config.reads, least),
            _ => (Reads::Plain, usize::MAX),
        };
        let mut disks = disks.unwrap_or_default();
        let mut workers = Vec::with_capacity(config.workers);
        for index in 0..config.workers {
            let mut serving = ServingThread::new(service, ring);
            (serving.disk, serving.batch_least) = (disks.pop(), batch_least);
            let (sender, jobs) = mpsc::channel::<Vec<Job>>();
            let thread = thread::Builder::new().name(format!("everwarp-wasi-{index}"));
            workers.push(Worker {
                jobs: sender,
                next: Vec::new(),
                thread: thread.spawn(move || serving.serve_from(&jobs))?,
            });
        }
        let lane = Lane {
            slots: slots.clone(),
            thread: ServingThread::new(service, ring),
            workers,
        };
        let (sender, attached) = mpsc::channel();
        self.shared.send(Command::Attach(Box::new(lane), sender));
        // Until the lane is there, a request of its slots would be dropped.
        let _ = attached.recv();
        Ok(Attached {
            shared: Arc::clone(&self.shared),
            slots,
            reads,
        })
    }

    /// How workers read files: by plain calls, whatever the configuration says, if the system gives no io_uring.
    pub fn reads(&self) -> Reads {
        self.first.as_ref().map_or(Reads::Plain, Attached::reads)
    }
}

impl Drop for Server {
    /// Serves the requests that have been taken from the queue, cancels those that wait, and returns when the ring's
    /// memory will not be accessed any more.
    fn drop(&mut self) {
        self.shared.control.stop.store(true, Relaxed);
        self.shared.thread.unpark();
        if let Some(poller) = self.poller.take() {
            drop(poller.join());
        }
    }
}
