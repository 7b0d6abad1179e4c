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
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use everwarp_process::Reads;

use crate::disk::Disk;
use crate::hands::ServingThread;
use crate::poller::{Poller, Worker};
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
    /// The longest nap of the poller after that. Naps begin at 20 microseconds and double.
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
#[derive(Debug)]
pub struct Server {
    reads: Reads,
    stop: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
}

/// The io_urings of the workers, if they are wanted and the system has them.
fn disks(config: &ServerConfig) -> Option<Vec<Disk>> {
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
        let ring = Arc::new(ring);
        let disks = disks(&config);
        let (reads, batch_least) = match (config.reads, &disks) {
            (Reads::Batched(least), Some(_)) => (config.reads, least),
            _ => (Reads::Plain, usize::MAX),
        };
        let mut disks = disks.unwrap_or_default();
        let mut workers = Vec::with_capacity(config.workers);
        for index in 0..config.workers {
            let mut serving = ServingThread::new(service, &ring);
            (serving.disk, serving.batch_least) = (disks.pop(), batch_least);
            let (sender, jobs) = mpsc::channel::<Vec<Job>>();
            let thread = thread::Builder::new().name(format!("everwarp-wasi-{index}"));
            workers.push(Worker {
                jobs: sender,
                next: Vec::new(),
                thread: thread.spawn(move || serving.serve_from(&jobs))?,
            });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let poller = Poller {
            thread: ServingThread::new(service, &ring),
            submissions: Submissions::new(ring),
            workers,
            stop: Arc::clone(&stop),
            spin: config.spin,
            nap: config.nap,
        };
        let thread = thread::Builder::new().name("everwarp-hostcalls".into());
        let poller = thread.spawn(move || poller.run())?;
        Ok(Self {
            reads,
            stop,
            poller: Some(poller),
        })
    }

    /// How workers read files: by plain calls, whatever the configuration says, if the system gives no io_uring.
    pub fn reads(&self) -> Reads {
        self.reads
    }
}

impl Drop for Server {
    /// Serves the requests that have been taken from the queue, cancels those that wait, and returns when the ring's
    /// memory will not be accessed any more.
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(poller) = self.poller.take() {
            drop(poller.join());
        }
    }
}
