//! The record that the threads of one process share.

use everwarp_contract::dev_consts;
use everwarp_process::threads;
use everwarp_runtime::{Layout, dev_struct};

dev_consts! {
    /// Writes the constants as CUDA C++.
    pub(crate) fn write_consts;
    /// The result of a spawn if there can be no further thread.
    pub(crate) const THREADS_AGAIN = threads::AGAIN as u32;
    /// In a team's state, above the number of threads besides the first: the process has exited.
    pub(crate) const TEAM_ENDS = 1 << 31;
    /// The thread does not wait at an address.
    pub(crate) const WAIT_NONE = 0;
    /// The thread waits at an address, and is on its team's list.
    pub(crate) const WAIT_LISTED = 1;
    /// The thread has been notified, and is on no list any more.
    pub(crate) const WAIT_NOTIFIED = 2;
    /// The result of a wait that was notified.
    pub(crate) const WAITED_NOTIFIED = 0;
    /// The result of a wait that found another value than the expected one.
    pub(crate) const WAITED_OTHER = 1;
    /// The result of a wait whose time is over.
    pub(crate) const WAITED_TIMED_OUT = 2;
}

dev_struct! {
    /// The record that the threads of one process share. There is one for each place that the host gives to processes of
    /// a module with threads. `device/threads/team.cuh` has the rules.
    pub(crate) struct DevTeam: align 16, size 192 {
        /// 1 while a thread holds the list of waiting threads.
        pub(crate) lock: u32,
        /// The thread that has waited longest: the number of its place, plus one.
        pub(crate) first: u32,
        /// The last thread of the list: the number of its place, plus one.
        pub(crate) last: u32,
        /// The number of threads besides the first, and `TEAM_ENDS`.
        pub(crate) state: u32,
        /// 1 once a thread has decided how the process ends.
        pub(crate) claimed: u32,
        /// How the process ends: the trap word of the deciding thread's header.
        pub(crate) trap: u32,
        /// The function that trapped, from the same header.
        pub(crate) trap_function: u32,
        /// The offset of the trap in the module, from the same header.
        pub(crate) trap_offset: u32,
        /// The code of `proc_exit`.
        pub(crate) exit_code: u32,
        /// The place of the first thread.
        pub(crate) leader: u32,
        /// The fuel that exited threads have left over, if fuel is limited.
        pub(crate) fuel: i64,
        /// The fuel that exited threads have used, if fuel is not limited.
        pub(crate) used: i64,
        /// A bit for each place for threads: whether it is taken.
        pub(crate) taken: [u32; 32],
        /// A hole, spelled out.
        pub(crate) reserved: [u32; 2],
    }
}

// A bit for each thread that a process may have.
const _: () = assert!(threads::THREADS_MOST == 32 * 32);

/// Writes the record that the device sources of threads read.
pub(crate) fn write_structs(out: &mut dyn everwarp_contract::DeviceText) -> core::fmt::Result {
    DevTeam::write_struct(out)
}
