//! The pump: it moves submissions to the device, keeps the chain of dispatches going while there is work, and brings
//! completions back. It is a state machine that a waiting thread steps, or the engine's own for work that no one waits for.
//!
//! At most two submissions to the driver are in flight: one runs while the host prepares the next.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everwarp_contract::fault::{FAULT_BAD_SUBMISSION, FAULT_DEVICE_LOST};
use everwarp_contract::ring::{COMPLETION_LAP, Slots};
use everwarp_contract::task::{FN_COMPLETE, HOST_DIRECT, PRIORITIES, TASK_BATCH, TASK_COUNTED};
use everwarp_contract::wgpu::{
    DevRound, DevWgpuGroup, DevWgpuHeader, GROUP_SHARED, WGPU_INTAKE, WGPU_THREADS,
};
use everwarp_contract::{DevCompletion, DevTask, DevType, DevWords, FunctionId, Layout};
use everwarp_engine::EngineError;
use everwarp_engine::table::ZeroedTable;

use crate::gpu::{Compiled, Gpu, Mapped, ROUND_STRIDE, ROUNDS};
use crate::sizes::{INBOX, Sizes};
use crate::times::Times;

/// Completions that come back with every submission; more of them need a second copy.
const EAGER: u32 = 240;
/// Bytes of a read-back.
const READBACK: u64 = size_of::<DevWgpuHeader>() as u64 + EAGER as u64 * 16;
/// A dispatch should take no longer than this.
const LONG: Duration = Duration::from_millis(2);
/// A dispatch that takes less may have more turns.
const SHORT: Duration = Duration::from_micros(700);
/// A submission's dispatches together should take no longer than this.
const BEAT: Duration = Duration::from_millis(4);
/// The longest time that a driver may compile.
const COMPILING: Duration = Duration::from_secs(300);
/// A batch with this number of tasks left, or more, is worth a submission of its own while another one is in flight.
const BACKLOG: u32 = 4096;
const LEAST_TURNS: u32 = 4;
const MOST_TURNS: u32 = 2048;

/// The host's end of the rings, in host memory.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) words: ZeroedTable<DevWords>,
    pub(crate) submissions: ZeroedTable<DevTask>,
    pub(crate) completions: ZeroedTable<DevCompletion>,
    pub(crate) arena: ZeroedTable<DevTask>,
}

impl Rings {
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < size_of::<DevWords>());
        // SAFETY: an aligned word inside the control words, which live as long as `self` and are only accessed atomically.
        unsafe { AtomicU32::from_ptr(self.words.base().byte_add(offset).cast()) }
    }
    fn pair<T: DevType>(table: &ZeroedTable<T>, slot: usize) -> (&AtomicU64, &AtomicU64) {
        const { assert!(size_of::<T>() == 16) };
        let at = table.at(slot).cast::<u64>();
        // SAFETY: both words of a live, aligned slot, which both sides access as atomic words.
        unsafe { (AtomicU64::from_ptr(at), AtomicU64::from_ptr(at.add(1))) }
    }
}

/// A submission to the driver that has not come back.
#[derive(Debug)]
struct Flight {
    index: wgpu::SubmissionIndex,
    mapped: Mapped,
    /// Which read-back buffer.
    place: usize,
    submission: u32,
    last_round: u32,
    /// Which of two places of a table the last dispatch has written.
    slot: u32,
    rounds: u32,
    begin: Instant,
}

/// A submission that is not on the device yet.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// A task as the device takes it.
    Task([u32; 4]),
    /// The rest of a batch.
    Batch {
        /// Its token, which is also its group.
        token: u32,
        /// Its next task in the arena.
        next: u32,
        /// How many tasks are left.
        left: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Pump {
    sizes: Sizes,
    pub(crate) compiled: Compiled,
    /// Functions that the image has.
    pub(crate) functions: u32,
    pub(crate) size: u32,
    pub(crate) parked: bool,
    /// Copies to the host that wait for the device, or use it: nothing is submitted meanwhile.
    pub(crate) copies: u32,
    /// Nothing runs any more: a fault, or a lost device.
    pub(crate) ended: bool,
    readback: [wgpu::Buffer; 2],
    flights: VecDeque<Flight>,
    /// Submissions taken from the ring; free-running.
    taken: u32,
    /// Submissions taken, by priority.
    queued: [VecDeque<Entry>; PRIORITIES as usize],
    inbox_tail: u32,
    inbox_head: u32,
    round: u32,
    /// Which of two places of a table the last dispatch submitted writes.
    slot: u32,
    submission: u32,
    /// Tasks on the device, at the end of the last read-back.
    waiting: u32,
    completions: u32,
    turns: u32,
    rounds: u32,
    returned: Option<Instant>,
    /// When the engine started: the device's clock counts from here.
    begin: Instant,
    pub(crate) times: Times,
    /// The flags of a dispatch: what the settings for tests ask for.
    flags: u32,
    /// After this submission the device is destroyed.
    loses: Option<u32>,
    /// The function that was submitted last, for the report of a dispatch that does not return.
    newest: u32,
    pub(crate) header: DevWgpuHeader,
}

impl Pump {
    pub(crate) fn new(
        gpu: &Gpu,
        sizes: Sizes,
        compiled: Compiled,
        functions: u32,
        size: u32,
    ) -> Result<Self, EngineError> {
        let readback = || {
            crate::gpu::buffer(
                &gpu.device,
                "results",
                READBACK,
                wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            )
        };
        Ok(Self {
            sizes,
            compiled,
            functions,
            size,
            parked: false,
            copies: 0,
            ended: false,
            readback: [readback()?, readback()?],
            flights: VecDeque::new(),
            taken: 0,
            queued: std::array::from_fn(|_| VecDeque::new()),
            inbox_tail: 0,
            inbox_head: 0,
            round: 0,
            slot: 0,
            submission: 0,
            waiting: 0,
            completions: 0,
            turns: 64,
            rounds: 1,
            returned: None,
            begin: Instant::now(),
            times: Times::new(),
            flags: crate::trials::round_flags()?,
            loses: crate::trials::loses()?,
            newest: 0,
            header: DevWgpuHeader::ZERO,
        })
    }

    /// Whether the device may have work, or the host has some for it.
    pub(crate) fn has_work(&self, rings: &Rings) -> bool {
        !self.ended
            && (!self.flights.is_empty()
                || (!self.parked && (self.is_busy() || self.has_news(rings))))
    }
    fn is_busy(&self) -> bool {
        self.waiting > 0 || self.inbox_tail != self.inbox_head
    }
    fn has_news(&self, rings: &Rings) -> bool {
        self.queued.iter().any(|q| !q.is_empty()) || self.peek(rings).is_some()
    }
    /// The oldest submission to the driver, for waiting.
    pub(crate) fn oldest(&self) -> Option<(wgpu::SubmissionIndex, Mapped)> {
        let flight = self.flights.front()?;
        Some((flight.index.clone(), flight.mapped.clone()))
    }
    /// How long the oldest submission to the driver has been in flight.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.flights.front().map(|flight| flight.begin.elapsed())
    }
    /// The function that was submitted last.
    pub(crate) fn newest(&self) -> FunctionId {
        FunctionId(self.newest)
    }

    /// Does what can be done without waiting. Returns whether anything came back or was submitted.
    pub(crate) fn step(&mut self, gpu: &Gpu, rings: &Rings) -> bool {
        if self.ended {
            return false;
        }
        let mut moved = false;
        if !self.flights.is_empty() {
            gpu.poll();
            while self.collect(gpu, rings) {
                moved = true;
            }
        }
        if let Some(reason) = gpu.lost() {
            self.end(rings, FAULT_DEVICE_LOST, 0, reason.len() as u64);
            return true;
        }
        if self.ended || self.parked || self.copies > 0 {
            return moved;
        }
        // A software driver takes no second submission before the first has ended: the call would not return.
        let most = if gpu.software { 1 } else { 2 };
        while self.flights.len() < most && self.wants(rings) {
            if !self.submit(gpu, rings) {
                break;
            }
            moved = true;
        }
        moved
    }

    /// Whether another submission may be useful: the first one always, a second one when the device is known to be busy, or
    /// when a batch waits for which the host can do its part meanwhile.
    fn wants(&self, rings: &Rings) -> bool {
        self.flights.is_empty() || self.waiting > 0 || self.has_backlog(rings)
    }
    fn has_backlog(&self, rings: &Rings) -> bool {
        let large = |entry: &Entry| matches!(entry, Entry::Batch { left, .. } if *left >= BACKLOG);
        let new = |task: DevTask| task.head & TASK_BATCH != 0 && task.arg >> 32 >= BACKLOG.into();
        self.queued.iter().flatten().any(large) || self.peek(rings).is_some_and(new)
    }

    /// Takes the result of the oldest submission, if it is there.
    fn collect(&mut self, gpu: &Gpu, rings: &Rings) -> bool {
        let mapped = |flight: &Flight| flight.mapped.load(Ordering::Acquire);
        let Some(state) = self.flights.front().map(mapped).filter(|&state| state != 0) else {
            return false;
        };
        let flight = self.flights.pop_front().expect("there is one");
        if state != 1 {
            gpu.note_loss("the results of a dispatch cannot be read");
            self.end(rings, FAULT_DEVICE_LOST, 0, 1);
            return true;
        }
        let buffer = self.readback[flight.place].clone();
        let mut bytes = vec![0; READBACK as usize];
        match buffer.get_mapped_range(..) {
            Ok(view) => bytes.copy_from_slice(&view),
            Err(error) => {
                gpu.note_loss(&error.to_string());
                self.end(rings, FAULT_DEVICE_LOST, 0, 2);
                return true;
            }
        }
        buffer.unmap();
        let now = Instant::now();
        let begin = self.returned.map_or(flight.begin, |r| r.max(flight.begin));
        self.returned = Some(now);
        let (head, rest) = bytes.split_at(size_of::<DevWgpuHeader>());
        self.header = DevWgpuHeader::from_bytes(head);
        let header = self.header;
        if header.stop != 0 {
            let detail =
                u64::from(header.fault_detail[1]) << 32 | u64::from(header.fault_detail[0]);
            self.end(rings, header.fault_code, header.fault_function, detail);
            return true;
        }
        self.inbox_head = header.inbox_head[flight.slot as usize];
        self.waiting = header.waiting[flight.last_round as usize % 4];
        let count = header.completions[flight.submission as usize % 4].min(self.sizes.pools.tokens);
        let mut more = Vec::new();
        if count > EAGER {
            more = vec![0; (count - EAGER) as usize * 16];
            let region = u64::from(flight.submission % 2) * u64::from(self.sizes.pools.tokens);
            let at = (region + u64::from(EAGER)) * 16;
            if let Err(error) = gpu.read(&gpu.completed, at, &mut more, Duration::from_secs(30)) {
                gpu.note_loss(&error.to_string());
                self.end(rings, FAULT_DEVICE_LOST, 0, 3);
                return true;
            }
        }
        let eager = rest.chunks_exact(16).take(count as usize);
        for entry in eager.chain(more.chunks_exact(16)) {
            let entry = DevCompletion::from_bytes(entry);
            self.complete(rings, entry.token, entry.value);
        }
        let each = (now - begin) / flight.rounds;
        self.times.count(each, flight.rounds);
        self.adapt(each, header.spent[flight.last_round as usize % 4] != 0);
        true
    }

    /// Chooses the turns of a dispatch and the dispatches of a submission from the time that the last ones took.
    fn adapt(&mut self, each: Duration, spent: bool) {
        if each > LONG {
            self.turns = (self.turns / 2).max(LEAST_TURNS);
        } else if each < SHORT && spent {
            self.turns = (self.turns * 2).min(MOST_TURNS);
        }
        self.rounds = match self.waiting {
            0 => 1,
            _ if each * self.rounds * 2 <= BEAT => (self.rounds * 2).min(ROUNDS as u32),
            _ if each * self.rounds > 2 * BEAT => (self.rounds / 2).max(1),
            _ => self.rounds,
        };
    }

    /// Writes a completion. There is room: the host has no more tokens in flight than slots.
    fn complete(&mut self, rings: &Rings, token: u32, value: u64) {
        let ring = Slots::new(self.sizes.pools.tokens);
        let (first, second) = Rings::pair(&rings.completions, ring.slot(self.completions));
        second.store(value, Ordering::Relaxed);
        // Release: the value and all copies before happen before the host sees the lap.
        let lap = ring.lap(self.completions) & COMPLETION_LAP;
        first.store(u64::from(lap) << 32 | u64::from(token), Ordering::Release);
        self.completions = self.completions.wrapping_add(1);
    }

    /// Ends the engine with a fault; the first one counts.
    fn end(&mut self, rings: &Rings, code: u32, function: u32, detail: u64) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let at = rings.words.base();
        // SAFETY: the words are live; the pump's lock makes this the only writer. The code is written last, with release.
        unsafe {
            (&raw mut (*at).fault.function).write(function);
            (&raw mut (*at).fault.detail).write(detail);
        }
        rings
            .word(offset_of!(DevWords, fault.code))
            .store(code, Ordering::Release);
    }

    fn peek(&self, rings: &Rings) -> Option<DevTask> {
        let ring = Slots::new(self.sizes.pools.submission_slots);
        let (first, second) = Rings::pair(&rings.submissions, ring.slot(self.taken));
        // Acquire pairs with the host's release: the other half, the arena and the parameters happen before.
        let word = first.load(Ordering::Acquire);
        ring.is_valid(self.taken, word as u32).then(|| DevTask {
            head: word as u32,
            group: (word >> 32) as u32,
            arg: second.load(Ordering::Relaxed),
        })
    }

    fn has_function(&self, task: &DevTask) -> bool {
        task.function().index() < self.functions as usize
    }

    /// Takes submissions from the ring. Returns the first one that is not valid.
    fn take(&mut self, gpu: &Gpu, rings: &Rings) -> Option<DevTask> {
        let before = self.taken;
        let bad = loop {
            let Some(submission) = self.peek(rings) else {
                break None;
            };
            let token = submission.group;
            if token >= self.sizes.pools.tokens {
                break Some(submission);
            }
            let head = submission.head & (TASK_BATCH - 1);
            let entry = if submission.head & TASK_BATCH != 0 {
                let count = (submission.arg >> 32) as u32;
                if count == 0 || count > self.sizes.pools.arena_tasks {
                    break Some(submission);
                }
                self.open_batch(gpu, token, count);
                Entry::Batch {
                    token,
                    next: submission.arg as u32,
                    left: count,
                }
            } else {
                if !self.has_function(&submission) {
                    break Some(submission);
                }
                self.newest = submission.function().0;
                let counted = submission.head & TASK_COUNTED;
                let group = if counted != 0 {
                    token
                } else {
                    token | HOST_DIRECT
                };
                let arg = submission.arg;
                Entry::Task([head | counted, group, arg as u32, (arg >> 32) as u32])
            };
            self.queued[submission.priority().index()].push_back(entry);
            self.taken = self.taken.wrapping_add(1);
        };
        if self.taken != before {
            // Release: the slots were read before the host may write them again.
            rings
                .word(offset_of!(DevWords, taken))
                .store(self.taken, Ordering::Release);
        }
        bad
    }

    /// Moves submissions to the device, the most urgent first, and no more than the next dispatches take, or those of a second
    /// submission: those that come later may be more urgent.
    fn intake(&mut self, gpu: &Gpu, rings: &Rings) -> Vec<[u32; 4]> {
        let mut bad = self.take(gpu, rings);
        let first = self.inbox_tail;
        let each = self.size * WGPU_INTAKE * self.rounds;
        let there = first.wrapping_sub(self.inbox_head);
        let room = (2 * each).min(INBOX).saturating_sub(there).min(each) as usize;
        let mut entries: Vec<[u32; 4]> = Vec::new();
        while bad.is_none() && entries.len() < room {
            let Some(queue) = self.queued.iter_mut().find(|queue| !queue.is_empty()) else {
                break;
            };
            match queue.front_mut() {
                Some(Entry::Batch { token, next, left }) => {
                    let arena = Slots::new(self.sizes.pools.arena_tasks);
                    let count = (*left).min((room - entries.len()) as u32);
                    let limit = FunctionId::FIRST.0 + self.functions;
                    entries.reserve(count as usize);
                    for i in 0..count {
                        let slot = arena.slot(next.wrapping_add(i));
                        // SAFETY: the slot is inside the arena; the host wrote it before it submitted the batch, and reuses
                        // it only after the batch has completed.
                        let task = unsafe { rings.arena.at(slot).read() };
                        let id = task.function();
                        if id < FunctionId::FIRST || id.0 >= limit || task.head >= TASK_BATCH {
                            bad = Some(task);
                            break;
                        }
                        self.newest = id.0;
                        let arg = task.arg;
                        entries.push([task.head, *token, arg as u32, (arg >> 32) as u32]);
                    }
                    *next = next.wrapping_add(count);
                    *left -= count;
                    if *left == 0 {
                        queue.pop_front();
                    }
                }
                Some(Entry::Task(task)) => {
                    entries.push(*task);
                    queue.pop_front();
                }
                None => {}
            }
        }
        self.inbox_tail = first.wrapping_add(entries.len() as u32);
        if let Some(task) = bad {
            self.end(
                rings,
                FAULT_BAD_SUBMISSION,
                task.function().0,
                task.head.into(),
            );
        }
        entries
    }
    /// Writes the newest submissions to their slots on the device, before the next dispatch.
    fn write_inbox(&self, gpu: &Gpu, entries: &[[u32; 4]]) {
        let first = self.inbox_tail.wrapping_sub(entries.len() as u32);
        // The ring may wrap once.
        let split = entries.len().min((INBOX - first % INBOX) as usize);
        let (one, two) = entries.split_at(split);
        for (at, part) in [(first % INBOX, one), (0, two)] {
            if !part.is_empty() {
                gpu.write_words(&gpu.inbox, u64::from(at) * 4, part.as_flattened());
            }
        }
    }

    /// The group of a batch is the token's. It counts from the start as one whose tasks are in several workgroups.
    fn open_batch(&self, gpu: &Gpu, token: u32, count: u32) {
        let group = DevWgpuGroup {
            pending: count | GROUP_SHARED,
            ..DevWgpuGroup::ZERO
        };
        let then = DevTask {
            head: FN_COMPLETE,
            group: token,
            arg: 0,
        };
        let at = u64::from(token) * size_of::<DevWgpuGroup>() as u64;
        gpu.queue.write_buffer(&gpu.groups, at, group.bytes());
        let at = u64::from(self.sizes.round.at_thens + token) * size_of::<DevTask>() as u64;
        gpu.queue.write_buffer(&gpu.tasks, at, then.bytes());
    }

    /// Pages of the heap that tasks see.
    pub(crate) fn heap_pages(&self) -> u32 {
        self.sizes.round.heap_pages
    }
    /// Appends pages to the heap, from the next dispatch on.
    pub(crate) fn append_pages(&mut self, gpu: &Gpu, more: u32) {
        let first = self.heap_pages();
        let bits = vec![u32::MAX; more as usize / 32];
        gpu.write_words(&gpu.state, self.sizes.at_free(first), &bits);
        self.sizes.round.heap_pages = first + more;
    }

    /// Runs a dispatch that has nothing to do, and waits for it: some drivers compile a pipeline when it is first used,
    /// which may take many seconds. Nothing is in flight.
    pub(crate) fn warm_up(&mut self, gpu: &Gpu, rings: &Rings) -> Result<(), EngineError> {
        let (turns, rounds) = (std::mem::replace(&mut self.turns, 0), self.rounds);
        self.rounds = 1;
        self.dispatch(gpu, &[]);
        if let Some((index, mapped)) = self.oldest() {
            gpu.wait(&mapped, &index, COMPILING)?;
        }
        while self.collect(gpu, rings) {}
        (self.turns, self.rounds) = (turns, rounds);
        // A driver may have compiled in it.
        self.times = Times::new();
        gpu.check()
    }

    /// Submits dispatches, if there is anything for them to do.
    fn submit(&mut self, gpu: &Gpu, rings: &Rings) -> bool {
        let before = self.inbox_tail;
        let entries = self.intake(gpu, rings);
        // What the host has sent before may be all taken by a submission that is in flight.
        let known = self.flights.is_empty() || self.waiting > 0 || self.inbox_tail != before;
        let useful = !self.ended && self.is_busy() && known;
        if useful {
            self.dispatch(gpu, &entries);
        } else {
            self.write_inbox(gpu, &entries);
        }
        useful
    }

    /// Submits dispatches, and `entries`, the newest submissions.
    fn dispatch(&mut self, gpu: &Gpu, entries: &[[u32; 4]]) {
        let place = (self.submission % 2) as usize;
        self.submission = self.submission.wrapping_add(1);
        let rounds = if self.waiting == 0 { 1 } else { self.rounds };
        // A few submissions and nothing else: the other workgroups need not run. A single one is part of the numbers.
        let new = self.inbox_tail.wrapping_sub(self.inbox_head);
        let idle = self.waiting == 0 && self.flights.is_empty();
        let quiet = if idle && new <= self.size { new } else { 0 };
        let (lone, [lone_head, lone_group, lone_lo, lone_hi]) = match (quiet, entries) {
            (1, [only]) => (1, *only),
            _ => (0, [0; 4]),
        };
        if lone == 0 {
            self.write_inbox(gpu, entries);
        }
        let milliseconds = self.begin.elapsed().as_millis() as u32;
        let mut numbers = vec![0_u8; (rounds as u64 * ROUND_STRIDE) as usize];
        for slot in numbers.chunks_exact_mut(ROUND_STRIDE as usize) {
            self.round = self.round.wrapping_add(1);
            let read = self.slot;
            self.slot = if quiet > 0 { read } else { 1 - read };
            let round = DevRound {
                number: self.round,
                submission: self.submission,
                size: self.size,
                turns: self.turns,
                patience: if gpu.software { 16 } else { 8 },
                // On a GPU, a turn runs as many small tasks as there are invocations. Software runs them one after the other.
                worth: if gpu.software { 16 } else { WGPU_THREADS },
                inbox_tail: self.inbox_tail,
                quiet,
                phase: read << 1 | self.slot,
                lone,
                lone_head,
                lone_group,
                lone_lo,
                lone_hi,
                flags: self.flags,
                milliseconds,
                ..self.sizes.round
            };
            slot[..size_of::<DevRound>()].copy_from_slice(round.bytes());
        }
        gpu.queue.write_buffer(&gpu.rounds, 0, &numbers);
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&self.compiled.pipeline);
            for round in 0..rounds {
                pass.set_bind_group(0, &gpu.bind_group, &[round * ROUND_STRIDE as u32]);
                if let Some(settle) = &self.compiled.settle {
                    pass.set_pipeline(settle);
                    pass.dispatch_workgroups(self.sizes.settlers(), 1, 1);
                    pass.set_pipeline(&self.compiled.pipeline);
                }
                let workgroups = if quiet > 0 {
                    quiet
                } else {
                    self.sizes.workgroups
                };
                pass.dispatch_workgroups(workgroups, 1, 1);
            }
        }
        let (back, head) = (&self.readback[place], size_of::<DevWgpuHeader>() as u64);
        encoder.copy_buffer_to_buffer(&gpu.state, 0, back, 0, head);
        let tokens = self.sizes.pools.tokens;
        let region = u64::from(self.submission % 2) * u64::from(tokens) * 16;
        let eager = u64::from(EAGER.min(tokens)) * 16;
        encoder.copy_buffer_to_buffer(&gpu.completed, region, back, head, eager);
        let index = gpu.submit(encoder);
        if self.loses == Some(self.submission) {
            gpu.device.destroy();
        }
        self.flights.push_back(Flight {
            index,
            mapped: Gpu::map(back, READBACK),
            place,
            submission: self.submission,
            last_round: self.round,
            slot: self.slot,
            rounds,
            begin: Instant::now(),
        });
    }
}
