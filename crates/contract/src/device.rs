//! Layouts that only a GPU engine uses: its queues and pools in device memory.
//!
//! A *queue* is one local queue in shared memory with its public deque: one per warp, and one per block
//! for block-shaped tasks. With 8 warps a block, queue `block * 9 + warp` is a warp's and
//! `block * 9 + 8` the block's.

use crate::control::DevWords;
use crate::fault::DevFault;
use crate::group::DevGroup;
use crate::heap::DevHeap;
use crate::hostcall::DevHostCallRing;
use crate::layout::DevPtr;
use crate::ring::DevCompletion;
use crate::task::DevTask;
use crate::telemetry::DevWorker;

crate::dev_consts! {
    /// Writes the engine's constants as CUDA C++.
    pub fn write_consts;
    /// Threads of a block.
    pub const BLOCK_THREADS = 256;
    /// Warps of a block.
    pub const BLOCK_WARPS = 8;
    /// Queues of a block: one per warp and one for block-shaped tasks.
    pub const BLOCK_QUEUES = 9;
    /// Resident blocks per multiprocessor that the kernel is bounded for.
    pub const BLOCKS_PER_SM = 2;
    /// Tasks in a chunk, the unit in which tasks move between warps.
    pub const CHUNK_TASKS = 32;
    /// Tasks that a local queue holds.
    pub const LOCAL_TASKS = 512;
    /// Chunks a public deque holds per priority; more go to the overflow stack.
    pub const DEQUE_CHUNKS = 64;
    /// Free group ids that a warp keeps.
    pub const GROUP_CACHE = 512;
    /// Free chunks that a warp keeps.
    pub const CHUNK_CACHE = 4;
    /// Words in which a parked warp keeps its free ids: two counts, group ids, chunk ids.
    pub const SAVED_HANDS = 2 + 512 + 4;
    /// Group ids in one slab of free ids.
    pub const SLAB_GROUPS = 32;
    /// In a chunk reference: bits of the chunk's id. The bits above them are the number of tasks minus one.
    pub const CHUNK_ID_BITS = 26;
    /// The most tasks that one fetch takes from the arena.
    pub const FETCH_TASKS = 128;
    /// In `DevGrid::stop`: a fault stops every epoch.
    pub const STOP_FAULT = 0xffff_ffff;
    /// Stacks that free ids are spread over, so that warps do not contend for one head.
    pub const SHARDS = 64;
    /// Words from one shard's head to the next: a sector each.
    pub const SHARD_STRIDE = 4;
    /// Shards of free chunks begin here (times `SHARDS`); then those of full and of empty slabs.
    pub const SHARDS_CHUNKS = 0;
    /// Shards of full slabs.
    pub const SHARDS_FULL = 1;
    /// Shards of empty slabs.
    pub const SHARDS_EMPTY = 2;
    /// The most block-shaped tasks that a block runs between two barriers.
    pub const BLOCK_BATCH = 8;
    /// Bits of `DevTrace::what` that say how long it took.
    pub const TRACE_TOOK_BITS = 38;
    /// Bits of `DevTrace::what` that say how many tasks ran.
    pub const TRACE_TASKS_BITS = 14;
    /// First bit of `DevTrace::what` that says what the entry is: one of the four that follow.
    pub const TRACE_KIND_SHIFT = 62;
    /// A slice in which the warp ran tasks.
    pub const TRACE_RAN = 0;
    /// A slice in which lanes handled a message each, or in which a warp or a block handled those of one call. It lies within the slice
    /// of tasks that the warp writes next.
    pub const TRACE_HANDLED = 1;
    /// A message was sent.
    pub const TRACE_SENT = 2;
    /// A message was handled, within the slice of handlers that the warp writes next.
    pub const TRACE_TAKEN = 3;
    /// The longest mean distance of two measured batches of a warp, in batches.
    pub const MEASURE_FARTHEST = 256;
    /// Nanoseconds of batches that one measured batch stands for, as a power of two: about 128 times what measuring it takes.
    pub const MEASURE_SPAN_BITS = 18;
    /// The same two of batches whose handlers are measured: each message takes two looks at the clock.
    pub const MEASURE_INSIDE_FARTHEST = 1024;
    /// See `MEASURE_INSIDE_FARTHEST`.
    pub const MEASURE_INSIDE_SPAN_BITS = 20;
    /// Tasks of one warp whose waiting is measured at a time.
    pub const MEASURE_SAMPLES = 8;
    /// Buckets of a `DevHistogram`: each power of two has `1 << MEASURE_STEP_BITS`.
    pub const MEASURE_BUCKETS = 656;
    /// See `MEASURE_BUCKETS`.
    pub const MEASURE_STEP_BITS = 4;
    /// In the lower half of `DevInbox::chunk`: the inbox holds a single task, in `task`. No chunk reference plus one is this large.
    pub const INBOX_TASK = 0xffff_ffff;
}

const _: () = assert!(BLOCK_QUEUES == BLOCK_WARPS + 1 && BLOCK_THREADS == BLOCK_WARPS * 32);
const _: () =
    assert!(TRACE_KIND_SHIFT == TRACE_TOOK_BITS + TRACE_TASKS_BITS + crate::task::TASK_FN_BITS);
const _: () = assert!(SAVED_HANDS == 2 + GROUP_CACHE + CHUNK_CACHE);

crate::dev_struct! {
    /// Where an idle warp waits. Each inbox has its own sectors, so that polling it disturbs no other warp.
    pub struct DevInbox: align 64, size 64 {
        /// In the lower half a chunk reference plus one, or [`INBOX_TASK`]; 0 when empty.
        pub chunk: u64,
        /// The number of the epoch that must stop.
        pub stop: u32,
        /// Spelled-out hole.
        pub reserved: u32,
        /// A chunk of block-shaped tasks (inbox of a block's first warp only).
        pub block_chunk: u64,
        /// Spelled-out hole.
        pub reserved2: u64,
        /// The task, with [`INBOX_TASK`].
        pub task: DevTask,
        /// Spelled-out hole.
        pub reserved3: [u64; 2],
    }
}

crate::dev_struct! {
    /// An entry of a warp's trace: a slice of the warp's time, or the place of a message, whose cell tells which one it is. The first entry
    /// of a warp's ring is neither: it has the number of entries that the warp has written, and that of the first warp the time at
    /// which the engine started.
    pub struct DevTrace: align 16, size 16 {
        /// When the slice began or the message was sent, in nanoseconds of the device's clock. Of a message that was handled, the address
        /// of its cell.
        pub begin: u64,
        /// Of a slice: nanoseconds that it took ([`TRACE_TOOK_BITS`]) | tasks or messages ([`TRACE_TASKS_BITS`]) | function. What is more
        /// than the bits can say is the most that they can. Of a message that was sent, the address of its cell. In the highest bits
        /// is what the entry is ([`TRACE_KIND_SHIFT`]).
        pub what: u64,
    }
}

crate::dev_struct! {
    /// Values that were measured. Each counts for those that were not. The counters only grow.
    pub struct DevHistogram: align 16, size 5_264 {
        /// Their sum.
        pub sum: u64,
        /// The largest one.
        pub most: u64,
        /// How many are in each bucket.
        pub buckets: [u64; 656],
    }
}

crate::dev_struct! {
    /// What was measured of one function: `[function]`.
    pub struct DevMeasure: align 16, size 21_072 {
        /// Tasks that have run, each counted.
        pub calls: u64,
        /// Spelled-out hole.
        pub reserved: u64,
        /// Nanoseconds that batches took.
        pub run: DevHistogram,
        /// Nanoseconds that tasks waited in queues.
        pub wait: DevHistogram,
        /// For turns of actors: nanoseconds that handling one message took.
        pub handling: DevHistogram,
        /// Tasks in the warp's own queue after a batch.
        pub depth: DevHistogram,
    }
}

crate::dev_struct! {
    /// A task whose waiting is measured: `[warp][MEASURE_SAMPLES]`. The task has the sample's number instead of its argument.
    pub struct DevSample: align 32, size 32 {
        /// When it was queued, in nanoseconds of the device's clock; 0 if the sample is free.
        pub queued: u64,
        /// The task's argument.
        pub argument: u64,
        /// Tasks that it stands for.
        pub weight: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

crate::dev_struct! {
    /// A public deque: the owner pushes and pops at the tail, thieves take from the head.
    /// `word` = head (24) | tail (24) | tag (16, changed by each pop of the owner).
    pub struct DevDeque: align 8, size 264 {
        /// The indices; see above.
        pub word: u64,
        /// Chunk references.
        pub slots: [u32; 64],
    }
}

crate::dev_struct! {
    /// Words that the whole grid shares; each group of words has its own cache line.
    pub struct DevGrid: align 128, size 896 {
        /// The number of the epoch that must stop (a copy of the host's request, made by the ingress warp), or
        /// [`STOP_FAULT`].
        pub stop: u32,
        /// How many warps are idle.
        pub idle_warps: u32,
        /// Chunks in public places.
        pub public_chunks: u32,
        /// The same of block-shaped tasks.
        pub public_block_chunks: u32,
        /// How many blocks have no block-shaped work.
        pub idle_blocks: u32,
        /// Spelled-out hole.
        pub hole0: [u32; 27],
        /// Chunks in public places by priority.
        pub chunks_at: [u32; 4],
        /// The same of block-shaped tasks.
        pub block_chunks_at: [u32; 4],
        /// Spelled-out hole.
        pub hole1: [u32; 24],
        /// Chunks never used yet start here.
        pub fresh_chunks: u32,
        /// Group ids never used yet start here.
        pub fresh_groups: u32,
        /// Slabs never used yet start here.
        pub fresh_slabs: u32,
        /// How often a warp wanted a chunk and none was free.
        pub chunk_refusals: u32,
        /// The same for group ids.
        pub group_refusals: u32,
        /// Spelled-out hole.
        pub hole2: [u32; 27],
        /// Stacks of overflowed chunks, by priority.
        pub overflow: [u64; 4],
        /// The same for block-shaped tasks.
        pub overflow_block: [u64; 4],
        /// Spelled-out hole.
        pub hole3: [u64; 8],
        /// Completions written; free-running.
        pub completions: u32,
        /// Spelled-out hole.
        pub hole4: [u32; 31],
        /// Blocks that have left in this epoch.
        pub departed: u32,
        /// The next of the queues of earlier, larger epochs that no block has adopted yet.
        pub orphan_next: u32,
        /// The end of those queues.
        pub orphan_end: u32,
        /// The largest number of queues that any epoch had.
        pub queues_ever: u32,
        /// Submissions taken; free-running; kept between epochs.
        pub taken: u32,
        /// Spelled-out hole.
        pub hole5: [u32; 27],
        /// The fault's code, claimed by compare-and-swap.
        pub fault_claim: u32,
        /// Spelled-out hole.
        pub hole6: [u32; 3],
        /// The fault, valid once `stop` is [`STOP_FAULT`].
        pub fault: DevFault,
        /// Spelled-out hole.
        pub hole7: [u32; 24],
    }
}

crate::dev_struct! {
    /// The addresses and sizes of everything; a constant of the loaded image.
    pub struct DevEngine: align 8, size 304 {
        /// Control words, in host memory.
        pub words: DevPtr<DevWords>,
        /// Submission ring, in host memory.
        pub submissions: DevPtr<DevTask>,
        /// Completion ring, in host memory.
        pub completions: DevPtr<DevCompletion>,
        /// Tasks of batches, in host memory.
        pub arena: DevPtr<DevTask>,
        /// The host-call ring: by value, because a call must not begin with a read of device memory.
        pub host_calls: DevHostCallRing,
        /// Grid-wide words.
        pub grid: DevPtr<DevGrid>,
        /// Groups.
        pub groups: DevPtr<DevGroup>,
        /// Slabs of free group ids: `SLAB_GROUPS` each.
        pub slabs: DevPtr<u32>,
        /// Links of stacks of slabs.
        pub slab_next: DevPtr<u32>,
        /// Chunks: `CHUNK_TASKS` tasks each.
        pub chunks: DevPtr<DevTask>,
        /// Links of stacks of chunks: the chunk reference below, see `grid/stack.cuh`.
        pub chunk_next: DevPtr<u32>,
        /// Number of tasks in a chunk while it is on an overflow stack.
        pub chunk_count: DevPtr<u32>,
        /// Public deques: `[queue][priority]`.
        pub deques: DevPtr<DevDeque>,
        /// One bit for each warp's queue with a deque that is not empty: `[priority][queue / 32]`.
        pub warp_bits: DevPtr<u32>,
        /// The same for blocks' queues.
        pub block_bits: DevPtr<u32>,
        /// Inboxes of warps, by warp.
        pub inboxes: DevPtr<DevInbox>,
        /// One bit per idle warp.
        pub idle_warp_bits: DevPtr<u32>,
        /// One bit per block without block-shaped work.
        pub idle_block_bits: DevPtr<u32>,
        /// Heads of the sharded stacks of free ids.
        pub shards: DevPtr<u64>,
        /// Local queues while the engine is parked: `[queue][LOCAL_TASKS]`.
        pub saved: DevPtr<DevTask>,
        /// How many tasks each saved queue holds.
        pub saved_count: DevPtr<u32>,
        /// Counters, by warp.
        pub workers: DevPtr<DevWorker>,
        /// Parameter blocks: `[instance][PARAM_BYTES]`.
        pub params: DevPtr<u8>,
        /// The free ids of each warp while the engine is parked: `[warp][SAVED_HANDS]`.
        pub saved_hands: DevPtr<u32>,
        /// The heap of the tasks; null when the engine has none.
        pub heap: DevPtr<DevHeap>,
        /// Capacity of the submission ring.
        pub submission_slots: u32,
        /// Capacity of the completion ring.
        pub completion_slots: u32,
        /// Capacity of the arena in tasks.
        pub arena_tasks: u32,
        /// Number of chunks.
        pub chunk_limit: u32,
        /// Number of groups.
        pub group_limit: u32,
        /// Number of slabs.
        pub slab_limit: u32,
        /// Blocks the tables are sized for.
        pub max_blocks: u32,
        /// Words of one priority's bits.
        pub bit_words: u32,
        /// What each warp ran, if the program is traced: `[warp][trace_slots + 1]`.
        pub traces: DevPtr<DevTrace>,
        /// Entries that the ring of one warp has.
        pub trace_slots: u32,
        /// Functions that `measures` has room for; the others are not measured.
        pub measure_functions: u32,
        /// What was measured, if the image measures: `[measure_functions]`.
        pub measures: DevPtr<DevMeasure>,
        /// The tasks whose waiting is measured, likewise: `[warp][MEASURE_SAMPLES]`.
        pub samples: DevPtr<DevSample>,
    }
}
