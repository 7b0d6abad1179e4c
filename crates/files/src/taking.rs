//! The thread that takes requests out of the ring of an instance.

use std::sync::Arc;
use std::time::Instant;

use everwarp_contract::files::{
    FILE_DOOR_CLOSE, FILE_DOOR_WAIT, FILE_ENDED, FILE_PAGE, FILE_PREFETCH, FILE_TAKE_STEP,
};
use everwarp_contract::{DevFileRequest, DevType};
use everwarp_runtime::{Error, LinkedEngine, Pending};

use crate::driver::Driver;
use crate::errno::FileErrno;
use crate::handles::Open;
use crate::lines::Name;
use crate::open_file::OpenFile;
use crate::port::{Port, REQUEST};
use crate::request::{After, Asked, OfTime, Op, Request, after, decode, op_of};
use crate::server::{Job, ROUND, Server};
use crate::waits::Limited;

/// The most requests on their way. With more, the ring fills up, and tasks try again until there is room.
const IN_FLIGHT: u64 = 1 << 18;

/// What is collected of some requests, to be passed on together.
#[derive(Debug, Default)]
struct Round {
    times: Vec<(OfTime, After)>,
    jobs: Vec<Job>,
    /// The last file, by its handle, and its requests that are not in line yet.
    file: Option<(u32, Arc<OpenFile>)>,
    requests: Vec<Request>,
    /// How many requests this thread has only made jobs of: their ends are handed over by others.
    jobs_only: usize,
}

impl Server {
    /// Takes requests until the ring is closed and empty. If the engine ends, so does everything.
    pub(crate) fn take(&self, port: &Port) {
        match self.take_all(port) {
            Ok(()) => {
                self.end_waits();
                {
                    let mut work = self.work();
                    work.closing = true;
                    work.written_back |= work.in_flight == 0 && self.cache.is_none();
                }
                self.ring_all();
            }
            Err(_) => self.abandon(),
        }
    }
    /// Lets a task of the door wait for requests, after the first `taken` of them, which were copied.
    fn wait_for_requests(&self, port: &Port, taken: u64) -> Result<Pending, Error> {
        let wait = port.task(FILE_DOOR_WAIT);
        self.engine.submit_lasting(wait.arg(taken))
    }
    fn take_all(&self, port: &Port) -> Result<(), Error> {
        let mut words = vec![0; FILE_TAKE_STEP as usize * REQUEST];
        let mut driver = Driver::default();
        let mut taken = 0_u64;
        let mut pending = self.wait_for_requests(port, taken)?;
        loop {
            let count = self.wait(&mut pending)?;
            if count == u64::from(FILE_ENDED) {
                return Ok(());
            }
            self.counters.takes.add(1);
            // A task that wrote elsewhere could report anything.
            let count = count.min(FILE_TAKE_STEP.into()) as usize;
            let words = &mut words[..count * REQUEST];
            port.copied.read_at(0, words)?;
            let records = words.chunks_exact(REQUEST).map(record_of);
            let is_page =
                |record: &DevFileRequest| matches!(op_of(record), FILE_PAGE | FILE_PREFETCH);
            let (pages, others): (Vec<_>, Vec<_>) = records.partition(is_page);
            {
                let unanswered = pages.iter().filter(|r| op_of(r) == FILE_PREFETCH);
                let answered = (count - unanswered.count()) as u64;
                let mut work = self.work();
                work.in_flight += answered;
                work.unanswered += answered;
                if !self.is_lost() {
                    work.outside += answered;
                    self.engine.begin_outside(answered);
                }
            }
            // Their slots are free: tasks make requests while these are taken in.
            taken += count as u64;
            pending = self.wait_for_requests(port, taken)?;
            for records in others.chunks(ROUND) {
                driver.begin(self.workers);
                let mut round = Round::default();
                for record in records {
                    self.accept(record, &mut driver, &mut round);
                }
                self.line_up(&mut round);
                // To wake a thread takes longer than a lone read of what the system has in its cache.
                let alone = match round.jobs.as_slice() {
                    [job] => count == 1 && self.reads_itself(job),
                    _ => false,
                };
                if !alone {
                    self.push_jobs(round.jobs);
                }
                self.ask_clock(round.times);
                // What threads do is handed over by those.
                if alone || round.jobs_only < records.len() {
                    self.deliver();
                }
            }
            if !pages.is_empty() && self.accept_pages(pages) {
                self.deliver();
            }
            let mut work = self.work();
            while work.in_flight - work.waiting >= IN_FLIGHT && !self.is_lost() {
                work = self.room.wait(work);
            }
        }
    }
    /// Takes one request in, which is counted as in flight. What is asked of timers and files goes to the round: one lock and one bell serve
    /// all of it.
    fn accept(&self, record: &DevFileRequest, driver: &mut Driver, round: &mut Round) {
        let mut after = after(record);
        if !self.takes_bytes(&mut after) {
            return self.finish(after, Err(FileErrno::NOBUFS));
        }
        match decode(record, &self.memory) {
            Err(error) => self.finish(after, Err(error)),
            Ok(Asked::Of { handle, op, within }) => {
                self.accept_of(handle, op, within, after, round);
            }
            Ok(Asked::Open {
                dir,
                how,
                path,
                room,
            }) => {
                round.jobs.push(Job::Open {
                    dir,
                    how,
                    path,
                    room,
                    after,
                });
                round.jobs_only += 1;
            }
            Ok(Asked::List { dir, path, to }) => {
                round.jobs.push(Job::List {
                    dir,
                    path,
                    to,
                    after,
                });
                round.jobs_only += 1;
            }
            Ok(Asked::Time(asked)) => round.times.push((asked, after)),
            Ok(Asked::Network(asked)) => self.ask_network(&asked, after, driver),
            Ok(Asked::Cancel { handle, note }) => match self.handles.get(handle) {
                Some(Open::Socket(socket)) => self.cancel(&socket, note, after),
                // A wait for the timer may be among those.
                Some(Open::Timer) => round.times.push((OfTime::Cancel { handle, note }, after)),
                Some(Open::File(file)) => {
                    // It finds requests where they wait.
                    self.line_up(round);
                    self.push_jobs(round.jobs.drain(..));
                    self.give_up_file(&file, Name::Note(note), FileErrno::CANCELED);
                    self.finish(after, Ok(0));
                }
                None => self.finish(after, Err(FileErrno::BADF)),
            },
            Ok(Asked::Socket { handle, op, within }) => match self.handles.get(handle) {
                Some(Open::Socket(socket)) => self.ask_socket(&socket, op, within, after, driver),
                Some(_) => self.finish(after, Err(FileErrno::NOTSOCK)),
                None => self.finish(after, Err(FileErrno::BADF)),
            },
        }
    }
    /// Takes a request of a handle in.
    fn accept_of(&self, handle: u32, op: Op, within: u64, after: After, round: &mut Round) {
        let closes = matches!(op, Op::Close(_));
        // Neighbours mostly are of one file.
        if round.file.as_ref().is_none_or(|(last, _)| *last != handle) {
            self.line_up(round);
            match self.handles.get(handle) {
                Some(Open::File(file)) => round.file = Some((handle, file)),
                Some(Open::Timer) if closes => {
                    return round.times.push((OfTime::Stop(handle), after));
                }
                Some(Open::Socket(socket)) if closes => {
                    self.handles.remove(handle);
                    return self.close_socket(&socket, after);
                }
                _ => return self.finish(after, Err(FileErrno::BADF)),
            }
        }
        let (_, file) = round.file.as_ref().expect("it was found");
        // The handle of a cached file stays until its pages have left.
        if closes && file.cached.is_none() {
            self.handles.remove(handle);
        }
        let after = self.limited(after, within, || Limited::File(file.clone()));
        round.requests.push(Request { op, after });
        round.jobs_only += 1;
        // The thread that waits may have looked for it before it was in line.
        if let Some((at, number)) = after.deadline {
            let file = file.clone();
            self.line_up(round);
            self.push_jobs(round.jobs.drain(..));
            if at <= Instant::now() {
                self.give_up_file(&file, Name::Deadline(number), FileErrno::TIMEDOUT);
                round.jobs_only -= 1;
            }
        }
        if closes {
            self.line_up(round);
            round.file = None;
        }
    }
    /// Puts the requests of the round's last file in line, and makes jobs of those that can be done now.
    fn line_up(&self, round: &mut Round) {
        if let Some((_, file)) = &round.file
            && !round.requests.is_empty()
        {
            let mut ready = Vec::new();
            file.push(round.requests.drain(..), &mut ready);
            self.cut_requests(file, ready, &mut round.jobs);
        }
    }

    /// Closes the ring of requests.
    pub(crate) fn close(&self, port: &Port) -> Result<(), Error> {
        let task = port.task(FILE_DOOR_CLOSE);
        self.engine.submit(task)?.wait().map(drop)
    }
}

/// A request, from its words.
fn record_of(words: &[u64]) -> DevFileRequest {
    let mut bytes = [0; REQUEST * 8];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    DevFileRequest::from_bytes(&bytes)
}
