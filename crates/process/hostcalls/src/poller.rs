//! The thread that reads the queue, and the workers that it gives requests to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::hands::{BATCH, BATCHES_MOST, ServingThread};
use crate::limits::NEIGHBOURS;
use crate::plan::Plan;
use crate::submissions::{Entry, Job, Submissions};

const FIRST_NAP: Duration = Duration::from_micros(20);
/// Looks at an empty queue between two looks at the clock.
const LOOKS: u32 = 32;

/// A worker's thread and the requests that it gets next.
pub(crate) struct Worker {
    pub(crate) jobs: mpsc::Sender<Vec<Job>>,
    pub(crate) next: Vec<Job>,
    pub(crate) thread: JoinHandle<()>,
}

impl Worker {
    /// Gives the worker the requests that have been taken for it.
    fn hand_on(&mut self, poller: &mut ServingThread) {
        if self.next.is_empty() {
            return;
        }
        let jobs = std::mem::replace(&mut self.next, Vec::with_capacity(BATCH));
        if let Err(mpsc::SendError(jobs)) = self.jobs.send(jobs) {
            // The worker has ended, which only a panic explains. Its processes are served here.
            poller.serve_all(jobs);
            poller.report_ends();
        }
    }
}

pub(crate) struct Poller {
    pub(crate) submissions: Submissions,
    pub(crate) thread: ServingThread,
    pub(crate) workers: Vec<Worker>,
    pub(crate) stop: Arc<AtomicBool>,
    /// How long it polls without a pause after the last request.
    pub(crate) spin: Duration,
    /// Its longest nap after that.
    pub(crate) nap: Duration,
}

impl Poller {
    pub(crate) fn run(mut self) {
        let mut last = Instant::now();
        let mut nap = FIRST_NAP;
        // Requests taken since the queue was last empty, and looks at the empty queue. The thread looks at the clock only
        // now and then: that takes longer than a look at the queue.
        let (mut taken, mut looks) = (0_usize, 0_u32);
        while !self.stop.load(Relaxed) {
            if let Some(entry) = self.submissions.next() {
                self.take(entry);
                taken += 1;
                if taken.is_multiple_of(BATCH * BATCHES_MOST) {
                    // No request waits longer because the queue is never empty.
                    self.hand_on();
                } else if taken.is_multiple_of(BATCH) {
                    self.thread.settle();
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
            // Room that was kept for a whole group of neighbours is given to fewer.
            self.thread.service.serve_openings();
            if last.elapsed() >= self.spin {
                thread::sleep(nap.min(self.nap));
                nap = (nap * 2).min(self.nap);
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
        self.thread.service.cancel_waits();
    }

    /// Serves a request, or puts it aside for its worker.
    fn take(&mut self, entry: Entry) {
        let Entry::Request((ticket, request)) = entry else {
            Counters::add(&self.thread.service.counters.bad_entries, 1);
            return;
        };
        if self.workers.is_empty() {
            return self.thread.serve((ticket, request));
        }
        // Neighbours have the same worker: they share what is counted.
        let worker = (request.process.slot() / NEIGHBOURS) as usize % self.workers.len();
        let job = match Plan::of(&request.call) {
            Plan::Now => return self.thread.serve((ticket, request)),
            Plan::Batch(_) if self.submissions.is_empty() => {
                self.thread.read_from_cache((ticket, request))
            }
            Plan::Batch(_) | Plan::Work | Plan::Wait => Some((ticket, request)),
        };
        let worker = &mut self.workers[worker];
        worker.next.extend(job);
        if worker.next.len() >= BATCH {
            worker.hand_on(&mut self.thread);
        }
    }

    /// Gives every worker the requests that have been taken for it.
    fn hand_on(&mut self) {
        self.thread.settle();
        for worker in &mut self.workers {
            worker.hand_on(&mut self.thread);
        }
    }
}
