//! `actor_faults`: actors for tests that fail, are restarted, and undo what they did.

#[path = "actor_faults.rs"]
mod twin;

use std::time::Duration;

use everwarp::actor::actors;
use everwarp::dev_struct;

use twin::{atomic, careful, ends};

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
    pub static FAULTS: actor_faults() {
        /// Ends when it fails.
        ENDS: lane(ends: DevFaulty).mailbox(100).sends(4),
        /// Is restarted up to three times a day.
        CAREFUL: lane(careful: DevFaulty).mailbox(100).sends(4).restarts(3, Duration::from_secs(86_400)),
        /// Is restarted for ever, and undoes what a failed handler did.
        ATOMIC: lane(atomic: DevFaulty).mailbox(100).sends(4).atomic().restarts(u32::MAX, Duration::from_secs(1)),
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
