//! Reads of files that a worker has got at a time, done together.
//!
//! They are given to its [`Disk`] at once, and each is answered as it ends; the other requests are served one after
//! another. So a read may overtake a request that its process has sent before without waiting for the answer, which can
//! only be output. A read that is unusual (a pipe, an offset that another request uses, a wrong number) is served by a
//! plain call. Writes always are: they go to the page cache, which most file systems do not let an io_uring do at once.

use std::mem::swap;

use crate::disk::DEPTH;
use crate::errno::Errno;
use crate::hands::ServingThread;
use crate::plan::Plan;
use crate::read::{BatchedRead, advance};
use crate::submissions::Job;

fn is_read(job: &Job) -> bool {
    matches!(Plan::of(&job.1.call), Plan::Batch(_))
}

impl ServingThread {
    /// Serves the requests that are reads of files, all at once, if they are as many as it takes. Gives the others back.
    pub(crate) fn read_batch(&mut self, jobs: Vec<Job>) -> Vec<Job> {
        let reads = jobs.iter().filter(|job| is_read(job));
        if self.disk.is_none() || reads.count() < self.batch_least {
            return jobs;
        }
        let (mut found, mut rest) = (Vec::new(), Vec::new());
        for job in jobs {
            match self.read_of(&job).filter(|_| found.len() < DEPTH) {
                Some(read) => found.push((job, read)),
                None => rest.push(job),
            }
        }
        self.run_batch(found, &mut rest);
        rest
    }

    /// The read of a regular file that a request asks for, if it does.
    fn read_of(&self, (ticket, request): &Job) -> Option<BatchedRead> {
        let Plan::Batch(read) = Plan::of(&request.call) else {
            return None;
        };
        // A read has no payload. One with a payload is unusual.
        if ticket.payload_bytes > 0 {
            return None;
        }
        let process = self.service.process(request.process).ok()?;
        read.batched(&process, request)
    }

    /// Does reads, each in the place of its number. Those that cannot be done this way are added to `rest`.
    fn run_batch(&mut self, found: Vec<(Job, BatchedRead)>, rest: &mut Vec<Job>) {
        let Some(mut disk) = self.disk.take() else {
            return rest.extend(found.into_iter().map(|(job, _)| job));
        };
        let (mut jobs, reads): (Vec<_>, Vec<_>) = found
            .into_iter()
            .map(|(job, read)| (Some(job), read))
            .unzip();
        let mut offsets = Vec::with_capacity(reads.len());
        for (place, read) in reads.iter().enumerate() {
            let prepared = read.begin(&mut disk, place);
            if prepared.is_none() {
                rest.extend(jobs[place].take());
            }
            offsets.push(prepared.flatten());
        }
        let mut ended = Vec::with_capacity(reads.len());
        while disk.ends(&mut ended) {
            for (place, result) in ended.drain(..) {
                let (ticket, request) = jobs[place].take().expect("a read ends once");
                let mut offset = offsets[place].take();
                if result == Err(Errno::AGAIN) {
                    // The file system cannot do it this way.
                    rest.push((ticket, request));
                    continue;
                }
                let done = result.and_then(|bytes| advance(offset.as_deref_mut(), bytes));
                drop(offset);
                self.reply.clear();
                swap(&mut self.reply.data, disk.buffer(place));
                self.reply.count();
                self.reply.set(done.map(drop));
                self.service.count_read(&request, &self.reply);
                self.answer(ticket);
            }
            // Processes whose reads have been answered need not wait for the others'.
            self.wake();
        }
        self.disk = Some(disk);
    }
}
