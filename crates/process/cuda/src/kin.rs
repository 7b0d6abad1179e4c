//! What host and device share of channels and of what processes are to each other.

use everwarp_contract::dev_consts;
use everwarp_process::gpu;
use everwarp_runtime::{DevPtr, Layout, dev_struct};

use crate::layout::{DevProcessTable, STRINGS_HEAD};

dev_consts! {
    /// Writes the constants as CUDA C++.
    pub(crate) fn write_consts;
    /// Entries of a process's table of ends.
    pub(crate) const HANDLES = gpu::HANDLES;
    /// Bits of a handle that say which entry.
    pub(crate) const HANDLE_BITS = gpu::HANDLE_BITS;
    /// Children that a process may have at a time.
    pub(crate) const CHILDREN = gpu::CHILDREN;
    /// The same with their children and so on.
    pub(crate) const DESCENDANTS = gpu::DESCENDANTS;
    /// Bytes of the longest message.
    pub(crate) const MESSAGE_BYTES = gpu::MESSAGE_BYTES;
    /// What a message takes beside its own bytes.
    pub(crate) const MESSAGE_HEAD = gpu::MESSAGE_HEAD;
    /// Bytes of a channel's messages.
    pub(crate) const CHANNEL_BYTES = gpu::CHANNEL_BYTES;
    /// Bytes of a child's arguments.
    pub(crate) const ARGUMENT_BYTES = gpu::ARGUMENT_BYTES;
    /// Bytes of a child's arguments as device code reads them: see `strings`.
    pub(crate) const CHILD_STRINGS = STRINGS_HEAD + gpu::ARGUMENT_BYTES;
    /// Bytes of a module's name.
    pub(crate) const NAME_BYTES = gpu::NAME_BYTES;
    /// The errors, as the numbers that processes get.
    pub(crate) const GPU_CLOSED = gpu::CLOSED as u32;
    /// See there.
    pub(crate) const GPU_AGAIN = gpu::AGAIN as u32;
    /// See there.
    pub(crate) const GPU_HANDLE = gpu::HANDLE as u32;
    /// See there.
    pub(crate) const GPU_MEMORY = gpu::MEMORY as u32;
    /// See there.
    pub(crate) const GPU_SIZE = gpu::SIZE as u32;
    /// See there.
    pub(crate) const GPU_LIMIT = gpu::LIMIT as u32;
    /// See there.
    pub(crate) const GPU_NAME = gpu::NAME as u32;
    /// See there.
    pub(crate) const GPU_PROCESS = gpu::PROCESS as u32;
    /// In a status: see `everwarp_process::gpu`.
    pub(crate) const STATUS_EXITED = gpu::STATUS_EXITED;
    /// See there.
    pub(crate) const STATUS_TRAPPED = gpu::STATUS_TRAPPED;
    /// See there.
    pub(crate) const STATUS_KILLED = gpu::STATUS_KILLED;
    /// See there.
    pub(crate) const STATUS_OUT_OF_FUEL = gpu::STATUS_OUT_OF_FUEL;
    /// Stacks of free places that a module has.
    pub(crate) const FREE_STACKS = 32;
    /// From one of them to the next, in words of 8 bytes.
    pub(crate) const FREE_STRIDE = 16;
    /// In the state of a bond, 0 where a place is free: it is a child's.
    pub(crate) const BOND_RUNS = 1;
    /// The parent waits for the end.
    pub(crate) const BOND_AWAITED = 2;
    /// The child has ended; nothing of its place is used again until its parent has taken the status.
    pub(crate) const BOND_ENDED = 4;
    /// Somebody else ends the child just now, and the parent must not give the place away meanwhile.
    pub(crate) const BOND_HELD = 8;
    /// What a task answers that ends a child: it has been told.
    pub(crate) const KILL_TOLD = 1;
    /// There is no such child.
    pub(crate) const KILL_NOBODY = 2;
    /// Which side of a channel: also the number of its list of waiters.
    pub(crate) const SIDE_SEND = 0;
    /// The other one.
    pub(crate) const SIDE_RECEIVE = 1;
    /// In an entry of the table of ends: it receives. Below are the channel's number and one.
    pub(crate) const END_RECEIVES = 1 << 31;
    /// Bytes of the ends that stand in front of a child's arguments.
    pub(crate) const CHILD_ENDS = 4 * gpu::HANDLES;
    /// What the host asks of channels: a new one, with an end of each side.
    pub(crate) const HOST_OPEN = 0;
    /// One more end, or several, of a side.
    pub(crate) const HOST_KEEP = 1;
    /// One end less.
    pub(crate) const HOST_CLOSE = 2;
    /// To send, if there is room.
    pub(crate) const HOST_SEND = 3;
    /// To receive, if there is something.
    pub(crate) const HOST_RECEIVE = 4;
}

dev_struct! {
    /// A channel. All but the lock is read and written under the lock.
    pub(crate) struct DevChannel: align 16, size 64 {
        /// 1 while somebody holds it.
        pub(crate) lock: u32,
        /// Messages that it holds at most.
        pub(crate) capacity: u32,
        /// Bytes of a message at most.
        pub(crate) bytes: u32,
        /// From one message to the next.
        pub(crate) stride: u32,
        /// The oldest message.
        pub(crate) head: u32,
        /// How many there are.
        pub(crate) count: u32,
        /// Ends of each side.
        pub(crate) ends: [u32; 2],
        /// The first process that waits on each side, by its place and one.
        pub(crate) first: [u32; 2],
        /// The last one.
        pub(crate) last: [u32; 2],
        /// Spelled-out hole.
        pub(crate) reserved: [u32; 4],
    }
}

dev_struct! {
    /// What a process is to others: one for each place, by its number among the places of all modules.
    pub(crate) struct DevKin: align 16, size 832 {
        /// Its ends of channels, and in the upper half which of the entry's ends that is.
        pub(crate) handles: [u64; 32],
        /// The pids of its children.
        pub(crate) children: [u64; 64],
        /// Its pid.
        pub(crate) pid: u64,
        /// Where the arguments lie that its parent has given it. Only places for children have one.
        pub(crate) strings: DevPtr<u8>,
        /// Which of the modules.
        pub(crate) module: u32,
        /// The place among those of its module.
        pub(crate) slot: u32,
        /// Its parent's place and one; 0 if the host has spawned it.
        pub(crate) parent: u32,
        /// The place of its first ancestor, which the host has spawned.
        pub(crate) root: u32,
        /// Of such an ancestor: how many descendants there are.
        pub(crate) descendants: u32,
        /// Its number among those that were spawned together, or among its parent's children.
        pub(crate) instance: u32,
        /// How many children it has had.
        pub(crate) spawned: u32,
        /// The channel and one on which it waits.
        pub(crate) waits_on: u32,
        /// On which side.
        pub(crate) waits_side: u32,
        /// Its neighbours in the list of those who wait there, by their places and one.
        pub(crate) before: u32,
        /// See there.
        pub(crate) behind: u32,
        /// Whether its ends have been closed and its children told.
        pub(crate) retired: u32,
    }
}

dev_struct! {
    /// What a parent, its child and the host have to know of the child: one for each place, apart from the rest, so that
    /// the host copies little to see all of them.
    pub(crate) struct DevBond: align 16, size 32 {
        /// The parent's pid.
        pub(crate) parent: u64,
        /// What fuel the child had left at its end.
        pub(crate) fuel: i64,
        /// `BOND_…`; `device/gpu/kin.cuh` has the rules.
        pub(crate) state: u32,
        /// The generation of the last child, or thread, in this place.
        pub(crate) generation: u32,
        /// How it ended: `STATUS_…`.
        pub(crate) status: u32,
        /// The code.
        pub(crate) code: u32,
    }
}

dev_struct! {
    /// A module as processes see it that spawn one of it.
    pub(crate) struct DevModule: align 16, size 112 {
        /// Its name.
        pub(crate) name: [u8; 64],
        /// Bytes of that.
        pub(crate) name_bytes: u32,
        /// The number of its first place among those of all modules.
        pub(crate) first: u32,
        /// The head of a task that starts places.
        pub(crate) start_head: u32,
        /// The head of a task that goes on with one.
        pub(crate) run_head: u32,
        /// A copy of its parameters.
        pub(crate) table: DevPtr<DevProcessTable>,
        /// Free places for children, by their numbers among those of all modules: tagged stacks, `FREE_STRIDE` words
        /// apart. One alone would serve a million operations a second, whoever asks.
        pub(crate) free: DevPtr<u64>,
        /// How many bytes the linear memory of a child may grow to.
        pub(crate) memory_limit: u64,
        /// The head of a task that looks after a group of places.
        pub(crate) wake_head: u32,
        /// `PROCESS_…`: what holds for each child.
        pub(crate) flags: u32,
    }
}

dev_struct! {
    /// What the processes of all modules share.
    pub(crate) struct DevWorld: align 16, size 96 {
        /// The modules.
        pub(crate) modules: DevPtr<DevModule>,
        /// By place.
        pub(crate) kin: DevPtr<DevKin>,
        /// By place.
        pub(crate) bonds: DevPtr<DevBond>,
        /// The stacks' links, by place.
        pub(crate) place_links: DevPtr<u32>,
        /// The channels.
        pub(crate) channels: DevPtr<DevChannel>,
        /// Their messages, `CHANNEL_BYTES` each.
        pub(crate) messages: DevPtr<u8>,
        /// The links of free channels.
        pub(crate) channel_links: DevPtr<u32>,
        /// Free channels: a tagged stack.
        pub(crate) channels_free: u64,
        /// How many modules there are.
        pub(crate) module_count: u32,
        /// How many channels.
        pub(crate) channel_count: u32,
        /// The group of tasks that processes submit, which never ends.
        pub(crate) group: u32,
        /// Spelled-out hole.
        pub(crate) reserved: [u32; 5],
    }
}

dev_struct! {
    /// What the host asks of channels; the message follows.
    pub(crate) struct DevHostOp: align 16, size 32 {
        /// `HOST_…`.
        pub(crate) operation: u32,
        /// Which channel.
        pub(crate) channel: u32,
        /// Which side, or the messages of a new channel.
        pub(crate) side: u32,
        /// Bytes of the message, or how many ends, or the bytes of a new channel's messages.
        pub(crate) bytes: u32,
        /// Spelled-out hole.
        pub(crate) reserved: [u32; 4],
    }
}

/// Writes everything that the device sources of channels read, but what a process's table needs.
pub(crate) fn write_structs(out: &mut dyn core::fmt::Write) -> core::fmt::Result {
    DevChannel::write_struct(out)?;
    DevKin::write_struct(out)?;
    DevBond::write_struct(out)?;
    DevModule::write_struct(out)?;
    DevWorld::write_struct(out)?;
    DevHostOp::write_struct(out)
}
