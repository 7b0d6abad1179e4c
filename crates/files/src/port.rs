//! Where the host and the tasks of an instance meet.

use std::sync::Arc;

use everwarp_contract::{DevFileDone, DevFileRequest, Priority};
use everwarp_runtime::{Buffer, Instance, TaskBuilder};

/// 64-bit words of a request, and of a completion.
pub(crate) const REQUEST: usize = size_of::<DevFileRequest>() / 8;
pub(crate) const DONE: usize = size_of::<DevFileDone>() / 8;

/// The instance whose tasks are served, and the rings.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) instance: Arc<Instance>,
    pub(crate) door: u32,
    /// The requests whose number a task has reported, in the host's memory.
    pub(crate) copied: Arc<Buffer<u64>>,
    pub(crate) done: Arc<Buffer<u64>>,
}

impl Port {
    /// A task of the door. It is urgent, because tasks that try again until there is room may keep all workers busy.
    pub(crate) fn task(&self, tag: u32) -> TaskBuilder<'_> {
        let task = self.instance.task(self.door).tag(tag as u8);
        task.priority(Priority::URGENT)
    }
}
