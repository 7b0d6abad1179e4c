//! The host-call ring's place: what a guest asks of the CPU (files, sockets, time).
//!
//! Only the layout is fixed here, so that engines reserve its place; no engine serves it yet, and
//! [`DevEngine`](crate::device::DevEngine) carries a null address for it.

crate::dev_struct! {
    /// One request of a guest to the CPU. To the host this is hostile memory: copy once, then validate.
    pub struct DevHostCall: align 64, size 64 {
        /// Which call.
        pub opcode: u32,
        /// Lap parity (bit 31) and the caller's completion slot.
        pub slot: u32,
        /// The calling process.
        pub process: u64,
        /// Arguments.
        pub args: [u64; 6],
    }
}
