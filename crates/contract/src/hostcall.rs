//! Host calls: what a process asks of the CPU (files, standard streams, waiting), and how it is answered.
//!
//! The device is the client. Everything it writes is hostile memory to the host: copied once, then validated.
//!
//! **Memory.** N *slots* ([`HOSTCALL_SLOTS`] unless told otherwise, a power of two) lie in pinned host memory: an
//! array of headers ([`DevHostCall`], whose first 64 bytes the device writes and whose second 64 bytes the host
//! writes) and beside it an array of data areas of [`HOSTCALL_DATA_BYTES`] each, for what a request sends along
//! (the *payload*) and for what the answer brings back (the *reply*). A *submission queue*, also in host memory,
//! has `entries` words (a power of two, at least N). The queue's tail, the bitmap of free slots and each slot's
//! sequence lie in device memory, where the host never looks. [`DevHostCallRing`] says where everything is.
//!
//! **An entry** is a `u64`: the slot's number (bits 0 to 30), the lap parity of [`Slots`](crate::ring::Slots)
//! (bit 31), and the sequence of this use of the slot (bits 32 to 63). See [`entry`].
//!
//! **Rules.**
//! 1. A slot is a credit. The device takes one by clearing its bit in `free`, and sets the bit again only after
//!    it has read the answer. The host never gives a slot back.
//! 2. Having a slot, the device adds 1 to its word of `sequence`, writes payload and request, takes an index by
//!    adding 1 to `tail`, and stores the entry of that index with release in system scope. Whoever has taken an
//!    index must store its entry, killed or not: entries are read in order.
//! 3. The queue cannot overflow: an entry that the host has not read belongs to a slot that has not been
//!    answered, and there are no more slots than entries.
//! 4. The host answers by writing the reply, then `errno`, `reply_bytes` and `values`, then `status` with release:
//!    `status` becomes the entry's sequence. Nothing else of a header is written by the host.
//! 5. If `call` carries [`HOSTCALL_WAKE`], the host afterwards asks the engine to wake the process; otherwise
//!    the device polls `status` until it equals the sequence, with acquire in system scope.
//! 6. Between rule 2's store and rule 4's, a slot belongs to the host. A second entry for it in that time is
//!    counted as bad and dropped.
//!
//! **Two things that end a process.** [`HOSTCALL_EXIT`] closes its descriptors; nothing it sends afterwards is
//! served (`errno` is `ERRNO_SRCH`). A killed process that still has requests out gets its answers as usual: the
//! device must keep those slots until they are answered.
//!
//! # Calls
//!
//! A file descriptor, a length and a set of flags are zero-extended to 64 bits, an offset is a `u64` and a delta
//! an `i64`; a value that does not fit the type that WASI gives it is answered with `ERRNO_INVAL`. A path is UTF-8
//! without a NUL behind it. Two paths stand in the payload one behind the other, with the first one's length in
//! the arguments. Scattered buffers are gathered and spread on the device. `values` and reply are meaningful only
//! when `errno` is 0. A request for more bytes than the data area holds is answered with as many as fit, which is
//! a short read or write and allowed; [`HOSTCALL_FD_READDIR`] and [`HOSTCALL_POLL_ONEOFF`] say how they differ.
//! Structures in replies are laid out as WASI preview 1 lays them out in memory, so that they can be copied.
//!
//! | call | `args` | payload | `values` | reply |
//! |---|---|---|---|---|
//! | `FD_ADVISE` | fd, offset, length, advice | | | |
//! | `FD_ALLOCATE` | fd, offset, length | | | |
//! | `FD_CLOSE`, `FD_DATASYNC`, `FD_SYNC` | fd | | | |
//! | `FD_FDSTAT_GET` | fd | | the 24 bytes of `fdstat` in 0 to 2 | |
//! | `FD_FDSTAT_SET_FLAGS` | fd, fdflags | | | |
//! | `FD_FDSTAT_SET_RIGHTS` | fd, base, inheriting | | | |
//! | `FD_FILESTAT_GET` | fd | | | `filestat`, 64 bytes |
//! | `FD_FILESTAT_SET_SIZE` | fd, size | | | |
//! | `FD_FILESTAT_SET_TIMES` | fd, atim, mtim, fstflags | | | |
//! | `FD_PREAD` | fd, length, offset | | bytes | the bytes |
//! | `FD_PRESTAT_GET` | fd | | the 8 bytes of `prestat` in 0 | |
//! | `FD_PRESTAT_DIR_NAME` | fd, length of the guest's buffer | | bytes | the name |
//! | `FD_PWRITE` | fd, offset | the bytes | bytes written | |
//! | `FD_READ` | fd, length | | bytes | the bytes |
//! | `FD_READDIR` | fd, length, cookie, skip | | bytes | entries |
//! | `FD_RENUMBER` | from, to | | | |
//! | `FD_SEEK` | fd, delta, whence | | the new offset | |
//! | `FD_TELL` | fd | | the offset | |
//! | `FD_WRITE` | fd | the bytes | bytes written | |
//! | `PATH_CREATE_DIRECTORY`, `PATH_REMOVE_DIRECTORY`, `PATH_UNLINK_FILE` | fd | path | | |
//! | `PATH_FILESTAT_GET` | fd, lookupflags | path | | `filestat`, 64 bytes |
//! | `PATH_FILESTAT_SET_TIMES` | fd, lookupflags, atim, mtim, fstflags | path | | |
//! | `PATH_LINK` | old fd, old lookupflags, length of the old path, new fd | old path, new path | | |
//! | `PATH_OPEN` | fd, lookupflags, oflags, fdflags, base, inheriting | path | the new fd | |
//! | `PATH_READLINK` | fd, length of the guest's buffer | path | bytes | the target |
//! | `PATH_RENAME` | old fd, length of the old path, new fd | old path, new path | | |
//! | `PATH_SYMLINK` | length of the target, fd | target, new path | | |
//! | `POLL_ONEOFF` | number of subscriptions, the process's realtime now, its monotonic now | `subscription`s, 48 bytes each | number of events | `event`s, 32 bytes each |
//! | `SOCK_ACCEPT`, `SOCK_RECV`, `SOCK_SEND`, `SOCK_SHUTDOWN` | fd | | | |
//! | `EXIT` | `EXIT_…`, exit code, trap kind, trap function, trap offset, fuel left | | | |
//! | `ADOPT` | slot and generation of the process's first ancestor | | | |
//! | `OUTPUT` | 1 or 2 | the bytes | bytes taken | |
//! | `NOP` | anything | | `args` 0 to 2 | the payload |
//!
//! `FD_READDIR`'s reply is the part of the listing behind `cookie` that begins `skip` bytes into it: a device
//! whose guest has a buffer larger than the data area asks again with the same cookie and `skip` grown by what it
//! has, until the buffer is full or a reply is shorter than asked for. That end is the end of the directory.
//!
//! `POLL_ONEOFF` takes up to [`HOSTCALL_POLL_MAX`] subscriptions; more do not fit the data area, and the device
//! answers `ERRNO_INVAL` itself. Clocks are the device's, which is why the two times are sent: an absolute time
//! out is measured from them.
//!
//! `ADOPT` is the first call of a process that the host has not opened: it gets the streams and the directories that
//! the ancestor named was opened with.
//!
//! `OUTPUT` takes what a process has written to a standard stream and the device has collected. It goes where
//! `FD_WRITE` to that stream would have gone when the process was started, whatever the descriptor is now.

use crate::layout::DevPtr;

crate::dev_consts! {
    /// Writes the host calls' constants as CUDA C++.
    pub fn write_consts;
    /// Slots unless the host is told otherwise.
    pub const HOSTCALL_SLOTS = 4096;
    /// Bytes of a slot's data area: two paths of the longest kind.
    pub const HOSTCALL_DATA_BYTES = 8192;
    /// In an entry: the bits of the slot's number; the lap parity is the bit above.
    pub const HOSTCALL_SLOT_MASK = 0x7fff_ffff;
    /// In an entry's lower half: the lap parity.
    pub const HOSTCALL_LAP = 1 << 31;
    /// In `DevHostCall::call`: the process is parked and wants to be woken when the answer is there.
    pub const HOSTCALL_WAKE = 1 << 31;
    /// The most subscriptions of one `POLL_ONEOFF`: as many as the data area holds.
    pub const HOSTCALL_POLL_MAX = HOSTCALL_DATA_BYTES / 48;
    /// Answers at once; for measuring.
    pub const HOSTCALL_NOP = 1;
    /// The process has ended.
    pub const HOSTCALL_EXIT = 2;
    /// Collected output of the process.
    pub const HOSTCALL_OUTPUT = 3;
    /// A process that another one has spawned on the device.
    pub const HOSTCALL_ADOPT = 4;
    /// `fd_advise`.
    pub const HOSTCALL_FD_ADVISE = 16;
    /// `fd_allocate`.
    pub const HOSTCALL_FD_ALLOCATE = 17;
    /// `fd_close`.
    pub const HOSTCALL_FD_CLOSE = 18;
    /// `fd_datasync`.
    pub const HOSTCALL_FD_DATASYNC = 19;
    /// `fd_fdstat_get`.
    pub const HOSTCALL_FD_FDSTAT_GET = 20;
    /// `fd_fdstat_set_flags`.
    pub const HOSTCALL_FD_FDSTAT_SET_FLAGS = 21;
    /// `fd_fdstat_set_rights`.
    pub const HOSTCALL_FD_FDSTAT_SET_RIGHTS = 22;
    /// `fd_filestat_get`.
    pub const HOSTCALL_FD_FILESTAT_GET = 23;
    /// `fd_filestat_set_size`.
    pub const HOSTCALL_FD_FILESTAT_SET_SIZE = 24;
    /// `fd_filestat_set_times`.
    pub const HOSTCALL_FD_FILESTAT_SET_TIMES = 25;
    /// `fd_pread`.
    pub const HOSTCALL_FD_PREAD = 26;
    /// `fd_prestat_get`.
    pub const HOSTCALL_FD_PRESTAT_GET = 27;
    /// `fd_prestat_dir_name`.
    pub const HOSTCALL_FD_PRESTAT_DIR_NAME = 28;
    /// `fd_pwrite`.
    pub const HOSTCALL_FD_PWRITE = 29;
    /// `fd_read`.
    pub const HOSTCALL_FD_READ = 30;
    /// `fd_readdir`.
    pub const HOSTCALL_FD_READDIR = 31;
    /// `fd_renumber`.
    pub const HOSTCALL_FD_RENUMBER = 32;
    /// `fd_seek`.
    pub const HOSTCALL_FD_SEEK = 33;
    /// `fd_sync`.
    pub const HOSTCALL_FD_SYNC = 34;
    /// `fd_tell`.
    pub const HOSTCALL_FD_TELL = 35;
    /// `fd_write`.
    pub const HOSTCALL_FD_WRITE = 36;
    /// `path_create_directory`.
    pub const HOSTCALL_PATH_CREATE_DIRECTORY = 37;
    /// `path_filestat_get`.
    pub const HOSTCALL_PATH_FILESTAT_GET = 38;
    /// `path_filestat_set_times`.
    pub const HOSTCALL_PATH_FILESTAT_SET_TIMES = 39;
    /// `path_link`.
    pub const HOSTCALL_PATH_LINK = 40;
    /// `path_open`.
    pub const HOSTCALL_PATH_OPEN = 41;
    /// `path_readlink`.
    pub const HOSTCALL_PATH_READLINK = 42;
    /// `path_remove_directory`.
    pub const HOSTCALL_PATH_REMOVE_DIRECTORY = 43;
    /// `path_rename`.
    pub const HOSTCALL_PATH_RENAME = 44;
    /// `path_symlink`.
    pub const HOSTCALL_PATH_SYMLINK = 45;
    /// `path_unlink_file`.
    pub const HOSTCALL_PATH_UNLINK_FILE = 46;
    /// `poll_oneoff`.
    pub const HOSTCALL_POLL_ONEOFF = 47;
    /// `sock_accept`; no process has sockets.
    pub const HOSTCALL_SOCK_ACCEPT = 48;
    /// `sock_recv`.
    pub const HOSTCALL_SOCK_RECV = 49;
    /// `sock_send`.
    pub const HOSTCALL_SOCK_SEND = 50;
    /// `sock_shutdown`.
    pub const HOSTCALL_SOCK_SHUTDOWN = 51;
    /// In `EXIT`: it returned, or asked to end with the code in the second argument.
    pub const EXIT_NORMAL = 0;
    /// It trapped.
    pub const EXIT_TRAP = 1;
    /// It was killed.
    pub const EXIT_KILLED = 2;
    /// Its fuel is spent.
    pub const EXIT_OUT_OF_FUEL = 3;
    /// The memory that it starts with was not to be had.
    pub const EXIT_OUT_OF_MEMORY = 4;
}

crate::dev_struct! {
    /// A slot's header: the request on the first 64 bytes, the answer on the second.
    pub struct DevHostCall: align 128, size 128 {
        /// The process's slot in the process table. Written by the device, as is everything up to `args`.
        pub process: u32,
        /// Which of the slot's processes it is.
        pub generation: u32,
        /// `HOSTCALL_…`, and perhaps [`HOSTCALL_WAKE`].
        pub call: u32,
        /// Bytes of payload in the data area.
        pub data_bytes: u32,
        /// Arguments.
        pub args: [u64; 6],
        /// The sequence of the last use that has been answered. Written by the host, as is everything below.
        pub status: u32,
        /// The WASI error number; 0 for success.
        pub errno: u32,
        /// Bytes of reply in the data area.
        pub reply_bytes: u32,
        /// Spelled-out hole.
        pub reserved: u32,
        /// What the call returns.
        pub values: [u64; 3],
        /// Spelled-out hole.
        pub reserved2: [u64; 3],
    }
}

crate::dev_struct! {
    /// Where the host calls' memory is, in the device's addresses; constant while it is in use.
    pub struct DevHostCallRing: align 8, size 64 {
        /// Headers, in host memory.
        pub slots: DevPtr<DevHostCall>,
        /// Data areas, in host memory: `[slot][HOSTCALL_DATA_BYTES]`.
        pub data: DevPtr<u8>,
        /// The submission queue, in host memory.
        pub entries: DevPtr<u64>,
        /// The queue's tail, free-running, in device memory.
        pub tail: DevPtr<u32>,
        /// One bit per slot that nobody holds, in device memory.
        pub free: DevPtr<u32>,
        /// How often each slot has been taken, in device memory.
        pub sequence: DevPtr<u32>,
        /// Number of slots, a power of two.
        pub slot_count: u32,
        /// Number of entries, a power of two and at least as large.
        pub entry_count: u32,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

/// The queue's word for one use of a slot: `lap` is that of [`Slots::lap`](crate::ring::Slots::lap) for the
/// entry's index.
pub const fn entry(slot: u32, lap: u32, sequence: u32) -> u64 {
    (sequence as u64) << 32 | (slot & HOSTCALL_SLOT_MASK | lap) as u64
}

/// The slot's number in an entry; an allegation until it has been compared with the number of slots.
pub const fn entry_slot(entry: u64) -> u32 {
    entry as u32 & HOSTCALL_SLOT_MASK
}

/// The sequence in an entry.
pub const fn entry_sequence(entry: u64) -> u32 {
    (entry >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Slots;
    use core::mem::offset_of;

    #[test]
    fn request_and_answer_share_no_cache_line() {
        assert_eq!(offset_of!(DevHostCall, status), 64);
        assert_eq!(HOSTCALL_LAP, crate::task::TASK_LAP);
    }

    #[test]
    fn an_entry_keeps_its_three_parts() {
        let queue = Slots::new(8);
        for (index, sequence) in [(0, 1), (8, 0), (u32::MAX, u32::MAX)] {
            let word = entry(4095, queue.lap(index), sequence);
            assert!(queue.is_valid(index, word as u32));
            assert!(!queue.is_valid(index.wrapping_add(8), word as u32));
            assert_eq!(entry_slot(word), 4095);
            assert_eq!(entry_sequence(word), sequence);
        }
    }
}
