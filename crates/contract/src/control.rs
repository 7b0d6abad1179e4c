//! The control words: one cache line that only the host writes, one that only the engine writes.

use crate::fault::DevFault;

crate::dev_consts! {
    /// Writes the control constants as CUDA C++.
    pub fn write_consts;
    /// Request: run.
    pub const REQUEST_RUN = 0;
    /// Request: finish the tasks that are running, save all state, and leave.
    pub const REQUEST_PARK = 1;
}

crate::dev_struct! {
    /// Control words in host memory. Only the host writes the first 128 bytes, only the engine the second 128 bytes: no
    /// read-modify-write crosses PCIe.
    pub struct DevWords: align 128, size 256 {
        /// Host: the order to the engine, `REQUEST_…`; it belongs to the epoch in the next word.
        pub request: u32,
        /// Host: the epoch that the request is for.
        pub request_epoch: u32,
        /// Spelled-out hole.
        pub host_reserved: [u32; 30],
        /// Engine: the epoch that is resident; written when it starts.
        pub epoch: u32,
        /// Engine: the last epoch that has parked completely.
        pub parked: u32,
        /// Engine: how many submissions it has taken; free-running. The slots before it may be reused.
        pub taken: u32,
        /// Spelled-out hole.
        pub engine_reserved: u32,
        /// Engine: the first fault.
        pub fault: DevFault,
        /// Spelled-out hole.
        pub engine_reserved2: [u32; 24],
    }
}
