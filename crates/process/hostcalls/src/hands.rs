//! One thread's means of serving: its buffers, and what it reports when it has served enough.

use std::sync::{Arc, mpsc};

use crate::disk::Disk;
use crate::endings::Endings;
use crate::events::Woken;
use crate::limits::DATA_BYTES;
use crate::plan::Plan;
use crate::request::Reply;
use crate::ring::{Ring, Ticket};
use crate::service::Service;
use crate::submissions::Job;
use crate::timed::answer_timed;
use crate::wait::Served;

/// Requests that a thread serves before it wakes their processes or hands requests on. A wake is a task for the GPU, and
/// many together cost less.
pub(crate) const BATCH: usize = 128;
/// Batches that a worker serves before it reports the processes that have exited, and that the poller takes before
/// every worker gets its share.
pub(crate) const BATCHES_MOST: usize = 8;

/// What a thread serves with.
pub(crate) struct ServingThread {
    pub(crate) service: Arc<Service>,
    pub(crate) ring: Arc<Ring>,
    payload: Vec<u8>,
    pub(crate) reply: Reply,
    /// The io_uring for reads, and how many reads it takes to use it.
    pub(crate) disk: Option<Disk>,
    pub(crate) batch_least: usize,
    /// The processes to wake as soon as the thread has nothing else to do, or they are many.
    woken: Vec<Woken>,
    endings: Endings,
}

impl ServingThread {
    pub(crate) fn new(service: &Arc<Service>, ring: &Arc<Ring>) -> Self {
        Self {
            service: Arc::clone(service),
            ring: Arc::clone(ring),
            payload: Vec::with_capacity(DATA_BYTES),
            reply: Reply::default(),
            disk: None,
            batch_least: usize::MAX,
            woken: Vec::with_capacity(BATCH),
            endings: Endings::default(),
        }
    }

    /// Serves one request.
    pub(crate) fn serve(&mut self, (ticket, request): Job) {
        self.ring.payload(&ticket, &mut self.payload);
        let request = request.with_payload(&self.payload);
        let endings = &mut self.endings;
        match self.service.serve(&request, &mut self.reply, endings) {
            Served::Answered => self.answer(ticket),
            Served::Waits(wait) => {
                let (ring, times) = (Arc::clone(&self.ring), self.service.shared_times());
                let wait = wait.of_slot(ticket.slot);
                let answer =
                    move |reply: &Reply| answer_timed(&ring, ticket, reply, times.as_deref());
                self.service.wait(wait, Box::new(answer));
            }
        }
    }

    /// Serves a request that is a read of bytes in the page cache. Gives other requests back.
    pub(crate) fn read_from_cache(&mut self, (ticket, request): Job) -> Option<Job> {
        // A read has no payload. One with a payload is unusual, and left to the worker.
        if let Plan::Batch(read) = Plan::of(&request.call)
            && ticket.payload_bytes == 0
            && self
                .service
                .read_from_cache(&read, &request, &mut self.reply)
        {
            self.answer(ticket);
            return None;
        }
        Some((ticket, request))
    }

    /// Gives the reply as the answer of a request.
    pub(crate) fn answer(&mut self, ticket: Ticket) {
        let woken = answer_timed(&self.ring, ticket, &self.reply, self.service.times());
        self.woken.extend(woken);
    }

    /// Serves requests and wakes their processes. Processes that exit are reported later.
    pub(crate) fn serve_all(&mut self, jobs: Vec<Job>) {
        let mut jobs = self.read_batch(jobs);
        let last = jobs.pop();
        if !jobs.is_empty() {
            // The lines of all of them are written together.
            let service = Arc::clone(&self.service);
            let _deferred = service.defer_output();
            jobs.into_iter().for_each(|job| self.serve(job));
        }
        last.into_iter().for_each(|job| self.serve(job));
        self.service.serve_openings();
        self.wake();
    }

    /// Serves requests until no more come.
    pub(crate) fn serve_from(&mut self, jobs: &mpsc::Receiver<Vec<Job>>) {
        while let Ok(first) = jobs.recv() {
            self.serve_all(first);
            for more in jobs.try_iter().take(BATCHES_MOST) {
                self.serve_all(more);
            }
            self.report_ends();
        }
    }

    /// Does what others wait for: opens files for which there is room now, wakes, and reports exits.
    pub(crate) fn settle(&mut self) {
        self.service.serve_openings();
        self.wake();
        self.report_ends();
    }

    pub(crate) fn report_ends(&mut self) {
        self.service.report_ends(&mut self.endings);
    }

    /// Wakes the processes whose requests have been answered.
    pub(crate) fn wake(&mut self) {
        if !self.woken.is_empty() {
            self.service.events().wake(&self.woken);
            self.woken.clear();
        }
    }
}
