//! The thread that reads the queue, and the workers that it gives requests to.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use everwarp_telemetry::clock;

use crate::counters::Counters;
use crate::hands::{BATCH, BATCHES_MOST, ServingThread};
use crate::limits::NEIGHBOURS;
use crate::plan::Plan;
use crate::submissions::{Entry, Job, Submissions};

const SHORTEST_NAP: Duration = Duration::from_micros(20);
/// A nap takes this part of the time since the last request.
const NAP_SHARE: u32 = 8;
/// The longest nap while no service is attached.
const IDLE_NAP: Duration = Duration::from_millis(100);
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

/// An attached service and its workers.
pub(crate) struct Lane {
    /// The slots that it serves.
    pub(crate) slots: Range<u32>,
    /// Serves what is served by the polling thread itself.
    pub(crate) thread: ServingThread,
    pub(crate) workers: Vec<Worker>,
}

impl Lane {
    /// Serves a request, or puts it aside for its worker.
    fn take(&mut self, (mut ticket, request): Job, queue: &Submissions) {
        if self.thread.service.times().is_some() {
            ticket.taken = clock::now();
        }
        if self.workers.is_empty() {
            return self.thread.serve((ticket, request));
        }
        // Neighbours have the same worker: they share what is counted.
        let worker = (request.process.slot() / NEIGHBOURS) as usize % self.workers.len();
        let job = match Plan::of(&request.call) {
            Plan::Now => return self.thread.serve((ticket, request)),
            Plan::Batch(_) if queue.is_empty() => self.thread.read_from_cache((ticket, request)),
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

    /// Serves what has been taken, ends the workers, and cancels the requests that wait.
    pub(crate) fn end(mut self) {
        self.hand_on();
        for worker in self.workers {
            // A worker ends when its queue is empty and closed.
            drop(worker.jobs);
            drop(worker.thread.join());
        }
        self.thread.service.cancel_waits();
    }
}

/// What other threads ask of the polling thread. Each is answered when it has been carried out.
pub(crate) enum Command {
    /// Serve a lane's slots from now on.
    Attach(Box<Lane>, mpsc::Sender<()>),
    /// Give back the lane with these slots.
    Detach(Range<u32>, mpsc::Sender<Lane>),
}

/// The words by which other threads reach the polling thread.
#[derive(Debug, Default)]
pub(crate) struct PollerControl {
    pub(crate) stop: AtomicBool,
    /// A command has been sent.
    pub(crate) changed: AtomicBool,
}

pub(crate) struct Poller {
    pub(crate) submissions: Submissions,
    /// The lanes, in the order of their slots.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) control: Arc<PollerControl>,
    /// How long it polls without a pause after the last request.
    pub(crate) spin: Duration,
    /// Its longest nap after that.
    pub(crate) nap: Duration,
}

impl Poller {
    pub(crate) fn run(mut self) {
        let mut last = Instant::now();
        // Requests taken since the queue was last empty, and looks at the empty queue. The thread looks at the clock only
        // now and then: that takes longer than a look at the queue.
        let (mut taken, mut looks) = (0_usize, 0_u32);
        while !self.control.stop.load(Relaxed) {
            if self.control.changed.load(Relaxed) {
                self.carry_out();
                // The processes of a new lane are about to call.
                (last, looks) = (Instant::now(), 0);
            }
            if let Some(entry) = self.submissions.next() {
                self.take(entry);
                taken += 1;
                if taken.is_multiple_of(BATCH * BATCHES_MOST) {
                    // No request waits longer because the queue is never empty.
                    self.hand_on();
                } else if taken.is_multiple_of(BATCH) {
                    self.lanes.iter_mut().for_each(|lane| lane.thread.settle());
                }
                continue;
            }
            if taken > 0 {
                self.hand_on();
                (taken, looks) = (0, 0);
                last = Instant::now();
            }
            looks += 1;
            if !looks.is_multiple_of(LOOKS) {
                std::hint::spin_loop();
                continue;
            }
            // Room that was kept for a whole group of neighbours is given to fewer.
            let services = self.lanes.iter().map(|lane| &lane.thread.service);
            services.for_each(|service| service.serve_openings());
            let quiet = last.elapsed();
            if quiet >= self.spin {
                let nap = match self.lanes.is_empty() {
                    // No request comes before a lane is attached, which wakes this thread.
                    true => IDLE_NAP,
                    false => (quiet / NAP_SHARE).clamp(SHORTEST_NAP.min(self.nap), self.nap),
                };
                thread::park_timeout(nap);
                // After a nap one look decides.
                looks = LOOKS - 1;
            }
        }
        self.hand_on();
        self.lanes.into_iter().for_each(Lane::end);
    }

    /// Carries out the commands that have been sent.
    fn carry_out(&mut self) {
        // Partner: the release after a command was sent. A command that is sent later sets the word again.
        self.control.changed.swap(false, Acquire);
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Attach(lane, done) => {
                    self.submissions.begin_anew(lane.slots.clone());
                    let at = lane_after(&self.lanes, lane.slots.start);
                    self.lanes.insert(at, *lane);
                    let _ = done.send(());
                }
                Command::Detach(slots, done) => {
                    let at = self.lanes.iter().position(|lane| lane.slots == slots);
                    if let Some(at) = at {
                        drop(done.send(self.lanes.remove(at)));
                    }
                }
            }
        }
    }

    /// Serves a request, or puts it aside for its worker.
    fn take(&mut self, entry: Entry) {
        let (lanes, submissions) = (&mut self.lanes, &self.submissions);
        match entry {
            Entry::Request((ticket, request)) => {
                // Where no service is attached, no process is left that would want an answer.
                if let Some(lane) = lane_of(lanes, ticket.slot) {
                    lane.take((ticket, request), submissions);
                }
            }
            Entry::Bad(slot) => {
                // A slot that does not exist is counted with the first.
                let slot = if lane_of(lanes, slot).is_some() {
                    slot
                } else {
                    0
                };
                if let Some(lane) = lane_of(lanes, slot) {
                    Counters::add(&lane.thread.service.counters.bad_entries, 1);
                }
            }
        }
    }

    /// Gives every worker the requests that have been taken for it.
    fn hand_on(&mut self) {
        self.lanes.iter_mut().for_each(Lane::hand_on);
    }
}

/// The position of the first lane whose slots begin after this one.
fn lane_after(lanes: &[Lane], slot: u32) -> usize {
    lanes.partition_point(|lane| lane.slots.start <= slot)
}

/// The lane that serves a slot.
fn lane_of(lanes: &mut [Lane], slot: u32) -> Option<&mut Lane> {
    let before = lane_after(lanes, slot).checked_sub(1)?;
    let lane = &mut lanes[before];
    lane.slots.contains(&slot).then_some(lane)
}
