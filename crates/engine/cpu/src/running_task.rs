//! The running task, as its CPU twin sees it.

use everwarp_contract::fault::{FAULT_FORK, FAULT_PROGRAM, FAULT_SPAWN_LIMIT};
use everwarp_contract::task::TASK_ARG_FROM_GROUP;
use everwarp_contract::{DevTask, FunctionId, GroupId, HeapOwner, Priority, TaskParent};
use everwarp_engine::{Function, TaskCx};

use crate::run::WorkerContext;

/// A call of a twin, and its effects so far.
pub(crate) struct RunningTask<'h, 's, O> {
    pub(crate) worker: &'h mut WorkerContext<'s, O>,
    pub(crate) task: DevTask,
    pub(crate) function: &'s Function,
    /// The id of the first function of the task's program.
    pub(crate) base: FunctionId,
    /// The tasks that the call has spawned. No other worker may see them before the group has counted them.
    pub(crate) held: &'h mut Vec<DevTask>,
    pub(crate) outcome: Outcome,
}

/// The tasks that a call has spawned, the group that it opened, and the value that it reported.
#[derive(Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// Tasks spawned into the task's own group.
    pub(crate) spawned: u32,
    /// Tasks spawned into the group that the call has opened.
    pub(crate) children: u32,
    /// Tasks spawned into groups of others.
    pub(crate) elsewhere: u32,
    /// The group that the call has opened, with its continuation.
    pub(crate) fork: Option<(GroupId, DevTask)>,
    /// The value that the call reported, if it completes a host token.
    pub(crate) value: u64,
}

impl<O> RunningTask<'_, '_, O> {
    fn head(&self, function: u32, tag: u8, priority: Priority) -> u32 {
        let function = self.base.offset(function);
        DevTask::new(function, self.task.instance(), tag, priority, 0).head
    }
    fn raise(&self, code: u32, detail: u64) {
        self.worker.shared.fault(code, self.task.function(), detail);
    }
    fn queue(&mut self, task: DevTask) {
        let count = self.outcome.spawned + self.outcome.children + self.outcome.elsewhere;
        if count > u32::from(self.function.max_spawn) {
            self.raise(FAULT_SPAWN_LIMIT, count.into());
        } else {
            self.held.push(task);
        }
    }
    fn open(&mut self, head: u32, arg: u64) {
        if self.outcome.fork.is_some() || !self.function.forks {
            return self.raise(FAULT_FORK, self.task.head.into());
        }
        let id = self.worker.groups.pop();
        let id = id.expect("the worker made sure of an id before the task ran");
        let then = DevTask {
            head,
            group: self.task.group,
            arg,
        };
        self.outcome.fork = Some((id, then));
    }
}

impl<O> TaskCx for RunningTask<'_, '_, O> {
    fn task(&self) -> DevTask {
        self.task
    }
    fn params_block(&self) -> *const u8 {
        let params = &self.worker.shared.params;
        params.at(self.task.instance().index()).cast()
    }
    fn spawn_at(&mut self, priority: Priority, function: u32, tag: u8, arg: u64) {
        self.outcome.spawned += 1;
        self.queue(DevTask {
            head: self.head(function, tag, priority),
            group: self.task.group,
            arg,
        });
    }
    fn fork(&mut self, function: u32, tag: u8, arg: u64) {
        self.open(self.head(function, tag, self.task.priority()), arg);
    }
    fn fork_collect(&mut self, function: u32, tag: u8) {
        let head = self.head(function, tag, self.task.priority());
        self.open(head | TASK_ARG_FROM_GROUP, 0);
    }
    fn spawn_child(&mut self, function: u32, tag: u8, arg: u64) {
        let Some((group, _)) = self.outcome.fork else {
            return self.raise(FAULT_FORK, self.task.head.into());
        };
        self.outcome.children += 1;
        self.queue(DevTask {
            head: self.head(function, tag, self.task.priority()),
            group: group.0,
            arg,
        });
    }
    fn hold(&mut self) -> GroupId {
        match self.task.parent() {
            TaskParent::Group(group) => {
                // At once: the task for which the group is held may end before this one, and what this one spawns counts at
                // its end. Not the last: this one is counted.
                let _ = self.worker.shared.group(group).count.change(1);
                group
            }
            TaskParent::Host(_) => {
                // The fault of a task that is not counted and yet spawns is raised at its end.
                self.outcome.spawned += 1;
                GroupId(self.task.group)
            }
        }
    }
    fn spawn_held_at(
        &mut self,
        priority: Priority,
        group: GroupId,
        function: u32,
        tag: u8,
        arg: u64,
    ) {
        self.outcome.elsewhere += 1;
        self.queue(DevTask {
            head: self.head(function, tag, priority),
            group: group.0,
            arg,
        });
    }
    fn spawn_into(&mut self, group: GroupId, function: u32, tag: u8, arg: u64) {
        // Not the last: the group is held.
        let _ = self.worker.shared.group(group).count.change(1);
        self.spawn_held(group, function, tag, arg);
    }
    fn report_slot(&mut self, slot: u32, value: u32) {
        match self.task.parent() {
            TaskParent::Host(_) => {
                let shift = 32 * (slot & 1);
                let kept = self.outcome.value & !(0xffff_ffff << shift);
                self.outcome.value = kept | u64::from(value) << shift;
            }
            TaskParent::Group(group) => self.worker.shared.group(group).count.slot(slot, value),
        }
    }
    fn report_add(&mut self, value: u64) {
        match self.task.parent() {
            TaskParent::Host(_) => self.outcome.value = self.outcome.value.wrapping_add(value),
            TaskParent::Group(group) => self.worker.shared.group(group).count.add(value),
        }
    }
    fn may_go_on(&self, waiting: usize) -> bool {
        // A sleeping worker is not called for a single task, so it misses nothing.
        waiting <= 1 || !self.worker.shared.idle.is_waiting()
    }
    fn fault(&mut self, detail: u64) {
        self.raise(FAULT_PROGRAM, detail);
    }
    fn alloc_for(&mut self, owner: HeapOwner, bytes: u64) -> *mut u8 {
        let heap = self.worker.shared.heap.as_ref();
        heap.map_or(std::ptr::null_mut(), |h| h.alloc(owner, bytes))
    }
    fn free(&mut self, block: *mut u8) {
        if let Some(heap) = &self.worker.shared.heap {
            heap.free(self.task.instance().owner(), block);
        }
    }
    fn realloc(&mut self, block: *mut u8, bytes: u64) -> *mut u8 {
        let (heap, owner) = (&self.worker.shared.heap, self.task.instance().owner());
        heap.as_ref()
            .map_or(std::ptr::null_mut(), |h| h.realloc(owner, block, bytes))
    }
    fn release_owner(&mut self, owner: HeapOwner, part: u32, parts: u32) -> u64 {
        let heap = self.worker.shared.heap.as_ref();
        heap.map_or(0, |h| h.release(owner, part, parts))
    }
    fn check_heap(&mut self, part: u32, parts: u32) -> u64 {
        let heap = self.worker.shared.heap.as_ref();
        heap.map_or(0, |h| h.sweep(part, parts))
    }
}
