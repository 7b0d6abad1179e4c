//! The records of processes: the table's parameters, its places, and what a process is started with.

use everwarp_compiler::{CallState, INTERLEAVED, KILL_INTERVAL, TrapKind, UNIT, UNIT_STRIDE};
use everwarp_contract::dev_consts;
use everwarp_runtime::{DevPtr, Layout, dev_struct};

use super::family::DevWorld;
use super::thread::DevTeam;

dev_consts! {
    /// Writes the constants as CUDA C++.
    pub(crate) fn write_consts;
    /// In the header's trap word: the process called `proc_exit`. The compiler's numbers end below 256.
    pub(crate) const TRAP_EXIT = 256;
    /// In the header's trap word: `TrapKind::Killed`.
    pub(crate) const TRAP_KILLED = TrapKind::Killed as u32;
    /// In the header's trap word: `TrapKind::OutOfFuel`.
    pub(crate) const TRAP_OUT_OF_FUEL = TrapKind::OutOfFuel as u32;
    /// In the header's trap word: `TrapKind::NotCompiled`.
    pub(crate) const TRAP_NOT_COMPILED = TrapKind::NotCompiled as u32;
    /// In a process's flags: its standard output is collected.
    pub(crate) const PROCESS_COLLECTS = 1;
    /// In the flags of a start: no process was in the place before, so the record is not valid.
    pub(crate) const PROCESS_FRESH = 2;
    /// In the flags of a start: it is the first process in the place under the place's present number, so its calls count
    /// from 0.
    pub(crate) const PROCESS_FIRST = 256;
    /// In a process's flags: its standard input is stored after its arguments.
    pub(crate) const PROCESS_INPUT = 4;
    /// In a process's flags: a reader may wait for its output before it provides further input.
    pub(crate) const PROCESS_TALKS = 8;
    /// In a process's flags: its descriptors from 3 on are the directories whose names are stored after its arguments,
    /// and no other directory was given to it.
    pub(crate) const PROCESS_GIVEN = 128;
    /// In the flags of a start: another process has spawned this one, and the host does not know it yet.
    pub(crate) const PROCESS_UNKNOWN = 16;
    /// Bytes in front of a process's arguments: see `strings.rs`.
    pub(crate) const STRINGS_HEAD = 48;
    /// In a process's flags: its memory is interleaved with those of its group.
    pub(crate) const PROCESS_INTERLEAVED = 32;
    /// In a process's flags: it is a thread of another one.
    pub(crate) const PROCESS_THREAD = 64;
    /// Adjacent bytes of a memory that is interleaved with others.
    pub(crate) const UNIT_BYTES = UNIT as u32;
    /// The distance in bytes from one such unit of a memory to the next.
    pub(crate) const UNIT_STRIDE_BYTES = UNIT_STRIDE as u32;
    /// A lane runs the process, or a task that will run it is queued.
    pub(crate) const TURN_RUNS = 0;
    /// The same, and the host has woken it meanwhile.
    pub(crate) const TURN_WOKEN = 1;
    /// The process waits for the host to wake it.
    pub(crate) const TURN_PARKED = 2;
    /// Nothing is on its way to the host.
    pub(crate) const CALL_NONE = 0;
    /// A call is on its way to the host.
    pub(crate) const CALL_SENT = 1;
    /// A call is on its way, and counts towards `SPINNING_CALLS`.
    pub(crate) const CALL_COUNTED = 2;
    /// The host was asked to wake the process, which has found no free area for its payload.
    pub(crate) const CALL_FOR_ROOM = 3;
    /// A call is on its way that is answered soon, and it does not count.
    pub(crate) const CALL_SOON = 4;
    /// The lane waits until the answer is there.
    pub(crate) const WAITS_HERE = 0;
    /// The process is to be woken, and has not left its lane.
    pub(crate) const WAITS_POSTED = 1;
    /// The process has left its lane.
    pub(crate) const WAITS_PARKED = 2;
    /// The waker has taken the answer.
    pub(crate) const WAITS_READY = 3;
    /// The waker has taken the answer, and the reply is at its destination.
    pub(crate) const WAITS_DELIVERED = 4;
    /// In the tag of a task that continues processes: they wait, and are to be woken.
    pub(crate) const RUN_WAKES = 0;
    /// In the same tag: they start, or have been woken.
    pub(crate) const RUN_GOES_ON = 1;
    /// Replies of at least this many bytes are copied by a whole warp.
    pub(crate) const DELIVERED_BYTES = 512;
    /// The process has not run.
    pub(crate) const STAGE_NEW = 0;
    /// The process is in the module's start function.
    pub(crate) const STAGE_START = 1;
    /// The process is in its entry.
    pub(crate) const STAGE_ENTRY = 2;
    /// The process has exited, perhaps while a call of it was on its way.
    pub(crate) const STAGE_CALL = 3;
    /// The process has exited, and its last output is on its way to the host.
    pub(crate) const STAGE_OUTPUT = 4;
    /// While fewer calls than this are on their way, a lane that makes a short call waits for the answer and polls host
    /// memory. On an H200, 64 such lanes take 5 us a call, and took 25 when they were woken. From some hundred lanes on,
    /// the one thread that answers is the limit.
    pub(crate) const SPINNING_CALLS = 128;
    /// An instance's state: it was preempted.
    pub(crate) const STATE_PREEMPTED = CallState::Preempted as u32;
    /// An instance's state: it has called a function that the image does not have.
    pub(crate) const STATE_MISSING = CallState::Missing as u32;
    /// How often a process looks at its kill word before it gives up its lane to others, if there are any: after some
    /// tens of thousands of rounds of loops, which take milliseconds. Saving and resuming it takes microseconds.
    pub(crate) const SLICE_LOOKS = 32;
    /// Units of fuel between two looks.
    pub(crate) const LOOK_INTERVAL = KILL_INTERVAL as u32;
    /// The module has no such function.
    pub(crate) const ENTRY_NONE = 0xffff_ffff;
    /// Bytes of standard output that a process collects before they go to the host.
    pub(crate) const OUTPUT_BYTES = 4096;
    /// The most bytes that one task clears.
    pub(crate) const CLEAR_PIECE = 1 << 20;
    /// The most processes that one task starts.
    pub(crate) const START_PROCESSES = 32;
}

// One task starts the places of one group, and the memories of one group are interleaved.
const _: () = assert!(START_PROCESSES as u64 == INTERLEAVED);

dev_struct! {
    /// A place of the process table. The instance's block follows it directly, so that an import, which is called with
    /// the block's address, finds its process without a look-up. The collected output follows the block.
    pub(crate) struct DevProcess: align 16, size 176 {
        /// The process: its place, which has the same number as its slot of the host-call ring, and its generation in
        /// the upper half.
        pub(crate) pid: u64,
        /// The table.
        pub(crate) table: DevPtr<DevProcessTable>,
        /// Its arguments, environment and standard input: see `strings.rs`.
        pub(crate) strings: DevPtr<u8>,
        /// The number of 64-byte blocks of random bytes that it has used.
        pub(crate) random_blocks: u64,
        /// Bytes of linear memory that an earlier process of this place may have written.
        pub(crate) dirty: u64,
        /// The first value of the last answer.
        pub(crate) call_value: u64,
        /// `CALL_…`: what is on its way to the host.
        pub(crate) call: u32,
        /// How often the slot has been used.
        pub(crate) call_sequence: u32,
        /// Bytes of payload so far, and after the answer the bytes of the reply.
        pub(crate) call_bytes: u32,
        /// Where these bytes are: 0 for the slot, otherwise an area's number plus 1.
        pub(crate) call_area: u32,
        /// `WAITS_…`: how the process waits for the call that is on its way.
        pub(crate) waits: u32,
        /// The error number of the last answer.
        pub(crate) call_error: u32,
        /// The destination of the reply in linear memory.
        pub(crate) reply_to: u32,
        /// The most bytes of the reply to copy there; 0 if only the import knows the destination.
        pub(crate) reply_most: u32,
        /// The progress of an import that takes several calls.
        pub(crate) progress: u32,
        /// Bytes of collected output.
        pub(crate) output_len: u32,
        /// How many of these bytes the host has.
        pub(crate) output_sent: u32,
        /// `PROCESS_…`.
        pub(crate) flags: u32,
        /// The code of `proc_exit`.
        pub(crate) exit_code: u32,
        /// `TURN_…`: which side may continue the process.
        pub(crate) turn: u32,
        /// `STAGE_…`: the point that the process has reached.
        pub(crate) stage: u32,
        /// 1 if it was asked to end while its lane waited for the last answer.
        pub(crate) killed: u32,
        /// The pid by which the host knows it; for a thread, the pid of its process.
        pub(crate) owner: u64,
        /// The record that it shares with other threads; null if its module has none.
        pub(crate) team: DevPtr<DevTeam>,
        /// The arguments of its entry; for a thread, its number and its argument.
        pub(crate) start_args: [u64; 2],
        /// The fuel that it started with.
        pub(crate) granted: i64,
        /// The address at which it waits to be notified.
        pub(crate) wait_address: u64,
        /// `WAIT_…`: whether it waits there.
        pub(crate) wait: u32,
        /// The thread before it in the list of waiting threads: the number of its place, plus one.
        pub(crate) wait_before: u32,
        /// The thread after it in the same list.
        pub(crate) wait_behind: u32,
        /// A hole, spelled out.
        pub(crate) reserved: u32,
    }
}

dev_struct! {
    /// The start parameters of a process: one record for each place of the table, written by the host.
    pub(crate) struct DevSpawn: align 16, size 48 {
        /// The process.
        pub(crate) pid: u64,
        /// Its arguments, environment and standard input.
        pub(crate) strings: DevPtr<u8>,
        /// Its fuel; positive.
        pub(crate) fuel: i64,
        /// The bytes that its linear memory may grow to.
        pub(crate) memory_limit: u64,
        /// `PROCESS_…`.
        pub(crate) flags: u32,
        /// Nonzero asks the process to end, in case it has not been made ready yet.
        pub(crate) kill: u32,
        /// The number of channel ends that it is given. They are stored in front of its arguments, the first one last.
        pub(crate) given: u32,
        /// Its number among the processes that are spawned together; for a thread, its argument.
        pub(crate) instance: u32,
    }
}

dev_struct! {
    /// The process table of one module: the program's parameters.
    pub(crate) struct DevProcessTable: align 8, size 192 {
        /// Records, `record_stride` bytes apart.
        pub(crate) records: DevPtr<u8>,
        /// Linear memories, `memory_stride` bytes apart.
        pub(crate) memories: DevPtr<u8>,
        /// The distance from one record to the next.
        pub(crate) record_stride: u64,
        /// The distance from one memory to the next.
        pub(crate) memory_stride: u64,
        /// The block of an instance at address 0.
        pub(crate) block: DevPtr<u8>,
        /// The beginning of linear memory.
        pub(crate) memory: DevPtr<u8>,
        /// Passive data segments.
        pub(crate) module_data: DevPtr<u8>,
        /// The start parameters of the places' processes.
        pub(crate) spawns: DevPtr<DevSpawn>,
        /// Nanoseconds from the device's clock to the time of day.
        pub(crate) clock_offset: u64,
        /// The key of random bytes.
        pub(crate) random_key: [u32; 8],
        /// Bytes of the block, a multiple of 16.
        pub(crate) block_bytes: u32,
        /// Bytes of linear memory that are not zero at first, rounded up to 16.
        pub(crate) initial_bytes: u32,
        /// The offset of the tables' records in the block.
        pub(crate) tables_at: u32,
        /// The number of tables.
        pub(crate) tables: u32,
        /// The number of the linked module.
        pub(crate) module: u32,
        /// The start function, or `ENTRY_NONE`.
        pub(crate) start: u32,
        /// The function to call.
        pub(crate) entry: u32,
        /// How deep calls may nest.
        pub(crate) depth: u32,
        /// Offset of the output from the record.
        pub(crate) output_at: u32,
        /// Offset of the record of suspensions in the block; 0 if the module is never suspended.
        pub(crate) suspension_at: u32,
        /// Offset of the record of deep calls in the block; 0 if calls nest on the device's stack alone.
        pub(crate) deep_at: u32,
        /// A hole, spelled out.
        pub(crate) reserved: u32,
        /// Channels and relations of processes; null if no module needs them.
        pub(crate) world: DevPtr<DevWorld>,
        /// The records that the threads of each process share; null if the module's memory is not shared.
        pub(crate) teams: DevPtr<DevTeam>,
        /// How many threads a process may have besides its first.
        pub(crate) threads: u32,
        /// The first place for threads. The places for the threads of one process are adjacent.
        pub(crate) first_thread: u32,
        /// The function that threads start with.
        pub(crate) thread_entry: u32,
        /// Offset of the record of the shared memory in the block.
        pub(crate) sharing_at: u32,
        /// For each group of places: which processes may continue, and which ones they wait for. See `gather.cuh`.
        pub(crate) gathering: DevPtr<u64>,
    }
}

/// Writes the records of processes.
pub(crate) fn write_structs(out: &mut dyn everwarp_contract::DeviceText) -> core::fmt::Result {
    DevProcess::write_struct(out)?;
    DevSpawn::write_struct(out)?;
    DevProcessTable::write_struct(out)
}
