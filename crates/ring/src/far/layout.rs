//! What the host and a kernel's tasks share; `crates/engine/cuda/device/ring/ring.cuh` uses it.

use everwarp_runtime::{DevPtr, dev_struct};

dev_struct! {
    /// Words of a kernel that both sides reach.
    pub(crate) struct DevRingWords: align 64, size 128 {
        /// Whether no more messages are to be handled. The host writes it.
        pub(crate) stop: u64,
        /// How many messages were handed over. The host writes it.
        pub(crate) sent: u64,
        /// Spelled-out hole: the next words are in another cache line.
        pub(crate) hole: [u64; 6],
        /// The number of messages whose handling has started.
        pub(crate) started: u64,
        /// How many messages were handled, whose results can be read.
        pub(crate) done: u64,
        /// Spelled-out hole.
        pub(crate) more: [u64; 6],
    }
}
dev_struct! {
    /// A message that the host has handed over. There are as many as the kernel has capacity, and they are used in turns.
    pub(crate) struct DevRingMessage: align 16, size 32 {
        /// Where its elements are.
        pub(crate) input: u64,
        /// Where the elements of its result go.
        pub(crate) output: u64,
        /// Why it failed, or 0. The device writes it.
        pub(crate) code: u64,
        /// Spelled-out hole.
        pub(crate) hole: u64,
    }
}
dev_struct! {
    /// Words of a kernel that only its tasks reach.
    pub(crate) struct DevRingOwn: align 8, size 24 {
        /// Messages that kicks have brought less those that turns have taken off; may be below zero.
        pub(crate) counted: u64,
        /// The number of the next message.
        pub(crate) next: u64,
        /// Why the message that is being handled fails.
        pub(crate) code: u64,
    }
}
dev_struct! {
    /// Parameters of a kernel's tasks.
    pub(crate) struct DevRing: align 16, size 64 {
        /// Words that both sides reach.
        pub(crate) host: DevPtr<DevRingWords>,
        /// Messages.
        pub(crate) messages: DevPtr<DevRingMessage>,
        /// Words of the tasks.
        pub(crate) own: DevPtr<DevRingOwn>,
        /// The handler's state, or null.
        pub(crate) state: DevPtr<u8>,
        /// How many messages there are.
        pub(crate) capacity: u64,
        /// Elements of a message.
        pub(crate) inputs: u64,
        /// Elements of a result.
        pub(crate) outputs: u64,
        /// Spelled-out hole.
        pub(crate) hole: u64,
    }
}
