//! The server's side of the page cache: it turns requests into events of the [`Pager`](everwarp_pages::Pager), and what the
//! pager decides into jobs and completions. The pager's lock is taken before that of the jobs.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use everwarp_contract::files::{FILE_DOOR_ORDERS, FILE_PAGE};
use everwarp_contract::pages::{
    PAGE_ORDER_DROP, PAGE_ORDER_EVICT, PAGE_ORDER_FILL, PAGE_ORDER_TAKE, PAGE_ORDER_WRITTEN,
};
use everwarp_contract::{DevFileDone, DevFileRequest, DevPageOrder, Layout};
use everwarp_pages::{CachedFile, Eviction, Order, OrderKind, Run, Step, WriteBack};
use everwarp_runtime::{DevTask, Error};

use crate::cache::{Asked, Brain, Cache, ORDER, ORDERS, PageWaiter, Ticket};
use crate::errno::FileErrno;
use crate::grants::How;
use crate::moving::EndedRun;
use crate::open_file::OpenFile;
use crate::port::Port;
use crate::request::{After, Op, Request, after, op_of};
use crate::server::{Job, Server};
use crate::table_words::words_of;

/// The most reads, or pages to be written, of one job.
const TOGETHER: usize = 16;
/// Orders that one task of the door carries out: one for each lane of its warp.
const ORDERS_EACH: usize = 32;
/// The first and the longest pause before the clock's hand goes round again for tasks that wait for frames.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

impl Server {
    /// Takes requests for pages in.
    pub(crate) fn accept_pages(&self, records: &[&DevFileRequest]) {
        let mut refused = Vec::new();
        let Some(cache) = &self.cache else {
            let waiters = records.iter().filter(|r| op_of(r) == FILE_PAGE);
            refused.extend(waiters.map(|r| (after(r), FileErrno::NOTSUP)));
            refused
                .into_iter()
                .for_each(|(a, e)| self.finish(a, Err(e)));
            return;
        };
        let mut brain = cache.brain();
        // Neighbours mostly are of one file. No handle of a cached file comes or goes while the lock is held.
        let mut last = None;
        let mut cached_of = |handle| match last {
            Some((known, cached)) if known == handle => cached,
            _ => {
                let open = self.handles.file(handle);
                let cached = open.and_then(|file| file.cached);
                last = Some((handle, cached));
                cached
            }
        };
        for record in records {
            let cached = cached_of(record.handle);
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
            let waiter = PageWaiter {
                after: after(record),
                word: record.to,
            };
            let first = |file| brain.files.get(&file).map(|f| f.first);
            match cached
                .filter(|&file| first(file).and_then(|f| f.checked_add(page)) == Some(record.to))
            {
                Some(file) => brain.pager.miss(file, page, waiter),
                None => refused.push((waiter.after, FileErrno::BADF)),
            }
            if let Some((after, error)) = refused.pop() {
                self.release(after, record.to, error);
            }
        }
        self.settle(cache, &mut brain);
    }
    /// Ends a wait for a page with an error. The door takes the task off the holders of the word that it has named.
    fn release(&self, after: After, word: u64, error: FileErrno) {
        let done = DevFileDone {
            page: word.saturating_add(1),
            ..after.done(Err(error))
        };
        self.work().end([done], 1);
    }
    /// Passes on what the pager has decided.
    fn settle(&self, cache: &Cache, brain: &mut Brain) {
        let (mut jobs, mut done) = (Vec::new(), Vec::new());
        // The thread that carries out orders waits for the last flushes.
        let mut flushed = false;
        loop {
            let ordered = self.order_here(cache, brain);
            let step = brain.pager.step();
            let Step {
                reads,
                writes,
                done: waiters,
                ended,
            } = step;
            done.extend(waiters.into_iter().map(|end| {
                let PageWaiter { after, word } = end.waiter;
                let result = end.result.map(|_| 0).map_err(FileErrno);
                DevFileDone {
                    page: word + 1,
                    word: end.result.map_or(0, |wanted| wanted.bits),
                    ..after.done(result)
                }
            }));
            let of = |file: &CachedFile| brain.files.get(file);
            let mut runs: Vec<(Arc<File>, Run)> = reads
                .into_iter()
                .filter_map(|run| Some((of(&run.file)?.reads.clone(), run)))
                .collect();
            let each = runs.len().div_ceil(self.workers).clamp(1, TOGETHER);
            while !runs.is_empty() {
                let rest = runs.split_off(runs.len().min(each));
                jobs.push(Job::Read(std::mem::replace(&mut runs, rest)));
            }
            let mut pages: Vec<(Arc<File>, u64, WriteBack)> = writes
                .into_iter()
                .filter_map(|write| {
                    let file = of(&write.file)?;
                    Some((file.writes.clone()?, file.disk, write))
                })
                .collect();
            pages.sort_by_key(|(_, _, write)| (write.file, write.page));
            while !pages.is_empty() {
                let rest = pages.split_off(pages.len().min(TOGETHER));
                jobs.push(Job::Write(std::mem::replace(&mut pages, rest)));
            }
            if ended.is_empty() && !ordered {
                break;
            }
            for (ticket, result) in ended {
                flushed = true;
                self.ended(cache, brain, ticket, result.map_err(FileErrno));
            }
        }
        if !jobs.is_empty() || !done.is_empty() {
            let failed = done.iter().filter(|done| done.word == 0).count();
            self.work().end(done, failed);
            self.push_jobs(jobs);
        }
        if flushed || brain.pager.has_orders() || brain.pager.is_short() {
            cache.bell.ring(1);
        }
    }
    /// Carries out orders where the host reaches the words of pages. Returns whether there were any.
    fn order_here(&self, cache: &Cache, brain: &mut Brain) -> bool {
        if !cache.reaches || !brain.pager.has_orders() {
            return false;
        }
        let orders: Vec<DevPageOrder> = brain.pager.orders(ORDERS).iter().map(record).collect();
        brain.pager.answered(&cache.carry_out(&orders));
        !orders.is_empty()
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
        let mut brain = cache.brain();
        let opened = file.and_then(|file| cache.open(&mut brain, file, how, room, &self.handles));
        match opened {
            Ok((handle, None)) => self.finish(after, Ok(handle)),
            Ok((handle, Some(known))) => {
                brain.pager.refresh(known, Ticket::Opened { handle, after });
            }
            Err(error) => self.finish(after, Err(error)),
        }
        self.settle(cache, &mut brain);
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
        let mut brain = cache.brain();
        let (handle, known) = cache.open(&mut brain, file, how, room, &self.handles)?;
        if let (Some(known), true) = (known, waits) {
            brain.pager.refresh(known, Ticket::Host(sender));
            self.settle(cache, &mut brain);
            drop(brain);
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
        let mut brain = cache.brain();
        if file.is_closed() {
            self.complete(&file, after, Err(FileErrno::BADF));
        } else if asked == Asked::Sync {
            let ticket = Ticket::Asked { file, asked, after };
            brain.pager.flush(cached, ticket);
        } else if let Some(record) = brain.files.get_mut(&cached) {
            record.queue.push_back((file, asked, after));
            self.begin_next(cache, &mut brain, cached);
        } else {
            self.complete(&file, after, Err(FileErrno::BADF));
        }
        self.settle(cache, &mut brain);
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
        let mut brain = cache.brain();
        let result = cut.and_then(|()| {
            brain.pager.set_size(cached, size);
            if let Some(record) = brain.files.get_mut(&cached) {
                record.disk = size;
            }
            cache.write_entries(&brain, cached)
        });
        self.complete(file, after, result.map(|()| 0));
        self.go_on(cache, &mut brain, cached);
        self.settle(cache, &mut brain);
    }

    /// Reads pages into their frames, which the host reaches.
    pub(crate) fn read_pages(&self, runs: Vec<(Arc<File>, Run)>) {
        let Some(cache) = &self.cache else { return };
        let read = |(file, run): (Arc<File>, Run)| {
            let (run, got, error) = self.read_run(cache, &file, run);
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
        let mut brain = cache.brain();
        for end in done {
            brain
                .pager
                .read_done(end.run, end.got, end.error, end.named);
        }
        self.settle(cache, &mut brain);
    }
    /// Writes parts of pages to their files.
    pub(crate) fn write_pages(&self, pages: Vec<(Arc<File>, u64, WriteBack)>) {
        let Some(cache) = &self.cache else { return };
        let write = |(file, disk, write): (Arc<File>, u64, WriteBack)| {
            let result = self.write_page(cache, &file, disk, &write);
            (write, result.map_err(|e| e.0))
        };
        let done: Vec<_> = pages.into_iter().map(write).collect();
        let mut brain = cache.brain();
        for (write, result) in done {
            brain.pager.write_done(&write, result);
        }
        self.settle(cache, &mut brain);
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

    /// Carries out orders until all is over. If the engine ends, so does everything.
    pub(crate) fn keep_pages(&self, port: &Port) {
        let Some(cache) = &self.cache else { return };
        if self.keep(cache, port).is_err() {
            self.abandon();
        }
    }
    fn keep(&self, cache: &Cache, port: &Port) -> Result<(), Error> {
        let mut brain = cache.brain();
        let mut last = None;
        let (mut pause, mut evicted, mut since) = (PAUSES.0, 0, Instant::now());
        loop {
            if self.is_lost() {
                return Err(Error::Stopped);
            }
            let mut carried = false;
            if brain.pager.has_orders() {
                let orders = match cache.reaches {
                    // `settle` carries them out.
                    true => Vec::new(),
                    false => brain.pager.orders(ORDERS),
                };
                if !orders.is_empty() {
                    // Other threads have the lock meanwhile.
                    drop(brain);
                    let answers = self.carry_out(cache, port, &orders)?;
                    brain = cache.brain();
                    brain.pager.answered(&answers);
                    carried = true;
                }
                self.settle(cache, &mut brain);
            }
            if self.work().giving.waits() {
                // The last completion may ring for this thread, and that takes the lock.
                drop(brain);
                self.deliver();
                brain = cache.brain();
                continue;
            }
            if carried {
                continue;
            }
            let over = {
                let work = self.work();
                work.closing && work.in_flight == 0
            };
            if over && last.is_none() {
                let (sender, receiver) = channel();
                let files: Vec<CachedFile> = brain.files.keys().copied().collect();
                for file in files {
                    brain.pager.flush(file, Ticket::Host(sender.clone()));
                }
                last = Some(receiver);
                continue;
            }
            if let Some(ends) = &last {
                // Every flush has a sender until it has ended.
                use std::sync::mpsc::TryRecvError::Disconnected;
                ends.try_iter().for_each(drop);
                if ends.try_recv() == Err(Disconnected) {
                    drop(brain);
                    self.work().written_back = true;
                    self.ring_all();
                    return Ok(());
                }
            }
            let stats = brain.pager.stats();
            if !brain.pager.is_short() || stats.evicted != evicted {
                (pause, evicted, since) = (PAUSES.0, stats.evicted, Instant::now());
            }
            if !brain.pager.starves() {
                brain = cache.sleep(brain, None);
            } else if since.elapsed() >= cache.patience {
                brain.pager.give_up();
                self.settle(cache, &mut brain);
            } else {
                brain = cache.sleep(brain, Some(pause));
                pause = (2 * pause).min(PAUSES.1);
                brain.pager.retry();
            }
        }
    }
    /// Lets tasks of the door carry out orders, and waits for their answers.
    fn carry_out(&self, cache: &Cache, port: &Port, orders: &[Order]) -> Result<Vec<u64>, Error> {
        let mut words: Vec<u64> = orders
            .iter()
            .flat_map(|order| words_of::<ORDER>(record(order).bytes()))
            .collect();
        cache.orders.write_at(0, &words)?;
        let task = |at: usize| {
            let count = ORDERS_EACH.min(orders.len() - at);
            let task = port.task(FILE_DOOR_ORDERS);
            task.args(at as u32, count as u32).build()
        };
        let tasks: Vec<DevTask> = (0..orders.len()).step_by(ORDERS_EACH).map(task).collect();
        let begin = Instant::now();
        let mut pending = self.engine.submit_batch(&tasks)?;
        self.wait(&mut pending)?;
        self.counters.order_wait.add_since(begin);
        cache.orders.read_at(0, &mut words)?;
        Ok(words
            .chunks_exact(ORDER)
            .map(|words| words[ORDER - 1])
            .collect())
    }
}

/// An order as the door reads it.
fn record(order: &Order) -> DevPageOrder {
    let (op, value) = match order.kind {
        OrderKind::Fill(bits) => (PAGE_ORDER_FILL, bits),
        OrderKind::Evict(Eviction::Clock) => (PAGE_ORDER_EVICT, 0),
        OrderKind::Evict(Eviction::Drop) => (PAGE_ORDER_DROP, 0),
        OrderKind::Evict(Eviction::Discard) => (PAGE_ORDER_DROP, 1),
        OrderKind::Take => (PAGE_ORDER_TAKE, 0),
        OrderKind::Written(failed) => (PAGE_ORDER_WRITTEN, failed),
    };
    DevPageOrder {
        op,
        frame: order.frame,
        page: order.word,
        value,
    }
}

// The answer is the last word.
const _: () = assert!(std::mem::offset_of!(DevPageOrder, value) == 8 * (ORDER - 1));
