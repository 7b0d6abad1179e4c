//! Host calls: how a process asks the CPU for files, standard streams and waiting, and how it is answered.
//!
//! The device is the client. The host treats everything that it writes as hostile: it copies once, then validates. The
//! calls themselves are declared once, in [`table`]; device code names their arguments by structs that are generated from
//! it ([`write_calls`]), and `docs/reference/host-calls.md` is written from it ([`write_reference`]).
//!
//! **Memory.** All of it but three words is pinned host memory. N *slots* ([`DevHostCall`]) hold answers, and each has
//! [`HOSTCALL_INLINE_BYTES`] for the bytes that a request sends along (the *payload*) and for those that the answer
//! brings back (the *reply*). A call that needs more takes one of M *areas* of [`HOSTCALL_DATA_BYTES`] until it is
//! answered, so that a process that waits for hours holds no more than a slot. A *submission queue* has `entries` places
//! (a power of two, at least N) of 64 bytes each ([`DevHostCallEntry`]). The queue's tail and the bitmap of free areas
//! are in device memory, where the host never looks. [`DevHostCallRing`] says where everything is.
//!
//! **An entry** is the request itself, payload apart: [`EntryFields::encode`] makes its eight words. The device writes
//! them as four pieces of 16 bytes. Each piece arrives whole and carries the lap parity of
//! [`Slots`](crate::ring::Slots) in its highest bit. So the device needs no fence between the pieces, and the host
//! has the request as soon as all four belong to the lap that it waits for. (A fence of the system's scope takes 0.6 us
//! on an H200, a quarter of the whole way to the host and back.)
//!
//! **Rules.**
//! 1. A slot is a credit. Its holder may send one request with it, and the next when that has been answered. How the
//!    device hands slots out is its own affair; ours gives each place of the process table the slot of the same
//!    number, so it never searches.
//! 2. Both sides count how often a slot has been used, from 0. That count is the *sequence* of a use, and need not be
//!    sent.
//! 3. The device writes the payload, if there is any, and fences (release, system scope); takes an index by adding 1
//!    to the tail; and stores the four pieces of that index. A process that has taken an index must store its entry,
//!    killed or not: entries are read in order.
//! 4. The queue cannot overflow: an entry that the host has not read belongs to a slot that has not been answered,
//!    and there are no more slots than entries.
//! 5. The host answers by writing the reply where the payload was, then `values`, then `status`, `errno` and
//!    `reply_bytes` in one store with release: `status` becomes the sequence. The first 16 bytes of a slot arrive
//!    together, so a device that sees its sequence there has the error number and the first value too. It fences
//!    (acquire, system scope) before it reads the rest.
//! 6. If `call` carries [`HOSTCALL_WAKE`], the host afterwards asks the engine to wake the process; otherwise
//!    the device polls the first 16 bytes.
//!    Other processes may be held up until a call is answered: by a lane that waits on the spot, or because they go on
//!    together with the caller. [`HOSTCALL_PATIENT`] says that none are. Without it the answer must not depend on what
//!    other processes do: a [`PATH_OPEN`](number::PATH_OPEN) that has to wait until others close files gets
//!    [`HOSTCALL_LATER`] as its error number, and is to be sent again with [`HOSTCALL_WAKE`] and [`HOSTCALL_PATIENT`].
//!    So is an [`FD_READ`](number::FD_READ) that finds nothing to read in standard input under a number beyond 2.
//! 7. Between rule 3's stores and rule 5's, slot and area belong to the host. A second entry for the slot in that
//!    time is counted as bad and dropped, and changes no sequence.
//! 8. The host does not check whether two calls use the same area: a device that gives an area to two calls harms
//!    those two.
//!
//! **Two things that end a process.** [`EXIT`](number::EXIT) closes its descriptors; requests that it sends afterwards
//! are not served (`errno` is `ERRNO_SRCH`). An `EXIT` is answered before the host reports the end to anyone, so that the
//! slot is free for the next process of the same place, and the device need not wait for the answer. A killed process
//! whose request has not been answered gets its answer as usual: the device must keep the slot until then.

mod declare;
mod document;
mod entry;
pub mod table;

pub use declare::{
    Answer, Argument, ArgumentDescription, BadCall, CallDescription, Fd, Payload, Waits,
};
pub use document::{write_calls, write_reference};
pub use entry::{EntryFields, is_of_lap};
pub use table::{ARGUMENTS_MOST, CALLS, HostCall, NUMBERS, name, number};

use crate::layout::DevPtr;

crate::dev_consts! {
    /// Writes the host calls' constants as CUDA C++.
    pub fn write_consts;
    /// Bytes of an area: two paths of the longest kind.
    pub const HOSTCALL_DATA_BYTES = 8192;
    /// Bytes of each slot for payload and reply.
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
    /// In an entry's second word: the lowest of the highest bits of arguments 1, 3 and 5. The lap parity has their place
    /// in their own words.
    pub const HOSTCALL_HIGH_SHIFT = 59;
    /// In a call: the process is parked and wants to be woken when the answer is there.
    pub const HOSTCALL_WAKE = 1 << 7;
    /// In a call: no other process is held up until it is answered, so it may wait for what others do.
    pub const HOSTCALL_PATIENT = 1 << 6;
    /// An error number that no process sees: the call has to wait, and is to be sent again with [`HOSTCALL_PATIENT`].
    pub const HOSTCALL_LATER = 0xffff;
    /// The most subscriptions of one `POLL_ONEOFF`: as many as fit an area.
    pub const HOSTCALL_POLL_MAX = HOSTCALL_DATA_BYTES / 48;
    /// The most addresses that `NET_LOOK_UP` brings back.
    pub const HOSTCALL_ADDRESSES_MAX = 64;
    /// In `EXIT`: the process returned, or called `proc_exit` with the code in the second argument.
    pub const EXIT_NORMAL = 0;
    /// In `EXIT`: the process trapped.
    pub const EXIT_TRAP = 1;
    /// In `EXIT`: the process was killed.
    pub const EXIT_KILLED = 2;
    /// In `EXIT`: the process has used all its fuel.
    pub const EXIT_OUT_OF_FUEL = 3;
    /// In `EXIT`: the memory that the process starts with could not be had.
    pub const EXIT_OUT_OF_MEMORY = 4;
}

crate::dev_struct! {
    /// A slot: the answer of the host, and room for payload and reply.
    pub struct DevHostCall: align 256, size 256 {
        /// The sequence of the last use that has been answered.
        pub status: u32,
        /// The WASI error number; 0 for success.
        pub errno: u16,
        /// Bytes of reply.
        pub reply_bytes: u16,
        /// What the call returns.
        pub values: [u64; 3],
        /// The sequence of the last use whose caller has stopped looking for the answer and has to be woken. It is the only
        /// word on the cache line of the answer that the device writes, and it seldom does.
        pub given_up: u64,
        /// Padding.
        pub reserved: [u64; 3],
        /// Payload and reply of a call without an area.
        pub data: [u8; 192],
    }
}

crate::dev_struct! {
    /// A place of the submission queue: see [`EntryFields::encode`].
    pub struct DevHostCallEntry: align 64, size 64 {
        /// Four pieces of two words.
        pub words: [u64; 8],
    }
}

crate::dev_struct! {
    /// Where the host calls' memory is, in the device's addresses; constant while it is in use.
    pub struct DevHostCallRing: align 8, size 48 {
        /// Slots, in host memory; null where the host serves no calls.
        pub slots: DevPtr<DevHostCall>,
        /// Areas, in host memory: `[area][HOSTCALL_DATA_BYTES]`.
        pub areas: DevPtr<u8>,
        /// The submission queue, in host memory.
        pub entries: DevPtr<DevHostCallEntry>,
        /// In device memory: the queue's tail, free-running, in the upper half; below it the number of calls that
        /// their callers want counted, which the protocol does not ask for. Both change by one atomic.
        pub tail: DevPtr<u64>,
        /// One bit for each free area, in device memory.
        pub free: DevPtr<u32>,
        /// Number of entries, a power of two.
        pub entry_count: u32,
        /// Number of areas, a multiple of 32.
        pub area_count: u32,
    }
}

/// The first word of an answer.
pub const fn answer_head(status: u32, errno: u16, reply_bytes: u16) -> u64 {
    status as u64 | (errno as u64) << 32 | (reply_bytes as u64) << 48
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
