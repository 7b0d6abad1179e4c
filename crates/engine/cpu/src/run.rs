//! Running one task: whether there is room for it, the call of its twin, and the queueing of the tasks that it leaves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use everwarp_contract::fault::{
    FAULT_BAD_SUBMISSION, FAULT_NOT_COUNTED, FAULT_PROGRAM, FAULT_UNKNOWN_FUNCTION,
};
use everwarp_contract::ring::Slots;
use everwarp_contract::task::{TASK_ARG_FROM_GROUP, TASK_BATCH};
use everwarp_contract::{DevTask, FunctionId, GroupId, TaskParent};
use everwarp_engine::Order;

use crate::deques::Deques;
use crate::functions::ImageFunction;
use crate::group::GroupCredit;
use crate::observe::Observer;
use crate::running_task::{Outcome, RunningTask};
use crate::shared::{CpuShared, WorkerCounters, bump};

/// Tasks that one fetch takes from the arena at most.
const FETCH_TASKS: u32 = 256;
/// Detail of the fault of a twin that panicked; the panic's message went to the panic hook.
const PANICKED: u64 = u64::MAX;

/// The private state of a worker thread while it runs.
pub(crate) struct WorkerContext<'s, O> {
    pub(crate) shared: &'s CpuShared,
    pub(crate) counters: &'s WorkerCounters,
    pub(crate) deques: Deques,
    /// Free group ids.
    pub(crate) groups: Vec<GroupId>,
    /// Credit of the group whose tasks ran last.
    pub(crate) credit: GroupCredit,
    /// Whether this worker has the reserve of the pools.
    pub(crate) has_reserve: bool,
    /// Functions by id; they change only while no worker runs.
    pub(crate) functions: &'s [ImageFunction],
    /// What records the worker's tasks.
    pub(crate) observer: O,
}

impl<'s, O: Observer<'s>> WorkerContext<'s, O> {
    #[inline]
    fn function(&self, id: FunctionId) -> Option<&'s ImageFunction> {
        self.functions.get(id.index())
    }

    /// Queues a task where its function's order wants it.
    #[inline]
    pub(crate) fn push(&mut self, task: DevTask) {
        let priority = task.priority();
        let bit = 1 << priority.level();
        if self.shared.priorities.load(Ordering::Relaxed) & bit == 0 {
            self.shared.priorities.fetch_or(bit, Ordering::Relaxed);
        }
        let breadth = self
            .function(task.function())
            .is_some_and(|(_, f)| f.order == Order::BreadthFirst);
        let task = self.observer.queue(task);
        self.deques.push(priority, breadth, task);
    }

    /// How many tasks the worker may hold.
    #[inline]
    fn quota(&self) -> usize {
        let own = self.shared.quota.load(Ordering::Relaxed) as usize;
        match self.has_reserve {
            false => own,
            true => own + self.shared.reserve.load(Ordering::Relaxed) as usize,
        }
    }

    /// Whether the worker may hold this many tasks more.
    #[inline]
    fn has_room(&mut self, tasks: usize) -> bool {
        let quota = self.quota();
        quota >= tasks && self.deques.at_most(quota - tasks)
    }

    /// Whether the worker has room for a fetch. The other half of its quota is for what the fetched tasks spawn.
    #[inline]
    fn is_half_empty(&mut self) -> bool {
        let half = self.quota() / 2;
        self.deques.at_most(half)
    }

    /// Claims the reserve of the pools, if no worker has it.
    pub(crate) fn claim_reserve(&mut self, own: usize) -> bool {
        let owner = &self.shared.reserve_owner;
        let there = self.shared.reserve.load(Ordering::Relaxed) > 0;
        self.has_reserve = self.has_reserve || (there && owner.claim(own));
        self.has_reserve
    }

    /// Gives the reserve back.
    #[cold]
    pub(crate) fn release_reserve(&mut self) {
        self.shared.group_ids.free_all(&mut self.groups);
        self.has_reserve = false;
        self.shared.reserve_owner.release();
        self.shared.made_room();
    }

    /// Whether the worker could go on without the reserve, and another one would find it whole.
    #[cold]
    pub(crate) fn needs_no_reserve(&mut self) -> bool {
        let quota = self.shared.quota.load(Ordering::Relaxed) as usize;
        self.deques.at_most(quota / 2) && self.shared.group_ids.reserve_is_whole(&self.groups)
    }

    /// Whether there is room for the tasks that this one may spawn. Makes sure of a group id if it forks.
    #[inline]
    pub(crate) fn admits(&mut self, task: &DevTask) -> bool {
        let id = task.function();
        let (fits, forks) = match self.function(id) {
            // A task that spawns nothing only makes room.
            Some((_, f)) => (
                f.max_spawn == 0 || self.has_room(f.max_spawn.into()),
                f.forks,
            ),
            None => (id != FunctionId::FETCH || self.is_half_empty(), false),
        };
        if !fits {
            self.shared.task_refusals.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if forks && self.groups.is_empty() {
            match self
                .shared
                .group_ids
                .take(&mut self.groups, self.has_reserve)
            {
                Some(id) => self.groups.push(id),
                None => return false,
            }
        }
        true
    }

    /// Runs an admitted task to its end. `scratch` is empty before and after.
    pub(crate) fn run(&mut self, task: DevTask, scratch: &mut Vec<DevTask>) {
        let id = task.function();
        match id {
            FunctionId::FETCH => return self.fetch(task),
            FunctionId::NONE => return self.end(task.parent()),
            _ => {}
        }
        let Some(&(base, ref function)) = self.function(id) else {
            return self
                .shared
                .fault(FAULT_UNKNOWN_FUNCTION, id, task.head.into());
        };
        self.counters.function.store(id.0, Ordering::Relaxed);
        let begin = self.observer.begin(&task);
        let mut running = RunningTask {
            worker: &mut *self,
            task,
            function,
            base,
            held: &mut *scratch,
            outcome: Outcome::default(),
        };
        // Unwind safety: after a fault, no worker looks again at anything that the call has touched.
        let result = catch_unwind(AssertUnwindSafe(|| function.twin.call(&mut running)));
        let outcome = running.outcome;
        let deques = &self.deques;
        self.observer.end(&task, begin, || deques.len() as u64);
        let direct = matches!(task.parent(), TaskParent::Host(_));
        if result.is_err() {
            self.shared.fault(FAULT_PROGRAM, id, PANICKED);
        } else if direct && outcome.spawned != 0 {
            self.shared.fault(FAULT_NOT_COUNTED, id, task.head.into());
        }
        bump(&self.counters.executed, 1);
        // A call that faulted leaves no trace: its group stays open, so no value without its part gets out.
        if self.shared.leave.load(Ordering::Relaxed) && self.shared.completed.is_shut() {
            return scratch.clear();
        }
        self.leave_behind(task, outcome, scratch);
    }

    /// Opens the group of a call that forked, counts the call, and queues the tasks that it spawned.
    fn leave_behind(&mut self, task: DevTask, outcome: Outcome, spawned: &mut Vec<DevTask>) {
        let mut follow = None;
        if let Some((id, mut then)) = outcome.fork {
            if outcome.children == 0 {
                self.shared.free_group(&mut self.groups, id);
                then.head &= !TASK_ARG_FROM_GROUP;
                follow = Some(then);
            } else {
                let group = self.shared.group(id);
                group.count.open(outcome.children);
                // SAFETY: the id is fresh from the pool, and its tasks are still held.
                unsafe { group.set_then(then) };
            }
        }
        // A continuation takes the place of the task that forked, which therefore has not ended.
        let ended = outcome.fork.is_none();
        match task.parent() {
            TaskParent::Group(group) => self.tally(group, outcome.spawned, ended),
            TaskParent::Host(token) if ended => self.shared.complete(token, outcome.value),
            TaskParent::Host(_) => {}
        }
        let shares = spawned.len() > 1;
        for task in spawned.drain(..).chain(follow) {
            self.push(task);
        }
        if shares {
            self.shared.idle.wake();
        }
    }

    /// How many tasks one fetch may take: a fraction of the tasks that the worker may hold.
    fn fetch_tasks(&self) -> u32 {
        (self.shared.quota.load(Ordering::Relaxed) / 4).clamp(1, FETCH_TASKS)
    }

    /// Puts a task that was not admitted back: another worker may take it, or room may come. A fetch goes back to the new
    /// tasks. In the worker's own queue it would be next again, and fetches alone could fill that.
    pub(crate) fn put_back(&mut self, task: DevTask) {
        if task.function() == FunctionId::FETCH {
            self.shared.injectors[task.priority().index()].push(task);
            self.shared.idle.wake();
        } else {
            self.push(task);
        }
    }

    /// Takes a range of the arena; larger ranges are halved for other workers to steal, while there is room for the halves.
    fn fetch(&mut self, task: DevTask) {
        let arena = Slots::new(self.shared.pools.arena_tasks);
        let (start, mut count) = (task.arg as u32, (task.arg >> 32) as u32);
        let most = self.fetch_tasks();
        while count > most {
            let keep = if self.is_half_empty() {
                count / 2
            } else {
                most
            };
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
            let id = fetched.function();
            if self.function(id).is_none() || fetched.head >= TASK_BATCH {
                return self
                    .shared
                    .fault(FAULT_BAD_SUBMISSION, id, fetched.head.into());
            }
            self.push(DevTask {
                group: task.group,
                ..fetched
            });
        }
        self.shared.idle.wake();
    }
}
