//! What the host decides about pages.
//!
//! Events come in (a task misses a page, a read or a write is done, a file is to be flushed), and what is to be done comes out:
//! reads, writes, tasks that go on ([`Step`]), and orders for the door ([`Order`]), which change the words of pages. One batch of
//! orders is on its way at a time, until its answers come to [`Pager::answered`]. Other events may come meanwhile, so no lock is
//! held while the door carries the orders out.
//!
//! A miss may therefore come before the answer that its page has left. So a frame whose page may be leaving keeps the tasks that
//! miss the page, and the answer decides: they go on if the page is still there, and else the page is read for them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Deref;

use everwarp_contract::errno::{ERRNO_BADF, ERRNO_BUSY, ERRNO_FBIG, ERRNO_INVAL, ERRNO_NOBUFS};
use everwarp_contract::pages::{PAGE_GONE, PAGE_IS_DIRTY};

use crate::frames::{Frames, Phase};
use crate::lists::{List, Lists};
use crate::regions::Regions;
use crate::streams::{Ahead, Limits, Streams};
use crate::word::{Eviction, filled};

/// The most pages that one read fills.
const RUN_MOST: usize = 64;

/// A cached file: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CachedFile(pub u32);

/// The sizes of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Frames, at least one.
    pub frames: u32,
    /// The bits of an offset that are within a page.
    pub page_bits: u32,
    /// Words of pages.
    pub words: u64,
    /// The most pages that are read ahead at a time. Tasks that come to them too early make it up to four times as many.
    pub ahead: u32,
    /// The error of a page that the file does not have any more.
    pub shorter: u32,
}

/// The frames of pages that are read together. Mostly it is one, and needs no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameList {
    /// The frame of the only page.
    One(u32),
    /// Those of two pages or more.
    More(Vec<u32>),
}

impl FrameList {
    fn push(&mut self, frame: u32) {
        match self {
            Self::One(first) => *self = Self::More(vec![*first, frame]),
            Self::More(all) => all.push(frame),
        }
    }
}

impl Deref for FrameList {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Self::One(frame) => std::slice::from_ref(frame),
            Self::More(frames) => frames,
        }
    }
}

/// Hashes the number of a word by a multiplication (Knuth, The Art of Computer Programming, volume 3, section 6.4): the numbers are the
/// host's own, so no task can choose them to collide.
#[derive(Debug, Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_u64(u64::from(byte)));
    }
    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table takes its place from the low bits, and what it compares first from the high ones.
        self.0 = mixed ^ mixed >> 32;
    }
}

/// Pages that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The file.
    pub file: CachedFile,
    /// The first page.
    pub first: u64,
    /// The frame of each page.
    pub frames: FrameList,
    /// How many bytes the file has of them. The rest of the last frame is to be zeroed.
    pub bytes: u64,
    /// The number of the first page's word; those of the others follow.
    pub word: u64,
    /// A bit for each page whose word gets the mark, the lowest for the first page.
    pub marks: u64,
}

impl Run {
    /// The bits that the word of a page gets once the page is there, by its place in the run.
    #[must_use]
    pub fn bits(&self, at: usize) -> u64 {
        filled(self.frames[at], self.marks >> at & 1 == 1)
    }
}

/// Written parts of a page that are to be written to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// The file.
    pub file: CachedFile,
    /// The page.
    pub page: u64,
    /// Its frame.
    pub frame: u32,
    /// Which of its 64 parts.
    pub parts: u64,
    /// How many bytes the file has of the page.
    pub bytes: u64,
}

/// A task that waited for a page, or could not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<W> {
    /// The task.
    pub waiter: W,
    /// What the door does before it goes on; an error number takes the task off the holders.
    pub result: Result<Wanted, u32>,
}

/// A page that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The bits that its word gets.
    pub bits: u64,
}

/// What is to be done now.
#[derive(Debug)]
pub struct Step<W, T> {
    /// Reads.
    pub reads: Vec<Run>,
    /// Writes.
    pub writes: Vec<WriteBack>,
    /// Tasks that go on.
    pub done: Vec<Done<W>>,
    /// Flushes and the like that have ended.
    pub ended: Vec<(T, Result<(), u32>)>,
}

impl<W, T> Default for Step<W, T> {
    fn default() -> Self {
        Self {
            reads: Vec::new(),
            writes: Vec::new(),
            done: Vec::new(),
            ended: Vec::new(),
        }
    }
}

/// What an order does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// The page is in its frame; the bits of its word.
    Fill(u64),
    /// Take the page out of its frame. The answer is an [`Evicted`](crate::Evicted).
    Evict(Eviction),
    /// Take the written parts. They are the answer.
    Take,
    /// The parts were written but for these.
    Written(u64),
}

/// Something that the door does to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// What.
    pub kind: OrderKind,
    /// The page's frame.
    pub frame: u32,
    /// The number of its word.
    pub word: u64,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// Tasks that found their page in no frame.
    pub missed: u64,
    /// Pages that were read.
    pub read: u64,
    /// Those of them that no task had asked for.
    pub ahead: u64,
    /// Reads, each of one or more pages.
    pub runs: u64,
    /// Pages that left their frames.
    pub evicted: u64,
    /// Pages whose written parts went to the file.
    pub written: u64,
    /// Pages whose written parts could not be written, each time.
    pub failed: u64,
    /// Tasks that came to the first page of a window that is read ahead while that was still being read.
    pub late: u64,
    /// Pages that were to be read ahead, and found no frame.
    pub skipped: u64,
    /// Orders, which change the words of pages, and the batches in which they were sent.
    pub orders: u64,
    /// See `orders`.
    pub order_batches: u64,
}

/// Whose order it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Clock,
    Clearing(u64),
}

#[derive(Debug)]
struct File<W> {
    first: u64,
    count: u64,
    size: u64,
    writable: bool,
    streams: Streams,
    /// The first failed write-back.
    lost: Option<u32>,
    /// Pages whose written parts are being taken or written.
    writing: u32,
    /// The first page that tasks get only later, because the file is being cut.
    blocked: Option<u64>,
    deferred: Vec<(u64, W)>,
}

/// The aim of a clearing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Flush,
    /// No page of the file from `from` on stays in a frame. What was written to pages from `discard` on is lost.
    Cut {
        from: u64,
        discard: u64,
    },
    /// Pages that are not held and not dirty leave.
    Refresh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Taking,
    Writing,
    Dropping,
}

/// A flush, or the end of pages of a file.
#[derive(Debug)]
struct Clearing<T> {
    number: u64,
    file: CachedFile,
    ticket: T,
    aim: Aim,
    stage: Stage,
    /// Frames and words that are left in this stage.
    left: Vec<(u32, u64)>,
    /// Orders that are on their way.
    sent: u32,
    refused: bool,
}

/// A cache's decisions. `W` is a task that waits for a page, `T` a name for a flush.
#[derive(Debug)]
pub struct Pager<W, T> {
    shape: Shape,
    frames: Frames,
    /// The tasks that wait for pages.
    lists: Lists<W>,
    regions: Regions,
    files: Vec<Option<File<W>>>,
    /// Pages that tasks wait for and that have no frame, in order, and their words.
    waiting: VecDeque<(CachedFile, u64, u64)>,
    /// The tasks that wait for them. They hold the page, so all of them go on when it gets a frame: one that stayed behind
    /// others would keep the frame from those.
    queued: HashMap<u64, List, BuildHasherDefault<WordHasher>>,
    /// Pages to be read ahead once there are frames.
    wanted: VecDeque<(CachedFile, u64)>,
    /// The words and frames of pages that are not being read yet.
    starting: Vec<(u64, u32)>,
    unfilled: Vec<u32>,
    dirty: Vec<u32>,
    written: Vec<(u32, u64)>,
    clearings: Vec<Clearing<T>>,
    clearing_numbers: u64,
    sent: Vec<(Order, Origin)>,
    /// Frames that the clock's hand still passes before it rests.
    sweep: u64,
    /// The hand has found too few frames, and nothing has happened since.
    rests: bool,
    /// The error of the last write-back, if it failed.
    failing: Option<u32>,
    /// Pages that are being written.
    writing: u64,
    stats: PageStats,
    out: Step<W, T>,
}

impl<W, T> Pager<W, T> {
    /// A cache without files.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            frames: Frames::new(shape.frames, shape.words),
            lists: Lists::new(),
            regions: Regions::new(shape.words),
            files: Vec::new(),
            waiting: VecDeque::new(),
            queued: HashMap::default(),
            wanted: VecDeque::new(),
            starting: Vec::new(),
            unfilled: Vec::new(),
            dirty: Vec::new(),
            written: Vec::new(),
            clearings: Vec::new(),
            clearing_numbers: 0,
            sent: Vec::new(),
            sweep: 0,
            rests: false,
            failing: None,
            writing: 0,
            stats: PageStats::default(),
            out: Step::default(),
        }
    }
    fn page_size(&self) -> u64 {
        1 << self.shape.page_bits
    }
    fn pages(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.page_size())
    }
    fn file(&self, file: CachedFile) -> Option<&File<W>> {
        self.files.get(file.0 as usize)?.as_ref()
    }
    fn file_mut(&mut self, file: CachedFile) -> Option<&mut File<W>> {
        self.files.get_mut(file.0 as usize)?.as_mut()
    }
    /// The counters.
    pub fn stats(&self) -> PageStats {
        self.stats
    }
    /// What is to be done now, after one or more events.
    #[must_use]
    pub fn step(&mut self) -> Step<W, T> {
        self.read_together();
        std::mem::take(&mut self.out)
    }

    /// Adds a file of `size` bytes that may grow to `room`. Returns its number and that of its first word.
    ///
    /// # Errors
    /// `FBIG`: there are not enough words.
    pub fn add(&mut self, size: u64, room: u64, writable: bool) -> Result<(CachedFile, u64), u32> {
        let count = self.pages(size.max(room)).max(1);
        let first = self.regions.take(count).ok_or(ERRNO_FBIG)?;
        let file = File {
            first,
            count,
            size,
            writable,
            streams: Streams::default(),
            lost: None,
            writing: 0,
            blocked: None,
            deferred: Vec::new(),
        };
        let at = match self.files.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                self.files.push(None);
                self.files.len() - 1
            }
        };
        self.files[at] = Some(file);
        Ok((CachedFile(at as u32), first))
    }
    /// Removes a file whose pages were all [cut](Self::cut).
    pub fn remove(&mut self, file: CachedFile) {
        let slot = self.files.get_mut(file.0 as usize);
        let Some(gone) = slot.and_then(Option::take) else {
            return;
        };
        self.wanted.retain(|(other, _)| *other != file);
        self.regions.give(gone.first, gone.count);
        for (_, waiter) in gone.deferred {
            self.fail(waiter, ERRNO_BADF);
        }
    }
    /// The size of a file, and the first failed write-back.
    pub fn facts(&self, file: CachedFile) -> Option<(u64, Option<u32>)> {
        self.file(file).map(|f| (f.size, f.lost))
    }
    /// How large a file may become.
    pub fn room(&self, file: CachedFile) -> u64 {
        self.file(file).map_or(0, |f| f.count * self.page_size())
    }
    /// Sets the size of a file.
    pub fn set_size(&mut self, file: CachedFile, size: u64) {
        let room = self.room(file);
        if let Some(file) = self.file_mut(file) {
            file.size = size.min(room);
        }
    }
    /// From now on the file may be written.
    pub fn set_writable(&mut self, file: CachedFile) {
        if let Some(file) = self.file_mut(file) {
            file.writable = true;
        }
    }

    fn fail_all(&mut self, mut waiters: List, error: u32) {
        while let Some(waiter) = self.lists.pop(&mut waiters) {
            self.fail(waiter, error);
        }
    }
    /// Lets tasks go on that hold a page, which is in this frame.
    fn go_on(&mut self, mut waiters: List, bits: u64) {
        while let Some(waiter) = self.lists.pop(&mut waiters) {
            let result = Ok(Wanted { bits });
            self.out.done.push(Done { waiter, result });
        }
    }
    fn fail(&mut self, waiter: W, error: u32) {
        let result = Err(error);
        self.out.done.push(Done { waiter, result });
    }
    /// Whether the file has a page; else why a task cannot have it.
    fn check(&self, file: CachedFile, page: u64) -> Result<u64, u32> {
        let f = self.file(file).ok_or(ERRNO_BADF)?;
        match page < f.count && page << self.shape.page_bits < f.size {
            true => Ok(f.first + page),
            false => Err(ERRNO_INVAL),
        }
    }
    /// A task that is among the holders of a page waits for it.
    pub fn miss(&mut self, file: CachedFile, page: u64, waiter: W) {
        self.stats.missed += 1;
        self.want(file, page, waiter);
    }
    fn want(&mut self, file: CachedFile, page: u64, waiter: W) {
        if let Some(f) = self.file_mut(file)
            && f.blocked.is_some_and(|from| page >= from)
        {
            f.deferred.push((page, waiter));
            return;
        }
        let word = match self.check(file, page) {
            Ok(word) => word,
            Err(error) => return self.fail(waiter, error),
        };
        if let Some(frame) = self.frames.of(word) {
            let record = self.frames.at(frame);
            let (phase, mark) = (record.phase, record.mark);
            if matches!(phase, Phase::Reading | Phase::Leaving) {
                self.lists.push(&mut record.waiters, waiter);
            } else {
                let bits = filled(frame, false);
                let result = Ok(Wanted { bits });
                self.out.done.push(Done { waiter, result });
            }
            // A task that waits goes on without a look at the mark.
            if mark {
                self.come_to_mark(file, page, phase == Phase::Reading);
            }
            return;
        }
        if !self.waiting.is_empty() || self.frames.free.is_empty() {
            // While others wait, the hand goes round when its caller says so.
            self.rests &= !self.waiting.is_empty();
            let tasks = self.queued.entry(word).or_default();
            if tasks.is_empty() {
                self.waiting.push_back((file, page, word));
            }
            self.lists.push(tasks, waiter);
            return;
        }
        let mut waiters = List::default();
        self.lists.push(&mut waiters, waiter);
        self.start(file, page, word, waiters);
    }
    /// Reads a page into a free frame, and others ahead of it.
    fn start(&mut self, file: CachedFile, page: u64, word: u64, waiters: List) {
        let Some(frame) = self.frames.occupy(file, word, false) else {
            return;
        };
        self.frames.at(frame).waiters = waiters;
        self.starting.push((word, frame));
        let limits = self.limits();
        let ahead = self
            .file_mut(file)
            .and_then(|f| f.streams.missed(page, limits));
        if let Some(ahead) = ahead {
            self.read_ahead(file, ahead);
        }
    }
    /// How much a stream may read ahead now. All streams of a file together have up to a quarter of the frames, or two windows each.
    fn limits(&self) -> Limits {
        let window = self.shape.ahead.min(self.shape.frames / 8);
        Limits {
            window,
            windows: self.shape.frames / 4 / window.max(1),
            room: match self.waiting.is_empty() {
                true => self.frames.free.len() as u32,
                false => 0,
            },
        }
    }
    fn read_ahead(&mut self, file: CachedFile, ahead: Ahead) {
        for page in ahead.first..ahead.first + u64::from(ahead.count) {
            self.read_one_ahead(file, page, page == ahead.first, false);
        }
    }
    /// Reads a page that no task waits for, if there is a frame. Else it waits for one, or is left.
    fn read_one_ahead(&mut self, file: CachedFile, page: u64, mark: bool, waits: bool) {
        let Ok(word) = self.check(file, page) else {
            return;
        };
        let blocked = self.file(file).and_then(|f| f.blocked);
        if self.frames.of(word).is_some() || blocked.is_some_and(|from| page >= from) {
            return;
        }
        if !self.waiting.is_empty() || self.frames.free.is_empty() {
            if waits && self.wanted.len() < self.shape.frames as usize {
                self.wanted.push_back((file, page));
            } else {
                self.stats.skipped += 1;
            }
            return;
        }
        if let Some(frame) = self.frames.occupy(file, word, mark) {
            self.starting.push((word, frame));
        }
    }
    /// A task will want pages.
    pub fn prefetch(&mut self, file: CachedFile, first: u64, count: u64) {
        let most = count.min(self.shape.frames.into());
        self.stats.skipped += count - most;
        for page in first..first.saturating_add(most) {
            self.read_one_ahead(file, page, false, true);
        }
    }
    /// A marked page was used.
    pub fn used(&mut self, file: CachedFile, page: u64) {
        self.come_to_mark(file, page, false);
    }
    /// A task has come to a marked page, perhaps while the page is being read.
    fn come_to_mark(&mut self, file: CachedFile, page: u64, late: bool) {
        if late {
            self.stats.late += 1;
            let limits = self.limits();
            if let Some(f) = self.file_mut(file) {
                f.streams.late(page, limits);
            }
        }
        loop {
            let limits = self.limits();
            let Some(f) = self.file_mut(file) else { return };
            let Some(ahead) = f.streams.used(page, limits) else {
                return;
            };
            self.read_ahead(file, ahead);
        }
    }
    /// Gives free frames to misses and then to pages that are read ahead.
    fn serve(&mut self) {
        while !self.frames.free.is_empty() {
            let Some((file, page, word)) = self.waiting.pop_front() else {
                break;
            };
            let mut tasks = self.queued.remove(&word).unwrap_or_default();
            let blocked = self.file(file).and_then(|f| f.blocked);
            if blocked.is_some_and(|from| page >= from) {
                while let Some(task) = self.lists.pop(&mut tasks) {
                    // It is deferred.
                    self.want(file, page, task);
                }
            } else if let Err(error) = self.check(file, page) {
                self.fail_all(tasks, error);
            } else {
                self.start(file, page, word, tasks);
            }
        }
        while self.waiting.is_empty() && !self.frames.free.is_empty() {
            let Some((file, page)) = self.wanted.pop_front() else {
                break;
            };
            self.read_one_ahead(file, page, false, false);
        }
    }
    /// Joins the reads that were started.
    fn read_together(&mut self) {
        let mut starting = std::mem::take(&mut self.starting);
        // A file's words are together, in the order of its pages.
        starting.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for (word, frame) in starting.drain(..) {
            let page_size = self.page_size();
            let record = self.frames.at(frame);
            let (file, mark) = (record.file, u64::from(record.mark));
            let is_ahead = record.waiters.is_empty();
            let (first, size) = self.file(file).map_or((word, 0), |f| (f.first, f.size));
            let page = word - first;
            let bytes = size.saturating_sub(page * page_size).min(page_size);
            self.stats.read += 1;
            self.stats.ahead += u64::from(is_ahead);
            match runs.last_mut() {
                Some(run)
                    if run.file == file
                        && run.word + run.frames.len() as u64 == word
                        && run.frames.len() < RUN_MOST =>
                {
                    run.marks |= mark << run.frames.len();
                    run.frames.push(frame);
                    run.bytes += bytes;
                }
                _ => runs.push(Run {
                    file,
                    first: page,
                    frames: FrameList::One(frame),
                    bytes,
                    word,
                    marks: mark,
                }),
            }
        }
        self.starting = starting;
        self.stats.runs += runs.len() as u64;
        self.out.reads.append(&mut runs);
    }
    /// A read is done: `got` bytes are there; if there are fewer than the file should have, `error` says why. `named` has a bit for
    /// each page whose word has its [bits](Run::bits) already, the lowest for the first page; it is of no use for pages that have
    /// not come.
    pub fn read_done(&mut self, run: Run, got: u64, error: Option<u32>, named: u64) {
        self.rests = false;
        let page_size = self.page_size();
        let single = run.frames.len() == 1;
        for (at, &frame) in run.frames.iter().enumerate() {
            let bit = |bits: u64| bits >> at & 1;
            let before = at as u64 * page_size;
            let wants = run.bytes.saturating_sub(before).min(page_size);
            let has = got.saturating_sub(before);
            if has >= wants {
                self.arrived(frame, bit(named) == 1);
            } else if single {
                let error = error.unwrap_or(self.shape.shorter);
                let waiters = self.frames.at(frame).waiters.take();
                self.fail_all(waiters, error);
                self.frames.vacate(frame);
            } else {
                // Which of the pages failed shows when each is read by itself.
                self.stats.runs += 1;
                self.out.reads.push(Run {
                    file: run.file,
                    first: run.first + at as u64,
                    frames: FrameList::One(frame),
                    bytes: wants,
                    word: run.word + at as u64,
                    marks: bit(run.marks),
                });
            }
        }
        self.serve();
    }
    fn arrived(&mut self, frame: u32, is_named: bool) {
        let record = self.frames.at(frame);
        let bits = filled(frame, record.mark && !is_named);
        if record.waiters.is_empty() && !is_named {
            record.phase = Phase::Unfilled;
            self.unfilled.push(frame);
            return;
        }
        record.phase = Phase::Here;
        let waiters = record.waiters.take();
        self.go_on(waiters, bits);
    }
    /// Writes are done, or have failed.
    pub fn write_done(&mut self, write: &WriteBack, result: Result<(), u32>) {
        self.writing -= 1;
        match result {
            Ok(()) => {
                self.stats.written += 1;
                self.failing = None;
                self.written.push((write.frame, 0));
            }
            Err(error) => {
                self.stats.failed += 1;
                self.failing = Some(error);
                if let Some(file) = self.file_mut(write.file) {
                    file.lost.get_or_insert(error);
                }
                self.written.push((write.frame, write.parts));
            }
        }
    }

    /// Writes everything back that tasks have written to a file. It ends with the first error that a write-back of this file
    /// ever had.
    pub fn flush(&mut self, file: CachedFile, ticket: T) {
        self.clear(file, ticket, Aim::Flush);
    }
    /// Writes everything back, and takes the pages from `from` on out of their frames; those from `discard` on need not be
    /// written back. No task gets such a page until [`unblock`](Self::unblock). It ends with `BUSY` if a page is held, and then
    /// the others may be gone.
    pub fn cut(&mut self, file: CachedFile, from: u64, discard: u64, ticket: T) {
        if let Some(file) = self.file_mut(file) {
            file.blocked = Some(from);
        }
        self.clear(file, ticket, Aim::Cut { from, discard });
    }
    /// Ends what [`cut`](Self::cut) has started.
    pub fn unblock(&mut self, file: CachedFile) {
        let Some(f) = self.file_mut(file) else {
            return;
        };
        f.blocked = None;
        for (page, waiter) in std::mem::take(&mut f.deferred) {
            self.want(file, page, waiter);
        }
    }
    /// Takes pages out of their frames that are not held and not dirty: the next task reads them again.
    pub fn refresh(&mut self, file: CachedFile, ticket: T) {
        self.clear(file, ticket, Aim::Refresh);
    }
    fn clear(&mut self, file: CachedFile, ticket: T, aim: Aim) {
        let Some(f) = self.file(file) else {
            self.out.ended.push((ticket, Err(ERRNO_BADF)));
            return;
        };
        let stage = match (aim, f.writable) {
            (Aim::Refresh, _) => Stage::Dropping,
            (_, false) => Stage::Writing,
            (_, true) => Stage::Taking,
        };
        let from = match (aim, stage) {
            (Aim::Refresh, _) | (_, Stage::Taking) => 0,
            _ => u64::MAX,
        };
        let left = self.frames_from(file, from);
        self.clearing_numbers += 1;
        self.clearings.push(Clearing {
            number: self.clearing_numbers,
            file,
            ticket,
            aim,
            stage,
            left,
            sent: 0,
            refused: false,
        });
    }
    fn frames_from(&self, file: CachedFile, from: u64) -> Vec<(u32, u64)> {
        let Some(f) = self.file(file) else {
            return Vec::new();
        };
        let from = from.min(f.count);
        self.frames.of_words(f.first + from..f.first + f.count)
    }

    /// Whether tasks wait for frames, and no event that is on its way will free one.
    pub fn starves(&self) -> bool {
        self.rests && !self.waiting.is_empty() && self.writing == 0 && self.dirty.is_empty()
    }
    /// Lets the clock's hand go round again: tasks may have released pages.
    pub fn retry(&mut self) {
        self.rests = false;
    }
    /// Fails the tasks that wait for frames: every page is held, or what was written cannot be written back.
    pub fn give_up(&mut self) {
        let error = self.failing.unwrap_or(ERRNO_NOBUFS);
        for (_, _, word) in std::mem::take(&mut self.waiting) {
            let tasks = self.queued.remove(&word).unwrap_or_default();
            self.fail_all(tasks, error);
        }
        self.stats.skipped += self.wanted.len() as u64;
        self.wanted.clear();
    }

    /// Orders for the door, up to `most`. Their answers go to [`answered`](Self::answered) before there are further orders.
    ///
    /// # Panics
    /// Earlier orders have no answers yet.
    #[must_use]
    pub fn orders(&mut self, most: usize) -> Vec<Order> {
        assert!(self.sent.is_empty(), "the orders before have their answers");
        let mut sent = std::mem::take(&mut self.sent);
        let order = |kind, frame: u32, word| (Order { kind, frame, word }, Origin::Clock);
        while sent.len() < most
            && let Some(frame) = self.unfilled.pop()
        {
            let record = self.frames.at(frame);
            let bits = filled(frame, record.mark);
            sent.push(order(OrderKind::Fill(bits), frame, record.word));
        }
        while sent.len() < most
            && let Some((frame, failed)) = self.written.pop()
        {
            let word = self.frames.at(frame).word;
            sent.push(order(OrderKind::Written(failed), frame, word));
        }
        while sent.len() < most
            && let Some(frame) = self.dirty.pop()
        {
            let word = self.frames.at(frame).word;
            sent.push(order(OrderKind::Take, frame, word));
        }
        self.clearing_orders(most, &mut sent);
        self.clock_orders(most, &mut sent);
        self.stats.orders += sent.len() as u64;
        self.stats.order_batches += u64::from(!sent.is_empty());
        self.sent = sent;
        self.sent.iter().map(|(order, _)| *order).collect()
    }
    fn clearing_orders(&mut self, most: usize, sent: &mut Vec<(Order, Origin)>) {
        let mut clearings = std::mem::take(&mut self.clearings);
        for clearing in &mut clearings {
            self.advance(clearing, most, sent);
        }
        self.clearings = clearings
            .into_iter()
            .filter_map(|clearing| match clearing.stage {
                Stage::Dropping if clearing.left.is_empty() && clearing.sent == 0 => {
                    self.end(clearing);
                    None
                }
                Stage::Writing if clearing.aim == Aim::Flush && self.is_quiet(clearing.file) => {
                    self.end(clearing);
                    None
                }
                _ => Some(clearing),
            })
            .collect();
    }
    fn is_quiet(&self, file: CachedFile) -> bool {
        self.file(file).is_none_or(|f| f.writing == 0)
    }
    fn end(&mut self, clearing: Clearing<T>) {
        let lost = self.file(clearing.file).and_then(|f| f.lost);
        let result = match clearing.aim {
            Aim::Cut { .. } if clearing.refused => Err(ERRNO_BUSY),
            Aim::Flush => lost.map_or(Ok(()), Err),
            _ => Ok(()),
        };
        self.out.ended.push((clearing.ticket, result));
    }
    /// Sends what a clearing can send now.
    fn advance(
        &mut self,
        clearing: &mut Clearing<T>,
        most: usize,
        sent: &mut Vec<(Order, Origin)>,
    ) {
        let origin = Origin::Clearing(clearing.number);
        if clearing.stage == Stage::Taking {
            let mut kept = Vec::new();
            for (frame, word) in std::mem::take(&mut clearing.left) {
                let record = self.frames.at(frame);
                if record.word != word {
                    continue;
                }
                match record.phase {
                    Phase::Here if sent.len() < most => {
                        record.phase = Phase::Taking;
                        let kind = OrderKind::Take;
                        sent.push((Order { kind, frame, word }, origin));
                        clearing.sent += 1;
                    }
                    Phase::Free | Phase::Reading => {}
                    _ => kept.push((frame, word)),
                }
            }
            clearing.left = kept;
            if clearing.left.is_empty() && clearing.sent == 0 {
                clearing.stage = Stage::Writing;
            }
        }
        if clearing.stage == Stage::Writing
            && let Aim::Cut { from, .. } = clearing.aim
            && self.is_quiet(clearing.file)
        {
            clearing.stage = Stage::Dropping;
            clearing.left = self.frames_from(clearing.file, from);
            let waits =
                |(file, page, _): &(CachedFile, u64, u64)| *file == clearing.file && *page >= from;
            clearing.refused = self.waiting.iter().any(waits);
        }
        if clearing.stage == Stage::Dropping {
            let first = self.file(clearing.file).map_or(0, |f| f.first);
            let mut kept = Vec::new();
            for (frame, word) in std::mem::take(&mut clearing.left) {
                let record = self.frames.at(frame);
                if record.word != word || clearing.refused {
                    continue;
                }
                let how = match clearing.aim {
                    Aim::Cut { discard, .. } if word - first >= discard => Eviction::Discard,
                    _ => Eviction::Drop,
                };
                match record.phase {
                    Phase::Here if sent.len() < most => {
                        record.phase = Phase::Leaving;
                        let kind = OrderKind::Evict(how);
                        sent.push((Order { kind, frame, word }, origin));
                        clearing.sent += 1;
                    }
                    Phase::Free => {}
                    Phase::Here | Phase::Leaving => kept.push((frame, word)),
                    _ if clearing.aim == Aim::Refresh => {}
                    Phase::Reading if !record.waiters.is_empty() => clearing.refused = true,
                    _ => kept.push((frame, word)),
                }
            }
            clearing.left = kept;
        }
    }
    fn clock_orders(&mut self, most: usize, sent: &mut Vec<(Order, Origin)>) {
        let (frames, lacking) = (self.shape.frames, self.lacking());
        if lacking == 0 {
            self.sweep = 0;
            return;
        }
        if self.sweep == 0 {
            self.sweep = 2 * u64::from(frames);
        }
        // More than are lacking: some of them are held or were used.
        let most = most.min(sent.len() + (2 * lacking).max(16));
        // A frame that is leaving is not asked a second time: the tasks of the door run at the same time.
        for _ in 0..frames {
            if sent.len() >= most || self.sweep == 0 {
                break;
            }
            self.sweep -= 1;
            let frame = self.frames.next();
            let record = self.frames.at(frame);
            if record.phase == Phase::Here {
                record.phase = Phase::Leaving;
                let kind = OrderKind::Evict(Eviction::Clock);
                let word = record.word;
                sent.push((Order { kind, frame, word }, Origin::Clock));
            }
        }
        if self.sweep == 0 {
            self.rests = true;
        }
    }
    /// The answers to the orders of [`orders`](Self::orders), in their order.
    ///
    /// # Panics
    /// There are not as many as there were orders.
    pub fn answered(&mut self, answers: &[u64]) {
        assert_eq!(answers.len(), self.sent.len(), "each order has its answer");
        for ((order, origin), &answer) in std::mem::take(&mut self.sent).into_iter().zip(answers) {
            let frame = order.frame;
            let (file, word) = {
                let record = self.frames.at(frame);
                (record.file, record.word)
            };
            match order.kind {
                OrderKind::Fill(_) => self.frames.at(frame).phase = Phase::Here,
                OrderKind::Written(failed) => {
                    // What cannot be written back is not tried again at once.
                    self.rests |= failed != 0;
                    self.frames.at(frame).phase = Phase::Here;
                    if let Some(file) = self.file_mut(file) {
                        file.writing -= 1;
                    }
                }
                OrderKind::Take if answer == 0 => self.frames.at(frame).phase = Phase::Here,
                OrderKind::Take => {
                    self.frames.at(frame).phase = Phase::Writing;
                    self.writing += 1;
                    let page_size = self.page_size();
                    if let Some(f) = self.file_mut(file) {
                        f.writing += 1;
                        let page = word - f.first;
                        let bytes = f.size.saturating_sub(page * page_size).min(page_size);
                        self.out.writes.push(WriteBack {
                            file,
                            page,
                            frame,
                            parts: answer,
                            bytes,
                        });
                    }
                }
                OrderKind::Evict(_) if answer == u64::from(PAGE_GONE) => {
                    self.stats.evicted += 1;
                    // These have missed the page after it had left.
                    let mut waiters = self.frames.at(frame).waiters.take();
                    self.frames.vacate(frame);
                    let first = self.file(file).map_or(0, |f| f.first);
                    while let Some(waiter) = self.lists.pop(&mut waiters) {
                        self.want(file, word - first, waiter);
                    }
                }
                OrderKind::Evict(_) => {
                    let dirty = answer == u64::from(PAGE_IS_DIRTY);
                    // These have missed it before it was there. They hold it, so it has not left.
                    let bits = filled(frame, false);
                    let waiters = self.frames.at(frame).waiters.take();
                    self.go_on(waiters, bits);
                    match origin {
                        Origin::Clock if dirty => {
                            self.frames.at(frame).phase = Phase::Taking;
                            self.dirty.push(frame);
                        }
                        Origin::Clock => self.frames.at(frame).phase = Phase::Here,
                        Origin::Clearing(number) => {
                            self.frames.at(frame).phase = Phase::Here;
                            let mut clearings = self.clearings.iter_mut();
                            if let Some(c) = clearings.find(|c| c.number == number) {
                                c.refused |= c.aim != Aim::Refresh;
                            }
                        }
                    }
                }
            }
            if let Origin::Clearing(number) = origin {
                let mut clearings = self.clearings.iter_mut();
                if let Some(clearing) = clearings.find(|c| c.number == number) {
                    clearing.sent -= 1;
                }
            }
        }
        self.serve();
    }
    /// Whether [`orders`](Self::orders) may return some, or end a flush.
    pub fn has_orders(&self) -> bool {
        let queued = [&self.unfilled, &self.dirty]
            .into_iter()
            .any(|queue| !queue.is_empty());
        queued || !self.written.is_empty() || !self.clearings.is_empty() || self.lacking() > 0
    }
    /// Frames that the clock's hand should free: some are kept free for misses to come, but not more than the files have pages
    /// that are in no frame. So where all files fit into the cache, no page ever leaves it.
    fn lacking(&self) -> usize {
        if self.rests {
            return 0;
        }
        let frames = self.shape.frames as usize;
        let free = self.frames.free.len();
        let elsewhere = self.regions.taken().saturating_sub((frames - free) as u64);
        let asked = self.waiting.len() + self.wanted.len();
        let target = (frames / 32 + asked).min(frames);
        target.min(elsewhere as usize).saturating_sub(free)
    }
    /// Whether tasks wait for frames.
    pub fn is_short(&self) -> bool {
        !self.waiting.is_empty()
    }
}
