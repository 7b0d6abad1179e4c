//! What a thread does with its io_uring: reads and syncs of files, and reads of pages. All else is done with plain calls.

use std::fs::File;
use std::sync::Arc;

use everwarp_pages::Run;

use crate::cache::PageRead;
use crate::driver::Driver;
use crate::errno::FileErrno;
use crate::memory::Range;
use crate::open_file::OpenFile;
use crate::request::{Op, Request};
use crate::server::{Job, Server, Strike};
use crate::system::{PATIENCE, offset, part_of};
use crate::uring::{Asked, Mover, Ring};

/// Bytes that are read with one call, and those of a request in the background: between two calls others have their turn.
const PIECE: usize = 1 << 20;
const SMALL_PIECE: usize = 128 << 10;
/// A read that is alone and no longer than this is tried with a plain call that does not wait.
const AT_ONCE: usize = 64 << 10;
/// Jobs that a thread takes at a time.
const TOGETHER: usize = 32;

/// What a thread has on its way.
pub(crate) type Moves = Mover<Move>;

/// Something on its way.
#[derive(Debug)]
pub(crate) struct Move {
    what: What,
    /// Bytes that have moved.
    done: usize,
    /// How often the system has refused it for now.
    refused: u32,
    /// It was given up.
    struck: Option<FileErrno>,
}

#[derive(Debug)]
enum What {
    /// A read of a file. Where the host does not reach the range, a piece at a time goes to the stage.
    Read {
        file: Arc<OpenFile>,
        request: Request,
        stage: Vec<u8>,
    },
    Sync {
        file: Arc<OpenFile>,
        request: Request,
    },
    /// A read of pages.
    Pages { file: Arc<File>, pages: PageRead },
}

/// What a turn of a read has led to.
enum Next {
    /// It goes on.
    Goes(Move),
    /// It has ended with how many bytes, and an error.
    Ends(Move, Option<FileErrno>),
}

fn range_of(request: &Request) -> Option<(u64, &Range)> {
    match &request.op {
        Op::Read { from, to } => Some((*from, to)),
        _ => None,
    }
}

impl Server {
    /// Does jobs through a ring until all are done and no more can come.
    pub(crate) fn move_jobs(&self, number: usize, ring: Ring) {
        let mut driver = Driver::default();
        let mut moves = Moves::new(ring);
        let mut taken = Vec::new();
        loop {
            self.deliver();
            let (strikes, waits) = {
                let mut work = self.work();
                loop {
                    if self.is_lost() {
                        // The drop waits for what is on its way.
                        return;
                    }
                    let strikes = std::mem::take(&mut work.strikes[number]);
                    let share = work.jobs.len().div_ceil(self.workers);
                    let share = share.clamp(1, TOGETHER).min(moves.room());
                    while taken.len() < share
                        && let Some(job) = work.jobs.pop()
                    {
                        let alone = !self.is_for_ring(&job);
                        taken.push(job);
                        if alone {
                            break;
                        }
                    }
                    let idle = taken.is_empty() && strikes.is_empty();
                    if !idle {
                        break (strikes, false);
                    }
                    if !moves.is_empty() {
                        work.in_rings.push(number);
                        break (strikes, true);
                    }
                    if work.written_back {
                        return;
                    }
                    work = self.jobs.wait(work);
                }
            };
            let alone = taken.len() == 1 && moves.is_empty();
            // These concern reads that are on their way. The jobs that were taken with them came later.
            for strike in strikes {
                moves.cancel(|moving| moving.strike(&strike));
            }
            for job in taken.drain(..) {
                if !self.is_for_ring(&job) {
                    self.do_job(job, &mut driver);
                } else if !(alone && self.does_at_once(&job)) {
                    self.begin(&mut moves, job);
                }
            }
            if waits || !moves.is_empty() {
                moves.turn(waits);
            }
            if waits {
                self.work().in_rings.retain(|&waiting| waiting != number);
            }
            self.end_moves(&mut moves);
        }
    }

    fn is_for_ring(&self, job: &Job) -> bool {
        match job {
            Job::Read(_) => true,
            Job::Of(file, request) => match request.op {
                // The system would read from other files where they are, and not at an offset.
                Op::Read { .. } => {
                    file.cached.is_none() && file.is_regular && file.may_read().is_ok()
                }
                Op::Sync => file.cached.is_none() && !self.system.records(),
                _ => false,
            },
            _ => false,
        }
    }
    /// Does a small read that need not wait.
    fn does_at_once(&self, job: &Job) -> bool {
        if !self.system.is_plain() {
            return false;
        }
        let Job::Of(file, request) = job else {
            return false;
        };
        let Some((from, to)) = range_of(request) else {
            return false;
        };
        if to.len() > AT_ONCE || to.len() == 0 {
            return false;
        }
        let Some(len) = to.read_now(&self.system, &file.file, from) else {
            return false;
        };
        self.ended_of(file, request, len.map(|len| len as u32));
        true
    }

    fn begin(&self, moves: &mut Moves, job: Job) {
        let start = |what| Move {
            what,
            done: 0,
            refused: 0,
            struck: None,
        };
        match job {
            Job::Of(file, request) => {
                let what = match request.op {
                    Op::Sync => What::Sync { file, request },
                    _ => What::Read {
                        file,
                        request,
                        stage: Vec::new(),
                    },
                };
                self.advance(moves, start(what));
            }
            Job::Read(runs) => {
                let Some(cache) = &self.cache else { return };
                for (file, run) in runs {
                    let pages = cache.begin_run(run);
                    let moving = start(What::Pages { file, pages });
                    if moves.room() == 0 {
                        // As many as a ring has places are on their way: some end first.
                        moves.turn(true);
                        self.end_moves(moves);
                    }
                    self.advance(moves, moving);
                }
            }
            _ => unreachable!("it is for the ring"),
        }
    }
    /// Submits the next piece of something, or ends it.
    fn advance(&self, moves: &mut Moves, mut moving: Move) {
        let done = moving.done;
        let asked = match &mut moving.what {
            What::Sync { .. } => self.system.happens().map(|()| Asked::Sync),
            What::Read { request, stage, .. } => {
                let (from, to) = range_of(request).expect("it is a read");
                let piece = match request.after.class {
                    crate::RequestClass::Background => SMALL_PIECE,
                    _ => PIECE,
                };
                let left = to.len() - done;
                let fate = match left {
                    0 => Ok(0),
                    left => offset(from.saturating_add(done as u64))
                        .map_err(FileErrno::from)
                        .and_then(|_| self.system.read_part(left.min(piece))),
                };
                fate.map(|len| Asked::Read {
                    to: match to.bytes() {
                        // SAFETY: the part is inside the range.
                        Some(first) => unsafe { first.add(done) },
                        None => {
                            stage.resize(len, 0);
                            stage.as_mut_ptr()
                        }
                    },
                    len,
                    from: from.saturating_add(done as u64),
                })
            }
            What::Pages { pages, .. } => {
                let cache = self.cache.as_ref().expect("it has pages");
                let ranges = cache.ranges(pages);
                let (len, from) = (pages.run.bytes as usize, pages.run.first << cache.page_bits);
                let fate = match len - done {
                    0 => Ok(0),
                    left => self.system.read_part(left),
                };
                fate.map(|part| Asked::ReadParts {
                    parts: part_of(&ranges, done, part),
                    from: from + done as u64,
                })
            }
        };
        match asked {
            // Nothing is left to be read.
            Ok(Asked::Read { len: 0, .. }) => self.end_move(moving, None, &mut Vec::new()),
            Ok(asked) => {
                let file = match &moving.what {
                    What::Read { file, .. } | What::Sync { file, .. } => Source::Open(file.clone()),
                    What::Pages { file, .. } => Source::Plain(file.clone()),
                };
                // SAFETY: the request keeps its buffer, the cache outlives the threads and its frames belong to the read, and a stage is
                // the place's own. All keep their file.
                unsafe { moves.push(moving, &file, asked) };
            }
            Err(error) => {
                let mut runs = Vec::new();
                self.end_move(moving, Some(error), &mut runs);
                self.end_runs(runs);
            }
        }
    }

    /// Goes on with what has ended, until nothing more has.
    fn end_moves(&self, moves: &mut Moves) {
        let mut runs = Vec::new();
        loop {
            let ended = moves.take_ended();
            if ended.is_empty() {
                break;
            }
            for (moving, result) in ended {
                match self.next(moving, result) {
                    Next::Goes(moving) => self.advance(moves, moving),
                    Next::Ends(moving, error) => self.end_move(moving, error, &mut runs),
                }
            }
            // The pieces that go on are submitted with what comes next, unless there is nothing else to wait for.
            moves.turn(false);
        }
        self.end_runs(runs);
    }
    fn next(&self, mut moving: Move, result: i32) -> Next {
        match result {
            count if count > 0 => {
                let count = count as usize;
                if let What::Read { request, stage, .. } = &moving.what
                    && let Some((_, to)) = range_of(request)
                    && !stage.is_empty()
                    && let Err(error) = to.put(moving.done, &stage[..count])
                {
                    return Next::Ends(moving, Some(error));
                }
                moving.done += count;
                moving.refused = 0;
                let struck = moving.struck;
                match moving.is_whole() {
                    true => Next::Ends(moving, None),
                    false if struck.is_some() => Next::Ends(moving, struck),
                    false => Next::Goes(moving),
                }
            }
            0 => Next::Ends(moving, None),
            error => {
                let number = -error;
                let canceled = [libc::ECANCELED, libc::EINTR].contains(&number);
                if let (Some(struck), true) = (moving.struck, canceled) {
                    return Next::Ends(moving, Some(struck));
                }
                let again = [libc::EINTR, libc::EAGAIN, libc::ECANCELED].contains(&number);
                if again && moving.refused < PATIENCE {
                    moving.refused += 1;
                    return Next::Goes(moving);
                }
                let error = std::io::Error::from_raw_os_error(number);
                Next::Ends(moving, Some(error.into()))
            }
        }
    }
    /// Ends a move. Those of pages go to `runs`.
    fn end_move(
        &self,
        moving: Move,
        error: Option<FileErrno>,
        runs: &mut Vec<(Run, u64, Option<u32>)>,
    ) {
        let done = moving.done;
        match moving.what {
            What::Read { file, request, .. } => {
                // An error after some bytes is left to the next request.
                let result = match error {
                    Some(error) if done == 0 => Err(error),
                    _ => Ok(done as u32),
                };
                self.ended_of(&file, &request, result);
            }
            What::Sync { file, request } => {
                let result = match error {
                    // What was given up has lost nothing.
                    Some(error) if moving.struck == Some(error) => Err(error),
                    Some(error) => file.synced(Err(error)).map(|()| 0),
                    None => file.synced(Ok(())).map(|()| 0),
                };
                self.ended_of(&file, &request, result);
            }
            What::Pages { pages, .. } => {
                let cache = self.cache.as_ref().expect("it has pages");
                let (run, got, error) = cache.end_run(pages, done as u64, error);
                runs.push((run, got, error.map(|error| error.0)));
            }
        }
    }
    /// Ends a request that was a job.
    pub(crate) fn ended_of(
        &self,
        file: &Arc<OpenFile>,
        request: &Request,
        result: Result<u32, FileErrno>,
    ) {
        if request.after.class == crate::RequestClass::Background {
            self.work().jobs.done(request.after.class);
        }
        self.complete(file, request.after, result);
    }
}

/// The file that a move reads.
enum Source {
    Open(Arc<OpenFile>),
    Plain(Arc<File>),
}

impl std::os::fd::AsRawFd for Source {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        match self {
            Self::Open(file) => file.file.as_raw_fd(),
            Self::Plain(file) => file.as_raw_fd(),
        }
    }
}

impl Move {
    fn is_whole(&self) -> bool {
        match &self.what {
            What::Read { request, .. } => {
                range_of(request).is_some_and(|(_, to)| self.done == to.len())
            }
            What::Sync { .. } => true,
            What::Pages { pages, .. } => self.done as u64 == pages.run.bytes,
        }
    }
    /// Gives it up if it is meant.
    fn strike(&mut self, strike: &Strike) -> bool {
        let (What::Read { file, request, .. } | What::Sync { file, request }) = &self.what else {
            return false;
        };
        if !Arc::ptr_eq(file, &strike.file) || !request.may_be_struck(strike.name) {
            return false;
        }
        self.struck = Some(strike.error);
        true
    }
}
