//! Reads of files that a worker has got at a time, done together.
//!
//! They are handed to its [`Disk`] at once, and each is answered as it ends; the rest is done one after the other. So a
//! read may overtake what its process has sent before without waiting for an answer, which is only output. What is not
//! quite plain (a pipe, an offset that another request is using, a wrong number) is left to the calls that know about it.
//! Writes are plain calls always: they go to the page cache, which most file systems do not let io_uring do at once.

use std::mem::swap;
use std::sync::{Arc, MutexGuard};

use everwarp_contract::hostcall::number;

use crate::disk::{DEPTH, Disk};
use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::request::Request;
use crate::server::{Hands, Job, may_be_cached};
use crate::table::{Descriptor, OpenFile};

/// A read of a file.
struct Read {
    descriptor: Arc<Descriptor>,
    /// Where in the file, unless it is at the descriptor's offset.
    at: Option<u64>,
    length: u32,
}

impl Read {
    fn new(process: &Process, request: &Request<'_>) -> Option<Self> {
        let at = match request.kind() {
            number::FD_READ => None,
            number::FD_PREAD => Some(request.args[2]),
            _ => return None,
        };
        let descriptor = process.descriptor(request.word(0).ok()?).ok()?;
        let length = u32::try_from(request.length(1).ok()?).ok()?;
        let regular = descriptor.file().is_ok_and(|file| file.regular);
        regular.then_some(Self {
            descriptor,
            at,
            length,
        })
    }

    fn file(&self) -> Option<&OpenFile> {
        self.descriptor.file().ok()
    }

    /// Begins it; the descriptor's offset is held until it has ended. Nothing if it cannot begin now.
    fn begin(&self, disk: &mut Disk, place: usize) -> Option<Option<MutexGuard<'_, u64>>> {
        let file = self.file()?;
        let (at, held) = match self.at {
            Some(at) => (at, None),
            None => {
                let held = file.offset.try_lock().ok()?;
                (*held, Some(held))
            }
        };
        disk.begin(place, &file.file, i64::try_from(at).ok()?, self.length);
        Some(held)
    }
}

/// Moves an offset by so many bytes.
fn advance(offset: Option<&mut u64>, bytes: usize) -> Result<usize> {
    if let Some(offset) = offset {
        *offset = offset.checked_add(bytes as u64).ok_or(Errno::OVERFLOW)?;
    }
    Ok(bytes)
}

impl Hands {
    /// Serves those that are reads of files, all of them at once, if they are as many as it takes; gives back the others.
    pub(crate) fn read_together(&mut self, jobs: Vec<Job>) -> Vec<Job> {
        let reads = jobs.iter().filter(|(_, head)| may_be_cached(head.call));
        if self.disk.is_none() || reads.count() < self.together {
            return jobs;
        }
        let (mut found, mut rest) = (Vec::new(), Vec::new());
        for job in jobs {
            match self.read_of(&job).filter(|_| found.len() < DEPTH) {
                Some(read) => found.push((job, read)),
                None => rest.push(job),
            }
        }
        self.run(found, &mut rest);
        rest
    }

    /// The read that a request is.
    fn read_of(&self, (ticket, head): &Job) -> Option<Read> {
        // What a read sends along is nothing that it means.
        if !may_be_cached(head.call) || head.data_bytes > 0 {
            return None;
        }
        let process = self.service.process(head.process, head.generation).ok()?;
        Read::new(&process, &head.request(&[], ticket.room()))
    }

    /// Does reads, each in the place of its number. What cannot be done so goes to the rest.
    fn run(&mut self, found: Vec<(Job, Read)>, rest: &mut Vec<Job>) {
        let Some(mut disk) = self.disk.take() else {
            return rest.extend(found.into_iter().map(|(job, _)| job));
        };
        let (mut jobs, reads): (Vec<_>, Vec<_>) =
            found.into_iter().map(|(job, t)| (Some(job), t)).unzip();
        let mut offsets = Vec::with_capacity(reads.len());
        for (place, read) in reads.iter().enumerate() {
            let begun = read.begin(&mut disk, place);
            if begun.is_none() {
                rest.extend(jobs[place].take());
            }
            offsets.push(begun.flatten());
        }
        let mut ended = Vec::with_capacity(reads.len());
        while disk.ends(&mut ended) {
            for (place, result) in ended.drain(..) {
                let (ticket, head) = jobs[place].take().expect("it ends once");
                let mut offset = offsets[place].take();
                if result == Err(Errno::AGAIN) {
                    // The file system does not do it so.
                    rest.push((ticket, head));
                    continue;
                }
                let done = result.and_then(|bytes| advance(offset.as_deref_mut(), bytes));
                drop(offset);
                self.reply.clear();
                swap(&mut self.reply.data, disk.buffer(place));
                self.reply.count();
                self.reply.set(done.map(drop));
                self.service.counters.served(head.call, &self.reply);
                self.answer(ticket, &head);
            }
            // Those that have been answered need not wait for a disk.
            self.wake();
        }
        self.disk = Some(disk);
    }
}
