//! A cache against a plain model: tasks, the host and the file take steps in an order that a seed chooses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_contract::errno::{ERRNO_BUSY, ERRNO_INVAL, ERRNO_IO, ERRNO_NOBUFS};
use everwarp_contract::pages::{PAGE_VERSION_BITS, PAGE_VERSION_SHIFT};

use crate::pager::{CachedFile, Order, OrderKind, Pager, Run, Shape, WriteBack};
use crate::word::{Acquired, Word};

const PAGE_BITS: u32 = 7;
const PAGE: usize = 1 << PAGE_BITS;
const SHORTER: u32 = 1000;

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What a task does with a page.
#[derive(Clone, Copy, Debug)]
enum Task {
    Idle,
    Waits { page: u64 },
    Holds { page: u64 },
}

/// What is on its way to the host or to the file.
enum Event {
    Miss {
        task: usize,
        page: u64,
    },
    Used(u64),
    Read(Run),
    ReadDone {
        run: Run,
        got: u64,
        error: Option<u32>,
        named: u64,
    },
    Write(WriteBack),
}

struct Faults {
    reads: usize,
    writes: usize,
}

struct World {
    random: Random,
    words: Vec<AtomicU64>,
    written: Vec<AtomicU64>,
    frames: Vec<[u8; PAGE]>,
    /// The file as tasks see it, and as it is.
    model: Vec<u8>,
    disk: Vec<u8>,
    tasks: Vec<Task>,
    events: Vec<Event>,
    pager: Pager<(usize, u64), u32>,
    file: CachedFile,
    /// Orders that are on their way, with the answers of those that were carried out.
    orders: Vec<(Order, Option<u64>)>,
    ended: VecDeque<(u32, Result<(), u32>)>,
    faults: Faults,
    refused: usize,
    /// Misses that came while the page's frame had an order on its way.
    crossed: usize,
    /// Tasks that found every page held.
    crowded: usize,
    /// Steps without a frame for those that wait.
    starving: usize,
    hits: usize,
}

impl World {
    fn new(seed: u64, frames: u32, bytes: usize, tasks: usize, faults: Faults) -> Self {
        let mut random = Random(seed * 2 + 1);
        for _ in 0..10 {
            random.below(1);
        }
        let words = bytes.div_ceil(PAGE) as u64 + 3;
        let mut pager = Pager::new(Shape {
            frames,
            page_bits: PAGE_BITS,
            words,
            ahead: 8,
            shorter: SHORTER,
        });
        let model: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
        let added = pager.add(bytes as u64, 0, true);
        let (file, first) = added.expect("there are words");
        assert_eq!(first, 0);
        Self {
            random,
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            written: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            frames: vec![[0xee; PAGE]; frames as usize],
            disk: model.clone(),
            model,
            tasks: vec![Task::Idle; tasks],
            events: Vec::new(),
            pager,
            file,
            orders: Vec::new(),
            ended: VecDeque::new(),
            faults,
            refused: 0,
            crossed: 0,
            crowded: 0,
            starving: 0,
            hits: 0,
        }
    }
    fn word(&self, page: u64) -> Word<'_> {
        Word(&self.words[page as usize])
    }
    /// The bytes of a page that the file has.
    fn range(&self, page: u64) -> std::ops::Range<usize> {
        let first = page as usize * PAGE;
        first..(first + PAGE).min(self.model.len())
    }
    /// A task uses the page that it holds.
    fn use_page(&mut self, page: u64) {
        let frame = self.word(page).held().expect("it holds the page") as usize;
        let range = self.range(page);
        let len = range.len();
        assert_eq!(
            self.frames[frame][..len],
            self.model[range.clone()],
            "page {page}"
        );
        assert!(
            self.frames[frame][len..].iter().all(|&b| b == 0),
            "zeros after the file's end"
        );
        if self.random.chance(40) {
            let part = PAGE / 64;
            let at = self.random.below(len);
            let value = self.random.below(256) as u8;
            self.frames[frame][at] = value;
            self.model[range.start + at] = value;
            self.word(page)
                .wrote(&self.written[frame], 1 << (at / part));
        }
    }
    fn task_step(&mut self, task: usize) {
        match self.tasks[task] {
            Task::Waits { .. } => {}
            Task::Holds { page } => {
                self.use_page(page);
                if self.random.chance(50) {
                    self.word(page).release();
                    self.tasks[task] = Task::Idle;
                }
            }
            Task::Idle => {
                let pages = self.model.len().div_ceil(PAGE);
                // Some tasks walk, so that pages are read ahead.
                let page = match task % 3 {
                    0 => (self.random.below(3) + self.hits / 20) % pages,
                    _ => self.random.below(pages),
                } as u64;
                let (frames, right) = (&self.frames, &self.model[self.range(page)]);
                let read = |frame| frames[frame as usize][..right.len()] == *right;
                let peeked = self.word(page).peek(read);
                assert_ne!(peeked, Some(false), "page {page}");
                match self.word(page).acquire() {
                    Acquired::Here { mark, .. } => {
                        self.hits += 1;
                        if mark {
                            self.events.push(Event::Used(page));
                        }
                        self.tasks[task] = Task::Holds { page };
                    }
                    Acquired::Missing => {
                        self.events.push(Event::Miss { task, page });
                        self.tasks[task] = Task::Waits { page };
                    }
                    Acquired::Crowded => panic!("there are few tasks"),
                }
            }
        }
    }
    fn event(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let at = self.random.below(self.events.len());
        match self.events.swap_remove(at) {
            Event::Miss { task, page } => {
                let crosses = |(order, _): &(Order, _)| order.word == page;
                self.crossed += usize::from(self.orders.iter().any(crosses));
                self.pager.miss(self.file, page, (task, page));
            }
            Event::Used(page) => self.pager.used(self.file, page),
            Event::Read(run) => self.read(run),
            Event::ReadDone {
                run,
                got,
                error,
                named,
            } => self.pager.read_done(run, got, error, named),
            Event::Write(write) => self.write(&write),
        }
        self.step();
    }
    fn read(&mut self, run: Run) {
        let fails = self.random.chance(self.faults.reads);
        let has = self.disk.len().saturating_sub(run.first as usize * PAGE);
        let whole = has.min(run.bytes as usize);
        let got = match fails {
            true => self.random.below(whole + 1),
            false => whole,
        };
        let error = (got < whole).then_some(ERRNO_IO);
        for (at, &frame) in run.frames.iter().enumerate() {
            let first = (run.first as usize + at) * PAGE;
            let len = got.saturating_sub(at * PAGE).min(PAGE);
            let bytes = &mut self.frames[frame as usize];
            bytes.fill(0);
            bytes[..len].copy_from_slice(&self.disk[first..first + len]);
        }
        // The door names some of the pages that have come when it copies them.
        let mut named = 0;
        for at in 0..run.frames.len() {
            let end = ((at + 1) * PAGE).min(run.bytes as usize);
            if got >= end && self.random.chance(50) {
                self.word(run.word + at as u64).fill(run.bits(at));
                named |= 1 << at;
            }
        }
        self.events.push(Event::ReadDone {
            run,
            got: got as u64,
            error,
            named,
        });
    }
    fn write(&mut self, write: &WriteBack) {
        if self.random.chance(self.faults.writes) {
            return self.pager.write_done(write, Err(ERRNO_IO));
        }
        let part = PAGE / 64;
        let first = write.page as usize * PAGE;
        let bytes = &self.frames[write.frame as usize];
        for (at, &byte) in bytes[..write.bytes as usize].iter().enumerate() {
            if write.parts >> (at / part) & 1 == 1 {
                self.disk[first + at] = byte;
            }
        }
        self.pager.write_done(write, Ok(()));
    }
    fn step(&mut self) {
        let step = self.pager.step();
        self.events.extend(step.reads.into_iter().map(Event::Read));
        self.events
            .extend(step.writes.into_iter().map(Event::Write));
        self.ended.extend(step.ended);
        for done in step.done {
            let (task, page) = done.waiter;
            assert!(matches!(self.tasks[task], Task::Waits { page: other } if other == page));
            match done.result {
                Ok(wanted) => {
                    self.word(page).fill(wanted.bits);
                    self.tasks[task] = Task::Holds { page };
                }
                Err(error) => {
                    assert!(
                        [ERRNO_IO, ERRNO_NOBUFS, ERRNO_INVAL, SHORTER].contains(&error),
                        "{error}"
                    );
                    self.crowded += usize::from(error == ERRNO_NOBUFS);
                    self.refused += 1;
                    self.word(page).release();
                    self.tasks[task] = Task::Idle;
                }
            }
        }
    }
    /// Sends orders, carries one out, or hands over the answers of all.
    fn orders(&mut self) {
        if self.orders.is_empty() {
            let most = 1 + self.random.below(20);
            let orders = self.pager.orders(most);
            self.orders = orders.into_iter().map(|order| (order, None)).collect();
            self.step();
            if !self.orders.is_empty() {
                return;
            }
        }
        let left = self.orders.iter().filter(|(_, answer)| answer.is_none());
        let left = left.count();
        if left > 0 {
            let which = self.random.below(left);
            let mut open = (0..self.orders.len()).filter(|&at| self.orders[at].1.is_none());
            let at = open.nth(which).expect("it was counted");
            self.orders[at].1 = Some(self.carry_out(self.orders[at].0));
            return;
        }
        self.answer();
    }
    fn carry_out(&self, order: Order) -> u64 {
        let word = self.word(order.word);
        let written = &self.written[order.frame as usize];
        match order.kind {
            OrderKind::Fill(bits) => {
                word.fill(bits);
                0
            }
            OrderKind::Evict(how) => word.evict(order.frame, written, how) as u64,
            OrderKind::Take => word.take(written),
            OrderKind::Written(failed) => {
                word.written(written, failed);
                0
            }
        }
    }
    fn answer(&mut self) {
        let orders = std::mem::take(&mut self.orders);
        let answers: Vec<u64> = orders
            .into_iter()
            .filter_map(|(_, answer)| answer)
            .collect();
        self.pager.answered(&answers);
        self.step();
        if self.pager.starves() {
            self.starving += 1;
            if self.starving > 500 {
                self.pager.give_up();
                self.step();
            } else {
                self.pager.retry();
            }
        } else {
            self.starving = 0;
        }
    }
    fn any_step(&mut self) {
        match self.random.below(10) {
            0..4 => {
                let task = self.random.below(self.tasks.len());
                self.task_step(task);
            }
            4..7 => self.event(),
            _ => self.orders(),
        }
    }
    /// Goes on without new tasks until nothing is on its way.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let busy = self
                .tasks
                .iter()
                .position(|task| matches!(task, Task::Holds { .. }));
            if let Some(task) = busy {
                self.task_step(task);
            }
            self.event();
            self.orders();
            let idle = self.tasks.iter().all(|task| matches!(task, Task::Idle));
            let quiet = self.events.is_empty() && self.orders.is_empty();
            if idle && quiet && !self.pager.has_orders() {
                return;
            }
        }
        panic!("it does not settle");
    }
    fn end_of(&mut self, ticket: u32) -> Result<(), u32> {
        self.settle();
        let (ended, result) = self.ended.pop_front().expect("it has ended");
        assert_eq!((ended, self.ended.len()), (ticket, 0));
        result
    }
}

const QUIET: Faults = Faults {
    reads: 0,
    writes: 0,
};

#[test]
fn tasks_read_what_was_written_and_the_file_gets_it() {
    let (mut ahead, mut crossed) = (0, 0);
    for seed in 0..60 {
        let frames = 2 + seed as u32 % 13;
        let bytes = frames as usize * 8 * PAGE - 5;
        let faults = match seed % 3 {
            0 => QUIET,
            1 => Faults {
                reads: 10,
                writes: 0,
            },
            _ => Faults {
                reads: 5,
                writes: 10,
            },
        };
        let fails = faults.writes > 0;
        let mut world = World::new(seed, frames, bytes, 1 + (seed as usize * 7) % 90, faults);
        for _ in 0..10_000 {
            world.any_step();
        }
        world.settle();
        world.faults = QUIET;
        let file = world.file;
        // Pages that failed meanwhile are written now; the flush tells of them all the same.
        world.pager.flush(file, 1);
        let flushed = world.end_of(1);
        let lost = world.pager.facts(file).expect("it is there").1;
        assert_eq!(flushed, lost.map_or(Ok(()), Err), "seed {seed}");
        assert!(fails || lost.is_none());
        // A task holds one page at a time, so each gets its turn.
        assert_eq!(world.crowded, 0, "seed {seed}");
        assert!(world.disk == world.model, "seed {seed}");
        world.pager.cut(file, 0, u64::MAX, 2);
        assert_eq!(world.end_of(2), Ok(()));
        // The versions are left.
        let left = ((1 << PAGE_VERSION_BITS) - 1) << PAGE_VERSION_SHIFT;
        assert!(
            world
                .words
                .iter()
                .all(|word| word.load(Ordering::Relaxed) & !left == 0)
        );
        let stats = world.pager.stats();
        assert!(stats.evicted > 0 && world.hits > 0 && stats.read >= stats.evicted);
        ahead += stats.ahead;
        crossed += world.crossed;
    }
    assert!(ahead > 0, "some tasks walk");
    assert!(crossed > 100, "misses meet orders: {crossed}");
}

#[test]
fn misses_of_a_page_are_one_read() {
    let mut world = World::new(5, 8, 20 * PAGE, 6, QUIET);
    for task in 0..6 {
        let missing = world.word(7).acquire() == Acquired::Missing;
        assert!(missing);
        world.tasks[task] = Task::Waits { page: 7 };
        world.pager.miss(world.file, 7, (task, 7));
    }
    world.settle();
    let stats = world.pager.stats();
    assert_eq!((stats.missed, stats.read, stats.runs), (6, 1, 1));
}

#[test]
fn neighbours_in_the_file_keep_their_bytes() {
    let mut world = World::new(6, 4, 4 * PAGE, 1, QUIET);
    let missing = world.word(1).acquire() == Acquired::Missing;
    assert!(missing);
    world.tasks[0] = Task::Waits { page: 1 };
    world.pager.miss(world.file, 1, (0, 1));
    world.step();
    while !matches!(world.tasks[0], Task::Holds { .. }) {
        world.event();
    }
    // The task writes one part, and another program the part next to it.
    let frame = world.word(1).held().expect("it is held") as usize;
    world.frames[frame][10] = 0x55;
    world.word(1).wrote(&world.written[frame], 1 << 5);
    world.word(1).release();
    world.tasks[0] = Task::Idle;
    world.disk[PAGE + 12] = 0x66;
    world.pager.flush(world.file, 9);
    assert_eq!(world.end_of(9), Ok(()));
    assert_eq!((world.disk[PAGE + 10], world.disk[PAGE + 12]), (0x55, 0x66));
}

#[test]
fn every_page_held_is_an_error_and_no_deadlock() {
    let mut world = World::new(7, 3, 10 * PAGE, 4, QUIET);
    for task in 0..4 {
        let page = task as u64 * 2;
        let missing = world.word(page).acquire() == Acquired::Missing;
        assert!(missing);
        world.tasks[task] = Task::Waits { page };
        world.pager.miss(world.file, page, (task, page));
    }
    world.step();
    for _ in 0..100 {
        world.event();
        let sent = world.pager.orders(10).len();
        let answers = vec![u64::from(everwarp_contract::pages::PAGE_IS_HELD); sent];
        world.pager.answered(&answers);
        world.step();
    }
    assert!(world.pager.starves());
    world.pager.give_up();
    world.step();
    assert_eq!(world.refused, 1);
    assert!(matches!(world.tasks[3], Task::Idle));
}

#[test]
fn a_file_that_became_shorter_is_an_error() {
    let mut world = World::new(8, 4, 10 * PAGE, 2, QUIET);
    world.disk.truncate(3 * PAGE + 1);
    for (task, page) in [(0, 2), (1, 3)] {
        let missing = world.word(page).acquire() == Acquired::Missing;
        assert!(missing);
        world.tasks[task] = Task::Waits { page };
        world.pager.miss(world.file, page, (task, page));
    }
    world.step();
    while !world.events.is_empty() {
        world.event();
    }
    assert!(matches!(world.tasks[0], Task::Holds { page: 2 }));
    assert!(matches!(world.tasks[1], Task::Idle) && world.refused == 1);
}

#[test]
fn a_cut_waits_for_write_backs_and_refuses_held_pages() {
    let mut world = World::new(9, 8, 8 * PAGE, 2, QUIET);
    for (task, page) in [(0, 2), (1, 6)] {
        let missing = world.word(page).acquire() == Acquired::Missing;
        assert!(missing);
        world.tasks[task] = Task::Waits { page };
        world.pager.miss(world.file, page, (task, page));
    }
    world.step();
    while !world.events.is_empty() {
        world.event();
    }
    for page in [2, 6] {
        let frame = world.word(page).held().expect("it is held") as usize;
        world.frames[frame][0] = 1;
        world.model[page as usize * PAGE] = 1;
        world.word(page).wrote(&world.written[frame], 1);
    }
    world.pager.cut(world.file, 5, 6, 1);
    while world.ended.is_empty() {
        world.event();
        world.orders();
    }
    assert_eq!(world.ended.pop_front(), Some((1, Err(ERRNO_BUSY))));
    world.pager.unblock(world.file);
    world.word(6).release();
    world.tasks[1] = Task::Idle;
    // Page 2 is before the cut, and may be held.
    world.pager.cut(world.file, 5, 6, 2);
    // A task that wants a page after the cut waits until it is known how long the file is.
    let missing = world.word(7).acquire() == Acquired::Missing;
    assert!(missing);
    world.tasks[1] = Task::Waits { page: 7 };
    world.pager.miss(world.file, 7, (1, 7));
    while world.ended.is_empty() {
        world.event();
        world.orders();
    }
    assert_eq!(world.ended.pop_front(), Some((2, Ok(()))));
    world.disk.truncate(5 * PAGE);
    world.model.truncate(5 * PAGE);
    world.pager.set_size(world.file, 5 * PAGE as u64);
    world.pager.unblock(world.file);
    world.step();
    assert!(world.refused == 1 && matches!(world.tasks[1], Task::Idle));
    world.pager.flush(world.file, 3);
    assert_eq!(world.end_of(3), Ok(()));
    assert!(world.disk == world.model);
}

#[test]
fn a_refresh_reads_again_what_the_host_has_changed() {
    let mut world = World::new(10, 8, 8 * PAGE, 3, QUIET);
    for _ in 0..500 {
        world.any_step();
    }
    world.settle();
    world.pager.flush(world.file, 1);
    assert_eq!(world.end_of(1), Ok(()));
    world.disk.iter_mut().for_each(|byte| *byte ^= 0xff);
    world.model.clone_from(&world.disk);
    world.pager.refresh(world.file, 2);
    assert_eq!(world.end_of(2), Ok(()));
    for _ in 0..500 {
        world.any_step();
    }
    world.settle();
}

#[test]
fn pages_of_a_file_that_fits_stay_in_the_cache() {
    for (frames, stay) in [(64, true), (63, false)] {
        let mut world = World::new(11, frames, 64 * PAGE, 4, QUIET);
        for _ in 0..10_000 {
            world.any_step();
        }
        world.settle();
        let stats = world.pager.stats();
        assert_eq!(stats.read == 64, stay, "{frames} frames: {stats:?}");
        assert!(stats.read >= 64 && world.hits > 500, "{stats:?}");
    }
}

/// A task that walks meets windows that are still being read, and no page that is not being read yet.
#[test]
fn a_task_that_waits_for_a_window_has_others_read_meanwhile() {
    let (pages, window) = (96, 8);
    let mut world = World::new(12, 128, pages * PAGE, 1, QUIET);
    let mut most = 0;
    for page in 0..pages as u64 {
        match world.word(page).acquire() {
            Acquired::Here { mark: true, .. } => world.pager.used(world.file, page),
            Acquired::Here { .. } => {}
            Acquired::Crowded => panic!("there is one task"),
            Acquired::Missing => {
                world.tasks[0] = Task::Waits { page };
                world.pager.miss(world.file, page, (0, page));
            }
        }
        world.step();
        let runs = world.events.iter().map(|event| match event {
            Event::Read(run) | Event::ReadDone { run, .. } => run.frames.len(),
            _ => 0,
        });
        most = most.max(runs.sum());
        // Nothing else comes to its end while the task walks.
        while matches!(world.tasks[0], Task::Waits { .. }) {
            world.event();
        }
        world.word(page).release();
        world.tasks[0] = Task::Idle;
    }
    assert!(most > 2 * window, "{most} pages were on their way");
    let stats = world.pager.stats();
    assert_eq!((stats.read, stats.skipped), (pages as u64, 0));
    assert_eq!(stats.read - stats.ahead, 2, "two misses make it a stream");
    assert!(stats.late > 2, "{stats:?}");
}
