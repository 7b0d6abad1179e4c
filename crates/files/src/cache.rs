//! The page cache of an instance's files: the tables in the engine's memory, the decisions about them, and the files.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use everwarp_contract::pages::PAGE_WRITABLE_BIT;
use everwarp_contract::{
    DevFileDone, DevFileRequest, DevPageFile, DevPageOrder, DevPages, DevPtr, DevType, Layout,
};
use everwarp_pages::{CachedFile, Order, Pager, Run, Shape};
use everwarp_runtime::{Buffer, Engine};

use crate::bell::Bell;
use crate::config::CacheConfig;
use crate::counters::TimeSum;
use crate::desk::{Desk, PageEvents};
use crate::errno::FileErrno;
use crate::error::FilesError;
use crate::grants::How;
use crate::handles::Handles;
use crate::open_file::OpenFile;
use crate::request::{After, after};
use crate::table::PageTable;
use crate::table_words::words_of;

/// The most orders that are on their way at a time.
pub(crate) const ORDERS: usize = 1024;
/// 64-bit words of an order.
pub(crate) const ORDER: usize = size_of::<DevPageOrder>() / 8;
const FILE: usize = size_of::<DevPageFile>() / 8;

/// A task that waits for a page: the part of its request that the completion needs, and the number of the page's word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageWaiter {
    then: u32,
    group: u32,
    note: u32,
    word: u64,
}

impl PageWaiter {
    pub(crate) fn of(record: &DevFileRequest) -> Self {
        let After {
            then, group, note, ..
        } = after(record);
        let word = record.to;
        Self {
            then,
            group,
            note,
            word,
        }
    }
    /// Its completion: with the bits that the page's word gets, or with an error. The door takes the task off the holders then.
    pub(crate) fn done(self, result: Result<u64, FileErrno>) -> DevFileDone {
        let Self {
            then, group, note, ..
        } = self;
        let after = After {
            then,
            group,
            note,
            ..After::default()
        };
        DevFileDone {
            page: self.word.saturating_add(1),
            word: result.unwrap_or(0),
            ..after.done(result.map(|_| 0))
        }
    }
}

/// What a flush or the like is for.
#[derive(Debug)]
pub(crate) enum Ticket {
    /// A handle of a file that is open already.
    Opened { handle: u32, after: After },
    /// A request of a handle.
    Asked {
        file: Arc<OpenFile>,
        asked: Asked,
        after: After,
    },
    /// A thread of the host waits for it.
    Host(Sender<Result<(), FileErrno>>),
}

/// A request of a cached file's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Sync,
    Truncate(u64),
    Close(u32),
}

/// A cached file.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) reads: Arc<File>,
    pub(crate) writes: Option<Arc<File>>,
    /// Its handles, and whether each may write.
    pub(crate) handles: Vec<(u32, bool)>,
    /// The number of its first word.
    pub(crate) first: u64,
    /// How long the file was when that was known last.
    pub(crate) disk: u64,
    key: (u64, u64),
    /// Truncates and closes: one at a time.
    pub(crate) busy: bool,
    pub(crate) queue: VecDeque<(Arc<OpenFile>, Asked, After)>,
}

/// The decisions, under one lock.
#[derive(Debug)]
pub(crate) struct Brain {
    pub(crate) pager: Pager<PageWaiter, Ticket>,
    pub(crate) files: HashMap<CachedFile, Cached>,
    by_key: HashMap<(u64, u64), CachedFile>,
    /// Waits for pages that were refused, and are not passed on yet.
    pub(crate) refused: Vec<DevFileDone>,
    /// Orders are on their way.
    pub(crate) carrying: bool,
    /// Since when tasks have waited for frames in vain, and how many pages had left their frames then.
    pub(crate) starving: Option<(Instant, u64)>,
    /// The thread that keeps pages looks again for them after a pause.
    pub(crate) pausing: bool,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    words: Buffer<u64>,
    written: Buffer<u64>,
    pub(crate) bytes: Arc<Buffer<u8>>,
    files: Buffer<u64>,
    pub(crate) orders: Buffer<u64>,
    handles: u32,
    pub(crate) page_bits: u32,
    pub(crate) patience: Duration,
    /// Whether the host reaches frames and words by their addresses.
    pub(crate) reaches: bool,
    brain: Mutex<Brain>,
    /// Waits for that lock.
    pub(crate) lock_wait: TimeSum,
    desk: Mutex<Desk>,
    /// Rings when the desk calls.
    bell: Bell,
    /// A hint that events were passed on to the thread that keeps pages.
    passed: AtomicBool,
}

impl Cache {
    /// The cache of a configuration; `None` if it has none. `reaches`: the host reads into frames by their addresses.
    pub(crate) fn new(
        engine: &Engine,
        config: CacheConfig,
        handles: u32,
        reaches: bool,
    ) -> Result<Option<Self>, FilesError> {
        if config.bytes == 0 {
            return Ok(None);
        }
        let size = |what, rule, value| Err(FilesError::Size { what, rule, value });
        let page = u64::from(config.page);
        if !page.is_power_of_two() || !(4096..=1 << 20).contains(&page) {
            let rule = "a power of two from 4096 to 1048576";
            return size("CacheConfig::page", rule, page);
        }
        let frames = config.bytes / page;
        if !(1..=1 << 31).contains(&frames) {
            let rule = "one page at least, and 2^31 at most";
            return size("CacheConfig::bytes", rule, config.bytes);
        }
        let files = match config.files {
            0 => config.bytes.saturating_mul(16),
            files => files,
        };
        let words = files.div_ceil(page).max(frames);
        let page_bits = config.page.trailing_zeros();
        let words = words.saturating_add(u64::from(handles.min(1024)));
        if words > u64::from(u32::MAX) {
            let rule = "fewer than 2^32 pages";
            return size("CacheConfig::files", rule, files);
        }
        let shape = Shape {
            frames: frames as u32,
            page_bits,
            words,
            ahead: config.ahead / config.page,
            shorter: FileErrno::STALE.0,
        };
        Ok(Some(Self {
            words: engine.buffer(words as usize)?,
            written: engine.buffer(frames as usize)?,
            bytes: Arc::new(engine.buffer((frames * page) as usize)?),
            files: engine.buffer(handles as usize * FILE)?,
            orders: engine.near_buffer(ORDERS * ORDER)?,
            handles,
            page_bits,
            patience: config.patience,
            reaches,
            brain: Mutex::new(Brain {
                pager: Pager::new(shape),
                files: HashMap::new(),
                by_key: HashMap::new(),
                refused: Vec::new(),
                carrying: false,
                starving: None,
                pausing: false,
            }),
            lock_wait: TimeSum::default(),
            desk: Mutex::default(),
            bell: Bell::default(),
            passed: AtomicBool::new(false),
        }))
    }
    /// The cache's part of the files' tables.
    pub(crate) fn tables(&self) -> DevPages {
        let ptr = |address| address;
        DevPages {
            words: self.words.ptr(),
            written: self.written.ptr(),
            bytes: self.bytes.ptr(),
            files: DevPtr::new(ptr(self.files.ptr().address())),
            orders: DevPtr::new(ptr(self.orders.ptr().address())),
            count: self.words.len() as u64,
            handles: self.handles,
            page_bits: self.page_bits,
            hole: 0,
        }
    }
    pub(crate) fn brain(&self) -> MutexGuard<'_, Brain> {
        // The clock is read only if the lock is not free.
        match self.brain.try_lock() {
            Ok(brain) => return brain,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        let begin = Instant::now();
        let brain = self.brain.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock_wait.add_since(begin);
        brain
    }
    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Waits until the desk calls, or for some time. Returns false if that has passed.
    pub(crate) fn sleep(&self, time: Option<Duration>) -> bool {
        let mut desk = self.desk();
        while !desk.calls() {
            desk = match time {
                None => self.bell.wait(desk),
                Some(time) => {
                    let desk = self.bell.wait_for(desk, time);
                    return desk.calls();
                }
            };
        }
        true
    }
    /// Leaves orders to the thread that keeps pages, or has it look around.
    pub(crate) fn call(&self, orders: Option<Vec<Order>>, look: bool) {
        {
            let mut desk = self.desk();
            desk.look |= look;
            if orders.is_some() {
                desk.orders = orders;
            }
        }
        self.bell.ring(1);
    }
    /// Leaves events to the thread that keeps pages, by one that takes them to the pager.
    pub(crate) fn pass(&self, mut desk: MutexGuard<'_, Desk>, rest: Vec<PageEvents>) {
        desk.events.pass(rest);
        self.passed.store(true, Ordering::Relaxed);
        drop(desk);
        self.bell.ring(1);
    }
    /// Whether events were passed on to the thread that keeps pages, which may learn it late.
    pub(crate) fn is_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }
    /// Takes events over that were passed on.
    pub(crate) fn take_over(&self, desk: &mut Desk) -> Option<Vec<PageEvents>> {
        self.passed.store(false, Ordering::Relaxed);
        desk.events.take_over()
    }
    /// Writes the entry of a handle into the engine's memory.
    fn write_entry(&self, handle: u32, entry: &DevPageFile) -> Result<(), FileErrno> {
        let place = (handle & 0xffff) as usize * FILE;
        // The words with the handle come last.
        let words: [u64; FILE] = words_of(entry.bytes());
        let written = self.files.write_at(place + 1, &words[1..]);
        let written = written.and_then(|()| self.files.write_at(place, &words[..1]));
        written.map_err(|_| FileErrno::IO)
    }
    /// Writes the entries of a file's handles.
    pub(crate) fn write_entries(&self, brain: &Brain, file: CachedFile) -> Result<(), FileErrno> {
        let (Some(cached), Some((size, _))) = (brain.files.get(&file), brain.pager.facts(file))
        else {
            return Ok(());
        };
        cached.handles.iter().try_for_each(|&(handle, writable)| {
            let entry = DevPageFile {
                handle,
                first: cached.first as u32,
                size: size | u64::from(writable) << PAGE_WRITABLE_BIT,
            };
            self.write_entry(handle, &entry)
        })
    }
    /// Takes a file in, and gives it a handle. `None`: it was open, and its pages are to be refreshed before the handle is used.
    pub(crate) fn open(
        &self,
        brain: &mut Brain,
        file: File,
        how: How,
        room: u64,
        handles: &Handles,
    ) -> Result<(u32, Option<CachedFile>), FileErrno> {
        let facts = file.metadata()?;
        let key = (facts.dev(), facts.ino());
        let own = Arc::new(file);
        let known = brain.by_key.get(&key).copied();
        let cached = match known {
            Some(cached) => cached,
            None => {
                let added = brain.pager.add(facts.size(), room, how.write);
                let (cached, first) = added.map_err(FileErrno)?;
                brain.by_key.insert(key, cached);
                let record = Cached {
                    reads: own.clone(),
                    writes: None,
                    handles: Vec::new(),
                    first,
                    disk: facts.size(),
                    key,
                    busy: false,
                    queue: VecDeque::new(),
                };
                brain.files.insert(cached, record);
                cached
            }
        };
        let twin = own.try_clone()?;
        let record = brain.files.get_mut(&cached).ok_or(FileErrno::BADF)?;
        if how.write {
            record.writes.get_or_insert(own);
            brain.pager.set_writable(cached);
        }
        if record.disk != facts.size() {
            // The host has changed it.
            record.disk = facts.size();
            brain.pager.set_size(cached, facts.size());
        }
        let open = OpenFile::new(twin, how).cached_as(cached);
        let Some(handle) = handles.insert(Arc::new(open)) else {
            if known.is_none() {
                self.forget(brain, cached);
            }
            return Err(FileErrno::MFILE);
        };
        record.handles.push((handle, how.write));
        self.write_entries(brain, cached)?;
        Ok((handle, known))
    }
    /// Forgets a file without handles and pages.
    pub(crate) fn forget(&self, brain: &mut Brain, file: CachedFile) {
        if let Some(record) = brain.files.remove(&file) {
            brain.by_key.remove(&record.key);
        }
        brain.pager.remove(file);
    }
    /// Takes a handle off its file. Returns whether it was the last.
    pub(crate) fn close(&self, brain: &mut Brain, file: CachedFile, handle: u32) -> bool {
        // Tasks that look at a stale entry find no such handle.
        let _ = self.write_entry(handle, &DevPageFile::ZERO);
        let Some(record) = brain.files.get_mut(&file) else {
            return false;
        };
        record.handles.retain(|(other, _)| *other != handle);
        record.handles.is_empty()
    }
    /// The addresses of frames, where the host reaches them.
    pub(crate) fn frame(&self, frame: u32) -> Option<*mut u8> {
        let at = u64::from(frame) << self.page_bits;
        let first = self.bytes.ptr().address() as *mut u8;
        self.reaches.then(|| first.wrapping_add(at as usize))
    }
}

/// Words of pages, where the host reaches them.
impl Cache {
    /// Carries out orders, and returns their answers.
    pub(crate) fn carry_out(&self, orders: &[DevPageOrder]) -> Vec<u64> {
        debug_assert!(self.reaches);
        let pages = self.tables();
        // SAFETY: these are the live tables of the engine, whose memory the host reaches.
        let table = unsafe { PageTable::new(&pages) };
        orders.iter().map(|order| table.do_order(order)).collect()
    }
    /// Names the pages of a run that have come, if the host reaches their words. Returns a bit for each of them.
    pub(crate) fn name(&self, run: &Run, got: u64) -> u64 {
        if !self.reaches {
            return 0;
        }
        let pages = self.tables();
        // SAFETY: as above.
        let table = unsafe { PageTable::new(&pages) };
        let mut named = 0;
        for at in 0..run.frames.len() {
            let end = (at << self.page_bits) + self.bytes_of(run, at);
            if end as u64 <= got
                && let Some(word) = table.word(run.word + at as u64)
            {
                word.fill(run.bits(at));
                named |= 1 << at;
            }
        }
        named
    }
}

/// Reads of pages into their frames.
impl Cache {
    /// How many bytes of a run's page are read, by its place in the run.
    fn bytes_of(&self, run: &Run, at: usize) -> usize {
        let page = 1_usize << self.page_bits;
        (run.bytes as usize).saturating_sub(at * page).min(page)
    }
    /// Zeroes what a read leaves of its frames, where the host reaches them.
    pub(crate) fn zero_rest(&self, run: &Run) {
        let page = 1_usize << self.page_bits;
        for (at, &frame) in run.frames.iter().enumerate() {
            let bytes = self.bytes_of(run, at);
            if let Some(first) = self.frame(frame)
                && bytes < page
            {
                // SAFETY: the rest of the frame, which no task uses before its page is there.
                unsafe { first.add(bytes).write_bytes(0, page - bytes) };
            }
        }
    }
    /// Where the bytes of a read go, where the host reaches the frames.
    pub(crate) fn ranges(&self, run: &Run) -> Vec<(*mut u8, usize)> {
        let frames = run.frames.iter().enumerate();
        let range =
            |(at, &frame): (usize, &u32)| Some((self.frame(frame)?, self.bytes_of(run, at)));
        frames.filter_map(range).collect()
    }
    /// Where tasks find the bytes of a run's frames: the address and the length of each part, for bytes `from..to`.
    pub(crate) fn addresses(
        &self,
        run: &Run,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (u64, usize)> {
        let page = 1_usize << self.page_bits;
        let to = to.min(run.frames.len() * page);
        let pages = from / page..to.div_ceil(page);
        pages.filter_map(move |at| {
            let begin = from.max(at * page);
            let end = to.min((at + 1) * page);
            let frame = u64::from(*run.frames.get(at)?) << self.page_bits;
            let first = self.bytes.ptr().address() + frame + (begin % page) as u64;
            (begin < end).then_some((first, end - begin))
        })
    }
}
