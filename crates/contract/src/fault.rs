//! The faults with which an engine can end. Numbers are never reused.

crate::dev_consts! {
    /// Writes the fault codes as CUDA C++.
    pub fn write_consts;
    /// No fault.
    pub const FAULT_NONE = 0;
    /// A task spawned more tasks than its function declared; detail: how many it had spawned.
    pub const FAULT_SPAWN_LIMIT = 1;
    /// A task named a function that the image does not contain; detail: the descriptor's head.
    pub const FAULT_UNKNOWN_FUNCTION = 2;
    /// A task that the host did not mark as counted spawned into its own group.
    pub const FAULT_NOT_COUNTED = 3;
    /// A task forked twice, or its function is not declared to fork.
    pub const FAULT_FORK = 4;
    /// A program reported a fault of its own; detail: its number.
    pub const FAULT_PROGRAM = 5;
    /// The submission ring held an entry that is not valid; detail: the descriptor's head.
    pub const FAULT_BAD_SUBMISSION = 6;
    /// An invariant of the scheduler did not hold; detail: the invariant's number.
    pub const FAULT_INTERNAL = 7;
    /// The driver has lost the device; the host writes it.
    pub const FAULT_DEVICE_LOST = 8;
}

crate::dev_struct! {
    /// The first fault of an engine. `code` is written last.
    pub struct DevFault: align 16, size 16 {
        /// One of the `FAULT_…` codes.
        pub code: u32,
        /// The function that was running.
        pub function: u32,
        /// More about the fault; its meaning depends on the code.
        pub detail: u64,
    }
}
