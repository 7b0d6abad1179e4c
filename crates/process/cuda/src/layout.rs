//! What host and device share of processes: the table's records, what a process is started with, and how
//! one ended.

use everwarp_compiler::{
    CallState, DevInstance, DevSharing, DevSuspension, DevTable, INTERLEAVED, KILL_INTERVAL,
    TrapKind, UNIT, UNIT_STRIDE,
};
use everwarp_contract::dev_consts;
use everwarp_runtime::{DevPtr, Layout, dev_struct};

use crate::kin::{self, DevWorld};
use crate::threads::{self, DevTeam};

dev_consts! {
    /// Writes the constants as CUDA C++.
    pub(crate) fn write_consts;
    /// In the header's trap word: the process asked to end. Numbers from 256 on are not the compiler's.
    pub(crate) const TRAP_EXIT = 256;
    /// In the header's trap word: `TrapKind::Killed`.
    pub(crate) const TRAP_KILLED = TrapKind::Killed as u32;
    /// In the header's trap word: `TrapKind::OutOfFuel`.
    pub(crate) const TRAP_OUT_OF_FUEL = TrapKind::OutOfFuel as u32;
    /// In a process's flags: what it writes to standard output is collected.
    pub(crate) const PROCESS_COLLECTS = 1;
    /// In what a process is started with: nothing was in its place before, so the record says nothing.
    pub(crate) const PROCESS_FRESH = 2;
    /// In a process's flags: what it reads from standard input lies beside its arguments.
    pub(crate) const PROCESS_INPUT = 4;
    /// In a process's flags: somebody may be waiting for its output before there is more to read.
    pub(crate) const PROCESS_TALKS = 8;
    /// In a process's flags: its descriptors from 3 on are the directories whose names lie beside its arguments, and
    /// no other directory that it has was given to it.
    pub(crate) const PROCESS_GIVEN = 128;
    /// In what a process is started with: another one has spawned it, and the host has not heard of it yet.
    pub(crate) const PROCESS_UNKNOWN = 16;
    /// Bytes in front of a process's arguments: see `strings.rs`.
    pub(crate) const STRINGS_HEAD = 48;
    /// In a process's flags: its memory is interleaved with those of its group.
    pub(crate) const PROCESS_INTERLEAVED = 32;
    /// In a process's flags: it is a thread of another one.
    pub(crate) const PROCESS_THREAD = 64;
    /// Bytes that lie together of a memory that is interleaved with others.
    pub(crate) const UNIT_BYTES = UNIT as u32;
    /// Bytes from one of its units to the next.
    pub(crate) const UNIT_STRIDE_BYTES = UNIT_STRIDE as u32;
    /// A lane runs the process, or a task that will is queued.
    pub(crate) const TURN_RUNS = 0;
    /// The same, and the host has woken it meanwhile.
    pub(crate) const TURN_WOKEN = 1;
    /// It waits for the host to wake it.
    pub(crate) const TURN_PARKED = 2;
    /// Nothing is on its way to the host.
    pub(crate) const CALL_NONE = 0;
    /// A call is.
    pub(crate) const CALL_SENT = 1;
    /// A call is, and counts towards `SPINNING_CALLS`.
    pub(crate) const CALL_COUNTED = 2;
    /// The host was asked to wake the process, which has found no area for what it wants to send.
    pub(crate) const CALL_FOR_ROOM = 3;
    /// A call is that is answered soon, and it does not count.
    pub(crate) const CALL_SOON = 4;
    /// The lane stays until the answer is there.
    pub(crate) const WAITS_HERE = 0;
    /// The process is to be woken, and has not left its lane.
    pub(crate) const WAITS_POSTED = 1;
    /// It has left.
    pub(crate) const WAITS_PARKED = 2;
    /// The answer has been taken by who woke it.
    pub(crate) const WAITS_READY = 3;
    /// And the reply is where it is expected.
    pub(crate) const WAITS_DELIVERED = 4;
    /// In the tag of a task that goes on with processes: they wait, and are to be woken.
    pub(crate) const RUN_WAKES = 0;
    /// They begin, or have been woken.
    pub(crate) const RUN_GOES_ON = 1;
    /// Replies of this many bytes are brought by a warp.
    pub(crate) const DELIVERED_BYTES = 512;
    /// It has not run.
    pub(crate) const STAGE_NEW = 0;
    /// It is in the module's start function.
    pub(crate) const STAGE_START = 1;
    /// It is in its entry.
    pub(crate) const STAGE_ENTRY = 2;
    /// It has ended, and its last output is on its way to the host.
    pub(crate) const STAGE_OUTPUT = 3;
    /// While fewer calls than this are on their way, short ones are waited for where they were made. Each lane
    /// that waits so polls host memory. On an H200 64 that do so take 5 us a call where they took 25 by being woken;
    /// of more than some hundred the one thread that answers is the limit.
    pub(crate) const SPINNING_CALLS = 128;
    /// Of an instance's state: it was preempted.
    pub(crate) const STATE_PREEMPTED = CallState::Preempted as u32;
    /// How often a process looks at its kill word until it gives up its lane to others, if there are any: after some
    /// tens of thousands of rounds of loops, which take milliseconds. To save it and to go on takes microseconds.
    pub(crate) const SLICE_LOOKS = 32;
    /// Units of fuel between two looks.
    pub(crate) const LOOK_INTERVAL = KILL_INTERVAL as u32;
    /// No such function.
    pub(crate) const ENTRY_NONE = 0xffff_ffff;
    /// Bytes of standard output that a process collects before they go to the host.
    pub(crate) const OUTPUT_BYTES = 4096;
    /// Bytes that one task clears at most.
    pub(crate) const CLEAR_PIECE = 1 << 20;
    /// Processes that one task starts at most.
    pub(crate) const START_PROCESSES = 32;
}

// A group of places is what one task starts, and what is interleaved.
const _: () = assert!(START_PROCESSES as u64 == INTERLEAVED);

dev_struct! {
    /// A place of the process table. The instance's block follows it directly, so that an import, which is
    /// called with the block's address, finds its process without a look-up; behind that lies the output.
    pub(crate) struct DevProcess: align 16, size 176 {
        /// Which process: its place, whose number its slot of the host-call ring has too, and its generation in the
        /// upper half.
        pub(crate) pid: u64,
        /// The table.
        pub(crate) table: DevPtr<DevProcessTable>,
        /// Its arguments, environment and standard input: see `strings.rs`.
        pub(crate) strings: DevPtr<u8>,
        /// 64-byte blocks of random bytes that it has used up.
        pub(crate) random_blocks: u64,
        /// Bytes of linear memory that an earlier process of this place may have written.
        pub(crate) dirty: u64,
        /// The first value of the last answer.
        pub(crate) call_value: u64,
        /// `CALL_…`: what is on its way to the host.
        pub(crate) call: u32,
        /// How often the slot has been used.
        pub(crate) call_sequence: u32,
        /// Bytes of payload so far, and after the answer those of the reply.
        pub(crate) call_bytes: u32,
        /// Where they are: 0 for the slot, else an area's number and 1.
        pub(crate) call_area: u32,
        /// `WAITS_…`: how the call that is on its way is waited for.
        pub(crate) waits: u32,
        /// The error number of the last answer.
        pub(crate) call_error: u32,
        /// Where in linear memory the reply is to go.
        pub(crate) reply_to: u32,
        /// How much of it; 0 if nobody but the import knows.
        pub(crate) reply_most: u32,
        /// How far an import has come that takes several calls.
        pub(crate) progress: u32,
        /// Bytes of collected output.
        pub(crate) output_len: u32,
        /// How many of them the host has.
        pub(crate) output_sent: u32,
        /// `PROCESS_…`.
        pub(crate) flags: u32,
        /// The code of `proc_exit`.
        pub(crate) exit_code: u32,
        /// `TURN_…`: who may go on with the process.
        pub(crate) turn: u32,
        /// `STAGE_…`: how far it has come.
        pub(crate) stage: u32,
        /// Whether it was to end when the last answer was waited for on the spot.
        pub(crate) killed: u32,
        /// The pid by which the host knows it: of a thread its process's.
        pub(crate) owner: u64,
        /// What it shares with other threads; null if its module has none.
        pub(crate) team: DevPtr<DevTeam>,
        /// What its entry gets: of a thread its number and its argument.
        pub(crate) start_args: [u64; 2],
        /// The fuel that it began with.
        pub(crate) granted: i64,
        /// Where it waits to be notified.
        pub(crate) wait_address: u64,
        /// `WAIT_…`: whether it does.
        pub(crate) wait: u32,
        /// Its neighbours in the list of those who wait, by their places and one.
        pub(crate) wait_before: u32,
        /// See there.
        pub(crate) wait_behind: u32,
        /// Spelled-out hole.
        pub(crate) reserved: u32,
    }
}

dev_struct! {
    /// What a process is started with: one for each place of the table, written by the host.
    pub(crate) struct DevSpawn: align 16, size 48 {
        /// Which process.
        pub(crate) pid: u64,
        /// Its arguments, environment and standard input.
        pub(crate) strings: DevPtr<u8>,
        /// Its fuel; positive.
        pub(crate) fuel: i64,
        /// How many bytes its linear memory may grow to.
        pub(crate) memory_limit: u64,
        /// `PROCESS_…`.
        pub(crate) flags: u32,
        /// Nonzero asks for its end, should it not have been made ready yet.
        pub(crate) kill: u32,
        /// How many ends of channels it is given. They stand in front of its arguments, the first one last.
        pub(crate) given: u32,
        /// Its number among those that are spawned together; of a thread its argument.
        pub(crate) instance: u32,
    }
}

dev_struct! {
    /// The process table of one module: the program's parameters.
    pub(crate) struct DevProcessTable: align 8, size 184 {
        /// Records, `record_stride` bytes apart.
        pub(crate) records: DevPtr<u8>,
        /// Linear memories, `memory_stride` bytes apart.
        pub(crate) memories: DevPtr<u8>,
        /// From one record to the next.
        pub(crate) record_stride: u64,
        /// From one memory to the next.
        pub(crate) memory_stride: u64,
        /// The block of an instance at address 0.
        pub(crate) block: DevPtr<u8>,
        /// The beginning of linear memory.
        pub(crate) memory: DevPtr<u8>,
        /// Passive data segments.
        pub(crate) module_data: DevPtr<u8>,
        /// What to start.
        pub(crate) spawns: DevPtr<DevSpawn>,
        /// Nanoseconds from the device's clock to the time of day.
        pub(crate) clock_offset: u64,
        /// The key of random bytes.
        pub(crate) random_key: [u32; 8],
        /// Bytes of the block, a multiple of 16.
        pub(crate) block_bytes: u32,
        /// Bytes of linear memory that are not zero at first, rounded up to 16.
        pub(crate) initial_bytes: u32,
        /// Offset of the tables' records in the block, and how many there are.
        pub(crate) tables_at: u32,
        /// See there.
        pub(crate) tables: u32,
        /// Which of the linked modules.
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
        /// Channels and relations of processes; null if no module asks for them.
        pub(crate) world: DevPtr<DevWorld>,
        /// What threads of each process share; null if the module's memory is not shared.
        pub(crate) teams: DevPtr<DevTeam>,
        /// How many threads a process may have beside its first.
        pub(crate) threads: u32,
        /// The first place that is a thread's: those of a process lie together.
        pub(crate) first_thread: u32,
        /// The function that threads begin with.
        pub(crate) thread_entry: u32,
        /// Offset of the record of the shared memory in the block.
        pub(crate) sharing_at: u32,
        /// For each group of places who may go on, and whom they wait for: see `gather.cuh`.
        pub(crate) gathering: DevPtr<u64>,
    }
}

/// Writes everything that the device sources of processes read.
pub(crate) fn write_structs(out: &mut dyn core::fmt::Write) -> core::fmt::Result {
    write_consts(out)?;
    kin::write_consts(out)?;
    threads::write_consts(out)?;
    writeln!(out, "struct DevProcessTable;\nstruct DevWorld;")?;
    threads::write_structs(out)?;
    DevInstance::write_struct(out)?;
    DevTable::write_struct(out)?;
    DevSuspension::write_struct(out)?;
    DevSharing::write_struct(out)?;
    DevProcess::write_struct(out)?;
    DevSpawn::write_struct(out)?;
    DevProcessTable::write_struct(out)?;
    kin::write_structs(out)
}
