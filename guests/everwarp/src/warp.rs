//! The warp that this process runs in: up to 32 processes. A call concerns those that execute it at the same moment.
//!
//! This set may differ from call to call. It may be this process alone, as it always is on the CPU engine.

use crate::raw;

/// This process's lane in its warp, from 0 to 31. It may differ after any call that waits.
pub fn lane() -> u32 {
    raw::lane()
}

/// A number of the warp.
pub fn warp() -> u32 {
    raw::warp()
}

/// The lanes that are together, a bit for each; this process's own is set.
pub fn active() -> u32 {
    raw::active()
}

/// The votes of the lanes that are together, a bit for each lane.
pub fn ballot(vote: bool) -> u32 {
    raw::ballot(vote.into())
}

/// The value of a lane that is together with this one; this process's own value if it is not.
pub fn shuffle(value: u64, lane: u32) -> u64 {
    raw::shuffle(value, lane)
}
