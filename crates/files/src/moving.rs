//! What a thread does with its io_uring: reads and syncs of files, and reads of pages. All else is done with plain calls. Where reads go
//! through the arena, a thread without an io_uring does the same, with a plain call for each read.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

use everwarp_contract::DevFileCopy;
use everwarp_contract::files::FILE_COPY_MOST;
use everwarp_pages::Run;

use crate::cache::Cache;
use crate::class::RequestClass;
use crate::copying::{Piece, Staging, clear};
use crate::driver::Driver;
use crate::ended::{EndedRequest, EndedRun};
use crate::errno::FileErrno;
use crate::memory::Range;
use crate::open_file::{OfJob, OpenFile};
use crate::plain::PlainMover;
use crate::port::Port;
use crate::request::{Op, Request};
use crate::server::{Job, Server, Strike};
use crate::system::{PATIENCE, offset, part_of};
use crate::uring::{Asked, Mover, PLACES, Ring};

/// Bytes that are read with one call, and those of a request in the background: between two calls others have their turn.
const PIECE: usize = 1 << 20;
const SMALL_PIECE: usize = 128 << 10;
/// A read that is alone and no longer than this is tried with a plain call that does not wait.
const AT_ONCE: usize = 64 << 10;
/// Jobs that a thread takes at a time.
const TOGETHER: usize = 32;

/// What a thread has on its way.
pub(crate) enum Moves {
    Ring(Box<Mover<Move>>),
    Plain(PlainMover<Move>),
}

impl Moves {
    fn room(&self) -> usize {
        match self {
            Self::Ring(mover) => mover.room(),
            Self::Plain(_) => PLACES,
        }
    }
    fn is_empty(&self) -> bool {
        match self {
            Self::Ring(mover) => mover.is_empty(),
            Self::Plain(_) => true,
        }
    }
    /// # Safety
    /// - As of [`Mover::push`].
    unsafe fn push(&mut self, moving: Move, file: RawFd, asked: Asked) {
        // SAFETY: by the caller's word.
        unsafe {
            match self {
                Self::Ring(mover) => mover.push(moving, file, asked),
                Self::Plain(mover) => mover.push(moving, file, asked),
            }
        }
    }
    fn cancel(&mut self, is: impl FnMut(&mut Move) -> bool) {
        if let Self::Ring(mover) = self {
            mover.cancel(is);
        }
    }
    fn turn(&mut self, waits: bool) {
        if let Self::Ring(mover) = self {
            mover.turn(waits);
        }
    }
    fn take_ended(&mut self) -> Vec<(Move, i32)> {
        match self {
            Self::Ring(mover) => mover.take_ended(),
            Self::Plain(mover) => mover.take_ended(),
        }
    }
}

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
    /// Where the next bytes are read to, if they go through the arena.
    piece: Option<Piece>,
}

#[derive(Debug)]
enum What {
    /// A read of a file.
    Read {
        file: Rc<OfJob<OpenFile>>,
        request: Request,
    },
    Sync {
        file: Rc<OfJob<OpenFile>>,
        request: Request,
    },
    /// A read of pages. `cleared`: what it leaves of its frames is zero, or no task has been asked to clear it. `named`: a bit for
    /// each page that the copying task names.
    Pages {
        file: Rc<OfJob<File>>,
        run: Run,
        cleared: bool,
        named: u64,
    },
}

/// What has ended, and is not passed on yet: some at a time.
#[derive(Debug, Default)]
struct Ends {
    runs: Vec<EndedRun>,
    requests: Vec<EndedRequest>,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Nothing,
    /// Its copies.
    Copies,
    /// Its io_uring.
    Ring,
}

/// What becomes of a move.
enum Plan {
    /// A call of the system.
    Calls(Move, Asked),
    /// It has all its bytes, but its pages may have to be cleared.
    Arrives(Move),
    /// It waits for room in the arena.
    Waits(Move),
    /// It ends, with an error or without.
    Ends(Move, Option<FileErrno>),
}

/// What a turn of a read has led to.
enum Next {
    /// It goes on.
    Goes(Move),
    /// Its bytes are in the arena.
    Arrived,
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
    /// Does jobs as the thread with this number, until all are done and no more can come.
    pub(crate) fn work_as(&self, number: usize, ring: Option<Ring>, port: &Port) {
        let staging = self.arena.as_ref();
        let staging = staging.map(|arena| Staging::new(arena, port.clone(), number));
        match (ring, &staging) {
            (Some(ring), _) => {
                self.move_jobs(number, Moves::Ring(Box::new(Mover::new(ring))), staging);
            }
            (None, Some(_)) => self.move_jobs(number, Moves::Plain(PlainMover::new()), staging),
            (None, None) => self.do_jobs(),
        }
    }
    /// Has copied what has come, gives the places of what was copied back, and returns the moves with their bytes counted. With `waits` it
    /// waits for the oldest copies. If the engine ends, so does everything.
    fn bring(&self, staging: &mut Staging<'_, Move>, waits: bool) -> Vec<Move> {
        let mut arrived = std::mem::take(&mut staging.arrived);
        let mut records = Vec::new();
        for moving in &mut arrived {
            moving.records(self.cache.as_ref(), &mut records);
        }
        let sent = match arrived.is_empty() {
            true => Ok(()),
            false => staging.send(self, &records, arrived),
        };
        let Ok(mut copied) = sent.and_then(|()| staging.take_copied(self, waits)) else {
            self.abandon();
            return Vec::new();
        };
        for moving in &mut copied {
            if let Some(piece) = moving.brought() {
                staging.give(piece);
            }
        }
        copied
    }
    /// Does jobs until all are done and no more can come: reads in the way that `moves` says, and by way of the arena if it is `staging`.
    fn move_jobs(&self, number: usize, mut moves: Moves, mut staging: Option<Staging<'_, Move>>) {
        let mut driver = Driver::default();
        let staging = &mut staging;
        let mut taken = Vec::new();
        loop {
            self.deliver();
            // Reads that wait for room in the arena come before other jobs. Some of those that have room are on their way.
            let blocked = staging.as_ref().is_some_and(|s| !s.blocked.is_empty());
            let copies = staging.as_ref().is_some_and(Staging::copies);
            let (strikes, awaits) = {
                let mut work = self.work();
                loop {
                    if self.is_lost() {
                        // The drop waits for what is on its way.
                        return;
                    }
                    let strikes = work.strikes.get_mut(number);
                    let strikes = strikes.map(std::mem::take).unwrap_or_default();
                    let share = work.jobs.len().div_ceil(self.workers);
                    let share = share.clamp(1, TOGETHER);
                    let mut room = if blocked { 0 } else { moves.room() };
                    while taken.len() < share
                        && room > 0
                        && let Some(job) = work.jobs.pop()
                    {
                        room = room.saturating_sub(job.reads());
                        let alone = !self.is_for_ring(&job);
                        taken.push(job);
                        if alone {
                            break;
                        }
                    }
                    let idle = taken.is_empty() && strikes.is_empty();
                    if !idle {
                        break (strikes, Awaits::Nothing);
                    }
                    // They end soon, and jobs that come meanwhile find another thread.
                    if copies {
                        break (strikes, Awaits::Copies);
                    }
                    if !moves.is_empty() {
                        work.in_rings.push(number);
                        break (strikes, Awaits::Ring);
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
                for moving in staging.iter_mut().flat_map(|s| &mut s.blocked) {
                    moving.strike(&strike);
                }
            }
            for job in taken.drain(..) {
                if !self.is_for_ring(&job) {
                    self.do_job(job, &mut driver);
                } else if !(alone && self.does_at_once(&job)) {
                    self.begin(&mut moves, staging, job);
                }
            }
            if !moves.is_empty() {
                moves.turn(awaits == Awaits::Ring);
            }
            if awaits == Awaits::Ring {
                self.work().in_rings.retain(|&waiting| waiting != number);
            }
            self.end_moves(&mut moves, staging, awaits == Awaits::Copies);
        }
    }

    fn is_for_ring(&self, job: &Job) -> bool {
        match job {
            Job::Read(..) => true,
            Job::Of(file, requests) => match requests.first().map(|request| &request.op) {
                Some(Op::Read { .. }) => file.is_for_ring(),
                Some(Op::Sync) => file.cached.is_none() && !self.system.records(),
                _ => false,
            },
            _ => false,
        }
    }
    /// Does a small read that need not wait, for the thread that has taken its request, if no other job waits. A read in the background is
    /// left to the threads that are counted for those.
    pub(crate) fn reads_itself(&self, job: &Job) -> bool {
        let does = job.class() != RequestClass::Background
            && self.is_for_ring(job)
            && self.work().jobs.len() == 0
            && self.does_at_once(job);
        self.counters.lone_reads.add(does.into());
        does
    }
    /// Does a small read that need not wait.
    fn does_at_once(&self, job: &Job) -> bool {
        if !self.system.is_plain() {
            return false;
        }
        let Job::Of(file, requests) = job else {
            return false;
        };
        let [request] = requests.as_slice() else {
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
        if job.class() == RequestClass::Background {
            self.work().jobs.done(RequestClass::Background);
        }
        self.complete(file, request.after, len.map(|len| len as u32));
        true
    }

    fn begin(&self, moves: &mut Moves, staging: &mut Option<Staging<'_, Move>>, job: Job) {
        let start = |what| Move {
            what,
            done: 0,
            refused: 0,
            struck: None,
            piece: None,
        };
        match job {
            Job::Of(file, requests) => {
                let file = Rc::new(OfJob(file));
                for request in requests {
                    let file = file.clone();
                    let what = match request.op {
                        Op::Sync => What::Sync { file, request },
                        _ => What::Read { file, request },
                    };
                    self.make_room(moves, staging);
                    self.advance(moves, staging, start(what));
                }
            }
            Job::Read(file, runs) => {
                let Some(cache) = &self.cache else { return };
                let file = Rc::new(OfJob(file));
                for run in runs {
                    cache.zero_rest(&run);
                    let cleared = staging.is_none();
                    self.make_room(moves, staging);
                    let what = What::Pages {
                        file: file.clone(),
                        run,
                        cleared,
                        named: 0,
                    };
                    self.advance(moves, staging, start(what));
                }
            }
            _ => unreachable!("it is for the ring"),
        }
    }
    /// If as many as a ring has places are on their way, some end first.
    fn make_room(&self, moves: &mut Moves, staging: &mut Option<Staging<'_, Move>>) {
        while moves.room() == 0 {
            moves.turn(true);
            self.end_moves(moves, staging, false);
        }
    }
    /// Where in its file the next bytes of a read are, and how many of them one call reads; 0 if nothing is left.
    fn next_bytes(&self, moving: &Move) -> Result<(u64, usize), FileErrno> {
        let done = moving.done;
        let (from, left, piece) = match &moving.what {
            What::Sync { .. } => return Ok((0, 0)),
            What::Read { request, .. } => {
                let (from, to) = range_of(request).expect("it is a read");
                let piece = match request.after.class {
                    RequestClass::Background => SMALL_PIECE,
                    _ => PIECE,
                };
                (from, to.len() - done, piece)
            }
            What::Pages { run, .. } => {
                let cache = self.cache.as_ref().expect("it has pages");
                let from = run.first << cache.page_bits;
                (from, run.bytes as usize - done, usize::MAX)
            }
        };
        let from = from.saturating_add(done as u64);
        if left == 0 {
            return Ok((from, 0));
        }
        offset(from)?;
        Ok((from, self.system.read_part(left.min(piece))?))
    }
    /// What becomes of a move now, without an arena or by way of it.
    fn plan(&self, mut moving: Move, staging: Option<&mut Staging<'_, Move>>) -> Plan {
        if matches!(moving.what, What::Sync { .. }) {
            return match self.system.happens() {
                Ok(()) => Plan::Calls(moving, Asked::Sync),
                Err(error) => Plan::Ends(moving, Some(error)),
            };
        }
        let (from, len) = match self.next_bytes(&moving) {
            Ok(next) => next,
            Err(error) => return Plan::Ends(moving, Some(error)),
        };
        let Some(staging) = staging else {
            let asked = match len {
                0 => return Plan::Ends(moving, None),
                len => self.asked(&moving, from, len),
            };
            return Plan::Calls(moving, asked);
        };
        if len == 0 {
            return Plan::Arrives(moving);
        }
        let to = match &moving.what {
            What::Read { request, .. } => {
                let (_, to) = range_of(request).expect("it is a read");
                to.address() + moving.done as u64
            }
            // Frames have the alignment of pages.
            _ => moving.done as u64,
        };
        match staging.take(to, len) {
            None => Plan::Waits(moving),
            Some((piece, to, len)) => {
                moving.piece = Some(piece);
                Plan::Calls(moving, Asked::Read { to, len, from })
            }
        }
    }
    /// The call that reads the next bytes to where the host reaches them.
    fn asked(&self, moving: &Move, from: u64, len: usize) -> Asked {
        match &moving.what {
            What::Pages { run, .. } => {
                let cache = self.cache.as_ref().expect("it has pages");
                let parts = part_of(&cache.ranges(run), moving.done, len);
                Asked::ReadParts { parts, from }
            }
            What::Read { request, .. } => {
                let (_, to) = range_of(request).expect("it is a read");
                let first = to.bytes().expect("without an arena the host reaches it");
                // SAFETY: the part is inside the range.
                let to = unsafe { first.add(moving.done) };
                Asked::Read { to, len, from }
            }
            What::Sync { .. } => Asked::Sync,
        }
    }
    /// Submits the next piece of something, or ends it. With an arena it may have to wait for room first.
    fn advance(&self, moves: &mut Moves, staging: &mut Option<Staging<'_, Move>>, moving: Move) {
        let mut staging = staging.as_mut();
        let plan = match (moving.struck, &staging) {
            (Some(error), _) => Plan::Ends(moving, Some(error)),
            // Moves that were blocked are more than those that have ended.
            (None, Some(_)) if moves.room() == 0 => Plan::Waits(moving),
            _ => self.plan(moving, staging.as_deref_mut()),
        };
        match (plan, staging) {
            (Plan::Calls(moving, asked), _) => {
                let file = moving.descriptor();
                // SAFETY: the request keeps its buffer, the cache and the arena outlive the threads, and frames and places belong to
                // the read. All keep their file.
                unsafe { moves.push(moving, file, asked) };
            }
            (Plan::Arrives(moving), Some(staging)) => staging.arrived.push(moving),
            (Plan::Waits(moving), Some(staging)) => staging.blocked.push(moving),
            (Plan::Arrives(moving) | Plan::Waits(moving), None) => {
                unreachable!("without an arena nothing waits for it: {moving:?}")
            }
            (Plan::Ends(moving, error), _) => {
                let mut ends = Ends::default();
                end_move(moving, error, &mut ends);
                self.pass_ends(ends);
            }
        }
    }

    /// Goes on with what has ended, until nothing more has. With `waits` it waits for the oldest copies first.
    fn end_moves(
        &self,
        moves: &mut Moves,
        staging: &mut Option<Staging<'_, Move>>,
        mut waits: bool,
    ) {
        let mut ends = Ends::default();
        loop {
            let ended = moves.take_ended();
            let idle = ended.is_empty();
            for (moving, result) in ended {
                match self.next(moving, result, staging) {
                    Next::Goes(moving) => self.advance(moves, staging, moving),
                    Next::Arrived => {}
                    Next::Ends(moving, error) => end_move(moving, error, &mut ends),
                }
            }
            let copied = match staging {
                Some(staging) => self.bring(staging, std::mem::take(&mut waits)),
                None => Vec::new(),
            };
            if idle && copied.is_empty() {
                break;
            }
            self.go_on_with(copied, moves, staging, &mut ends);
            // The pieces that go on are submitted with what comes next, unless there is nothing else to wait for.
            moves.turn(false);
        }
        self.pass_ends(ends);
    }
    fn pass_ends(&self, ends: Ends) {
        self.complete_all(&ends.requests);
        self.end_runs(ends.runs);
    }
    /// Goes on with what was copied, and with what has waited for room, because places may have been given back.
    fn go_on_with(
        &self,
        copied: Vec<Move>,
        moves: &mut Moves,
        staging: &mut Option<Staging<'_, Move>>,
        ends: &mut Ends,
    ) {
        let blocked = staging.as_mut().map(|own| std::mem::take(&mut own.blocked));
        for moving in copied {
            match moving.is_whole() {
                true => end_move(moving, None, ends),
                false => self.advance(moves, staging, moving),
            }
        }
        for moving in blocked.into_iter().flatten() {
            self.advance(moves, staging, moving);
        }
    }
    fn next(&self, mut moving: Move, result: i32, staging: &mut Option<Staging<'_, Move>>) -> Next {
        let staging = staging.as_mut().zip(moving.piece.take());
        match (result, staging) {
            (count @ 1.., Some((staging, mut piece))) => {
                piece.got = count as usize;
                moving.piece = Some(piece);
                moving.refused = 0;
                staging.arrived.push(moving);
                return Next::Arrived;
            }
            (_, Some((staging, piece))) => staging.give(piece),
            (_, None) => {}
        }
        match result {
            count if count > 0 => {
                moving.done += count as usize;
                moving.refused = 0;
                match moving.is_whole() {
                    true => Next::Ends(moving, None),
                    // One that was given up ends there.
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
}

/// Ends a move.
fn end_move(moving: Move, error: Option<FileErrno>, ends: &mut Ends) {
    let done = moving.done;
    let (file, after, result) = match moving.what {
        What::Read { file, request } => {
            // An error after some bytes is left to the next request.
            let result = match error {
                Some(error) if done == 0 => Err(error),
                _ => Ok(done as u32),
            };
            (file, request.after, result)
        }
        What::Sync { file, request } => {
            let result = match error {
                // What was given up has lost nothing.
                Some(error) if moving.struck == Some(error) => Err(error),
                Some(error) => file.synced(Err(error)).map(|()| 0),
                None => file.synced(Ok(())).map(|()| 0),
            };
            (file, request.after, result)
        }
        What::Pages { run, named, .. } => {
            return ends.runs.push(EndedRun {
                run,
                got: done as u64,
                error: error.map(|error| error.0),
                named,
            });
        }
    };
    ends.requests.push(EndedRequest {
        file,
        after,
        result,
    });
}

impl Move {
    /// The file that it reads, which it keeps open.
    fn descriptor(&self) -> RawFd {
        match &self.what {
            What::Read { file, .. } | What::Sync { file, .. } => file.file.as_raw_fd(),
            What::Pages { file, .. } => file.as_raw_fd(),
        }
    }
    fn is_whole(&self) -> bool {
        match &self.what {
            What::Read { request, .. } => {
                range_of(request).is_some_and(|(_, to)| self.done == to.len())
            }
            What::Sync { .. } => true,
            What::Pages { run, .. } => self.done as u64 == run.bytes,
        }
    }
    /// Adds the records that copy what has come, and those that clear what pages have beyond the file's end.
    pub(crate) fn records(&mut self, cache: Option<&Cache>, records: &mut Vec<DevFileCopy>) {
        let (done, piece) = (self.done, &self.piece);
        match &mut self.what {
            What::Read { request, .. } => {
                let to = range_of(request).map(|(_, to)| to.address() + done as u64);
                if let (Some(piece), Some(to)) = (piece, to) {
                    piece.copy(0, piece.got, to, records);
                }
            }
            What::Pages {
                run,
                cleared,
                named,
                ..
            } => {
                let cache = cache.expect("it has pages");
                let (mut at, page) = (0, 1 << cache.page_bits);
                if let Some(piece) = piece {
                    for (to, len) in cache.addresses(run, done, done + piece.got) {
                        piece.copy(at, len, to, records);
                        // Where one record copies a whole page, the task that does it names the page.
                        if len == page
                            && len <= FILE_COPY_MOST as usize
                            && let Some(record) = records.last_mut()
                        {
                            let number = (done + at) / page;
                            record.page = run.word + number as u64 + 1;
                            record.bits = run.bits(number);
                            *named |= 1 << number;
                        }
                        at += len;
                    }
                }
                let bytes = run.bytes as usize;
                if !*cleared && done + at == bytes {
                    *cleared = true;
                    for (to, len) in cache.addresses(run, bytes, usize::MAX) {
                        clear(len, to, records);
                    }
                }
            }
            What::Sync { .. } => {}
        }
    }
    /// Counts what was copied. Returns the piece, which is not used any more.
    pub(crate) fn brought(&mut self) -> Option<Piece> {
        let piece = self.piece.take()?;
        self.done += piece.got;
        Some(piece)
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
