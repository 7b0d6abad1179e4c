//! What all workers and the host share.

use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use crossbeam_deque::Injector;
use crossbeam_utils::CachePadded;
use everwarp_contract::ring::Slots;
use everwarp_contract::task::{FN_FIRST, INSTANCES, PARAM_BYTES, PRIORITIES};
use everwarp_contract::{DevCompletion, DevTask, DevWords, DevWorker, fault};
use everwarp_engine::{BackendError, Function, Image, Pools};

use crate::deques::{Deques, Stealers};
use crate::group::Count;
use crate::heap::HostHeap;
use crate::ingress::Ingress;
use crate::memory::Table;
use crate::sleep::Sleep;
use crate::slot::{Completed, Slot};

/// A group: its count, and its continuation, which only the opener and the one that fires touch.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) count: Count,
    then: UnsafeCell<Option<DevTask>>,
}
// SAFETY: `then` is written by the opener before any task of the group can be seen, and read by whoever
// fires it, after the count's acquire.
unsafe impl Sync for Group {}

impl Group {
    /// # Safety
    /// - The caller owns the id: it is fresh from the pool, and no task of the group can be seen.
    pub(crate) unsafe fn set_then(&self, then: DevTask) {
        // SAFETY: exclusive by the caller's word.
        unsafe { *self.then.get() = Some(then) };
    }
    /// # Safety
    /// - The group has fired for the caller.
    pub(crate) unsafe fn take_then(&self) -> Option<DevTask> {
        // SAFETY: exclusive by the caller's word.
        unsafe { (*self.then.get()).take() }
    }
}

/// One worker's place: its queues while no thread has them, and its counters.
pub(crate) struct Seat {
    pub(crate) deques: Mutex<Option<Deques>>,
    pub(crate) stealers: Stealers,
    pub(crate) counters: CachePadded<Counters>,
}

impl AsRef<Stealers> for Seat {
    fn as_ref(&self) -> &Stealers {
        &self.stealers
    }
}

/// A worker's counters: it is their only writer.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) executed: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) fired: AtomicU64,
    pub(crate) starved: AtomicU64,
    pub(crate) state: AtomicU32,
    pub(crate) function: AtomicU32,
    pub(crate) queued: AtomicU32,
}

/// Adds one to a counter that only the caller writes.
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn read(&self) -> DevWorker {
        DevWorker {
            executed: self.executed.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            published: 0,
            starved: self.starved.load(Ordering::Relaxed),
            fired: self.fired.load(Ordering::Relaxed),
            state: self.state.load(Ordering::Relaxed),
            function: self.function.load(Ordering::Relaxed),
            queued: self.queued.load(Ordering::Relaxed),
            reserved: 0,
        }
    }
}

pub(crate) struct Shared {
    pub(crate) pools: Pools,
    pub(crate) words: Table<DevWords>,
    pub(crate) submissions: Table<DevTask>,
    pub(crate) completions: Table<DevCompletion>,
    pub(crate) arena: Table<DevTask>,
    /// The heap of the tasks, if there is one.
    pub(crate) heap: Option<HostHeap>,
    pub(crate) params: Table<[u8; PARAM_BYTES as usize]>,
    pub(crate) groups: Box<[Group]>,
    pub(crate) free_groups: Mutex<Vec<u32>>,
    pub(crate) fresh_groups: AtomicU32,
    pub(crate) group_refusals: AtomicU64,
    pub(crate) task_refusals: AtomicU64,
    pub(crate) injectors: [Injector<DevTask>; PRIORITIES as usize],
    /// Priorities that were ever used, one bit each: the others need no look.
    pub(crate) priorities: AtomicU32,
    pub(crate) seats: Box<[Seat]>,
    pub(crate) ingress: Mutex<Ingress>,
    pub(crate) completed: CachePadded<Completed>,
    /// The functions of the image, replaced while parked; old tables are kept, they are small.
    functions: AtomicPtr<Vec<(u32, &'static Function)>>,
    /// Set to make the workers leave.
    pub(crate) leave: AtomicBool,
    /// Threads that have not left.
    pub(crate) active: AtomicU32,
    /// Tasks one worker may hold.
    pub(crate) quota: AtomicU32,
    /// Changes when groups became free for everybody.
    pub(crate) rooms: AtomicU32,
    /// Where workers sleep whose tasks have no room. Apart from the idle ones, because each of them wakes
    /// those, who may have what it lacks: in one place they would keep each other awake.
    pub(crate) starving: Sleep,
    /// Where idle workers sleep.
    pub(crate) idle: Sleep,
    /// Where waiting host threads sleep.
    pub(crate) waiters: Sleep,
}

impl Shared {
    pub(crate) fn new(image: &Image, pools: Pools, seats: usize) -> Result<Self, BackendError> {
        let seats = (0..seats).map(|_| {
            let deques = Deques::new();
            let stealers = deques.stealers();
            Seat {
                deques: Mutex::new(Some(deques)),
                stealers,
                counters: CachePadded::default(),
            }
        });
        let shared = Self {
            pools,
            words: Table::new(1)?,
            submissions: Table::new(pools.submission_slots as usize)?,
            completions: Table::new(pools.tokens as usize)?,
            arena: Table::new(pools.arena_tasks as usize)?,
            heap: HostHeap::new(pools.heap)?,
            params: Table::new(INSTANCES as usize)?,
            groups: (0..pools.groups).map(|_| Group::default()).collect(),
            free_groups: Mutex::new(Vec::new()),
            fresh_groups: AtomicU32::new(0),
            group_refusals: AtomicU64::new(0),
            task_refusals: AtomicU64::new(0),
            injectors: Default::default(),
            priorities: AtomicU32::new(0),
            seats: seats.collect(),
            ingress: Mutex::new(Ingress::new(pools)),
            completed: CachePadded::default(),
            functions: AtomicPtr::new(std::ptr::null_mut()),
            leave: AtomicBool::new(true),
            active: AtomicU32::new(0),
            quota: AtomicU32::new(0),
            rooms: AtomicU32::new(0),
            starving: Sleep::default(),
            idle: Sleep::default(),
            waiters: Sleep::default(),
        };
        shared.set_functions(image);
        Ok(shared)
    }

    /// No thread runs.
    pub(crate) fn set_functions(&self, image: &Image) {
        let base = |name| image.base(name).expect("the program is in the image");
        let table: Vec<_> = image
            .functions()
            .map(|(_, p, f)| (base(p.name), f))
            .collect();
        self.functions
            .store(Box::into_raw(Box::new(table)), Ordering::Release);
    }
    /// The functions by id, the first of which is [`FN_FIRST`], each with the id of its program's first.
    pub(crate) fn functions(&self) -> &'static [(u32, &'static Function)] {
        // SAFETY: tables are leaked, so the pointer stays valid.
        unsafe { &*self.functions.load(Ordering::Acquire) }
    }
    /// The function of an id, with the id of its program's first, if the image has it.
    pub(crate) fn function(&self, id: u32) -> Option<(u32, &'static Function)> {
        let index = id.wrapping_sub(FN_FIRST) as usize;
        self.functions().get(index).copied()
    }

    /// The control word at a byte offset: `offset_of!(DevWords, …)` of a `u32`.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < size_of::<DevWords>());
        // SAFETY: an aligned word inside the control words, which live as long as `self` and are only
        // accessed atomically.
        unsafe { AtomicU32::from_ptr(self.words.base().byte_add(offset).cast()) }
    }

    /// Ends the engine with a fault; the first one counts. Nothing completes once it can be seen.
    pub(crate) fn fault(&self, code: u32, function: u32, detail: u64) {
        let ingress = self.ingress.lock().unwrap_or_else(PoisonError::into_inner);
        let at = self.words.base();
        self.completed.shut();
        // SAFETY: the words are live; the lock makes this the only writer of the fault.
        unsafe {
            if (&raw const (*at).fault.code).read() == fault::FAULT_NONE {
                (&raw mut (*at).fault.function).write(function);
                (&raw mut (*at).fault.detail).write(detail);
                self.word(offset_of!(DevWords, fault.code))
                    .store(code, Ordering::Release);
            }
        }
        drop(ingress);
        self.send_away();
        self.waiters.wake();
    }
    /// The code of the fault the engine has ended with, or 0.
    pub(crate) fn fault_code(&self) -> u32 {
        self.word(offset_of!(DevWords, fault.code))
            .load(Ordering::Acquire)
    }
    /// Makes all workers leave at their next task boundary.
    pub(crate) fn send_away(&self) {
        self.leave.store(true, Ordering::Release);
        self.idle.wake();
        self.starving.wake();
    }
    /// Tells those who wait for room that there may be some.
    pub(crate) fn made_room(&self) {
        self.rooms.fetch_add(1, Ordering::Release);
        self.idle.wake();
        self.starving.wake();
    }

    /// Writes a completion, unless the engine has faulted. There is room: the host has no more tokens in
    /// flight than slots.
    pub(crate) fn complete(&self, token: u32, value: u64) {
        let Some(index) = self.completed.reserve() else {
            return;
        };
        let ring = Slots::new(self.pools.tokens);
        let at = self.completions.at(ring.slot(index)).cast::<u64>();
        // SAFETY: two aligned words of a live slot, accessed atomically on both sides.
        unsafe { Slot::from_ptr(at) }.complete(ring, index, token, value);
        self.completed.wrote();
        self.waiters.wake();
    }

    /// Whether there is anything that a worker could do.
    pub(crate) fn has_work(&self) -> bool {
        self.has_tasks() || crate::ingress::waiting(self)
    }
    /// As [`has_work`](Self::has_work), less the submission ring.
    pub(crate) fn has_tasks(&self) -> bool {
        fence(Ordering::SeqCst);
        self.leave.load(Ordering::Acquire)
            || self.injectors.iter().any(|i| !i.is_empty())
            || self.seats.iter().any(|s| s.stealers.has_any())
    }
}
