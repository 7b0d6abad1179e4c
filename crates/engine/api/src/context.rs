//! The interface of a CPU twin: the same operations, with the same names, as in a device function.

use std::fmt;
use std::sync::Arc;

use everwarp_contract::{DevTask, GroupId, HeapOwner, Layout, Priority};

/// A CPU twin that is a plain function: runs one task.
pub type TwinFn = fn(&mut dyn TaskCx);

/// A CPU twin that carries a state of its own.
pub type TwinClosure = dyn Fn(&mut dyn TaskCx) + Send + Sync;

/// A CPU twin.
#[derive(Clone)]
pub enum Twin {
    /// A plain function.
    Function(TwinFn),
    /// A closure, made at run time.
    Closure(Arc<TwinClosure>),
}

impl Twin {
    /// A closure that runs a task.
    pub fn new(run: impl Fn(&mut dyn TaskCx) + Send + Sync + 'static) -> Self {
        Self::Closure(Arc::new(run))
    }
    /// Runs a task.
    #[inline]
    pub fn call(&self, task: &mut dyn TaskCx) {
        match self {
            Self::Function(run) => run(task),
            Self::Closure(run) => run(task),
        }
    }
    /// Whether the other twin may run in place of this one. Addresses of functions say nothing, so two functions may; a
    /// closure has a state of its own.
    pub(crate) fn may_replace(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Function(_), Self::Function(_)) => true,
            (Self::Closure(one), Self::Closure(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Debug for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Function(_) => "Twin::Function",
            Self::Closure(_) => "Twin::Closure",
        })
    }
}

/// The running task and its operations. Function numbers are indices of `Program::functions`.
///
/// The device API (`everwarp/api.cuh`) has the same methods with the same meaning.
pub trait TaskCx {
    /// The descriptor.
    fn task(&self) -> DevTask;
    /// The parameter block of the task's instance: `PARAM_BYTES` bytes, aligned to 16.
    fn params_block(&self) -> *const u8;
    /// Spawns a task into the running task's own group, with its priority.
    fn spawn(&mut self, function: u32, tag: u8, arg: u64) {
        let priority = self.task().priority();
        self.spawn_at(priority, function, tag, arg);
    }
    /// Spawns a task into the running task's own group, with the given priority.
    fn spawn_at(&mut self, priority: Priority, function: u32, tag: u8, arg: u64);
    /// Opens a group. When every task spawned into it with [`spawn_child`](Self::spawn_child), and all tasks that they
    /// spawn, have finished, `function` runs with `tag` and `arg`, and takes the place of the running task in its own
    /// group. At most once in a call. Without children it runs at once.
    fn fork(&mut self, function: u32, tag: u8, arg: u64);
    /// As [`fork`](Self::fork), but the continuation's argument is the value that the children reported.
    fn fork_collect(&mut self, function: u32, tag: u8);
    /// Spawns a task into the group that this call has opened.
    fn spawn_child(&mut self, function: u32, tag: u8, arg: u64);
    /// Keeps the task's own group open: it counts one task more, which is to be spawned later with
    /// [`spawn_held`](Self::spawn_held), by any task. It counts at once, since that task may end before the running one. The function is
    /// declared to spawn.
    fn hold(&mut self) -> GroupId;
    /// Spawns the task for which a group was held, with the running task's priority.
    fn spawn_held(&mut self, group: GroupId, function: u32, tag: u8, arg: u64) {
        let priority = self.task().priority();
        self.spawn_held_at(priority, group, function, tag, arg);
    }
    /// Spawns the task for which a group was held, with the given priority.
    fn spawn_held_at(
        &mut self,
        priority: Priority,
        group: GroupId,
        function: u32,
        tag: u8,
        arg: u64,
    );
    /// Spawns a task into another group, which must be held until the running task has ended.
    fn spawn_into(&mut self, group: GroupId, function: u32, tag: u8, arg: u64);
    /// Reports a 32-bit value into half `slot` (0 or 1) of the value of the task's own group.
    fn report_slot(&mut self, slot: u32, value: u32);
    /// Adds to the 64-bit value of the task's own group.
    fn report_add(&mut self, value: u64);
    /// Whether the task may go on with work that it could also spawn as tasks; `_waiting` is how many they would be.
    fn may_go_on(&self, _waiting: usize) -> bool {
        false
    }
    /// Ends the engine with a fault of the program.
    fn fault(&mut self, detail: u64);
    /// Allocates a block of the engine's heap for an owner, aligned to 16 bytes and not zeroed. Null when there is no
    /// room, or no heap.
    fn alloc_for(&mut self, owner: HeapOwner, bytes: u64) -> *mut u8;
    /// Frees a block of any owner. Null is ignored; an address without a block is counted and changes nothing.
    fn free(&mut self, block: *mut u8);
    /// Changes the size of a block, which may move and keeps its owner. Null when there is no room, and then the old block
    /// stays. With a null block it allocates.
    fn realloc(&mut self, block: *mut u8, bytes: u64) -> *mut u8;
    /// Frees every block of an owner, as one of `parts` callers that divide the heap among themselves. Returns the number
    /// of bytes that this call freed. No task may allocate for the owner meanwhile. On a GPU a warp does it.
    fn release_owner(&mut self, owner: HeapOwner, part: u32, parts: u32) -> u64;
    /// Looks, as one of `parts` callers, for blocks with an overwritten end, reports them, and returns their number. No
    /// task may allocate or free meanwhile.
    fn check_heap(&mut self, part: u32, parts: u32) -> u64;
}

impl dyn TaskCx + '_ {
    /// The argument.
    pub fn arg(&self) -> u64 {
        self.task().arg
    }
    /// The lower half of the argument.
    pub fn lo(&self) -> u32 {
        self.task().arg as u32
    }
    /// The upper half of the argument.
    pub fn hi(&self) -> u32 {
        (self.task().arg >> 32) as u32
    }
    /// The tag.
    pub fn tag(&self) -> u8 {
        self.task().tag()
    }
    /// The owner of the blocks that the task's instance allocates.
    pub fn owner(&self) -> HeapOwner {
        self.task().instance().owner()
    }
    /// Allocates a block of the engine's heap, as [`alloc_for`](TaskCx::alloc_for) does.
    pub fn alloc(&mut self, bytes: u64) -> *mut u8 {
        self.alloc_for(self.owner(), bytes)
    }
    /// The instance's parameters.
    ///
    /// # Safety
    /// - `P` is the parameter struct that the program declares, and the instance was made with it.
    pub unsafe fn params<P: Layout>(&self) -> &P {
        const { assert!(size_of::<P>() <= everwarp_contract::task::PARAM_BYTES as usize) };
        // SAFETY: the block is aligned to 16, as large as `P`, filled before the instance's first task,
        // and not written while the instance lives; the caller vouches for the type.
        unsafe { &*self.params_block().cast::<P>() }
    }
}
