//! Counters that each worker keeps, and only it writes: free-running, readable at any time.

crate::dev_consts! {
    /// Writes the worker states as CUDA C++.
    pub fn write_consts;
    /// Not resident.
    pub const WORKER_AWAY = 0;
    /// Looking for work.
    pub const WORKER_IDLE = 1;
    /// Running the function in `function`.
    pub const WORKER_RUNNING = 2;
    /// Holding tasks it cannot run because the pools have no room for what they may spawn.
    pub const WORKER_STARVED = 3;
    /// Polling the host's submission ring.
    pub const WORKER_INGRESS = 4;
}

crate::dev_struct! {
    /// One worker's counters.
    pub struct DevWorker: align 64, size 64 {
        /// Tasks run to completion, continuations included.
        pub executed: u64,
        /// Batches: how often the worker picked a function and ran up to 32 tasks of it.
        pub batches: u64,
        /// Tasks it took that another worker had made.
        pub received: u64,
        /// Tasks it moved to public queues or handed to an idle worker.
        pub published: u64,
        /// How often it could not run because a pool was exhausted.
        pub starved: u64,
        /// Continuations fired.
        pub fired: u64,
        /// `WORKER_…`.
        pub state: u32,
        /// The function of the current or last batch.
        pub function: u32,
        /// Tasks in its local queue.
        pub queued: u32,
        /// Spelled-out hole.
        pub reserved: u32,
    }
}
