//! What a worker of an engine records about its tasks.
//!
//! Calls are counted one by one. Times are sampled, because two looks at a clock cost as much as a small task: a sample
//! stands for the tasks since the one before. The distance follows from the last task's time, so that the samples take
//! about a hundredth of all time, and each task of ten microseconds is one.
//!
//! A waiting time needs the moment at which the task was queued, for which a descriptor of 16 bytes has no room. So a
//! sampled task leaves its argument in a `Sample`, which has the moment, and takes the sample's number along.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::clock;
use crate::histogram::{Histogram, add};
use crate::level::Level;
use crate::trace::{Event, EventKind, HANDLER, NameId, Ring, TASK, tracer};

/// Function ids of an engine.
const FUNCTIONS: usize = 1024;
/// Tasks of one worker whose waiting is measured at a time.
const SAMPLES: usize = 256;
/// The last tasks of a worker that a fault report shows.
pub const LAST: usize = 16;
/// The part of all time that samples may take: one in this many.
const SHARE: u64 = 128;
/// The largest distance of two samples.
const FARTHEST: u32 = 4096;
/// What a sample costs in addition to its two looks at the clock, in looks at the clock: it writes to cold memory.
const COLD: u64 = 4;

/// Times of one function on one worker.
#[derive(Debug, Default)]
pub struct FunctionTimes {
    /// How long its tasks ran.
    pub run: Histogram,
    /// How long they waited in queues before.
    pub wait: Histogram,
    /// For turns of actors: how long handling one message took.
    pub handling: Histogram,
}

#[derive(Debug, Default)]
struct FunctionRecord {
    calls: AtomicU64,
    name: AtomicU32,
    /// Of turns of actors: what the handling of a message is called.
    handler: AtomicU32,
    times: OnceLock<Box<FunctionTimes>>,
}

/// A task whose waiting is measured.
#[derive(Debug, Default)]
struct Sample {
    /// When it was queued; 0 if the sample is free.
    queued: AtomicU64,
    argument: AtomicU64,
    /// Tasks for which it stands.
    weight: AtomicU32,
    /// The number of its flow in a trace, or 0.
    flow: AtomicU64,
}

/// What one worker has recorded. The worker is the only writer, but for samples, which the worker that runs the task frees.
#[derive(Debug)]
pub struct WorkerRecorder {
    level: Level,
    functions: Box<[FunctionRecord]>,
    samples: Box<[Sample]>,
    /// Head and argument of the last tasks.
    last: [[AtomicU64; 2]; LAST],
    ran: AtomicU64,
    /// How many tasks waited in the worker's own queues, seen at samples.
    depth: Histogram,
    ring: Option<Arc<Ring>>,
}

impl WorkerRecorder {
    fn new(level: Level, ring: Option<Arc<Ring>>) -> Self {
        Self {
            level,
            functions: (0..FUNCTIONS).map(|_| FunctionRecord::default()).collect(),
            samples: (0..SAMPLES).map(|_| Sample::default()).collect(),
            last: Default::default(),
            ran: AtomicU64::new(0),
            depth: Histogram::default(),
            ring,
        }
    }

    fn times(&self, function: u32) -> &FunctionTimes {
        let times = &self.functions[function as usize % FUNCTIONS].times;
        times.get_or_init(Box::default)
    }

    /// How often a function was called.
    pub fn calls(&self, function: u32) -> u64 {
        self.functions[function as usize % FUNCTIONS]
            .calls
            .load(Ordering::Relaxed)
    }
    /// The times of a function, if there are any.
    pub fn read_times(&self, function: u32) -> Option<&FunctionTimes> {
        self.functions[function as usize % FUNCTIONS]
            .times
            .get()
            .map(|times| &**times)
    }
    /// How many tasks waited in the worker's queues.
    pub fn depth(&self) -> &Histogram {
        &self.depth
    }
    /// Head and argument of the last tasks, the newest last.
    pub fn last(&self) -> Vec<(u32, u64)> {
        let ran = self.ran.load(Ordering::Relaxed);
        let first = ran.saturating_sub(LAST as u64);
        let task = |at: u64| {
            let [head, argument] = &self.last[at as usize % LAST];
            (
                head.load(Ordering::Relaxed) as u32,
                argument.load(Ordering::Relaxed),
            )
        };
        (first..ran).map(task).collect()
    }
}

/// The recorders of an engine's workers.
#[derive(Debug)]
pub struct EngineRecorder {
    level: Level,
    workers: Box<[Arc<WorkerRecorder>]>,
}

impl EngineRecorder {
    /// Recorders for this many workers, unless nothing is measured.
    pub fn new(level: Level, workers: usize) -> Option<Self> {
        if level == Level::Off {
            return None;
        }
        clock::cost();
        crate::level::recorded();
        let ring = |worker: usize| {
            let tracer = tracer().filter(|_| level == Level::Trace)?;
            tracer.ring(&format!("worker {worker}"))
        };
        let worker = |number| Arc::new(WorkerRecorder::new(level, ring(number)));
        Some(Self {
            level,
            workers: (0..workers).map(worker).collect(),
        })
    }
    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }
    /// The workers.
    pub fn workers(&self) -> &[Arc<WorkerRecorder>] {
        &self.workers
    }
    /// Says what a function is called in a trace, and the kind of actors whose turns it runs, if it does.
    pub fn name(&self, function: u32, name: &str, kind: Option<&str>) {
        let Some(tracer) = tracer().filter(|_| self.level == Level::Trace) else {
            return;
        };
        let id = tracer.name(TASK, name);
        let handler = kind.map_or(NameId::default(), |kind| tracer.name(HANDLER, kind));
        for worker in &self.workers {
            let record = &worker.functions[function as usize % FUNCTIONS];
            record.name.store(id.0, Ordering::Relaxed);
            record.handler.store(handler.0, Ordering::Relaxed);
        }
    }
}

/// A worker's hand on its recorder, with what only the worker needs.
#[derive(Debug)]
pub struct WorkerHand<'r> {
    all: &'r [Arc<WorkerRecorder>],
    own: usize,
    recorder: &'r WorkerRecorder,
    traced: bool,
    /// Tasks until the next sample.
    countdown: u32,
    /// Tasks that the next sample stands for.
    weight: u32,
    random: u32,
    next_sample: u32,
    ran: u64,
    /// The next task that is queued is measured.
    marks: bool,
    flows: u64,
    /// The flow of the task that is about to run.
    incoming: u64,
}

impl<'r> WorkerHand<'r> {
    /// The hand of worker number `own`. Handlers that run on this thread find it until [`leave`] is called.
    pub fn new(engine: &'r EngineRecorder, own: usize) -> Self {
        let recorder = &engine.workers[own];
        HANDLING.with(|handling| {
            let new = HandlingState::new(Arc::clone(recorder));
            *handling.borrow_mut() = Some(Rc::new(new));
        });
        Self {
            all: &engine.workers,
            own,
            recorder,
            traced: engine.level == Level::Trace,
            countdown: 1,
            weight: 1,
            random: own as u32 * 2 + 1,
            next_sample: 0,
            ran: recorder.ran.load(Ordering::Relaxed),
            marks: false,
            flows: 0,
            incoming: 0,
        }
    }

    /// A task is about to run. Returns the time if it is measured, else 0.
    #[inline]
    pub fn begin(&mut self, function: u32, head: u32, argument: u64) -> u64 {
        add(
            &self.recorder.functions[function as usize % FUNCTIONS].calls,
            1,
        );
        let [last_head, last_argument] = &self.recorder.last[self.ran as usize % LAST];
        last_head.store(head.into(), Ordering::Relaxed);
        last_argument.store(argument, Ordering::Relaxed);
        self.ran += 1;
        self.recorder.ran.store(self.ran, Ordering::Relaxed);
        self.countdown -= 1;
        match self.countdown {
            0 => clock::now(),
            _ if self.traced => clock::now(),
            _ => 0,
        }
    }

    /// The task has run that [`begin`](Self::begin) returned `begin` for. `queued` counts the worker's tasks.
    #[inline]
    pub fn end(&mut self, function: u32, argument: u64, begin: u64, queued: impl FnOnce() -> u64) {
        if begin != 0 {
            self.measured(function, argument, begin, queued);
        }
    }

    #[cold]
    fn measured(&mut self, function: u32, argument: u64, begin: u64, queued: impl FnOnce() -> u64) {
        let end = clock::now();
        if self.traced {
            self.marks = true;
            let record = &self.recorder.functions[function as usize % FUNCTIONS];
            let name = NameId(record.name.load(Ordering::Relaxed));
            let flow = std::mem::take(&mut self.incoming);
            self.event(Event::slice(name, begin, end, argument as u32, flow));
        }
        if self.countdown != 0 {
            return;
        }
        let took = end - begin;
        self.recorder
            .times(function)
            .run
            .record(took, self.weight.into());
        self.recorder.depth.record(queued(), self.weight.into());
        self.marks = true;
        let cost = clock::cost() * (2 + COLD);
        let distance = (cost * SHARE / took.max(1)).clamp(1, FARTHEST.into()) as u32;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        // Uneven distances: a program in step with them would have only some of its functions measured.
        self.weight = distance / 2 + self.random % distance + 1;
        self.countdown = self.weight;
    }

    fn event(&self, event: Event) {
        match (&self.recorder.ring, tracer()) {
            (Some(ring), _) => ring.push(event),
            (None, Some(tracer)) => tracer.lose(),
            (None, None) => {}
        }
    }

    /// Whether the next task that is queued is measured.
    #[inline]
    pub fn marks(&self) -> bool {
        self.marks
    }

    /// Leaves the argument of a task that is queued in a sample, and returns what stands for it. None if all samples are
    /// in use: the task is not measured.
    #[cold]
    pub fn mark(&mut self, argument: u64) -> Option<u64> {
        self.marks = self.traced;
        let number = self.next_sample;
        let sample = &self.recorder.samples[number as usize];
        if sample.queued.load(Ordering::Acquire) != 0 {
            return None;
        }
        self.next_sample = (number + 1) % SAMPLES as u32;
        let now = clock::now();
        let flow = match self.traced {
            false => 0,
            true => {
                self.flows += 1;
                let ring = self.recorder.ring.as_ref().map_or(0, |ring| ring.number());
                u64::from(ring) << 40 | self.flows
            }
        };
        if flow != 0 {
            self.event(Event::send(EventKind::Send, now, flow));
        }
        sample.argument.store(argument, Ordering::Relaxed);
        sample.weight.store(self.weight, Ordering::Relaxed);
        sample.flow.store(flow, Ordering::Relaxed);
        sample.queued.store(now, Ordering::Relaxed);
        Some((self.own as u64) << 32 | u64::from(number))
    }

    /// The argument of a task of this function that was marked, which is about to run.
    #[cold]
    pub fn unmark(&mut self, function: u32, mark: u64) -> u64 {
        let sample = &self.all[(mark >> 32) as usize].samples[mark as u32 as usize];
        let waited = clock::now().saturating_sub(sample.queued.load(Ordering::Relaxed));
        let weight = sample.weight.load(Ordering::Relaxed);
        let argument = sample.argument.load(Ordering::Relaxed);
        self.incoming = sample.flow.load(Ordering::Relaxed);
        // Release: what was read is read before the sample's owner writes it again.
        sample.queued.store(0, Ordering::Release);
        self.recorder
            .times(function)
            .wait
            .record(waited, weight.into());
        argument
    }
}

/// What handlers of actors on this thread record to.
#[derive(Debug)]
struct HandlingState {
    recorder: Arc<WorkerRecorder>,
    countdown: Cell<u32>,
    weight: Cell<u32>,
    random: Cell<u32>,
}

impl HandlingState {
    fn new(recorder: Arc<WorkerRecorder>) -> Self {
        Self {
            recorder,
            countdown: Cell::new(1),
            weight: Cell::new(1),
            random: Cell::new(0x9e37_79b9),
        }
    }
}

thread_local! {
    static HANDLING: RefCell<Option<Rc<HandlingState>>> = const { RefCell::new(None) };
}

/// The thread's worker has ended.
pub fn leave() {
    HANDLING.with(|handling| *handling.borrow_mut() = None);
}

/// What a turn of an actor records.
#[derive(Clone, Debug)]
pub struct Handling(Rc<HandlingState>);

/// The recorder of the calling thread, if it is a worker's and measures.
#[inline]
pub fn handling() -> Option<Handling> {
    match crate::level::any() {
        false => None,
        true => HANDLING.with(|handling| handling.borrow().clone().map(Handling)),
    }
}

/// The number of a message's cell in a trace: that of one system differs from that of others.
pub fn cell_key(system: usize, cell: u32) -> u64 {
    (system as u64).rotate_left(24) ^ u64::from(cell)
}

/// A message is about to be sent in this cell of a system.
#[inline]
pub fn message_sent(system: usize, cell: u32) {
    if tracer().is_some()
        && let Some(handling) = handling()
    {
        handling.sent(cell_key(system, cell));
    }
}

/// News of an actor, such as the message of a timer, are about to be sent by this thread. Returns what a trace knows them by, or 0 if
/// nothing is traced.
pub fn news_sent() -> u64 {
    // No cell of a system has a number as large.
    static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
    let Some(tracer) = tracer() else { return 0 };
    let key = NEXT.fetch_sub(1, Ordering::Relaxed);
    match handling() {
        Some(handling) => handling.sent(key),
        None => tracer.record(Event::send(EventKind::SendCell, clock::now(), key)),
    }
    key
}

impl Handling {
    fn traced(&self) -> bool {
        self.0.recorder.level == Level::Trace
    }

    /// A handler is about to run. Returns the time if it is measured, else 0.
    pub fn begin(&self) -> u64 {
        let left = self.0.countdown.get() - 1;
        self.0.countdown.set(left);
        match left == 0 || self.traced() {
            true => clock::now(),
            false => 0,
        }
    }

    /// The handler has returned that [`begin`](Self::begin) returned `begin` for. Its first message had this tag, and its
    /// messages came in these cells.
    pub fn end(&self, function: u32, begin: u64, tag: u8, cells: impl IntoIterator<Item = u64>) {
        if begin == 0 {
            return;
        }
        let (state, end) = (&*self.0, clock::now());
        if self.traced() {
            let record = &state.recorder.functions[function as usize % FUNCTIONS];
            let name = NameId(record.handler.load(Ordering::Relaxed));
            let mut cells = cells.into_iter();
            let first = cells.next().unwrap_or(0);
            self.event(Event::handler(name, begin, end, tag.into(), first));
            cells.for_each(|cell| self.event(Event::send(EventKind::TakeCell, begin, cell)));
        }
        if state.countdown.get() != 0 {
            return;
        }
        let (took, weight) = (end - begin, state.weight.get());
        state
            .recorder
            .times(function)
            .handling
            .record(took, weight.into());
        let distance =
            (clock::cost() * (2 + COLD) * SHARE / took.max(1)).clamp(1, FARTHEST.into()) as u32;
        let mut random = state.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        state.random.set(random);
        let next = distance / 2 + random % distance + 1;
        state.weight.set(next);
        state.countdown.set(next);
    }

    /// A message was sent in this cell.
    pub fn sent(&self, cell: u64) {
        if self.traced() {
            self.event(Event::send(EventKind::SendCell, clock::now(), cell));
        }
    }

    fn event(&self, event: Event) {
        match (&self.0.recorder.ring, tracer()) {
            (Some(ring), _) => ring.push(event),
            (None, Some(tracer)) => tracer.lose(),
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> EngineRecorder {
        EngineRecorder::new(Level::Measure, 2).expect("it measures")
    }

    #[test]
    fn nothing_is_recorded_when_off() {
        assert!(EngineRecorder::new(Level::Off, 2).is_none());
    }

    #[test]
    fn calls_are_exact_and_weights_stand_for_all_of_them() {
        let engine = engine();
        let mut hand = WorkerHand::new(&engine, 0);
        const TASKS: u64 = 100_000;
        for n in 0..TASKS {
            let begin = hand.begin(3, 7, n);
            hand.end(3, n, begin, || 5);
        }
        let recorder = &engine.workers()[0];
        assert_eq!(recorder.calls(3), TASKS);
        let run = recorder
            .read_times(3)
            .expect("some are measured")
            .run
            .read();
        // The tasks since the last sample have none yet.
        assert!(
            run.count <= TASKS && run.count + u64::from(2 * FARTHEST) > TASKS,
            "{}",
            run.count
        );
        assert_eq!(recorder.depth().read().p50, 5);
        let last = recorder.last();
        assert_eq!(last.len(), LAST);
        assert_eq!(last.last(), Some(&(7, TASKS - 1)));
        leave();
    }

    #[test]
    fn a_marked_task_gets_its_argument_back_on_any_worker() {
        let engine = engine();
        let mut one = WorkerHand::new(&engine, 0);
        let mut other = WorkerHand::new(&engine, 1);
        let begin = one.begin(3, 0, 0);
        one.end(3, 0, begin, || 0);
        assert!(one.marks());
        let mark = one.mark(0xdead_beef_dead_beef).expect("a sample is free");
        assert!(!one.marks());
        let weight = one.weight;
        assert_eq!(other.unmark(4, mark), 0xdead_beef_dead_beef);
        let wait = engine.workers()[1]
            .read_times(4)
            .expect("it waited")
            .wait
            .read();
        assert_eq!(wait.count, u64::from(weight), "it stands for the next ones");
        // A worker whose samples are all in use measures no more, and loses nothing.
        let marks: Vec<u64> = (0..SAMPLES as u64).map_while(|n| one.mark(n)).collect();
        assert_eq!(marks.len(), SAMPLES);
        assert_eq!(one.mark(0), None);
        for (n, mark) in (0..).zip(marks) {
            assert_eq!(other.unmark(4, mark), n);
        }
        assert!(one.mark(0).is_some());
        leave();
    }
}
