//! What a worker records about its tasks. The worker's code is compiled once without it, and once with it, so an engine
//! that measures nothing runs the same instructions as one that could not.

use everwarp_contract::DevTask;
use everwarp_contract::task::TASK_LAP;
use everwarp_telemetry::WorkerHand;

use crate::shared::CpuShared;

/// In a queued task: the argument is the number of a sample, which has the argument. The bit means something else in the
/// submission ring only.
const MARKED: u32 = TASK_LAP;

/// What a worker calls at each step of a task.
pub(crate) trait Observer<'s>: Sized {
    /// An observer of worker number `own`.
    fn new(shared: &'s CpuShared, own: usize) -> Self;
    /// A task is about to run; the result is for [`end`](Self::end).
    fn begin(&mut self, task: &DevTask) -> u64;
    /// A task has run. `queued` counts the tasks in the worker's queues.
    fn end(&mut self, task: &DevTask, begin: u64, queued: impl FnOnce() -> u64);
    /// A task is about to be queued.
    fn queue(&mut self, task: DevTask) -> DevTask;
    /// A task was taken from a queue.
    fn take(&mut self, task: DevTask) -> DevTask;
}

/// Records nothing.
pub(crate) struct Blind;

impl Observer<'_> for Blind {
    fn new(_: &CpuShared, _: usize) -> Self {
        Self
    }
    #[inline(always)]
    fn begin(&mut self, _: &DevTask) -> u64 {
        0
    }
    #[inline(always)]
    fn end(&mut self, _: &DevTask, _: u64, _: impl FnOnce() -> u64) {}
    #[inline(always)]
    fn queue(&mut self, task: DevTask) -> DevTask {
        task
    }
    #[inline(always)]
    fn take(&mut self, task: DevTask) -> DevTask {
        task
    }
}

impl<'s> Observer<'s> for WorkerHand<'s> {
    fn new(shared: &'s CpuShared, own: usize) -> Self {
        let recorder = shared.recorder.as_ref();
        WorkerHand::new(recorder.expect("the engine measures"), own)
    }
    #[inline(always)]
    fn begin(&mut self, task: &DevTask) -> u64 {
        WorkerHand::begin(self, task.function().0, task.head, task.arg)
    }
    #[inline(always)]
    fn end(&mut self, task: &DevTask, begin: u64, queued: impl FnOnce() -> u64) {
        WorkerHand::end(self, task.function().0, task.arg, begin, queued);
    }
    #[inline(always)]
    fn queue(&mut self, task: DevTask) -> DevTask {
        if !self.marks() {
            return task;
        }
        match self.mark(task.arg) {
            None => task,
            Some(mark) => DevTask {
                head: task.head | MARKED,
                arg: mark,
                ..task
            },
        }
    }
    #[inline(always)]
    fn take(&mut self, task: DevTask) -> DevTask {
        if task.head & MARKED == 0 {
            return task;
        }
        DevTask {
            head: task.head & !MARKED,
            arg: self.unmark(task.function().0, task.arg),
            ..task
        }
    }
}
