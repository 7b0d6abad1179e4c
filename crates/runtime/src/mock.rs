//! An engine for tests: one thread that drains the rings as the contract says, and misbehaves on request.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everwarp_contract::ring::Slots;
use everwarp_contract::task::{FN_FIRST, TASK_BATCH, TASK_COUNTED};
use everwarp_contract::telemetry::{WORKER_IDLE, WORKER_RUNNING, WORKER_STARVED};
use everwarp_contract::{DevCompletion, DevTask, DevType, DevWords, DevWorker, InstanceId};
use everwarp_engine::{
    DevNone, ElementSize, EngineError, EngineKind, EngineLoader, EngineMemory, EngineRings,
    Footprint, Frames, HeapControl, Image, PoolState, Pools, PreparedImage, TaskCx, TaskEngine,
    program,
};

use crate::core::EngineCore;
use crate::engine::Engine;

pub(crate) const PARAMS: DevNone = DevNone::NEW;

fn twin(_: &mut dyn TaskCx) {}

program! {
    /// The program that the mock runs.
    pub(crate) static PROGRAM: mock() {
        /// Completes at once, with its argument as value.
        ECHO: lane(echo = twin),
        /// Completes once `Hand::release` is called, newest first.
        HOLD: lane(hold = twin),
        /// Ends the engine with the fault whose code is its argument.
        FAULT: lane(fault = twin),
        /// Never completes; the worker's state is its argument.
        STAND: lane(stand = twin),
        /// As `ECHO`, but declared as a function that spawns; completes with 1 if the submission was marked as counted.
        COUNTED: lane(counted = twin).spawns(0),
        /// Completes with its argument, and then once more.
        TWICE: lane(twice = twin),
        /// Completes the token that its argument names, and then itself.
        ASTRAY: lane(astray = twin),
    }
}

struct MockState {
    rings: EngineRings,
    pools: Pools,
    leave: AtomicBool,
    state: AtomicU32,
    executed: AtomicU64,
    held: Mutex<Vec<u32>>,
    released: AtomicBool,
    ring: Mutex<(u32, u32)>,
    freed: AtomicU64,
}

/// The mock engine.
pub(crate) struct MockEngine {
    shared: Arc<MockState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A test's hand on the mock.
pub(crate) struct Hand(Arc<MockState>);

impl Hand {
    /// Completes the tasks that `HOLD` holds, newest first, once it holds that many.
    pub(crate) fn release(&self, count: usize) {
        while self.0.held.lock().expect("no test panics under it").len() < count {
            std::thread::yield_now();
        }
        self.0.released.store(true, Ordering::Release);
    }
    /// How many allocations were freed.
    pub(crate) fn freed(&self) -> u64 {
        self.0.freed.load(Ordering::Acquire)
    }
}

/// Memory that lives as long as the process: tests are short.
fn leak<T>(count: u32) -> *mut T {
    let layout = std::alloc::Layout::array::<T>(count as usize)
        .expect("it is small")
        .align_to(256)
        .expect("256");
    // SAFETY: the layout is not empty.
    unsafe { std::alloc::alloc_zeroed(layout).cast() }
}

pub(crate) fn pools(submission_slots: u32, tokens: u32, arena_tasks: u32) -> Pools {
    Pools {
        submission_slots,
        tokens,
        arena_tasks,
        tasks: 64,
        groups: 16,
        ..Pools::default()
    }
}

pub(crate) fn start(pools: Pools, watchdog: Duration) -> (Engine, Hand) {
    let rings = EngineRings {
        words: leak::<DevWords>(1),
        submissions: leak(pools.submission_slots),
        completions: leak::<DevCompletion>(pools.tokens),
        arena: leak(pools.arena_tasks),
    };
    let shared = Arc::new(MockState {
        rings,
        pools,
        leave: AtomicBool::new(false),
        state: AtomicU32::new(WORKER_IDLE),
        executed: AtomicU64::new(0),
        held: Mutex::new(Vec::new()),
        released: AtomicBool::new(false),
        ring: Mutex::new((0, 0)),
        freed: AtomicU64::new(0),
    });
    let mock = MockEngine {
        shared: shared.clone(),
        thread: Mutex::new(None),
    };
    mock.resume(None).expect("a thread starts");
    let image = Image::of(vec![&PROGRAM]);
    (
        Engine {
            core: EngineCore::new(Box::new(mock), image, watchdog),
            region: None,
        },
        Hand(shared),
    )
}

impl MockState {
    fn run(&self) {
        let mut ring = self.ring.lock().expect("no test panics under it");
        while !self.leave.load(Ordering::Acquire) {
            if self.released.swap(false, Ordering::AcqRel) {
                let held = std::mem::take(&mut *self.held.lock().expect("no test panics under it"));
                held.into_iter()
                    .rev()
                    .for_each(|token| self.complete(&mut ring.1, token, u64::from(token)));
            }
            match self.next(&mut ring.0) {
                Some(task) => self.task(task, &mut ring.1),
                None => std::thread::yield_now(),
            }
        }
    }

    fn next(&self, taken: &mut u32) -> Option<DevTask> {
        let slots = Slots::new(self.pools.submission_slots);
        // SAFETY: inside the ring; aligned words, accessed atomically.
        let (first, second) = unsafe {
            let at = self.rings.submissions.add(slots.slot(*taken)).cast::<u64>();
            (AtomicU64::from_ptr(at), AtomicU64::from_ptr(at.add(1)))
        };
        let word = first.load(Ordering::Acquire);
        if !slots.is_valid(*taken, word as u32) {
            return None;
        }
        let task = DevTask {
            head: word as u32,
            group: (word >> 32) as u32,
            arg: second.load(Ordering::Relaxed),
        };
        *taken = taken.wrapping_add(1);
        // SAFETY: aligned, accessed atomically.
        unsafe { AtomicU32::from_ptr((&raw const (*self.rings.words).taken).cast_mut()) }
            .store(*taken, Ordering::Release);
        Some(task)
    }

    fn task(&self, task: DevTask, tail: &mut u32) {
        if task.head & TASK_BATCH != 0 {
            let (start, count) = (task.arg as u32, (task.arg >> 32) as u32);
            let slots = Slots::new(self.pools.arena_tasks);
            // SAFETY: inside the arena, which the host wrote before the submission.
            let sum = (0..count)
                .map(|i| unsafe { (*self.rings.arena.add(slots.slot(start + i))).arg })
                .sum();
            self.executed.fetch_add(count.into(), Ordering::Release);
            return self.complete(tail, task.group, sum);
        }
        match task.function().index() as u32 {
            HOLD => self
                .held
                .lock()
                .expect("no test panics under it")
                .push(task.group),
            TWICE => {
                self.complete(tail, task.group, task.arg);
                self.complete(tail, task.group, task.arg);
            }
            ASTRAY => {
                self.complete(tail, task.arg as u32, 0);
                self.complete(tail, task.group, task.arg);
            }
            STAND => self.state.store(task.arg as u32, Ordering::Release),
            FAULT => {
                let words = self.rings.words.cast_mut();
                // SAFETY: aligned; the host reads the rest only after the code is there.
                unsafe {
                    (&raw mut (*words).fault.function).write(task.function().0);
                    (&raw mut (*words).fault.detail).write(0xbad);
                    AtomicU32::from_ptr(&raw mut (*words).fault.code)
                        .store(task.arg as u32, Ordering::Release);
                }
            }
            function => {
                let counted = u64::from(task.head & TASK_COUNTED != 0);
                self.executed.fetch_add(1, Ordering::Release);
                self.complete(
                    tail,
                    task.group,
                    if function == COUNTED {
                        counted
                    } else {
                        task.arg
                    },
                );
            }
        }
    }

    fn complete(&self, tail: &mut u32, token: u32, value: u64) {
        let slots = Slots::new(self.pools.tokens);
        // SAFETY: inside the ring; there are never more tokens in flight than slots.
        unsafe {
            let at = self
                .rings
                .completions
                .add(slots.slot(*tail))
                .cast::<u64>()
                .cast_mut();
            AtomicU64::from_ptr(at.add(1)).store(value, Ordering::Relaxed);
            let word = u64::from(slots.lap(*tail)) << 32 | u64::from(token);
            AtomicU64::from_ptr(at).store(word, Ordering::Release);
        }
        *tail = tail.wrapping_add(1);
    }
}

impl TaskEngine for MockEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Cpu
    }
    fn device_name(&self) -> String {
        "mock".into()
    }
    fn worker_count(&self) -> u32 {
        1
    }
    fn size(&self) -> u32 {
        1
    }
    fn max_size(&self) -> u32 {
        1
    }
    fn pools(&self) -> Pools {
        self.shared.pools
    }
    fn rings(&self) -> EngineRings {
        self.shared.rings
    }
    fn doorbell(&self) {}
    fn idle_wait(&self, _: u32) {
        std::thread::yield_now();
    }
    fn workers(&self) -> Result<Vec<DevWorker>, EngineError> {
        let state = self.shared.state.load(Ordering::Acquire);
        Ok(vec![DevWorker {
            executed: self.shared.executed.load(Ordering::Acquire),
            starved: u64::from(state == WORKER_STARVED),
            state,
            function: if state == WORKER_RUNNING {
                FN_FIRST + STAND
            } else {
                0
            },
            ..DevWorker::ZERO
        }])
    }
    fn pool_state(&self) -> Result<PoolState, EngineError> {
        Ok(PoolState {
            task_limit: 64,
            task_refusals: 3,
            group_limit: 16,
            group_refusals: 0,
        })
    }
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
    fn start_time(&self) -> Duration {
        Duration::ZERO
    }
    fn park(&self, _: Duration) -> Result<(), EngineError> {
        self.shared.leave.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().expect("no test panics under it").take() {
            thread.join().expect("the mock does not panic");
        }
        Ok(())
    }
    fn resume(&self, size: Option<u32>) -> Result<(), EngineError> {
        if let Some(asked @ 2..) = size {
            return Err(EngineError::Size {
                asked,
                min: 1,
                max: 1,
            });
        }
        self.shared.leave.store(false, Ordering::Release);
        let shared = self.shared.clone();
        *self.thread.lock().expect("no test panics under it") =
            Some(std::thread::spawn(move || shared.run()));
        Ok(())
    }
    fn swap(&self, size: Option<u32>, grace: Duration) -> Result<Duration, EngineError> {
        let begin = Instant::now();
        self.park(grace)?;
        self.resume(size)?;
        Ok(begin.elapsed())
    }
}

impl EngineMemory for MockEngine {
    fn alloc(&self, bytes: u64) -> Result<u64, EngineError> {
        Ok(leak::<u8>(bytes as u32) as u64)
    }
    unsafe fn free(&self, _: u64, _: u64) {
        self.shared.freed.fetch_add(1, Ordering::Release);
    }
    unsafe fn write(&self, address: u64, data: &[u8], _: ElementSize) -> Result<(), EngineError> {
        // SAFETY: the caller vouches for the range.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), address as *mut u8, data.len()) };
        Ok(())
    }
    unsafe fn read(
        &self,
        address: u64,
        data: &mut [u8],
        _: ElementSize,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller vouches for the range.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), data.len())
        };
        Ok(())
    }
    unsafe fn fill(
        &self,
        address: u64,
        bytes: u64,
        value: u8,
        _: ElementSize,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller vouches for the range.
        unsafe { std::ptr::write_bytes(address as *mut u8, value, bytes as usize) };
        Ok(())
    }
    fn set_params(&self, _: InstanceId, _: &[u8]) -> Result<(), EngineError> {
        Ok(())
    }
    fn heap(&self) -> Option<&dyn HeapControl> {
        None
    }
}

impl EngineLoader for MockEngine {
    fn prepare(&self, image: &Image) -> Result<PreparedImage, EngineError> {
        Image::of(vec![&PROGRAM]).check_successor(image)?;
        Ok(PreparedImage {
            image: image.clone(),
            code: Vec::new(),
            frames: Frames::default(),
        })
    }
    fn set_image(&self, _: &PreparedImage) -> Result<(), EngineError> {
        if !self.shared.leave.load(Ordering::Acquire) {
            return Err(EngineError::NotParked {
                action: "loading an image",
            });
        }
        Ok(())
    }
}

impl Drop for MockEngine {
    fn drop(&mut self) {
        let _ = self.park(Duration::ZERO);
    }
}
