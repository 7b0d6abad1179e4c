//! What a CPU twin sees: the same operations, under the same names, as a device function.

use everwarp_contract::{DevTask, Layout};

/// A CPU twin: runs one task.
pub type TwinFn = fn(&mut dyn TaskCx);

/// The running task and what it may do. Function numbers are places in `Program::functions`.
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
    /// Spawns a task into the running task's own group, with the given priority (0 is served first).
    fn spawn_at(&mut self, priority: u8, function: u32, tag: u8, arg: u64);
    /// Opens a group: when every task spawned into it with [`spawn_child`](Self::spawn_child) and all
    /// that those spawn have finished, `function` runs with `tag` and `arg`, and takes the place of the
    /// running task in its own group. At most once in a call. Without children it runs at once.
    fn fork(&mut self, function: u32, tag: u8, arg: u64);
    /// As [`fork`](Self::fork), but the continuation's argument is what the children reported.
    fn fork_collect(&mut self, function: u32, tag: u8);
    /// Spawns a task into the group that this call has opened.
    fn spawn_child(&mut self, function: u32, tag: u8, arg: u64);
    /// Reports a 32-bit value into half `slot` (0 or 1) of the value of the task's own group.
    fn report_slot(&mut self, slot: u32, value: u32);
    /// Adds to the 64-bit value of the task's own group.
    fn report_add(&mut self, value: u64);
    /// Ends the engine with a fault of the program.
    fn fault(&mut self, detail: u64);
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
