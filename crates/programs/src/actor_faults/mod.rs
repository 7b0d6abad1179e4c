//! `actor_faults`: actors for tests that fail, are restarted, and undo what they did.

#[path = "actor_faults.rs"]
mod twin;

use std::time::Duration;

use everwarp::actor::{ActorConfig, ActorError, ActorSystem, actors};
use everwarp::{Buffer, DevPtr, Engine, dev_struct};

use twin::{atomic, careful, ends, latest, patient, stubborn};

dev_struct! {
    /// Parameters of `actor_faults`.
    pub struct DevFaults: align 16, size 16 {
        /// For each place, how often a handler was called for it. Failures do not undo it.
        pub calls: DevPtr<u64>,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

dev_struct! {
    /// The state of an actor.
    pub struct DevFaulty: align 16, size 32 {
        /// The sum of what it was told.
        pub sum: u64,
        /// The actor to which it sends.
        pub other: u64,
        /// Replies, failures of asks (times 1,000).
        pub replies: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

actors! {
    /// The program.
    pub static FAULTS: actor_faults(DevFaults), "actor_faults.cu"; wgsl "actor_faults.wgsl" {
        /// Ends when it fails.
        ENDS: lane(ends: DevFaulty).mailbox(100).sends(4),
        /// Is restarted up to three times a day.
        CAREFUL: lane(careful: DevFaulty).mailbox(100).sends(4).restarts(3, Duration::from_secs(86_400)),
        /// Is restarted for ever, and undoes what a failed handler did.
        ATOMIC: lane(atomic: DevFaulty).mailbox(100).sends(4).atomic().restarts(u32::MAX, Duration::from_secs(1)),
        /// Handles a message up to three times.
        STUBBORN: lane(stubborn: DevFaulty).mailbox(100).sends(4).retries(2).restarts(u32::MAX, Duration::from_secs(1)),
        /// The same, and undoes what a failed handler did.
        PATIENT: lane(patient: DevFaulty)
            .mailbox(100)
            .sends(4)
            .atomic()
            .retries(2)
            .restarts(u32::MAX, Duration::from_secs(1)),
        /// Keeps its last four messages.
        LATEST: lane(latest: DevFaulty).mailbox(4).sends(4).keep_latest(),
    }
}

/// Adds word 0.
pub const ADD: u8 = 1;
/// Replies with the sum and the replies.
pub const GET: u8 = 2;
/// Sends to actor word 0 from now on.
pub const LINK: u8 = 3;
/// Adds word 0, sends it to the other actor, replies, and fails.
pub const FAIL_LATE: u8 = 4;
/// Adds word 0, passes the message on, and fails.
pub const FAIL_FORWARD: u8 = 5;
/// Adds word 0, asks the other one, and fails.
pub const FAIL_ASK: u8 = 6;
/// Asks the other one with message word 0; a reply adds 1 to the replies, a failure 1,000.
pub const ASK: u8 = 7;
/// Adds word 0, sends it to the other actor, and replies.
pub const PASS: u8 = 8;
/// Adds word 0, tells the other one to add 1, replies with the number of calls for place word 1, and fails up to call word 2.
pub const FAIL_UP_TO: u8 = 9;
/// Without another actor, replies with word 1. Otherwise replies with nonsense and fails in the first call for place word 0,
/// and passes the message on in the second.
pub const FAIL_ONCE: u8 = 10;

/// Starts a system with places for `calls`, all zeros.
///
/// # Errors
/// Those of [`ActorSystem::start`].
pub fn start(engine: &Engine, places: usize) -> Result<(ActorSystem, Buffer<u64>), ActorError> {
    let calls = engine.buffer_from(&vec![0; places])?;
    let params = DevFaults {
        calls: calls.ptr(),
        reserved: 0,
    };
    // SAFETY: the caller drops the table after the system, as it gets them in this order, and messages name its places only.
    let system =
        unsafe { ActorSystem::start_with(engine, &FAULTS, &params, ActorConfig::default()) }?;
    Ok((system, calls))
}
