//! Numbers that several modules agree on.

use everwarp_contract::hostcall::HOSTCALL_DATA_BYTES;

/// The most bytes that one request sends along or brings back.
pub const DATA_BYTES: usize = HOSTCALL_DATA_BYTES as usize;

/// Processes whose slots are next to each other have mostly been started together and do the same at about the same
/// time. This many slots count as neighbours.
pub(crate) const NEIGHBOURS: u32 = 32;

/// The descriptors that every process starts with: standard input, output and error.
pub(crate) const STREAMS: usize = 3;

/// Descriptors that this program needs for itself: streams, directories that processes are given, the engine's.
pub(crate) const OWN_DESCRIPTORS: u64 = 256;

/// The places that a process gets with the first file that it opens: one for the file, and one that is kept for it.
pub(crate) const FIRST_PLACES: u64 = 2;
