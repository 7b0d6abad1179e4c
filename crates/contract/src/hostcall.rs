//! Host calls: what a process asks of the CPU (files, standard streams, waiting), and how it is answered.
//!
//! The device is the client. Everything it writes is hostile memory to the host: copied once, then validated.
//!
//! **Memory.** All of it but three words is pinned host memory. N *slots* ([`DevHostCall`]) hold answers, and beside
//! each [`HOSTCALL_INLINE_BYTES`] for what a request sends along (the *payload*) and for what the answer brings back
//! (the *reply*). A call that needs more takes one of M *areas* of [`HOSTCALL_DATA_BYTES`] for as long as it is out,
//! so that what waits for hours holds no more than a slot. A *submission queue* has `entries` places (a power of two,
//! at least N) of 64 bytes each ([`DevHostCallEntry`]). The queue's tail and the bitmap of free areas lie in device
//! memory, where the host never looks. [`DevHostCallRing`] says where everything is.
//!
//! **An entry** is the request itself, payload apart: [`Request::words`] makes its eight words. The device writes
//! them as four pieces of 16 bytes, each of which arrives whole and carries the lap parity of
//! [`Slots`](crate::ring::Slots) in its highest bit. So the device needs no fence between the pieces, and the host
//! has the request as soon as all four are of the lap that it waits for. (A fence of the system's scope takes 0.6 us
//! on an H200, a quarter of what the whole way to the host and back takes.)
//!
//! **Rules.**
//! 1. A slot is a credit. Who has one may send one request with it, and the next when that has been answered. How the
//!    device hands slots out is its own affair; ours gives each place of the process table the slot of the same
//!    number, so nothing is looked for.
//! 2. Both sides count how often a slot has been used, from 0. That count is the *sequence* of a use, and need not be
//!    sent.
//! 3. The device writes the payload, if there is any, and fences (release, system scope); takes an index by adding 1
//!    to the tail; and stores the four pieces of that index. Whoever has taken an index must store its entry, killed
//!    or not: entries are read in order.
//! 4. The queue cannot overflow: an entry that the host has not read belongs to a slot that has not been answered,
//!    and there are no more slots than entries.
//! 5. The host answers by writing the reply where the payload was, then `values`, then `status`, `errno` and
//!    `reply_bytes` in one store with release: `status` becomes the sequence. The first 16 bytes of a slot arrive
//!    together, so a device that sees its sequence there has the error number and the first value too. It fences
//!    (acquire, system scope) before it reads the rest.
//! 6. If `call` carries [`HOSTCALL_WAKE`], the host afterwards asks the engine to wake the process; otherwise
//!    the device polls the first 16 bytes.
//!    Others may be held up until a call is answered, by a lane that waits on the spot or because they go on together
//!    with who called, unless it carries [`HOSTCALL_PATIENT`]. So without that its answer must not depend on what they
//!    do: a [`HOSTCALL_PATH_OPEN`] that has to wait until others close something is answered with [`HOSTCALL_LATER`]
//!    for its error number, and is to be sent again with [`HOSTCALL_WAKE`] and [`HOSTCALL_PATIENT`]. So is a
//!    [`HOSTCALL_FD_READ`] that finds nothing to read in standard input under a number beyond 2.
//! 7. Between rule 3's stores and rule 5's, slot and area belong to the host. A second entry for the slot in that
//!    time is counted as bad and dropped, and changes no sequence.
//! 8. The host does not ask who else has an area: a device that gives one to two calls harms those two.
//!
//! **Two things that end a process.** [`HOSTCALL_EXIT`] closes its descriptors; nothing it sends afterwards is
//! served (`errno` is `ERRNO_SRCH`). It is answered before anybody on the host hears of the end, so that the slot is
//! free for the next process of the same place, and the device need not wait for the answer. A killed process that
//! still has a request out gets its answer as usual: the device must keep the slot until then.
//!
//! # Calls
//!
//! A file descriptor, a length and a set of flags are zero-extended to 64 bits, an offset is a `u64` and a delta
//! an `i64`; a value that does not fit the type that WASI gives it is answered with `ERRNO_INVAL`. A path is UTF-8
//! without a NUL behind it. Two paths stand in the payload one behind the other, with the first one's length in
//! the arguments. Scattered buffers are gathered and spread on the device. `values` and reply are meaningful only
//! when `errno` is 0. A request for more bytes than its slot or area holds is answered with as many as fit, which is
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
//! | `EXIT` | `EXIT_…`, exit code, trap kind, trap function, trap offset, fuel left | the last of its standard output | | |
//! | `ADOPT` | slot and generation of the process's first ancestor | | | |
//! | `INTERRUPT` | slot and generation of the process that is to end | | | |
//! | `CALL_OFF` | slot | | | |
//! | `OUTPUT` | 1 or 2 | the bytes | bytes taken | |
//! | `NOP` | anything | | `args` 0 to 2 | the payload |
//!
//! `FD_READDIR`'s reply is the part of the listing behind `cookie` that begins `skip` bytes into it: a device
//! whose guest has a buffer larger than that asks again with the same cookie and `skip` grown by what it
//! has, until the buffer is full or a reply is shorter than asked for. That end is the end of the directory.
//!
//! `POLL_ONEOFF` takes up to [`HOSTCALL_POLL_MAX`] subscriptions; more do not fit an area, and the device
//! answers `ERRNO_INVAL` itself. Clocks are the device's, which is why the two times are sent: an absolute time
//! out is measured from them.
//!
//! `ADOPT` is the first call of a process that the host has not opened: it gets the streams and the directories that
//! the ancestor named was opened with.
//!
//! `INTERRUPT` calls off what a process waits for, now and from now on, whose end its parent has asked for. It is not
//! an error if the host does not know it: then it has asked for nothing yet.
//!
//! `CALL_OFF` has what another thread of the process waits for answered with `ECANCELED`, if that has a call out with
//! the slot named that waits for time or input.
//!
//! `OUTPUT` takes what a process has written to a standard stream and the device has collected. It goes where
//! `FD_WRITE` to that stream would have gone when the process was started, whatever the descriptor is now. What is
//! left of standard output may come with `EXIT`, so that a process that computes and prints makes one call.

use crate::layout::DevPtr;

crate::dev_consts! {
    /// Writes the host calls' constants as CUDA C++.
    pub fn write_consts;
    /// Bytes of an area: two paths of the longest kind.
    pub const HOSTCALL_DATA_BYTES = 8192;
    /// Bytes beside each slot for payload and reply.
    pub const HOSTCALL_INLINE_BYTES = 192;
    /// The most slots: their numbers have 20 bits in an entry.
    pub const HOSTCALL_SLOTS_MOST = 1 << 20;
    /// The most areas: their numbers, counted from 1, have 17 bits in an entry.
    pub const HOSTCALL_AREAS_MOST = (1 << 17) - 1;
    /// In an entry's second word: the lowest bit of the call, of 8.
    pub const HOSTCALL_CALL_SHIFT = 20;
    /// In an entry's second word: the lowest bit of the bytes of payload, of 14.
    pub const HOSTCALL_BYTES_SHIFT = 28;
    /// In an entry's second word: the lowest bit of the area, of 17.
    pub const HOSTCALL_AREA_SHIFT = 42;
    /// In an entry's second word: where the highest bits of arguments 1, 3 and 5 are, whose own place the lap parity
    /// has.
    pub const HOSTCALL_HIGH_SHIFT = 59;
    /// In a call: the process is parked and wants to be woken when the answer is there.
    pub const HOSTCALL_WAKE = 1 << 7;
    /// In a call: nobody else is held up until it is answered, so it may wait for what others do.
    pub const HOSTCALL_PATIENT = 1 << 6;
    /// An error number that no guest sees: the call has to wait, and is to be sent again by who is patient.
    pub const HOSTCALL_LATER = 0xffff;
    /// The most subscriptions of one `POLL_ONEOFF`: as many as an area holds.
    pub const HOSTCALL_POLL_MAX = HOSTCALL_DATA_BYTES / 48;
    /// Answers at once; for measuring.
    pub const HOSTCALL_NOP = 1;
    /// The process has ended.
    pub const HOSTCALL_EXIT = 2;
    /// Collected output of the process.
    pub const HOSTCALL_OUTPUT = 3;
    /// A process that another one has spawned on the device.
    pub const HOSTCALL_ADOPT = 4;
    /// A process that another one has spawned is to end.
    pub const HOSTCALL_INTERRUPT = 5;
    /// What a thread waits for is of no interest any longer.
    pub const HOSTCALL_CALL_OFF = 6;
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
    /// A slot: what the host answers, and room for payload and reply.
    pub struct DevHostCall: align 256, size 256 {
        /// The sequence of the last use that has been answered.
        pub status: u32,
        /// The WASI error number; 0 for success.
        pub errno: u16,
        /// Bytes of reply.
        pub reply_bytes: u16,
        /// What the call returns.
        pub values: [u64; 3],
        /// Spelled-out hole: the device writes nothing on the line of the answer.
        pub reserved: [u64; 4],
        /// Payload and reply of a call without an area.
        pub data: [u8; 192],
    }
}

crate::dev_struct! {
    /// A place of the submission queue: see [`Request::words`].
    pub struct DevHostCallEntry: align 64, size 64 {
        /// Four pieces of two words.
        pub words: [u64; 8],
    }
}

crate::dev_struct! {
    /// Where the host calls' memory is, in the device's addresses; constant while it is in use.
    pub struct DevHostCallRing: align 8, size 48 {
        /// Slots, in host memory; null where nobody serves them.
        pub slots: DevPtr<DevHostCall>,
        /// Areas, in host memory: `[area][HOSTCALL_DATA_BYTES]`.
        pub areas: DevPtr<u8>,
        /// The submission queue, in host memory.
        pub entries: DevPtr<DevHostCallEntry>,
        /// In device memory: the queue's tail, free-running, in the upper half; below it the number of calls that
        /// their callers want counted, which the protocol does not ask for. Both change by one atomic.
        pub tail: DevPtr<u64>,
        /// One bit per area that nobody holds, in device memory.
        pub free: DevPtr<u32>,
        /// Number of entries, a power of two.
        pub entry_count: u32,
        /// Number of areas, a multiple of 32.
        pub area_count: u32,
    }
}

/// A request, payload apart, as an entry carries it. What has been read from an entry is an allegation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The process's place in the process table.
    pub process: u32,
    /// Which of the place's processes it is.
    pub generation: u32,
    /// The slot that is used; 20 bits.
    pub slot: u32,
    /// `HOSTCALL_…`, and perhaps [`HOSTCALL_WAKE`] and [`HOSTCALL_PATIENT`]; 8 bits.
    pub call: u32,
    /// Bytes of payload; 14 bits.
    pub data_bytes: u32,
    /// Where payload and reply are: 0 for the slot itself, else an area's number plus 1; 17 bits.
    pub area: u32,
    /// Arguments.
    pub args: [u64; 6],
}

const LAP: u64 = (crate::task::TASK_LAP as u64) << 32;
const fn bits(word: u64, shift: u32, count: u32) -> u32 {
    (word >> shift) as u32 & ((1 << count) - 1)
}

impl Request {
    /// The words of an entry whose lap is `lap`, which is that of [`Slots::lap`](crate::ring::Slots::lap) for the
    /// entry's index. Of each number the bits that have a place are taken.
    pub const fn words(&self, lap: u32) -> [u64; 8] {
        let lap = (lap as u64) << 32;
        let a = &self.args;
        let high = a[1] >> 63 | a[3] >> 63 << 1 | a[5] >> 63 << 2;
        let head = bits(self.slot as u64, 0, 20) as u64
            | (bits(self.call as u64, 0, 8) as u64) << HOSTCALL_CALL_SHIFT
            | (bits(self.data_bytes as u64, 0, 14) as u64) << HOSTCALL_BYTES_SHIFT
            | (bits(self.area as u64, 0, 17) as u64) << HOSTCALL_AREA_SHIFT
            | high << HOSTCALL_HIGH_SHIFT;
        [
            self.process as u64 | (self.generation as u64) << 32,
            head | lap,
            a[0],
            a[1] & !LAP | lap,
            a[2],
            a[3] & !LAP | lap,
            a[4],
            a[5] & !LAP | lap,
        ]
    }

    /// What the words of an entry say.
    pub const fn of(words: [u64; 8]) -> Self {
        let [names, head, a0, a1, a2, a3, a4, a5] = words;
        let high = head >> HOSTCALL_HIGH_SHIFT;
        Self {
            process: names as u32,
            generation: (names >> 32) as u32,
            slot: bits(head, 0, 20),
            call: bits(head, HOSTCALL_CALL_SHIFT, 8),
            data_bytes: bits(head, HOSTCALL_BYTES_SHIFT, 14),
            area: bits(head, HOSTCALL_AREA_SHIFT, 17),
            args: [
                a0,
                a1 & !LAP | high << 63,
                a2,
                a3 & !LAP | high >> 1 << 63,
                a4,
                a5 & !LAP | high >> 2 << 63,
            ],
        }
    }
}

/// Whether the second word of a piece is of a lap, as [`Slots::lap`](crate::ring::Slots::lap) has it.
pub const fn is_of_lap(word: u64, lap: u32) -> bool {
    (word >> 32) as u32 & crate::task::TASK_LAP == lap
}

/// What the first word of an answer is.
pub const fn answer_head(status: u32, errno: u16, reply_bytes: u16) -> u64 {
    status as u64 | (errno as u64) << 32 | (reply_bytes as u64) << 48
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Slots;
    use core::mem::offset_of;

    #[test]
    fn an_answer_is_one_aligned_piece_on_a_line_of_its_own() {
        assert_eq!(offset_of!(DevHostCall, status), 0);
        assert_eq!(offset_of!(DevHostCall, errno), 4);
        assert_eq!(offset_of!(DevHostCall, reply_bytes), 6);
        assert_eq!(offset_of!(DevHostCall, values), 8);
        assert_eq!(offset_of!(DevHostCall, data), 64);
        assert_eq!(answer_head(1, 2, 3), 0x0003_0002_0000_0001);
        assert_eq!(
            size_of::<DevHostCall>() - 64,
            HOSTCALL_INLINE_BYTES as usize
        );
    }

    #[test]
    fn an_entry_keeps_all_of_a_request_and_its_lap() {
        let queue = Slots::new(8);
        let all = Request {
            process: u32::MAX,
            generation: u32::MAX,
            slot: HOSTCALL_SLOTS_MOST - 1,
            call: 0xff,
            data_bytes: 0x3fff,
            area: HOSTCALL_AREAS_MOST,
            args: [u64::MAX; 6],
        };
        let one_high = |k: usize| Request {
            args: core::array::from_fn(|at| if at == k { 1 << 63 } else { at as u64 }),
            ..Request::default()
        };
        for request in [Request::default(), all]
            .into_iter()
            .chain((0..6).map(one_high))
        {
            for index in [0, 7, 8, 15, u32::MAX] {
                let (lap, words) = (queue.lap(index), request.words(queue.lap(index)));
                assert_eq!(Request::of(words), request);
                for piece in 0..4 {
                    assert!(is_of_lap(words[2 * piece + 1], lap));
                    assert!(!is_of_lap(
                        words[2 * piece + 1],
                        queue.lap(index.wrapping_add(8))
                    ));
                }
            }
        }
    }

    #[test]
    fn what_has_no_place_does_not_spill_into_what_has() {
        let wide = Request {
            slot: u32::MAX,
            ..Request::default()
        };
        let read = Request::of(wide.words(0));
        assert_eq!((read.slot, read.call), (HOSTCALL_SLOTS_MOST - 1, 0));
    }
}
