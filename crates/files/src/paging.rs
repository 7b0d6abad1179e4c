//! The server's side of the page cache: it turns requests into events of the [`Pager`](everwarp_pages::Pager), and what the
//! pager decides into jobs and completions. Those are passed on when the pager's lock is free again; threads leave their events at the
//! [desk](crate::desk), so that none waits for the lock with pages at hand.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::channel;

use everwarp_contract::files::FILE_PAGE;
use everwarp_contract::{DevFileDone, DevFileRequest, DevPageOrder};
use everwarp_pages::{CachedFile, Order, Run, Step, WriteBack};

use crate::cache::{Asked, Brain, Cache, ORDERS, PageWaiter, Ticket};
use crate::cutting::Cut;
use crate::desk::PageEvents;
use crate::ended::EndedRun;
use crate::errno::FileErrno;
use crate::grants::How;
use crate::keeping::record;
use crate::open_file::OpenFile;
use crate::request::{After, Op, Request, after, op_of};
use crate::server::{Job, Server};

/// The most reads, or pages to be written, of one job.
const TOGETHER: usize = 32;
/// A job of reads may have this many bytes, or a thread's share of all if that is more: to wake another thread takes as long as to read them.
/// Where threads have no rings, it has a thread's share.
const BYTES_EACH: u64 = 32 << 10;
/// How many reads a job mostly has.
const RUNS_EXPECTED: usize = 8;
/// How often in a row a thread with other work takes events to the pager, while others leave more: one that reads, and the one that
/// takes requests.
const TURNS: usize = 4;
const TURNS_OF_TAKER: usize = 2;

/// What the pager has decided, to be passed on.
#[derive(Debug, Default)]
struct Decided {
    reads: Vec<Run>,
    jobs: Vec<Job>,
    done: Vec<DevFileDone>,
    orders: Option<Vec<Order>>,
    /// The thread that keeps pages has to look around.
    look: bool,
}

impl Server {
    /// Takes requests for pages in. Returns whether some may have ended.
    pub(crate) fn accept_pages(&self, records: Vec<DevFileRequest>) -> bool {
        if let Some(cache) = &self.cache {
            return self.post(cache, PageEvents::Asked(records), TURNS_OF_TAKER);
        }
        for record in records.iter().filter(|r| op_of(r) == FILE_PAGE) {
            self.finish(after(record), Err(FileErrno::NOTSUP));
        }
        true
    }
    /// Leaves events for the pager. If no other thread takes such to it, this one does, and what others leave meanwhile; then it returns
    /// true.
    fn post(&self, cache: &Cache, events: PageEvents, turns: usize) -> bool {
        let mut taken = {
            let mut desk = cache.desk();
            desk.events.add([events]);
            desk.events.begin()
        };
        let mut turn = 0;
        while let Some(events) = taken {
            self.turn(cache, events);
            turn += 1;
            let mut desk = cache.desk();
            taken = desk.events.next();
            if turn == turns
                && let Some(rest) = taken.take()
            {
                cache.pass(desk, rest);
            }
        }
        turn > 0
    }
    /// Takes events to the pager, and passes on what it decides.
    pub(crate) fn turn(&self, cache: &Cache, events: Vec<PageEvents>) {
        self.counters.page_turns.add(1);
        self.change(cache, |brain| {
            for events in events {
                match events {
                    PageEvents::Asked(records) => self.note_asked(cache, brain, &records),
                    PageEvents::Read(runs) => {
                        for end in runs {
                            let EndedRun {
                                run,
                                got,
                                error,
                                named,
                            } = end;
                            brain.pager.read_done(run, got, error, named);
                        }
                    }
                    PageEvents::Written(writes) => {
                        for (write, result) in writes {
                            brain.pager.write_done(&write, result);
                        }
                    }
                    PageEvents::Answered(answers) => {
                        brain.carrying = false;
                        brain.pager.answered(&answers);
                    }
                }
            }
        });
    }
    /// Lets something happen to the pager, and passes on what it decides once its lock is free.
    pub(crate) fn change<R>(&self, cache: &Cache, happens: impl FnOnce(&mut Brain) -> R) -> R {
        let mut brain = cache.brain();
        let result = happens(&mut brain);
        let decided = self.settle(cache, &mut brain);
        drop(brain);
        self.pass_on(cache, decided);
        result
    }
    /// Tells the pager which pages tasks want.
    fn note_asked(&self, cache: &Cache, brain: &mut Brain, records: &[DevFileRequest]) {
        // Neighbours mostly are of one file. No handle of a cached file comes or goes while the lock is held.
        let mut last = None;
        for record in records {
            let (cached, first) = match last {
                Some((handle, found)) if handle == record.handle => found,
                _ => {
                    let open = self.handles.file(record.handle);
                    let cached = open.and_then(|file| file.cached);
                    let first = cached.and_then(|file| brain.files.get(&file));
                    let found = (cached, first.map(|file| file.first));
                    last = Some((record.handle, found));
                    found
                }
            };
            let page = record.offset >> cache.page_bits;
            if op_of(record) != FILE_PAGE {
                let (Some(cached), Some(last)) =
                    (cached, record.offset.checked_add(record.room.max(1) - 1))
                else {
                    continue;
                };
                match record.room {
                    0 => brain.pager.used(cached, page),
                    _ => {
                        let count = (last >> cache.page_bits) - page + 1;
                        brain.pager.prefetch(cached, page, count);
                    }
                }
                continue;
            }
            let waiter = PageWaiter::of(record);
            let is_page = first.and_then(|first| first.checked_add(page)) == Some(record.to);
            match cached.filter(|_| is_page) {
                Some(file) => brain.pager.miss(file, page, waiter),
                // It is among the holders of the word that it has named.
                None => brain.refused.push(waiter.done(Err(FileErrno::BADF))),
            }
        }
    }
    /// Collects what the pager has decided.
    fn settle(&self, cache: &Cache, brain: &mut Brain) -> Decided {
        let mut decided = Decided {
            done: std::mem::take(&mut brain.refused),
            ..Decided::default()
        };
        loop {
            let ordered = self.order(cache, brain, &mut decided);
            let step = brain.pager.step();
            let Step {
                reads,
                writes,
                done,
                ended,
            } = step;
            decided.done.extend(done.into_iter().map(|end| {
                let result = end.result.map(|wanted| wanted.bits);
                end.waiter.done(result.map_err(FileErrno))
            }));
            match decided.reads.is_empty() {
                true => decided.reads = reads,
                false => decided.reads.extend(reads),
            }
            let mut pages: Vec<(Arc<File>, u64, WriteBack)> = writes
                .into_iter()
                .filter_map(|write| {
                    let file = brain.files.get(&write.file)?;
                    Some((file.writes.clone()?, file.disk, write))
                })
                .collect();
            pages.sort_by_key(|(_, _, write)| (write.file, write.page));
            while !pages.is_empty() {
                let rest = pages.split_off(pages.len().min(TOGETHER));
                decided
                    .jobs
                    .push(Job::Write(std::mem::replace(&mut pages, rest)));
            }
            if ended.is_empty() && !ordered {
                break;
            }
            for (ticket, result) in ended {
                // The thread that keeps pages waits for the last flushes.
                decided.look = true;
                self.ended(cache, brain, ticket, result.map_err(FileErrno));
            }
        }
        let reads = std::mem::take(&mut decided.reads);
        self.cut_reads(brain, reads, &mut decided.jobs);
        if !brain.pager.is_short() {
            brain.starving = None;
        }
        decided.look |= brain.pager.starves() && !brain.pausing;
        decided
    }
    /// Makes jobs of reads, each of one file.
    fn cut_reads(&self, brain: &Brain, reads: Vec<Run>, jobs: &mut Vec<Job>) {
        let bytes: u64 = reads.iter().map(|run| run.bytes).sum();
        let least = match self.has_rings() {
            true => BYTES_EACH,
            false => 0,
        };
        let each = bytes.div_ceil(self.workers as u64).max(least);
        let (mut cut, mut last) = (Cut::new(TOGETHER, each), None);
        for run in reads {
            if last != Some(run.file) {
                cut.end();
                last = Some(run.file);
            }
            let joins = cut.joins(run.bytes);
            match jobs.last_mut() {
                Some(Job::Read(_, runs)) if joins => runs.push(run),
                _ => {
                    let Some(file) = brain.files.get(&run.file) else {
                        cut.end();
                        continue;
                    };
                    let mut runs = Vec::with_capacity(RUNS_EXPECTED);
                    runs.push(run);
                    jobs.push(Job::Read(file.reads.clone(), runs));
                }
            }
        }
    }
    /// Passes on what the pager has decided.
    fn pass_on(&self, cache: &Cache, decided: Decided) {
        if decided.look || decided.orders.is_some() {
            cache.call(decided.orders, decided.look);
        }
        if !decided.done.is_empty() {
            let failed = decided.done.iter().filter(|done| done.word == 0).count();
            self.work().end(decided.done, failed);
        }
        if !decided.jobs.is_empty() {
            self.push_jobs(decided.jobs);
        }
    }
    /// Carries out orders where the host reaches the words of pages, and returns whether there were any. Else the thread that keeps pages
    /// gets them, unless there are some on their way.
    fn order(&self, cache: &Cache, brain: &mut Brain, decided: &mut Decided) -> bool {
        if brain.carrying || !brain.pager.has_orders() {
            return false;
        }
        let orders = brain.pager.orders(ORDERS);
        if orders.is_empty() {
            return false;
        }
        if !cache.reaches {
            brain.carrying = true;
            decided.orders = Some(orders);
            return false;
        }
        let orders: Vec<DevPageOrder> = orders.iter().map(record).collect();
        brain.pager.answered(&cache.carry_out(&orders));
        true
    }

    /// Opens a cached file for a task.
    pub(crate) fn open_cached(
        &self,
        file: Result<File, FileErrno>,
        how: How,
        room: u64,
        after: After,
    ) {
        let Some(cache) = &self.cache else {
            return self.finish(after, Err(FileErrno::NOTSUP));
        };
        self.change(cache, |brain| {
            let opened = file.and_then(|file| cache.open(brain, file, how, room, &self.handles));
            match opened {
                Ok((handle, None)) => self.finish(after, Ok(handle)),
                Ok((handle, Some(known))) => {
                    brain.pager.refresh(known, Ticket::Opened { handle, after });
                }
                Err(error) => self.finish(after, Err(error)),
            }
        });
    }
    /// Opens a cached file for the host. `waits`: tasks may have been there.
    pub(crate) fn give_cached(
        &self,
        cache: &Cache,
        file: File,
        how: How,
        room: u64,
        waits: bool,
    ) -> Result<u32, FileErrno> {
        let (sender, receiver) = channel();
        let (handle, refreshed) = self.change(cache, |brain| {
            let (handle, known) = cache.open(brain, file, how, room, &self.handles)?;
            let known = known.filter(|_| waits);
            if let Some(known) = known {
                brain.pager.refresh(known, Ticket::Host(sender));
            }
            Ok::<_, FileErrno>((handle, known.is_some()))
        })?;
        if refreshed {
            self.deliver();
            // Without an answer the engine has ended.
            let _ = receiver.recv();
        }
        Ok(handle)
    }

    /// Whether a request is the cache's.
    pub(crate) fn is_of_cache(&self, file: &OpenFile, request: &Request) -> bool {
        let concerns = matches!(request.op, Op::Sync | Op::Truncate { .. } | Op::Close(_));
        concerns && file.cached.is_some() && self.cache.is_some()
    }
    /// Begins a request of a cached file.
    pub(crate) fn ask(&self, file: Arc<OpenFile>, request: &Request) {
        let (Some(cached), Some(cache)) = (file.cached, &self.cache) else {
            return;
        };
        let after = request.after;
        let asked = match request.op {
            Op::Truncate { size } => Asked::Truncate(size),
            Op::Close(handle) => Asked::Close(handle),
            _ => Asked::Sync,
        };
        self.change(cache, |brain| {
            if file.is_closed() {
                self.complete(&file, after, Err(FileErrno::BADF));
            } else if asked == Asked::Sync {
                let ticket = Ticket::Asked { file, asked, after };
                brain.pager.flush(cached, ticket);
            } else if let Some(record) = brain.files.get_mut(&cached) {
                record.queue.push_back((file, asked, after));
                self.begin_next(cache, brain, cached);
            } else {
                self.complete(&file, after, Err(FileErrno::BADF));
            }
        });
    }
    /// Begins the next truncate or close of a file, if none is being done.
    fn begin_next(&self, cache: &Cache, brain: &mut Brain, cached: CachedFile) {
        loop {
            let Some(record) = brain.files.get_mut(&cached).filter(|r| !r.busy) else {
                return;
            };
            let handles = record.handles.len();
            let Some((file, asked, after)) = record.queue.pop_front() else {
                return;
            };
            record.busy = true;
            let (size, lost) = brain.pager.facts(cached).unwrap_or_default();
            let page = 1_u64 << cache.page_bits;
            let refused = match asked {
                _ if file.is_closed() => Some(FileErrno::BADF),
                Asked::Truncate(_) if file.may_write().is_err() => Some(FileErrno::BADF),
                Asked::Truncate(size) if size > brain.pager.room(cached) => Some(FileErrno::FBIG),
                _ => None,
            };
            if let Some(error) = refused {
                self.complete(&file, after, Err(error));
                if let Some(record) = brain.files.get_mut(&cached) {
                    record.busy = false;
                }
                continue;
            }
            let ticket = Ticket::Asked {
                file: file.clone(),
                asked,
                after,
            };
            match asked {
                Asked::Truncate(to) if to < size => {
                    let (from, discard) = (to >> cache.page_bits, to.div_ceil(page));
                    brain.pager.cut(cached, from, discard, ticket);
                }
                Asked::Truncate(_) => self.rest(file, cached, asked, after, Ok(())),
                // What cannot be written back is lost with the last handle, and the close says so.
                _ if handles == 1 => {
                    let discard = if lost.is_some() { 0 } else { u64::MAX };
                    brain.pager.cut(cached, 0, discard, ticket);
                }
                _ => brain.pager.flush(cached, ticket),
            }
            return;
        }
    }
    fn rest(
        &self,
        file: Arc<OpenFile>,
        cached: CachedFile,
        asked: Asked,
        after: After,
        before: Result<(), FileErrno>,
    ) {
        let job = Job::Rest {
            file,
            cached,
            asked,
            after,
            before,
        };
        self.push_jobs([job]);
    }
    /// A flush or the like has ended.
    fn ended(
        &self,
        cache: &Cache,
        brain: &mut Brain,
        ticket: Ticket,
        result: Result<(), FileErrno>,
    ) {
        let (file, asked, after) = match ticket {
            Ticket::Opened { handle, after } => return self.finish(after, Ok(handle)),
            Ticket::Host(sender) => {
                // The host may have given up.
                let _ = sender.send(result);
                return;
            }
            Ticket::Asked { file, asked, after } => (file, asked, after),
        };
        let Some(cached) = file.cached else { return };
        match asked {
            Asked::Sync => return self.rest(file, cached, asked, after, result),
            Asked::Truncate(_) if result.is_ok() => {
                return self.rest(file, cached, asked, after, result);
            }
            Asked::Close(handle) if result != Err(FileErrno::BUSY) => {
                let lost = brain.pager.facts(cached).and_then(|(_, lost)| lost);
                file.set_closed();
                self.handles.remove(handle);
                let last = cache.close(brain, cached, handle);
                self.complete(&file, after, lost.map_or(Ok(0), |e| Err(FileErrno(e))));
                if last {
                    self.forget(cache, brain, cached);
                    return;
                }
            }
            _ => self.complete(&file, after, result.map(|()| 0)),
        }
        self.go_on(cache, brain, cached);
    }
    /// Forgets a file whose last handle is closed.
    fn forget(&self, cache: &Cache, brain: &mut Brain, cached: CachedFile) {
        let record = brain.files.get_mut(&cached);
        let queue = record.map(|r| std::mem::take(&mut r.queue));
        for (file, _, after) in queue.into_iter().flatten() {
            self.complete(&file, after, Err(FileErrno::BADF));
        }
        cache.forget(brain, cached);
    }
    /// A truncate or close is done: tasks get pages again, and the next one begins.
    fn go_on(&self, cache: &Cache, brain: &mut Brain, cached: CachedFile) {
        if let Some(record) = brain.files.get_mut(&cached) {
            record.busy = false;
        }
        brain.pager.unblock(cached);
        self.begin_next(cache, brain, cached);
    }
    /// Does what is left of a request once its pages are written back or gone.
    pub(crate) fn do_rest(
        &self,
        file: &Arc<OpenFile>,
        cached: CachedFile,
        asked: Asked,
        after: After,
        before: Result<(), FileErrno>,
    ) {
        let Some(cache) = &self.cache else { return };
        let Asked::Truncate(size) = asked else {
            let synced = before.and_then(|()| self.system.sync(&file.file));
            let result = file.synced(synced).map(|()| 0);
            return self.complete(file, after, result);
        };
        let cut = file.may_write().and_then(|f| self.system.truncate(f, size));
        self.change(cache, |brain| {
            let result = cut.and_then(|()| {
                brain.pager.set_size(cached, size);
                if let Some(record) = brain.files.get_mut(&cached) {
                    record.disk = size;
                }
                cache.write_entries(brain, cached)
            });
            self.complete(file, after, result.map(|()| 0));
            self.go_on(cache, brain, cached);
        });
    }

    /// Reads pages of a file into their frames, which the host reaches.
    pub(crate) fn read_pages(&self, file: &File, runs: Vec<Run>) {
        let Some(cache) = &self.cache else { return };
        let read = |run| {
            let (run, got, error) = self.read_run(cache, file, run);
            EndedRun {
                run,
                got,
                error: error.map(|e| e.0),
                named: 0,
            }
        };
        self.end_runs(runs.into_iter().map(read).collect());
    }
    fn read_run(&self, cache: &Cache, file: &File, run: Run) -> (Run, u64, Option<FileErrno>) {
        cache.zero_rest(&run);
        let from = run.first << cache.page_bits;
        // SAFETY: frames of the live cache, which belong to this read.
        let (got, error) = unsafe { self.system.read_ranges(file, &cache.ranges(&run), from) };
        (run, got as u64, error)
    }
    /// Hands the pager reads that have ended.
    pub(crate) fn end_runs(&self, mut done: Vec<EndedRun>) {
        let Some(cache) = &self.cache else { return };
        if done.is_empty() {
            return;
        }
        for end in &mut done {
            end.named |= cache.name(&end.run, end.got);
        }
        self.post(cache, PageEvents::Read(done), TURNS);
    }
    /// Writes parts of pages to their files.
    pub(crate) fn write_pages(&self, pages: Vec<(Arc<File>, u64, WriteBack)>) {
        let Some(cache) = &self.cache else { return };
        let write = |(file, disk, write): (Arc<File>, u64, WriteBack)| {
            let result = self.write_page(cache, &file, disk, &write);
            (write, result.map_err(|e| e.0))
        };
        let done: Vec<_> = pages.into_iter().map(write).collect();
        self.post(cache, PageEvents::Written(done), TURNS);
    }
    fn write_page(
        &self,
        cache: &Cache,
        file: &File,
        disk: u64,
        write: &WriteBack,
    ) -> Result<(), FileErrno> {
        // Writing would make a file long again that another program has cut.
        if self.system.metadata(file)?.size() < disk {
            return Err(FileErrno::STALE);
        }
        let page = 1_usize << cache.page_bits;
        let mut stage = Vec::new();
        let first = match cache.frame(write.frame) {
            Some(first) => first.cast_const(),
            None => {
                stage.resize(page, 0);
                let read = cache.bytes.read_at(write.frame as usize * page, &mut stage);
                read.map_err(|_| FileErrno::IO)?;
                stage.as_ptr()
            }
        };
        let (part, offset) = (page / 64, write.page << cache.page_bits);
        let mut parts = write.parts;
        while parts != 0 {
            let begin = parts.trailing_zeros();
            let count = (parts >> begin).trailing_ones();
            parts &= u64::MAX.checked_shl(begin + count).unwrap_or(0);
            let begin = begin as usize * part;
            let end = (begin + count as usize * part).min(write.bytes as usize);
            if begin < end {
                let to = offset + begin as u64;
                // SAFETY: inside the frame, or its copy.
                unsafe {
                    let from = first.add(begin);
                    self.system.write_all(file, from, end - begin, to)?;
                }
            }
        }
        Ok(())
    }
}
