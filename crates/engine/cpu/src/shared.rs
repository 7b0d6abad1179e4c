//! The state that all workers and the host share.

use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use crossbeam_deque::Injector;
use crossbeam_utils::CachePadded;
use everwarp_contract::ring::Slots;
use everwarp_contract::task::{INSTANCES, PARAM_BYTES, PRIORITIES};
use everwarp_contract::{
    DevCompletion, DevTask, DevWords, DevWorker, FunctionId, GroupId, TokenId, fault,
};
use everwarp_engine::sync::lock;
use everwarp_engine::table::{ZeroedTable, in_large_pages};
use everwarp_engine::{EngineError, Image, Pools};
use everwarp_telemetry::{EngineRecorder, Level};

use crate::deques::{Deques, Stealers};
use crate::functions::FunctionTables;
use crate::group::GroupCount;
use crate::group_pool::{Freed, GroupPool};
use crate::heap::HostHeap;
use crate::reserve::{ReserveOwner, reserve_of};
use crate::ring_slot::{CompletionCounter, RingSlot, SubmissionCursor};
use crate::sleep::Sleepers;

/// A group: its count and its continuation. Only the worker that opens the group and the worker for which it fires touch
/// the continuation.
pub(crate) struct GroupRecord {
    pub(crate) count: GroupCount,
    /// Whether it has a continuation, and which.
    has_then: UnsafeCell<bool>,
    then: UnsafeCell<DevTask>,
}
// SAFETY: the worker that opens the group writes `then` before any task of the group can be seen; the worker for which the
// group fires reads it, after the count's acquire.
unsafe impl Sync for GroupRecord {}

impl GroupRecord {
    /// # Safety
    /// - The caller owns the id: it is fresh from the pool, and no task of the group can be seen.
    pub(crate) unsafe fn set_then(&self, then: DevTask) {
        // SAFETY: exclusive by the caller's word.
        unsafe {
            *self.has_then.get() = true;
            *self.then.get() = then;
        }
    }
    /// # Safety
    /// - The group has fired for the caller.
    pub(crate) unsafe fn take_then(&self) -> Option<DevTask> {
        // SAFETY: exclusive by the caller's word.
        unsafe { std::mem::take(&mut *self.has_then.get()).then(|| *self.then.get()) }
    }
}

/// Records of groups that are not open. Their memory comes from the system when they are first used: to write all of them took
/// most of an engine's start.
fn no_groups(count: usize) -> Box<[GroupRecord]> {
    let mut groups = Box::<[GroupRecord]>::new_zeroed_slice(count);
    in_large_pages(&mut groups);
    // SAFETY: a record is integers, a truth value and a task, which is integers; zeros are valid for all of them.
    unsafe { groups.assume_init() }
}

/// One worker: its queues while no thread has them, the ends for thieves, and its counters.
pub(crate) struct WorkerSlot {
    pub(crate) deques: Mutex<Option<Deques>>,
    pub(crate) stealers: Stealers,
    pub(crate) counters: CachePadded<WorkerCounters>,
}

impl AsRef<Stealers> for WorkerSlot {
    fn as_ref(&self) -> &Stealers {
        &self.stealers
    }
}

/// A worker's counters. The worker is their only writer.
#[derive(Default)]
pub(crate) struct WorkerCounters {
    pub(crate) executed: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) fired: AtomicU64,
    pub(crate) starved: AtomicU64,
    pub(crate) state: AtomicU32,
    pub(crate) function: AtomicU32,
    pub(crate) queued: AtomicU32,
}

/// Adds to a counter that only the caller writes.
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl WorkerCounters {
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

pub(crate) struct CpuShared {
    pub(crate) pools: Pools,
    pub(crate) words: ZeroedTable<DevWords>,
    pub(crate) submissions: ZeroedTable<DevTask>,
    pub(crate) completions: ZeroedTable<DevCompletion>,
    pub(crate) arena: ZeroedTable<DevTask>,
    /// The heap of the tasks, if there is one.
    pub(crate) heap: Option<HostHeap>,
    pub(crate) params: ZeroedTable<[u8; PARAM_BYTES as usize]>,
    groups: Box<[GroupRecord]>,
    pub(crate) group_ids: GroupPool,
    pub(crate) task_refusals: AtomicU64,
    pub(crate) injectors: [Injector<DevTask>; PRIORITIES as usize],
    /// Priorities that were ever used, one bit each: workers do not look for tasks of the others.
    pub(crate) priorities: AtomicU32,
    pub(crate) workers: Box<[WorkerSlot]>,
    /// The consumer's place in the submission ring; its lock also guards the fault words.
    pub(crate) ingress: Mutex<SubmissionCursor>,
    pub(crate) completed: CachePadded<CompletionCounter>,
    /// The functions of the image, replaced while parked.
    pub(crate) functions: FunctionTables,
    /// Set to make the workers leave.
    pub(crate) leave: AtomicBool,
    /// Threads that have not left.
    pub(crate) active: AtomicU32,
    /// Tasks that one worker may hold.
    pub(crate) quota: AtomicU32,
    /// Tasks that the worker with the reserve may hold in addition.
    pub(crate) reserve: AtomicU32,
    pub(crate) reserve_owner: ReserveOwner,
    /// Changes when groups became free for every worker.
    pub(crate) rooms: AtomicU32,
    /// Where workers sleep whose tasks have no room. They sleep apart from the idle workers, because a starving worker
    /// wakes the idle ones, which may hold the room that it lacks: in one place the starving would keep each other awake.
    pub(crate) starving: Sleepers,
    /// Where idle workers sleep.
    pub(crate) idle: Sleepers,
    /// Where waiting host threads sleep.
    pub(crate) waiters: Sleepers,
    /// What the workers record, if they do.
    pub(crate) recorder: Option<EngineRecorder>,
}

impl CpuShared {
    pub(crate) fn new(
        image: &Image,
        pools: Pools,
        workers: usize,
        level: Level,
    ) -> Result<Self, EngineError> {
        let recorder = EngineRecorder::new(level, workers);
        let workers = (0..workers).map(|_| {
            let deques = Deques::new();
            let stealers = deques.stealers();
            WorkerSlot {
                deques: Mutex::new(Some(deques)),
                stealers,
                counters: CachePadded::default(),
            }
        });
        Ok(Self {
            pools,
            words: ZeroedTable::new(1)?,
            submissions: ZeroedTable::new(pools.submission_slots as usize)?,
            completions: ZeroedTable::new(pools.tokens as usize)?,
            arena: ZeroedTable::new(pools.arena_tasks as usize)?,
            heap: HostHeap::new(pools.heap)?,
            params: ZeroedTable::new(INSTANCES as usize)?,
            groups: no_groups(pools.groups as usize),
            group_ids: GroupPool::new(pools.groups),
            task_refusals: AtomicU64::new(0),
            injectors: Default::default(),
            priorities: AtomicU32::new(0),
            workers: workers.collect(),
            ingress: Mutex::new(SubmissionCursor::new(pools.submission_slots)),
            completed: CachePadded::default(),
            functions: FunctionTables::new(image),
            leave: AtomicBool::new(true),
            active: AtomicU32::new(0),
            quota: AtomicU32::new(0),
            reserve: AtomicU32::new(0),
            reserve_owner: ReserveOwner::default(),
            rooms: AtomicU32::new(0),
            starving: Sleepers::default(),
            idle: Sleepers::default(),
            waiters: Sleepers::default(),
            recorder,
        })
    }

    /// Whether the image has a function.
    pub(crate) fn has_function(&self, id: FunctionId) -> bool {
        id.index() < self.functions.get().len()
    }

    /// An open group.
    #[inline]
    pub(crate) fn group(&self, id: GroupId) -> &GroupRecord {
        &self.groups[id.0 as usize]
    }
    /// Bytes of the table of groups.
    pub(crate) fn group_bytes(&self) -> u64 {
        size_of_val(&*self.groups) as u64
    }
    /// Gives the id of a group back, and wakes workers that wait for one.
    pub(crate) fn free_group(&self, own: &mut Vec<GroupId>, id: GroupId) {
        if self.group_ids.free(own, id) == Freed::Shared {
            self.made_room();
        }
    }

    /// The control word at a byte offset: `offset_of!(DevWords, …)` of a `u32`.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < size_of::<DevWords>());
        // SAFETY: an aligned word inside the control words, which live as long as `self` and are only
        // accessed atomically.
        unsafe { AtomicU32::from_ptr(self.words.base().byte_add(offset).cast()) }
    }

    /// Ends the engine with a fault; the first one counts. Nothing completes once it can be seen.
    pub(crate) fn fault(&self, code: u32, function: FunctionId, detail: u64) {
        let ingress = lock(&self.ingress);
        let at = self.words.base();
        self.completed.shut();
        // SAFETY: the words are live; the lock makes this the only writer of the fault.
        unsafe {
            if (&raw const (*at).fault.code).read() == fault::FAULT_NONE {
                (&raw mut (*at).fault.function).write(function.0);
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
    /// Divides the pools among the workers of an epoch.
    pub(crate) fn divide(&self, workers: u32) {
        let reserve = reserve_of(self.pools.tasks, workers);
        self.reserve.store(reserve, Ordering::Relaxed);
        let quota = (self.pools.tasks - reserve) / workers;
        self.quota.store(quota, Ordering::Relaxed);
        let groups = reserve_of(self.pools.groups, workers);
        self.group_ids.set_reserve(groups, workers);
        self.reserve_owner.release_absent(workers);
    }
    /// Tells the workers that wait for room that there may be some.
    pub(crate) fn made_room(&self) {
        self.rooms.fetch_add(1, Ordering::Release);
        self.idle.wake();
        self.starving.wake();
    }

    /// Writes a completion, unless the engine has faulted. There is room: the host has no more tokens in
    /// flight than slots.
    pub(crate) fn complete(&self, token: TokenId, value: u64) {
        let Some(index) = self.completed.reserve() else {
            return;
        };
        let ring = Slots::new(self.pools.tokens);
        let at = self.completions.at(ring.slot(index)).cast::<u64>();
        // SAFETY: two aligned words of a live slot, accessed atomically on both sides.
        unsafe { RingSlot::from_ptr(at) }.complete(ring, index, token, value);
        self.completed.wrote();
        self.waiters.wake();
    }

    /// Whether a worker has a reason to wake up: a task in some queue, or the order to leave.
    pub(crate) fn has_tasks(&self) -> bool {
        fence(Ordering::SeqCst);
        self.leave.load(Ordering::Acquire)
            || self.injectors.iter().any(|i| !i.is_empty())
            || self.workers.iter().any(|w| w.stealers.has_any())
    }
}
