//! The task descriptor: 16 bytes with the function to run, the group to notify, and one 64-bit word of argument.
//!
//! Why 16 bytes? One aligned 128-bit load or store moves it, also across PCIe, and a warp's batch of 32
//! is four full cache lines. Larger arguments are in memory, and the argument points to them.
//!
//! `head`, from the lowest bit: function (10), instance (8), tag (8, free for the program), priority
//! (2), flags (3), lap (1, used only in the submission ring).

use core::fmt;

use crate::ids::{FunctionId, GroupId, InstanceId, Priority, TokenId};

crate::dev_struct! {
    /// One call of one function.
    pub struct DevTask: align 16, size 16 {
        /// Function, instance, tag, priority, flags and lap; see the module's documentation.
        pub head: u32,
        /// The group that counts this task, or a host token under [`HOST_DIRECT`].
        pub group: u32,
        /// The argument.
        pub arg: u64,
    }
}

crate::dev_consts! {
    /// Writes the task constants as CUDA C++.
    pub fn write_consts;
    /// Width of the function field.
    pub const TASK_FN_BITS = 10;
    /// First bit of the instance field.
    pub const TASK_INSTANCE_SHIFT = 10;
    /// First bit of the tag field.
    pub const TASK_TAG_SHIFT = 18;
    /// First bit of the priority field.
    pub const TASK_PRIORITY_SHIFT = 26;
    /// Submission only: the descriptor is a batch (`arg` = start in the arena | count << 32).
    pub const TASK_BATCH = 1 << 28;
    /// Submission only: the task may spawn into its own group, so the engine gives it a group that counts.
    pub const TASK_COUNTED = 1 << 29;
    /// Continuation only: the argument is replaced by the group's value when the group fires.
    pub const TASK_ARG_FROM_GROUP = 1 << 30;
    /// Lap parity of the submission slot.
    pub const TASK_LAP = 1 << 31;
    /// Number of priority levels; 0 is served first.
    pub const PRIORITIES = 4;
    /// The most urgent one.
    pub const PRIORITY_URGENT = 0;
    /// In `group`: the other bits are a host token, and the end of the task completes it.
    pub const HOST_DIRECT = 1 << 31;
    /// Built-in function: does nothing. It is the continuation of a group that only counts.
    pub const FN_NONE = 0;
    /// Built-in function: fetches a range of the arena (warp-shaped).
    pub const FN_FETCH = 1;
    /// Built-in continuation: completes the host token in `group` with the group's value.
    pub const FN_COMPLETE = 2;
    /// The first function id that belongs to a program.
    pub const FN_FIRST = 3;
    /// How many function ids there are, built-in ones included.
    pub const FN_LIMIT = 1 << 10;
    /// How many program instances an engine holds at once.
    pub const INSTANCES = 256;
    /// Size in bytes of the parameter block of one instance.
    pub const PARAM_BYTES = 256;
}

// The priority's field has two bits, and the masks are `PRIORITIES - 1`.
const _: () = assert!(PRIORITIES.is_power_of_two() && PRIORITIES <= 4);
const _: () = assert!(
    FN_LIMIT == 1 << TASK_FN_BITS
        && TASK_INSTANCE_SHIFT == TASK_FN_BITS
        && INSTANCES == 1 << (TASK_TAG_SHIFT - TASK_INSTANCE_SHIFT)
        && TASK_BATCH == PRIORITIES << TASK_PRIORITY_SHIFT,
    "the fields of a descriptor's head overlap or leave a gap"
);

/// The host's submission or the group that a queued task notifies when it has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskParent {
    /// The host: the end of the task completes this submission.
    Host(TokenId),
    /// The group that counts the task.
    Group(GroupId),
}

impl DevTask {
    /// A descriptor with the given function, instance, tag and priority; no flags, no group.
    pub const fn new(
        function: FunctionId,
        instance: InstanceId,
        tag: u8,
        priority: Priority,
        arg: u64,
    ) -> Self {
        let head = (function.0 & (FN_LIMIT - 1))
            | (instance.0 as u32) << TASK_INSTANCE_SHIFT
            | (tag as u32) << TASK_TAG_SHIFT
            | (priority.level() as u32) << TASK_PRIORITY_SHIFT;
        Self {
            head,
            group: 0,
            arg,
        }
    }
    /// The function.
    pub const fn function(&self) -> FunctionId {
        FunctionId(self.head & (FN_LIMIT - 1))
    }
    /// The program instance.
    pub const fn instance(&self) -> InstanceId {
        InstanceId((self.head >> TASK_INSTANCE_SHIFT) as u8)
    }
    /// The tag: eight bits that belong to the program.
    pub const fn tag(&self) -> u8 {
        (self.head >> TASK_TAG_SHIFT) as u8
    }
    /// The priority.
    pub const fn priority(&self) -> Priority {
        Priority::from_bits(self.head >> TASK_PRIORITY_SHIFT)
    }
    /// The submission or group that the task notifies. Only for a task in an engine's queues: in a submission, and in the
    /// continuation of a submitted group, `group` is a bare token.
    pub const fn parent(&self) -> TaskParent {
        match self.group & HOST_DIRECT {
            0 => TaskParent::Group(GroupId(self.group)),
            _ => TaskParent::Host(TokenId(self.group & !HOST_DIRECT)),
        }
    }
}

impl fmt::Display for DevTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fn {} instance {} tag {} priority {} group {:#x} arg {:#x}",
            self.function(),
            self.instance(),
            self.tag(),
            self.priority().level(),
            self.group,
            self.arg
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_keeps_every_field() {
        let function = FunctionId(FN_LIMIT - 1);
        let task = DevTask::new(function, InstanceId(255), 254, Priority::LOW, 7);
        assert_eq!(task.function(), function);
        assert_eq!(task.instance(), InstanceId(255));
        assert_eq!(
            (task.tag(), task.priority(), task.arg),
            (254, Priority::LOW, 7)
        );
        assert!(task.head < TASK_BATCH, "no flag is set");
    }

    #[test]
    fn parent_is_the_host_or_a_group() {
        let mut task = DevTask::new(FunctionId::FIRST, InstanceId(0), 0, Priority::NORMAL, 0);
        task.group = 9;
        assert_eq!(task.parent(), TaskParent::Group(GroupId(9)));
        task.group |= HOST_DIRECT;
        assert_eq!(task.parent(), TaskParent::Host(TokenId(9)));
    }
}
