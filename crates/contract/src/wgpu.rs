//! Layouts that only a wgpu engine uses: the numbers of a dispatch, and its state between dispatches.
//!
//! A workgroup has eight queues, one for each priority and order: queue `2 * priority` is taken from its newest task,
//! `2 * priority + 1` from its oldest one. A queue is a range of positions, which run freely and wrap. A table has the
//! chunk of each position's 32 tasks, in the workgroup's own part of the tasks' buffer.

crate::dev_consts! {
    /// Writes the constants of the engine.
    pub fn write_consts;
    /// Invocations of a workgroup.
    pub const WGPU_THREADS = 64;
    /// The most workgroups of an engine: a table of them has to fit into workgroup memory.
    pub const WGPU_WORKGROUPS = 512;
    /// Tasks in a chunk.
    pub const WGPU_CHUNK = 32;
    /// Queues of a workgroup.
    pub const WGPU_QUEUES = 8;
    /// Tasks that a turn may leave behind, continuations included.
    pub const WGPU_STAGE = 512;
    /// Free group ids that a workgroup has at hand.
    pub const WGPU_IDS = 192;
    /// Tasks that an invocation runs one after the other in a turn, each spawned by the one before.
    pub const WGPU_CHAIN = 32;
    /// Words of workgroup memory that programs may use.
    pub const WGPU_SCRATCH = 256;
    /// Submissions that a workgroup takes in one dispatch.
    pub const WGPU_INTAKE = 256;
    /// In a group's `pending`: a task of the group has been in more than one workgroup, so it fires in the next dispatch.
    pub const GROUP_SHARED = 1 << 31;
    /// Words of the parameters' buffer before the table of functions.
    pub const WGPU_FUNCTIONS = 256 * 64;
    /// In the table of functions: the function exists.
    pub const FUNCTION_PRESENT = 1 << 31;
    /// In the table: a whole workgroup runs one task.
    pub const FUNCTION_WIDE = 1 << 30;
    /// In the table: it may fork.
    pub const FUNCTION_FORKS = 1 << 29;
    /// In the table: its tasks are taken oldest first.
    pub const FUNCTION_BREADTH = 1 << 28;
    /// In the table: the bits with the most tasks that a call spawns.
    pub const FUNCTION_SPAWNS = 0xff;
    /// In the table: the lower bits of the high half of a task's argument are the number of the dispatch that it was made in, and
    /// it runs in a later one; or the half is `TURN_NEAR`.
    pub const FUNCTION_LATER = 1 << 27;
    /// The high half of a turn's argument: it may run at once in the workgroup that made it.
    pub const TURN_NEAR = 1 << 31;
    /// In `DevRound::flags`: a random half of the workgroups leaves each dispatch after 0 to 3 turns.
    pub const ROUND_STRESS = 1;
    /// The lowest bit of the seed of these random choices, in `DevRound::flags`.
    pub const ROUND_SEED_SHIFT = 1;
    /// In the state of a page of a heap: the lowest bit of its kind. 0: it is free; then one kind for each class.
    pub const HEAP_KIND_SHIFT = 24;
    /// The kind of the first page of a run; the bits below are the number of its pages.
    pub const HEAP_KIND_RUN = 0x40;
    /// The kind of the other pages of a run; the bits below are the distance to the first one.
    pub const HEAP_KIND_REST = 0x41;
    /// The bits below the kind, of a page of blocks: free blocks and this number, so that takers may go below none.
    pub const HEAP_NO_BLOCKS = 1 << 20;
}

crate::dev_consts! {
    /// Writes the constants of actors on this engine.
    pub fn write_actor_consts;
    /// `DevWgpuActor::mail`: first bit of the flags, which are those of the other engines.
    pub const WGPU_MAIL_FLAGS = 12;
    /// `DevWgpuActor::mail`: first bit of the generation's lower bits.
    pub const WGPU_MAIL_GENERATION = 20;
    /// `DevWgpuActor::mail`: first bit of the workgroup that ran the last turn, or launched the actor.
    pub const WGPU_MAIL_WORKGROUP = 22;
    /// A link to a cell: the lower bits are its number plus one, and those above the dispatch that linked it, modulo 64.
    pub const WGPU_LINK_SHIFT = 26;
    /// `DevWgpuActor::front`: the message in the cell is handled, and its link is not known yet.
    pub const WGPU_FRONT_SPENT = 1 << 31;
    /// `DevWgpuActor::outbox_first`: the receiver has a note that this actor waits.
    pub const WGPU_OUTBOX_NOTED = 1 << 31;
}

crate::dev_struct! {
    /// The numbers of one dispatch, which the host writes.
    pub struct DevRound: align 16, size 224 {
        /// The dispatch's number; free-running, the first is 1.
        pub number: u32,
        /// The number of the submission that it belongs to.
        pub submission: u32,
        /// Workgroups that run tasks; the others only give theirs away.
        pub size: u32,
        /// Workgroups of the dispatch.
        pub workgroups: u32,
        /// The most turns of a workgroup.
        pub turns: u32,
        /// How many turns the end of a dispatch costs: it ends early when idle workgroups have lost as much.
        pub patience: u32,
        /// Submissions written; free-running.
        pub inbox_tail: u32,
        /// `ROUND_STRESS`, and the seed above it.
        pub flags: u32,
        /// The number of slots of submissions minus one.
        pub inbox_mask: u32,
        /// Completions that one submission's region holds.
        pub completions: u32,
        /// Chunks of a workgroup.
        pub chunks: u32,
        /// Entries of a queue's table minus one.
        pub table_mask: u32,
        /// Free group ids that a workgroup keeps.
        pub stack: u32,
        /// Groups that a workgroup may defer in a dispatch.
        pub deferred: u32,
        /// Words of the bits of free groups.
        pub group_words: u32,
        /// The first group that is not a host token's.
        pub first_group: u32,
        /// In the state's words: tasks that wait, by parity and workgroup.
        pub at_totals: u32,
        /// The same for the room of workgroups.
        pub at_rooms: u32,
        /// Queues, `DevWgpuQueue` by parity, workgroup and queue.
        pub at_queues: u32,
        /// `DevWgpuWorkgroup` by workgroup.
        pub at_workgroups: u32,
        /// `DevWorker` by workgroup.
        pub at_workers: u32,
        /// Tables of chunks by workgroup and queue.
        pub at_tables: u32,
        /// Stacks of free chunks by workgroup.
        pub at_chunks: u32,
        /// Stacks of free groups by workgroup.
        pub at_groups: u32,
        /// Lists of deferred groups by parity and workgroup.
        pub at_deferred: u32,
        /// Bits of free groups by parity.
        pub at_bits: u32,
        /// The number of queues of a workgroup. Here and not a constant, so that drivers do not unroll every loop over them.
        pub queues: u32,
        /// In the buffer of tasks: the continuations of groups.
        pub at_thens: u32,
        /// The number of submissions, if nothing else waits and each workgroup takes one at most; else 0.
        pub quiet: u32,
        /// Pages of the heap; 0: there is none.
        pub heap_pages: u32,
        /// Where the heap begins in the window, in bytes.
        pub heap_base: u32,
        /// `HEAP_OWNED`, `HEAP_CHECKED`, or 0.
        pub heap_mode: u32,
        /// The number of owners; 0 without owners.
        pub heap_owners: u32,
        /// The number of workgroups' parties that allocate from pages of their own.
        pub heap_parties: u32,
        /// Words of a bit for each page that the heap may have.
        pub heap_words: u32,
        /// In the state's words: `DevWgpuHeap`.
        pub at_heap: u32,
        /// The state of each page.
        pub at_pages: u32,
        /// Bits of the free pages.
        pub at_free: u32,
        /// Bits of the pages with room, by class.
        pub at_roomy: u32,
        /// Bits of the pages with freed blocks.
        pub at_dirty: u32,
        /// Bits of the blocks in use, by page.
        pub at_used: u32,
        /// Bits of the blocks that were freed in this dispatch, by page.
        pub at_freed: u32,
        /// Pages that each party allocates from, plus one, by class.
        pub at_active: u32,
        /// The owners of blocks, two in a word, by page.
        pub at_tags: u32,
        /// `DevWgpuOwner` by owner.
        pub at_owners: u32,
        /// `DevHeapError`, the first ones.
        pub at_errors: u32,
        /// Of the two places of a table: the one that this dispatch writes, and above it the one that it reads. They are the
        /// same in a quiet dispatch.
        pub phase: u32,
        /// Not 0: the only submission of a quiet dispatch follows.
        pub lone: u32,
        /// The submission, as it would be in the slots of submissions; like this, because arrays of words are not allowed here.
        pub lone_head: u32,
        /// Its group or token.
        pub lone_group: u32,
        /// The lower half of its argument.
        pub lone_lo: u32,
        /// The upper half of its argument.
        pub lone_hi: u32,
        /// A workgroup with more tasks than this ends the dispatch early when others have none: fewer are not worth it.
        pub worth: u32,
        /// 0, which a compiler does not know: what is combined with it depends on what is read, and has its own value.
        pub zero: u32,
        /// The time in milliseconds, when the host submitted the dispatch; it wraps.
        pub milliseconds: u32,
        /// Spelled-out hole.
        pub hole_3: u32,
    }
}

crate::dev_struct! {
    /// A group: a counter of unfinished tasks, and their values. Its continuation is in the buffer of tasks.
    pub struct DevWgpuGroup: align 16, size 16 {
        /// Unfinished tasks, and `GROUP_SHARED`.
        pub pending: u32,
        /// Spelled-out hole.
        pub reserved: u32,
        /// The values that the group's tasks report: two slots or one sum.
        pub value: [u32; 2],
    }
}

crate::dev_struct! {
    /// The words that all workgroups share; the state begins with them. A word with four places belongs to the dispatch or
    /// submission with that number modulo 4: the one before has set it to 0, and the ones after read it.
    pub struct DevWgpuHeader: align 16, size 256 {
        /// Not 0: a fault stops the engine.
        pub stop: u32,
        /// How many faults there were; the first one writes the next words.
        pub faults: u32,
        /// The fault's code.
        pub fault_code: u32,
        /// The function that was running.
        pub fault_function: u32,
        /// More about the fault.
        pub fault_detail: [u32; 2],
        /// Submissions taken, by the dispatch's parity; free-running.
        pub inbox_head: [u32; 2],
        /// Tasks and deferred groups at the end of a dispatch.
        pub waiting: [u32; 4],
        /// Workgroups that have become idle in a dispatch.
        pub idle: [u32; 4],
        /// Not 0: the dispatch ends, so that tasks can be shared, or for turns of actors that wait for the next one.
        pub ending: [u32; 4],
        /// Completions of a submission.
        pub completions: [u32; 4],
        /// Workgroups that could not run their tasks for lack of room, by dispatch.
        pub starved: [u32; 4],
        /// Not 0: a workgroup has spent its turns in a dispatch, and has tasks left.
        pub spent: [u32; 4],
        /// A function that they could not run.
        pub starved_function: u32,
        /// How often there was no room for tasks.
        pub task_refusals: u32,
        /// How often there was no free group.
        pub group_refusals: u32,
        /// Tasks run, modulo 2^32.
        pub executed: u32,
        /// A function that ran last.
        pub function: u32,
        /// Spelled-out hole.
        pub reserved: [u32; 27],
    }
}

crate::dev_struct! {
    /// The counters of a heap.
    pub struct DevWgpuHeap: align 16, size 32 {
        /// Blocks in use, in units of 16 bytes.
        pub in_use: u32,
        /// Requests that were refused, modulo 2^32.
        pub refused: u32,
        /// Frees of addresses without a block, modulo 2^32.
        pub wrong_frees: u32,
        /// Errors that a checked heap found, modulo 2^32.
        pub errors: u32,
        /// Where the next search for a run of pages begins; free-running.
        pub run_next: u32,
        /// The number of the last dispatch in which a task allocated or freed.
        pub touched: u32,
        /// Spelled-out hole.
        pub reserved: [u32; 2],
    }
}

crate::dev_struct! {
    /// The account of an owner of blocks.
    pub struct DevWgpuOwner: align 16, size 16 {
        /// Bytes of the owner's blocks.
        pub in_use: u32,
        /// The most bytes that the owner may hold; 0: no limit. Only the host writes it.
        pub quota: u32,
        /// Refused requests of the owner, modulo 2^32.
        pub refused: u32,
        /// Spelled-out hole.
        pub hole: u32,
    }
}

crate::dev_struct! {
    /// One queue of a workgroup, as other workgroups see it.
    pub struct DevWgpuQueue: align 8, size 8 {
        /// The position of the oldest task.
        pub head: u32,
        /// How many tasks there are.
        pub count: u32,
    }
}

crate::dev_struct! {
    /// The state of a workgroup that only the workgroup itself reads.
    pub struct DevWgpuWorkgroup: align 16, size 96 {
        /// For each queue, the position up to which it has chunks.
        pub top: [u32; 8],
        /// For each queue, the position from which on it has chunks.
        pub freed: [u32; 8],
        /// Free chunks.
        pub chunks: u32,
        /// Free group ids.
        pub groups: u32,
        /// Deferred groups.
        pub deferred: u32,
        /// Spelled-out hole.
        pub reserved: [u32; 5],
    }
}

crate::dev_struct! {
    /// An actor on this engine. Senders and signals touch the first five words and `waiters`; the others belong to the turn that runs.
    pub struct DevWgpuActor: align 64, size 64 {
        /// Messages accepted and not handled (12), flags (8), the lower bits of the generation (2), the workgroup that ran its last
        /// turn, or launched it (10).
        pub mail: u32,
        /// The newest cell of the mailbox plus one; 0 for none.
        pub tail: u32,
        /// A link to the oldest cell, which the sender adds that found none; 0 once a turn has taken it.
        pub head: u32,
        /// The kind, and above it the bound of the mailbox (16).
        pub kind: u32,
        /// The generation.
        pub generation: u32,
        /// The oldest cell as the last turn left it, plus one, with `WGPU_FRONT_SPENT`; 0 for none.
        pub front: u32,
        /// The oldest message that could not be delivered, plus one, with `WGPU_OUTBOX_NOTED`.
        pub outbox_first: u32,
        /// The newest one.
        pub outbox_last: u32,
        /// Messages handled.
        pub handled: [u32; 2],
        /// The id of the actor that launched it; 0 for the host.
        pub parent: [u32; 2],
        /// The newest note of a sender that waits for room here, plus one.
        pub waiters: u32,
        /// Notes that a turn has taken, whose senders it wakes: the first, plus one.
        pub taken: u32,
        /// Its restarts within the time that its kind allows them for, and when that time began.
        pub again: [u32; 2],
    }
}

crate::dev_struct! {
    /// `DevMessage` under names that WGSL allows.
    pub struct DevWgpuMessage: align 64, size 64 {
        /// The link to the next cell; 0 for none.
        pub next: u32,
        /// As in `DevMessage`.
        pub head: u32,
        /// The sender's id.
        pub sender: [u32; 2],
        /// The content.
        pub words: [u64; 5],
        /// The receiver's id.
        pub to: [u32; 2],
    }
}

// The host writes and reads messages as `DevMessage`.
const _: () = {
    use crate::actor::{DevActor, DevMessage};
    use core::mem::offset_of;
    assert!(size_of::<DevWgpuMessage>() == size_of::<DevMessage>());
    assert!(size_of::<DevWgpuActor>() == size_of::<DevActor>());
    assert!(offset_of!(DevWgpuMessage, next) == offset_of!(DevMessage, next));
    assert!(offset_of!(DevWgpuMessage, head) == offset_of!(DevMessage, head));
    assert!(offset_of!(DevWgpuMessage, sender) == offset_of!(DevMessage, from));
    assert!(offset_of!(DevWgpuMessage, words) == offset_of!(DevMessage, words));
    assert!(offset_of!(DevWgpuMessage, to) == offset_of!(DevMessage, to));
};
// A link has room for the cells of the largest window, and the word of a mailbox for all its parts.
const _: () = assert!(
    1 << (32 - WGPU_LINK_SHIFT) == 64
        && crate::actor::MAIL_COUNT_MAX == (1 << WGPU_MAIL_FLAGS) - 1
        && 1 << (WGPU_MAIL_GENERATION - WGPU_MAIL_FLAGS) == 2 * crate::actor::MAIL_LISTED
        && WGPU_WORKGROUPS <= 1 << (32 - WGPU_MAIL_WORKGROUP)
);
const _: () = assert!(
    crate::task::INSTANCES * crate::task::PARAM_BYTES / 4 == WGPU_FUNCTIONS
        && 2 * crate::task::PRIORITIES == WGPU_QUEUES
);
