#![allow(dead_code, reason = "each test file uses a part of it")]
//! An engine driven through its rings, without the host library.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everwarp_contract::ring::Slots;
use everwarp_contract::task::TASK_COUNTED;
use everwarp_contract::{DevTask, FunctionId, InstanceId, Priority};
use everwarp_engine::{Image, Pools, TaskCx, TaskEngine, program};
use everwarp_engine_cpu::CpuEngine;

/// Lets `HOLD` and `CHAIN` tasks end. Each test file is a process of its own.
pub(crate) static RELEASED: AtomicBool = AtomicBool::new(false);

/// How many `HOLD` tasks are running.
pub(crate) static HOLDING: AtomicU32 = AtomicU32::new(0);

/// How many `MARK` tasks have run.
pub(crate) static MARKED: AtomicU32 = AtomicU32::new(0);

fn report(cx: &mut dyn TaskCx) {
    cx.report_add(cx.arg());
}
fn panics(_: &mut dyn TaskCx) {
    panic!("a twin that panics, on purpose");
}
fn fault(cx: &mut dyn TaskCx) {
    cx.report_add(1);
    cx.fault(77);
}
fn deep(cx: &mut dyn TaskCx) {
    let left = cx.arg();
    cx.fork(RETURN, 0, 5);
    cx.spawn_child(if left > 1 { DEEP } else { HOLD }, 0, left - 1);
}
fn hold(_: &mut dyn TaskCx) {
    HOLDING.fetch_add(1, Ordering::AcqRel);
    while !RELEASED.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(2));
    }
    HOLDING.fetch_sub(1, Ordering::AcqRel);
}
fn chain(cx: &mut dyn TaskCx) {
    if !RELEASED.load(Ordering::Acquire) {
        cx.spawn(CHAIN, 0, 0);
    }
}
fn halves(cx: &mut dyn TaskCx) {
    cx.report_add(1);
    cx.spawn(RETURN, 0, 10);
    cx.spawn(FAULT, 0, 0);
}

fn mark(_: &mut dyn TaskCx) {
    MARKED.fetch_add(1, Ordering::AcqRel);
}
fn under_wide(cx: &mut dyn TaskCx) {
    cx.spawn(MARK, 0, 0);
    cx.spawn(WIDE, 0, 0);
}

program! {
    /// The program of the tests.
    pub(crate) static PROGRAM: rig() {
        /// Reports its argument.
        RETURN: lane(report),
        /// Panics.
        PANIC: lane(panics),
        /// Reports 1, then a fault.
        FAULT: lane(fault),
        /// Opens as many groups as its argument says, one in the other, then holds.
        DEEP: lane(deep).forks(1),
        /// Runs until the tests release it.
        HOLD: lane(hold),
        /// Spawns itself until the tests release it.
        CHAIN: lane(chain).spawns(1),
        /// Spawns a task that reports and a task that faults.
        HALVES: lane(halves).spawns(2),
        /// Counts its runs.
        MARK: lane(mark),
        /// As `MARK`, but needs room for 100 tasks.
        WIDE: lane(wide = mark).spawns(100),
        /// Spawns a task that needs no room, then a task that needs more than there may be.
        UNDER_WIDE: lane(under_wide).spawns(2),
    }
}

/// The engine and the host's ends of its rings.
pub(crate) struct Rig {
    pub(crate) engine: CpuEngine,
    tail: u32,
    reaped: u32,
}

impl Rig {
    pub(crate) fn new(threads: u32, pools: Pools) -> Self {
        let image = Image::of(vec![&PROGRAM]);
        let engine = CpuEngine::start(&image, Some(threads), pools).expect("the engine starts");
        Self {
            engine,
            tail: 0,
            reaped: 0,
        }
    }
    /// Submits a task; its token is the number of submissions before it.
    pub(crate) fn submit(&mut self, function: u32, counted: bool, arg: u64) {
        let ring = Slots::new(self.engine.pools().submission_slots);
        let flags = ring.lap(self.tail) | if counted { TASK_COUNTED } else { 0 };
        let head = DevTask::new(
            FunctionId::FIRST.offset(function),
            InstanceId(0),
            0,
            Priority::HIGH,
            0,
        )
        .head
            | flags;
        // SAFETY: a slot of the live ring; no test submits more than the ring holds.
        unsafe {
            let at = self
                .engine
                .rings()
                .submissions
                .add(ring.slot(self.tail))
                .cast::<u64>();
            AtomicU64::from_ptr(at.add(1)).store(arg, Ordering::Relaxed);
            AtomicU64::from_ptr(at).store(
                u64::from(self.tail) << 32 | u64::from(head),
                Ordering::Release,
            );
        }
        self.tail += 1;
        self.engine.doorbell();
    }
    /// The next completion, token and value, if one comes in time.
    pub(crate) fn reap(&mut self, limit: Duration) -> Option<(u32, u64)> {
        let ring = Slots::new(self.engine.pools().tokens);
        let begin = Instant::now();
        for round in 0.. {
            // SAFETY: a slot of the live ring.
            let (word, value) = unsafe {
                let at = self
                    .engine
                    .rings()
                    .completions
                    .add(ring.slot(self.reaped))
                    .cast::<u64>()
                    .cast_mut();
                let word = AtomicU64::from_ptr(at).load(Ordering::Acquire);
                (word, AtomicU64::from_ptr(at.add(1)).load(Ordering::Relaxed))
            };
            if ring.is_valid(self.reaped, (word >> 32) as u32) {
                self.reaped += 1;
                return Some((word as u32, value));
            }
            if begin.elapsed() > limit {
                break;
            }
            self.engine.idle_wait(round);
        }
        None
    }
    /// Waits for the fault: code, function within the program, detail.
    pub(crate) fn fault(&self) -> (u32, u32, u64) {
        let fault = self.engine.rings().words.cast_mut();
        // SAFETY: the words are live; `code` is written last.
        unsafe {
            let code = AtomicU32::from_ptr(&raw mut (*fault).fault.code);
            within("a fault", || code.load(Ordering::Acquire) != 0);
            let (function, detail) = ((*fault).fault.function, (*fault).fault.detail);
            (
                code.load(Ordering::Acquire),
                FunctionId(function).index() as u32,
                detail,
            )
        }
    }
    pub(crate) fn states(&self) -> Vec<u32> {
        self.engine
            .workers()
            .expect("counters")
            .iter()
            .map(|w| w.state)
            .collect()
    }
}

/// Waits until `done`, for ten seconds at most.
pub(crate) fn within(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "no {what} within ten seconds"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
