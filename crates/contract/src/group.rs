//! The group: a counter of unfinished tasks and what happens when it reaches zero.

use crate::task::DevTask;

crate::dev_struct! {
    /// A counter of unfinished tasks. The worker that brings `pending` to zero fires `then`, once, and the record is free
    /// again: nothing may name the group afterwards.
    pub struct DevGroup: align 32, size 32 {
        /// Unfinished tasks.
        pub pending: u32,
        /// Spelled-out hole.
        pub reserved: u32,
        /// The values that the group's tasks report: two 32-bit slots or one 64-bit sum, as the program chooses.
        pub value: u64,
        /// The continuation; its own `group` is that of the forking task.
        pub then: DevTask,
    }
}
