//! Handlers for GPUs that are made at run time: those of WebAssembly modules.

use std::fmt;
use std::sync::Arc;

use everwarp_contract::DevActorControl;
use everwarp_contract::actor::ACTOR_FAILURES;

use crate::failures::Failure;
use crate::id::ActorId;

/// Bytes of a module's state before its memory: the first is 1 once the memory has its first content. A launch and a restart
/// only clear the state. On a GPU the others say what the actor keeps: see `actor/kept.cuh`.
pub const MODULE_HEADER: u32 = 16;

/// The handler of a kind in CUDA C++.
#[derive(Clone)]
pub struct DeviceHandler {
    /// Device source that defines `handle(ew::Actor&, u32 kind)`. It gets a namespace of its own.
    pub source: String,
    /// Bytes of a state on a GPU.
    pub state_bytes: u32,
    /// Whether its actors keep asks or have timers, which only programs with services can have.
    pub lists: bool,
    /// The reason of a failure in words.
    pub reason: Arc<dyn Fn(FailedModule) -> String + Send + Sync>,
}

impl fmt::Debug for DeviceHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceHandler")
            .field("state_bytes", &self.state_bytes)
            .finish_non_exhaustive()
    }
}

/// What a GPU keeps about a handler that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedModule {
    /// Why: one of [`reasons`].
    pub reason: u32,
    /// The function that failed, or more about the reason.
    pub place: u32,
    /// The tag of a message that the reason is about, or 0.
    pub tag: u8,
}

/// Why handlers fail on a GPU.
pub mod reasons {
    /// The most asks that an actor keeps whose handler is a module, and the most timers that it has, on every engine.
    pub use everwarp_contract::actor::{MODULE_KEPT_MOST, MODULE_TIMERS_MOST};

    pub use everwarp_contract::actor::{
        MODULE_CONVERSION, MODULE_DIVISION, MODULE_FAIL, MODULE_FUEL, MODULE_KEPT, MODULE_MEMORY,
        MODULE_NULL, MODULE_OVERFLOW, MODULE_REPLY, MODULE_SENDS, MODULE_SIGNATURE, MODULE_TABLE,
        MODULE_TIME, MODULE_TIMERS, MODULE_UNANSWERED, MODULE_UNHANDLED, MODULE_UNREACHABLE,
    };
}

/// Words of a failure in the control words.
const RECORD: usize = 3;

/// The failures in the control words of a system, the oldest first, and how many there were. One that is being written is
/// left out.
pub(crate) fn failures(
    control: &DevActorControl,
    device: &[Option<Arc<DeviceHandler>>],
) -> (Vec<Failure>, u64) {
    const { assert!(RECORD * ACTOR_FAILURES as usize == 192, "the control words") };
    let count = control.failed;
    let first = count.saturating_sub(ACTOR_FAILURES.into());
    let kept = (first..count).filter_map(|number| {
        let at = RECORD * (number % u64::from(ACTOR_FAILURES)) as usize;
        let [actor, what, last] = control.failures[at..].first_chunk().copied()?;
        if last >> 32 != u64::from((number + 1) as u32) {
            return None;
        }
        let handler = device.get((what >> 32) as usize)?.as_ref()?;
        let failed = FailedModule {
            reason: what as u8 as u32,
            place: last as u32,
            tag: (what >> 16) as u8,
        };
        Some(Failure {
            actor: ActorId::from_bits(actor),
            tag: (what >> 8) as u8,
            reason: (handler.reason)(failed),
        })
    });
    (kept.collect(), count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everwarp_contract::DevType;

    #[test]
    fn last_failures_are_read_and_unfinished_ones_are_left_out() {
        let mut control = DevActorControl::ZERO;
        let limit = u64::from(ACTOR_FAILURES);
        control.failed = limit + 3;
        for number in 0..control.failed {
            let at = RECORD * (number % limit) as usize;
            control.failures[at] = 100 + number;
            control.failures[at + 1] = 9 << 16 | 7 << 8 | u64::from(reasons::MODULE_FAIL);
            control.failures[at + 2] = (number + 1) << 32 | 5;
        }
        let reason =
            |failed: FailedModule| format!("{} {} {}", failed.reason, failed.place, failed.tag);
        let handler = DeviceHandler {
            source: String::new(),
            state_bytes: 16,
            lists: false,
            reason: Arc::new(reason),
        };
        let device = [Some(Arc::new(handler))];
        let (all, count) = failures(&control, &device);
        assert_eq!((all.len() as u64, count), (limit, limit + 3));
        assert_eq!(all[0].actor.bits(), 103);
        assert_eq!((all[0].tag, &*all[0].reason), (7, "10 5 9"));
        // One is being written, and one names a kind that does not exist.
        control.failures[2] = 0;
        control.failures[4] |= 9 << 32;
        assert_eq!(failures(&control, &device).0.len() as u64, limit - 2);
    }
}
