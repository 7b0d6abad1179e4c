//! A backend for tests: one thread that drains the rings as the contract says, and misbehaves on request.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everwarp_contract::ring::Slots;
use everwarp_contract::task::{FN_FIRST, TASK_BATCH, TASK_COUNTED};
use everwarp_contract::telemetry::{WORKER_IDLE, WORKER_RUNNING, WORKER_STARVED};
use everwarp_contract::{DevCompletion, DevTask, DevWords, DevWorker};
use everwarp_engine::{
    Backend, BackendError, DevNone, EngineKind, Footprint, Image, PoolState, Pools, Prepared,
    SharedMemory, TaskCx, program,
};

use crate::core::Core;
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
    }
}

struct Shared {
    memory: SharedMemory,
    pools: Pools,
    leave: AtomicBool,
    state: AtomicU32,
    executed: AtomicU64,
    held: Mutex<Vec<u32>>,
    released: AtomicBool,
    ring: Mutex<(u32, u32)>,
    freed: AtomicU64,
}

pub(crate) struct Mock {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A test's hand on the mock.
pub(crate) struct Hand(Arc<Shared>);

impl Hand {
    /// Completes what `HOLD` holds, newest first, once it holds that many.
    pub(crate) fn release(&self, count: usize) {
        while self.0.held.lock().expect("nobody panics").len() < count {
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
    let memory = SharedMemory {
        words: leak::<DevWords>(1),
        submissions: leak(pools.submission_slots),
        completions: leak::<DevCompletion>(pools.tokens),
        arena: leak(pools.arena_tasks),
    };
    let shared = Arc::new(Shared {
        memory,
        pools,
        leave: AtomicBool::new(false),
        state: AtomicU32::new(WORKER_IDLE),
        executed: AtomicU64::new(0),
        held: Mutex::new(Vec::new()),
        released: AtomicBool::new(false),
        ring: Mutex::new((0, 0)),
        freed: AtomicU64::new(0),
    });
    let mock = Mock {
        shared: shared.clone(),
        thread: Mutex::new(None),
    };
    mock.resume(None).expect("a thread starts");
    let image = Image::of(vec![&PROGRAM]);
    (
        Engine {
            core: Core::new(Box::new(mock), image, watchdog),
        },
        Hand(shared),
    )
}

impl Shared {
    fn run(&self) {
        let mut ring = self.ring.lock().expect("nobody panics");
        while !self.leave.load(Ordering::Acquire) {
            if self.released.swap(false, Ordering::AcqRel) {
                let held = std::mem::take(&mut *self.held.lock().expect("nobody panics"));
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
            let at = self
                .memory
                .submissions
                .add(slots.slot(*taken))
                .cast::<u64>();
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
        unsafe { AtomicU32::from_ptr((&raw const (*self.memory.words).taken).cast_mut()) }
            .store(*taken, Ordering::Release);
        Some(task)
    }

    fn task(&self, task: DevTask, tail: &mut u32) {
        if task.head & TASK_BATCH != 0 {
            let (start, count) = (task.arg as u32, (task.arg >> 32) as u32);
            let slots = Slots::new(self.pools.arena_tasks);
            // SAFETY: inside the arena, which the host wrote before the submission.
            let sum = (0..count)
                .map(|i| unsafe { (*self.memory.arena.add(slots.slot(start + i))).arg })
                .sum();
            self.executed.fetch_add(count.into(), Ordering::Release);
            return self.complete(tail, task.group, sum);
        }
        match task.function() - FN_FIRST {
            HOLD => self.held.lock().expect("nobody panics").push(task.group),
            STAND => self.state.store(task.arg as u32, Ordering::Release),
            FAULT => {
                let words = self.memory.words.cast_mut();
                // SAFETY: aligned; nobody reads the rest before the code is there.
                unsafe {
                    (&raw mut (*words).fault.function).write(task.function());
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
                .memory
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

impl Backend for Mock {
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
    fn shared(&self) -> SharedMemory {
        self.shared.memory
    }
    fn doorbell(&self) {}
    fn idle_wait(&self, _: u32) {
        std::thread::yield_now();
    }
    fn alloc(&self, bytes: u64) -> Result<u64, BackendError> {
        Ok(leak::<u8>(bytes as u32) as u64)
    }
    unsafe fn free(&self, _: u64, _: u64) {
        self.shared.freed.fetch_add(1, Ordering::Release);
    }
    unsafe fn write(&self, address: u64, data: &[u8]) -> Result<(), BackendError> {
        // SAFETY: the caller vouches for the range.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), address as *mut u8, data.len()) };
        Ok(())
    }
    unsafe fn read(&self, address: u64, data: &mut [u8]) -> Result<(), BackendError> {
        // SAFETY: the caller vouches for the range.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, data.as_mut_ptr(), data.len())
        };
        Ok(())
    }
    unsafe fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), BackendError> {
        // SAFETY: the caller vouches for the range.
        unsafe { std::ptr::write_bytes(address as *mut u8, value, bytes as usize) };
        Ok(())
    }
    fn set_params(&self, _: u8, _: &[u8]) -> Result<(), BackendError> {
        Ok(())
    }
    fn workers(&self) -> Result<Vec<DevWorker>, BackendError> {
        let state = self.shared.state.load(Ordering::Acquire);
        Ok(vec![DevWorker {
            executed: self.shared.executed.load(Ordering::Acquire),
            batches: 0,
            received: 0,
            published: 0,
            starved: u64::from(state == WORKER_STARVED),
            fired: 0,
            state,
            function: if state == WORKER_RUNNING {
                FN_FIRST + STAND
            } else {
                0
            },
            queued: 0,
            reserved: 0,
        }])
    }
    fn pool_state(&self) -> Result<PoolState, BackendError> {
        Ok(PoolState {
            task_limit: 64,
            task_refusals: 3,
            group_limit: 16,
            group_refusals: 0,
        })
    }
    fn heap(&self) -> Option<&dyn everwarp_engine::Heap> {
        None
    }
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
    fn start_time(&self) -> Duration {
        Duration::ZERO
    }
    fn park(&self, _: Duration) -> Result<(), BackendError> {
        self.shared.leave.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().expect("nobody panics").take() {
            thread.join().expect("it does not panic");
        }
        Ok(())
    }
    fn resume(&self, size: Option<u32>) -> Result<(), BackendError> {
        if let Some(asked @ 2..) = size {
            return Err(BackendError::Size { asked, max: 1 });
        }
        self.shared.leave.store(false, Ordering::Release);
        let shared = self.shared.clone();
        *self.thread.lock().expect("nobody panics") =
            Some(std::thread::spawn(move || shared.run()));
        Ok(())
    }
    fn swap(&self, size: Option<u32>, grace: Duration) -> Result<Duration, BackendError> {
        let begin = Instant::now();
        self.park(grace)?;
        self.resume(size)?;
        Ok(begin.elapsed())
    }
    fn prepare(&self, image: &Image) -> Result<Prepared, BackendError> {
        Image::of(vec![&PROGRAM]).check_successor(image)?;
        Ok(Prepared {
            image: image.clone(),
            code: Vec::new(),
            largest_frame: 0,
        })
    }
    fn set_image(&self, _: &Prepared) -> Result<(), BackendError> {
        if !self.shared.leave.load(Ordering::Acquire) {
            return Err(BackendError::NotParked {
                action: "loading an image",
            });
        }
        Ok(())
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.park(Duration::ZERO);
    }
}
