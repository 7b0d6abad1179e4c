//! What host and device share of threads.

use everwarp_contract::dev_consts;
use everwarp_process::threads;
use everwarp_runtime::{Layout, dev_struct};

dev_consts! {
    /// Writes the constants as CUDA C++.
    pub(crate) fn write_consts;
    /// What a spawn answers if there can be no further thread.
    pub(crate) const THREADS_AGAIN = threads::AGAIN as u32;
    /// In a team's state, above the number of threads beside the first: the process has ended.
    pub(crate) const TEAM_ENDS = 1 << 31;
    /// A thread does not wait at an address.
    pub(crate) const WAIT_NONE = 0;
    /// It does, and is on its team's list.
    pub(crate) const WAIT_LISTED = 1;
    /// It has been notified, and is on no list any more.
    pub(crate) const WAIT_NOTIFIED = 2;
    /// What a wait answers: it was notified.
    pub(crate) const WAITED_NOTIFIED = 0;
    /// The value was another one.
    pub(crate) const WAITED_OTHER = 1;
    /// The time is over.
    pub(crate) const WAITED_TIMED_OUT = 2;
}

/// Places for threads that a module has at most: each takes a slot for host calls and a record.
pub(crate) const PLACES_MOST: u32 = 1 << 14;

dev_struct! {
    /// What the threads of one process have in common: one for each place of a module with threads that the host
    /// gives away. `device/threads/team.cuh` has the rules.
    pub(crate) struct DevTeam: align 16, size 192 {
        /// 1 while somebody holds the list of those who wait.
        pub(crate) lock: u32,
        /// The one that waits the longest, by its place and one.
        pub(crate) first: u32,
        /// The last one.
        pub(crate) last: u32,
        /// Threads beside the first, and `TEAM_ENDS`.
        pub(crate) state: u32,
        /// Whether somebody has said how the process ends.
        pub(crate) claimed: u32,
        /// How: as the header of the one that has.
        pub(crate) trap: u32,
        /// See there.
        pub(crate) trap_function: u32,
        /// See there.
        pub(crate) trap_offset: u32,
        /// The code of `proc_exit`.
        pub(crate) exit_code: u32,
        /// The place of the first thread.
        pub(crate) leader: u32,
        /// Fuel that threads have left behind, where there is a limit.
        pub(crate) fuel: i64,
        /// Fuel that threads have used which have ended, where there is none.
        pub(crate) used: i64,
        /// Which places for threads are taken.
        pub(crate) taken: [u32; 32],
        /// Spelled-out hole.
        pub(crate) reserved: [u32; 2],
    }
}

// A bit for each thread that a process may have.
const _: () = assert!(threads::THREADS_MOST == 32 * 32);

/// Writes the record that the device sources of threads read.
pub(crate) fn write_structs(out: &mut dyn core::fmt::Write) -> core::fmt::Result {
    DevTeam::write_struct(out)
}
