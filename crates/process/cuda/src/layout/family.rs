//! The records of channels, and of what processes are to each other.

use everwarp_contract::dev_consts;
use everwarp_process::gpu;
use everwarp_runtime::{DevPtr, Layout, dev_struct};

use super::process::{DevProcessTable, STRINGS_HEAD};

dev_consts! {
    /// Writes the constants as CUDA C++.
    pub(crate) fn write_consts;
    /// Entries of a process's table of channel ends.
    pub(crate) const HANDLES = gpu::HANDLES;
    /// Bits of a handle that hold the entry's number.
    pub(crate) const HANDLE_BITS = gpu::HANDLE_BITS;
    /// Children that a process may have at the same time.
    pub(crate) const CHILDREN = gpu::CHILDREN;
    /// Descendants that a process may have at the same time: children, their children and so on.
    pub(crate) const DESCENDANTS = gpu::DESCENDANTS;
    /// Bytes of the longest message.
    pub(crate) const MESSAGE_BYTES = gpu::MESSAGE_BYTES;
    /// Bytes that a message takes in addition to its own.
    pub(crate) const MESSAGE_HEAD = gpu::MESSAGE_HEAD;
    /// Bytes of a channel's messages.
    pub(crate) const CHANNEL_BYTES = gpu::CHANNEL_BYTES;
    /// Bytes of a child's arguments.
    pub(crate) const ARGUMENT_BYTES = gpu::ARGUMENT_BYTES;
    /// Bytes of a child's arguments as device code reads them: see `strings.rs`.
    pub(crate) const CHILD_STRINGS = STRINGS_HEAD + gpu::ARGUMENT_BYTES;
    /// Bytes of a module's name.
    pub(crate) const NAME_BYTES = gpu::NAME_BYTES;
    /// Errors of `everwarp:gpu`, as the numbers that processes get: the channel is closed.
    pub(crate) const GPU_CLOSED = gpu::CLOSED as u32;
    /// The call would have to wait.
    pub(crate) const GPU_AGAIN = gpu::AGAIN as u32;
    /// The handle names no end of a channel.
    pub(crate) const GPU_HANDLE = gpu::HANDLE as u32;
    /// The pointer reaches beyond the linear memory.
    pub(crate) const GPU_MEMORY = gpu::MEMORY as u32;
    /// The size is not possible.
    pub(crate) const GPU_SIZE = gpu::SIZE as u32;
    /// A limit is reached.
    pub(crate) const GPU_LIMIT = gpu::LIMIT as u32;
    /// No module has this name.
    pub(crate) const GPU_NAME = gpu::NAME as u32;
    /// No child has this pid.
    pub(crate) const GPU_PROCESS = gpu::PROCESS as u32;
    /// In a child's status: it exited with a code.
    pub(crate) const STATUS_EXITED = gpu::STATUS_EXITED;
    /// In a child's status: it trapped.
    pub(crate) const STATUS_TRAPPED = gpu::STATUS_TRAPPED;
    /// In a child's status: it was killed.
    pub(crate) const STATUS_KILLED = gpu::STATUS_KILLED;
    /// In a child's status: it used all its fuel.
    pub(crate) const STATUS_OUT_OF_FUEL = gpu::STATUS_OUT_OF_FUEL;
    /// How many stacks of free places a module has.
    pub(crate) const FREE_STACKS = 32;
    /// The distance from one such stack to the next, in words of 8 bytes.
    pub(crate) const FREE_STRIDE = 16;
    /// In the state of a child's record, which is 0 if the place is free: the place is a child's.
    pub(crate) const CHILD_RUNNING = 1;
    /// In the same state: the parent waits for the child to exit.
    pub(crate) const CHILD_AWAITED = 2;
    /// In the same state: the child has exited. Its place is not used again before its parent has taken the status.
    pub(crate) const CHILD_EXITED = 4;
    /// In the same state: another process or the host is killing the child, and the parent must not give the place away
    /// meanwhile.
    pub(crate) const CHILD_HELD = 8;
    /// The result of a task that kills a child: the child was asked to end.
    pub(crate) const KILL_TOLD = 1;
    /// The result of the same task: there is no such child.
    pub(crate) const KILL_NO_PROCESS = 2;
    /// In the tag of a task for the group of a host's processes: it opens the group.
    pub(crate) const ANCHOR_OPENS = 0;
    /// In the same tag: the group ends with the tasks that are in it.
    pub(crate) const ANCHOR_ENDS = 1;
    /// In the same tag: the last task of the group, which only device code submits.
    pub(crate) const ANCHOR_ENDED = 2;
    /// The sending side of a channel; also the number of that side's list of waiters.
    pub(crate) const SIDE_SEND = 0;
    /// The receiving side of a channel.
    pub(crate) const SIDE_RECEIVE = 1;
    /// In an entry of the table of ends: the end receives. The bits below hold the channel's number plus one.
    pub(crate) const END_RECEIVES = 1 << 31;
    /// Bytes of the ends in front of a child's arguments.
    pub(crate) const CHILD_ENDS = 4 * gpu::HANDLES;
    /// The host's request to make a channel, with one end on each side.
    pub(crate) const HOST_OPEN = 0;
    /// The host's request for further ends of a side.
    pub(crate) const HOST_KEEP = 1;
    /// The host's request to close one end.
    pub(crate) const HOST_CLOSE = 2;
    /// The host's request to send, if there is room.
    pub(crate) const HOST_SEND = 3;
    /// The host's request to receive, if there is a message.
    pub(crate) const HOST_RECEIVE = 4;
}

dev_struct! {
    /// A channel. All fields except the lock are read and written under the lock.
    pub(crate) struct DevChannel: align 16, size 64 {
        /// 1 while the lock is held.
        pub(crate) lock: u32,
        /// The number of messages that it can hold.
        pub(crate) capacity: u32,
        /// The largest number of bytes in a message.
        pub(crate) bytes: u32,
        /// The distance from one message to the next.
        pub(crate) stride: u32,
        /// The oldest message.
        pub(crate) head: u32,
        /// The number of messages.
        pub(crate) count: u32,
        /// The number of open ends on each side.
        pub(crate) ends: [u32; 2],
        /// The first process that waits on each side: the number of its place, plus one.
        pub(crate) first: [u32; 2],
        /// The last process that waits on each side: the number of its place, plus one.
        pub(crate) last: [u32; 2],
        /// A hole, spelled out.
        pub(crate) reserved: [u32; 4],
    }
}

dev_struct! {
    /// The relations of a process to others. There is one for each place, by its number among the places of all modules.
    pub(crate) struct DevRelations: align 16, size 832 {
        /// Its ends of channels, and in the upper half the generation of the entry.
        pub(crate) handles: [u64; 32],
        /// The pids of its children.
        pub(crate) children: [u64; 64],
        /// Its pid.
        pub(crate) pid: u64,
        /// The arguments that its parent has given it. Only places for children have one.
        pub(crate) strings: DevPtr<u8>,
        /// The number of its module.
        pub(crate) module: u32,
        /// The place's number among those of its module.
        pub(crate) slot: u32,
        /// Its parent's place plus one; 0 if the host has spawned it.
        pub(crate) parent: u32,
        /// The place of its first ancestor, which the host has spawned.
        pub(crate) root: u32,
        /// If the host has spawned this process, how many descendants it has.
        pub(crate) descendants: u32,
        /// Its number among the processes that were spawned together, or among its parent's children.
        pub(crate) instance: u32,
        /// How many children it has had.
        pub(crate) spawned: u32,
        /// The channel on which it waits, plus one.
        pub(crate) waits_on: u32,
        /// The side on which it waits.
        pub(crate) waits_side: u32,
        /// The process before it in that side's list of waiters: the number of its place, plus one.
        pub(crate) before: u32,
        /// The process after it in the same list.
        pub(crate) behind: u32,
        /// 1 once its ends have been closed and its children have been asked to end.
        pub(crate) retired: u32,
    }
}

dev_struct! {
    /// The record of a child for its parent, the host and itself. There is one for each place, apart from the other
    /// records, so that the host copies little to see all of them.
    pub(crate) struct DevChildRecord: align 16, size 32 {
        /// The parent's pid.
        pub(crate) parent: u64,
        /// The fuel that the child had left when it exited.
        pub(crate) fuel: i64,
        /// `CHILD_RUNNING` and its neighbours. `device/gpu/children.cuh` has the rules.
        pub(crate) state: u32,
        /// The generation of the last child or thread in this place.
        pub(crate) generation: u32,
        /// How the child ended: `STATUS_…`.
        pub(crate) status: u32,
        /// The code with which it exited.
        pub(crate) code: u32,
    }
}

dev_struct! {
    /// A module, as processes see it when they spawn one of its processes.
    pub(crate) struct DevModule: align 16, size 112 {
        /// The name.
        pub(crate) name: [u8; 64],
        /// The length of the name in bytes.
        pub(crate) name_bytes: u32,
        /// The number of its first place among those of all modules.
        pub(crate) first: u32,
        /// The head of a task that starts places.
        pub(crate) start_head: u32,
        /// The head of a task that continues one process.
        pub(crate) run_head: u32,
        /// A copy of the module's parameters.
        pub(crate) table: DevPtr<DevProcessTable>,
        /// Free places for children, by their numbers among those of all modules: tagged stacks, `FREE_STRIDE` words
        /// apart. A single stack would serve a million operations a second, however many processes ask.
        pub(crate) free: DevPtr<u64>,
        /// The bytes that the linear memory of a child may grow to.
        pub(crate) memory_limit: u64,
        /// The head of a task that wakes the processes of a group of places.
        pub(crate) wake_head: u32,
        /// `PROCESS_…`: flags of each child.
        pub(crate) flags: u32,
    }
}

dev_struct! {
    /// The records that the processes of all modules share.
    pub(crate) struct DevWorld: align 16, size 96 {
        /// The modules.
        pub(crate) modules: DevPtr<DevModule>,
        /// The relations, by place.
        pub(crate) relations: DevPtr<DevRelations>,
        /// The records of children, by place.
        pub(crate) child_records: DevPtr<DevChildRecord>,
        /// The links of the stacks of free places, by place.
        pub(crate) place_links: DevPtr<u32>,
        /// The channels.
        pub(crate) channels: DevPtr<DevChannel>,
        /// Their messages, `CHANNEL_BYTES` each.
        pub(crate) messages: DevPtr<u8>,
        /// The links of free channels.
        pub(crate) channel_links: DevPtr<u32>,
        /// Free channels: a tagged stack.
        pub(crate) channels_free: u64,
        /// The number of modules.
        pub(crate) module_count: u32,
        /// The number of channels.
        pub(crate) channel_count: u32,
        /// The group of tasks that processes submit, which never ends.
        pub(crate) group: u32,
        /// A hole, spelled out.
        pub(crate) reserved: [u32; 5],
    }
}

dev_struct! {
    /// A request of the host to a channel. The message follows it.
    pub(crate) struct DevHostOp: align 16, size 32 {
        /// `HOST_…`.
        pub(crate) operation: u32,
        /// The channel.
        pub(crate) channel: u32,
        /// The side, or the number of messages of a new channel.
        pub(crate) side: u32,
        /// The bytes of the message, or the number of ends, or the bytes of a new channel's messages.
        pub(crate) bytes: u32,
        /// A hole, spelled out.
        pub(crate) reserved: [u32; 4],
    }
}

/// Writes the records that the device sources of channels and children read.
pub(crate) fn write_structs(out: &mut dyn everwarp_contract::DeviceText) -> core::fmt::Result {
    DevChannel::write_struct(out)?;
    DevRelations::write_struct(out)?;
    DevChildRecord::write_struct(out)?;
    DevModule::write_struct(out)?;
    DevWorld::write_struct(out)?;
    DevHostOp::write_struct(out)
}
