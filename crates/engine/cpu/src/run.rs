//! Running one task: what its twin may do, and what follows from it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use everwarp_contract::DevTask;
use everwarp_contract::fault::{FAULT_FORK, FAULT_NOT_COUNTED, FAULT_PROGRAM, FAULT_SPAWN_LIMIT};
use everwarp_contract::task::{
    FN_COMPLETE, FN_FETCH, FN_FIRST, FN_LIMIT, FN_NONE, HOST_DIRECT, TASK_ARG_FROM_GROUP,
};
use everwarp_engine::{Function, Order, TaskCx};

use crate::deques::Deques;
use crate::group::{Counted, Ledger};
use crate::shared::{Counters, Shared, bump};

/// Ids that a worker fetches from or returns to the shared list at once.
const GROUP_BATCH: usize = 64;
/// Tasks that one fetch takes from the arena at most.
const FETCH_TASKS: u32 = 256;
/// Detail of the fault of a twin that panicked; the panic's message went to the panic hook.
const PANICKED: u64 = u64::MAX;
/// Takes a group id: from the worker's own, the shared list, or those never used.
pub(crate) fn group_alloc(shared: &Shared, own: &mut Vec<u32>) -> Option<u32> {
    if own.is_empty() {
        {
            let mut list = shared
                .free_groups
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let keep = list.len().saturating_sub(GROUP_BATCH);
            own.extend(list.drain(keep..));
        }
        // Few at a time when there are few in all, so that no worker hoards what others need.
        let want = (shared.pools.groups / 16).clamp(1, GROUP_BATCH as u32);
        while own.len() < want as usize {
            let fresh = shared.fresh_groups.fetch_add(1, Ordering::Relaxed);
            if fresh >= shared.pools.groups {
                shared.fresh_groups.fetch_sub(1, Ordering::Relaxed);
                break;
            }
            own.push(fresh);
        }
    }
    own.pop()
}

fn group_free(shared: &Shared, own: &mut Vec<u32>, id: u32) {
    own.push(id);
    if own.len() >= 2 * GROUP_BATCH || own.len() > shared.pools.groups as usize / 16 {
        let keep = own.len() / 2;
        shared
            .free_groups
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(own.drain(keep..));
        shared.made_room();
    }
}
/// What a worker has in its hands.
pub(crate) struct Hands<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) counters: &'s Counters,
    pub(crate) deques: Deques,
    pub(crate) groups: Vec<u32>,
    /// Credit of the group whose tasks ran last.
    pub(crate) ledger: Ledger,
    /// Functions by id; they change only while no worker is there.
    pub(crate) functions: &'s [(u32, &'static Function)],
}

/// The running task, as its twin sees it.
struct Running<'h, 's> {
    hands: &'h mut Hands<'s>,
    task: DevTask,
    function: &'static Function,
    base: u32,
    spawned: u32,
    children: u32,
    fork: Option<(u32, DevTask)>,
    value: u64,
    /// Spawned tasks become visible to others only once the group knows of them.
    held: &'h mut Vec<DevTask>,
}

impl Running<'_, '_> {
    fn owner(&self) -> u32 {
        u32::from(self.task.instance()) + 1
    }
    fn head(&self, function: u32, tag: u8, priority: u8) -> u32 {
        DevTask::new(self.base + function, self.task.instance(), tag, priority, 0).head
    }
    fn hold(&mut self, task: DevTask) {
        if self.spawned + self.children > u32::from(self.function.max_spawn) {
            let count = u64::from(self.spawned + self.children);
            self.hands
                .shared
                .fault(FAULT_SPAWN_LIMIT, self.task.function(), count);
        } else {
            self.held.push(task);
        }
    }
    fn open(&mut self, head: u32, arg: u64) {
        if self.fork.is_some() || !self.function.forks {
            self.hands
                .shared
                .fault(FAULT_FORK, self.task.function(), self.task.head.into());
            return;
        }
        let id = self
            .hands
            .groups
            .pop()
            .expect("an id was made sure of before the task ran");
        self.fork = Some((
            id,
            DevTask {
                head,
                group: self.task.group,
                arg,
            },
        ));
    }
}

impl TaskCx for Running<'_, '_> {
    fn task(&self) -> DevTask {
        self.task
    }
    fn params_block(&self) -> *const u8 {
        self.hands
            .shared
            .params
            .at(self.task.instance().into())
            .cast()
    }
    fn spawn_at(&mut self, priority: u8, function: u32, tag: u8, arg: u64) {
        self.spawned += 1;
        self.hold(DevTask {
            head: self.head(function, tag, priority),
            group: self.task.group,
            arg,
        });
    }
    fn fork(&mut self, function: u32, tag: u8, arg: u64) {
        self.open(self.head(function, tag, self.task.priority()), arg);
    }
    fn fork_collect(&mut self, function: u32, tag: u8) {
        self.open(
            self.head(function, tag, self.task.priority()) | TASK_ARG_FROM_GROUP,
            0,
        );
    }
    fn spawn_child(&mut self, function: u32, tag: u8, arg: u64) {
        let Some((group, _)) = self.fork else {
            self.hands
                .shared
                .fault(FAULT_FORK, self.task.function(), self.task.head.into());
            return;
        };
        self.children += 1;
        self.hold(DevTask {
            head: self.head(function, tag, self.task.priority()),
            group,
            arg,
        });
    }
    fn report_slot(&mut self, slot: u32, value: u32) {
        if self.task.group & HOST_DIRECT != 0 {
            let shift = 32 * (slot & 1);
            self.value = self.value & !(0xffff_ffff << shift) | u64::from(value) << shift;
        } else {
            self.hands.shared.groups[self.task.group as usize]
                .count
                .slot(slot, value);
        }
    }
    fn report_add(&mut self, value: u64) {
        if self.task.group & HOST_DIRECT != 0 {
            self.value = self.value.wrapping_add(value);
        } else {
            self.hands.shared.groups[self.task.group as usize]
                .count
                .add(value);
        }
    }
    fn fault(&mut self, detail: u64) {
        self.hands
            .shared
            .fault(FAULT_PROGRAM, self.task.function(), detail);
    }
    fn alloc_for(&mut self, owner: u32, bytes: u64) -> *mut u8 {
        let heap = self.hands.shared.heap.as_ref();
        heap.map_or(std::ptr::null_mut(), |h| h.alloc(owner, bytes))
    }
    fn free(&mut self, block: *mut u8) {
        if let Some(heap) = &self.hands.shared.heap {
            heap.free(self.owner(), block);
        }
    }
    fn realloc(&mut self, block: *mut u8, bytes: u64) -> *mut u8 {
        let heap = self.hands.shared.heap.as_ref();
        heap.map_or(std::ptr::null_mut(), |h| {
            h.realloc(self.owner(), block, bytes)
        })
    }
    fn release_owner(&mut self, owner: u32, part: u32, parts: u32) -> u64 {
        let heap = self.hands.shared.heap.as_ref();
        heap.map_or(0, |h| h.release(owner, part, parts))
    }
    fn check_heap(&mut self, part: u32, parts: u32) -> u64 {
        let heap = self.hands.shared.heap.as_ref();
        heap.map_or(0, |h| h.sweep(part, parts))
    }
}

impl Hands<'_> {
    #[inline]
    fn function(&self, id: u32) -> Option<(u32, &'static Function)> {
        self.functions
            .get(id.wrapping_sub(FN_FIRST) as usize)
            .copied()
    }

    /// Queues a task where its function's order wants it.
    #[inline]
    pub(crate) fn push(&mut self, task: DevTask) {
        let priority = usize::from(task.priority());
        let bit = 1 << priority;
        if self.shared.priorities.load(Ordering::Relaxed) & bit == 0 {
            self.shared.priorities.fetch_or(bit, Ordering::Relaxed);
        }
        let breadth = self
            .function(task.function())
            .is_some_and(|(_, f)| f.order == Order::BreadthFirst);
        self.deques.push(priority, breadth, task);
    }

    /// Whether there is room for what the task may leave behind; makes sure of a group if it forks.
    #[inline]
    pub(crate) fn admits(&mut self, task: &DevTask) -> bool {
        let quota = self.shared.quota.load(Ordering::Relaxed) as usize;
        let (spawns, forks) = match self.function(task.function()) {
            Some((_, function)) => (usize::from(function.max_spawn), function.forks),
            None if task.function() == FN_FETCH => (self.fetch_tasks() as usize, false),
            None => (0, false),
        };
        if quota < spawns || !self.deques.at_most(quota - spawns) {
            self.shared.task_refusals.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if forks && self.groups.is_empty() {
            match group_alloc(self.shared, &mut self.groups) {
                Some(id) => self.groups.push(id),
                None => {
                    self.shared.group_refusals.fetch_add(1, Ordering::Relaxed);
                    return false;
                }
            }
        }
        true
    }

    /// Runs an admitted task to its end. `scratch` is empty before and after.
    pub(crate) fn run(&mut self, task: DevTask, scratch: &mut Vec<DevTask>) {
        match task.function() {
            FN_FETCH => return self.fetch(task),
            FN_NONE => return self.count(task.group, u32::MAX),
            _ => {}
        }
        let Some((base, function)) = self.function(task.function()) else {
            let code = everwarp_contract::fault::FAULT_UNKNOWN_FUNCTION;
            return self.shared.fault(code, task.function(), task.head.into());
        };
        self.counters
            .function
            .store(task.function(), Ordering::Relaxed);
        let mut running = Running {
            hands: &mut *self,
            task,
            function,
            base,
            spawned: 0,
            children: 0,
            fork: None,
            value: 0,
            held: &mut *scratch,
        };
        // Unwind safety: after a fault nothing that the call has touched is looked at again.
        let outcome = catch_unwind(AssertUnwindSafe(|| (function.twin)(&mut running)));
        let Running {
            spawned,
            children,
            fork,
            value,
            ..
        } = running;
        let direct = task.group & HOST_DIRECT != 0;
        if outcome.is_err() {
            self.shared.fault(FAULT_PROGRAM, task.function(), PANICKED);
        } else if direct && spawned != 0 {
            self.shared
                .fault(FAULT_NOT_COUNTED, task.function(), task.head.into());
        }
        bump(&self.counters.executed, 1);
        // A call that faulted leaves no trace: its group stays open, so no value without its part gets out.
        if self.shared.leave.load(Ordering::Relaxed) && self.shared.completed.is_shut() {
            return scratch.clear();
        }
        let mut follow = None;
        if let Some((id, mut then)) = fork {
            if children == 0 {
                group_free(self.shared, &mut self.groups, id);
                then.head &= !TASK_ARG_FROM_GROUP;
                follow = Some(then);
            } else {
                let group = &self.shared.groups[id as usize];
                group.count.open(children);
                // SAFETY: the id is fresh from the pool, and its tasks are still held.
                unsafe { group.set_then(then) };
            }
        }
        // A continuation takes the place of the task that forked, which therefore has not ended.
        if !direct {
            self.tally(task.group, spawned, fork.is_none());
        } else if fork.is_none() {
            self.shared.complete(task.group & !HOST_DIRECT, value);
        }
        let shares = scratch.len() > 1;
        for task in scratch.drain(..).chain(follow) {
            self.push(task);
        }
        if shares {
            self.shared.idle.wake();
        }
    }

    /// Counts what a task of the group did: so many were spawned, then it ended or not.
    #[inline]
    fn tally(&mut self, group: u32, spawned: u32, ended: bool) {
        if spawned == u32::from(ended) {
            return;
        }
        if !self.ledger.is_for(group) {
            self.settle();
            self.ledger.open(group);
        }
        let count = &self.shared.groups[group as usize].count;
        if spawned > 0 {
            // One that ended makes room for one that it spawned, without a look at the count.
            return self.ledger.spawned(count, spawned - u32::from(ended));
        }
        if self.ledger.ended(count) == Counted::Fired {
            self.fire(group);
        }
    }

    /// Returns the credit that the worker holds. Before anything that is not a task of the same group.
    pub(crate) fn settle(&mut self) {
        if let Some(group) = self.ledger.owes() {
            let count = &self.shared.groups[group as usize].count;
            if self.ledger.settle(count) == Counted::Fired {
                self.fire(group);
            }
        }
    }

    /// Changes a group's count and does what follows.
    fn count(&mut self, group: u32, change: u32) {
        if self.shared.groups[group as usize].count.change(change) == Counted::Fired {
            self.fire(group);
        }
    }

    /// Does what follows on a group that has fired for this worker.
    fn fire(&mut self, group: u32) {
        let mut id = group;
        loop {
            let record = &self.shared.groups[id as usize];
            bump(&self.counters.fired, 1);
            let value = record.count.value();
            // SAFETY: the group fired for us.
            let then = unsafe { record.take_then() }.expect("an open group has a continuation");
            group_free(self.shared, &mut self.groups, id);
            match then.function() {
                FN_COMPLETE => return self.shared.complete(then.group, value),
                FN_NONE if then.group & HOST_DIRECT != 0 => {
                    return self.shared.complete(then.group & !HOST_DIRECT, 0);
                }
                FN_NONE => {
                    id = then.group;
                    let count = &self.shared.groups[id as usize].count;
                    if count.change(u32::MAX) == Counted::Open {
                        return;
                    }
                }
                _ => {
                    let arg = if then.head & TASK_ARG_FROM_GROUP != 0 {
                        value
                    } else {
                        then.arg
                    };
                    return self.push(DevTask {
                        head: then.head & !TASK_ARG_FROM_GROUP,
                        arg,
                        ..then
                    });
                }
            }
        }
    }

    /// How many tasks one fetch may take: a fraction of what the worker may hold.
    fn fetch_tasks(&self) -> u32 {
        (self.shared.quota.load(Ordering::Relaxed) / 4).clamp(1, FETCH_TASKS)
    }

    /// Takes a range of the arena; larger ranges are halved for others to steal.
    fn fetch(&mut self, task: DevTask) {
        let arena = everwarp_contract::ring::Slots::new(self.shared.pools.arena_tasks);
        let (start, mut count) = (task.arg as u32, (task.arg >> 32) as u32);
        let most = self.fetch_tasks();
        while count > most {
            let keep = count / 2;
            let rest = u64::from(count - keep) << 32 | u64::from(start.wrapping_add(keep));
            self.push(DevTask { arg: rest, ..task });
            count = keep;
        }
        for i in 0..count {
            // SAFETY: the slot is inside the arena; the host wrote it before it submitted the batch, and
            // reuses it only after the batch has completed.
            let fetched = unsafe {
                self.shared
                    .arena
                    .at(arena.slot(start.wrapping_add(i)))
                    .read()
            };
            let known = self.function(fetched.function()).is_some();
            if !known || fetched.head >= FN_LIMIT << 18 {
                let code = everwarp_contract::fault::FAULT_BAD_SUBMISSION;
                return self
                    .shared
                    .fault(code, fetched.function(), fetched.head.into());
            }
            self.push(DevTask {
                group: task.group,
                ..fetched
            });
        }
        self.shared.idle.wake();
    }
}
