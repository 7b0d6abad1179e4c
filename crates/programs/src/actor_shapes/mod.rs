//! `actor_shapes`: actors of warp and block shape for tests, and actors that send to them.

#[path = "actor_shapes.rs"]
mod twin;

use std::time::Duration;

use everwarp::actor::{ActorConfig, ActorError, ActorSystem, actors};
use everwarp::{Buffer, DevPtr, Engine, dev_struct};

use twin::{atomic, block, latest, narrow, patient, sender, stubborn, warp};

dev_struct! {
    /// Parameters of `actor_shapes`.
    pub struct DevShapes: align 16, size 16 {
        /// For each place, how often a handler was called for it. Failures do not undo it.
        pub calls: DevPtr<u64>,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

/// Senders whose order an actor checks.
pub const SENDERS: usize = 100;

dev_struct! {
    /// The state of an actor.
    pub struct DevShape: align 16, size 928 {
        /// The sum of what it was told.
        pub sum: u64,
        /// How many messages it has handled.
        pub count: u64,
        /// The actor to which it sends.
        pub other: u64,
        /// Messages that came out of order.
        pub errors: u64,
        /// Replies, failures of asks (times 1,000).
        pub replies: u64,
        /// The most messages of a call.
        pub most: u64,
        /// Messages that each warp of a block has seen.
        pub seen: [u64; 8],
        /// The next number of each sender.
        pub expected: [u64; SENDERS],
        /// Spelled-out hole.
        pub reserved: [u64; 2],
    }
}

actors! {
    /// The program.
    pub static SHAPES: actor_shapes(DevShapes), "actor_shapes.cu" {
        /// Ends when it fails.
        WARP: warp(warp: DevShape).mailbox(2000).sends(32),
        /// The same, of a block.
        BLOCK: block(block: DevShape).mailbox(2000).sends(32),
        /// A mailbox of six messages.
        NARROW: warp(narrow: DevShape).mailbox(6).sends(32),
        /// Is restarted for ever, and undoes what a failed call did.
        ATOMIC: warp(atomic: DevShape)
            .mailbox(2000)
            .sends(32)
            .atomic()
            .restarts(u32::MAX, Duration::from_secs(1)),
        /// Is restarted for ever, and handles messages up to three times.
        STUBBORN: warp(stubborn: DevShape)
            .mailbox(2000)
            .sends(16)
            .retries(2)
            .restarts(u32::MAX, Duration::from_secs(1)),
        /// The same of a block, and undoes what a failed call did.
        PATIENT: block(patient: DevShape)
            .mailbox(2000)
            .sends(16)
            .atomic()
            .retries(2)
            .restarts(u32::MAX, Duration::from_secs(1)),
        /// Keeps its last six messages.
        LATEST: warp(latest: DevShape).mailbox(6).sends(32).keep_latest(),
        /// Is of lane shape.
        SENDER: lane(sender: DevShape).mailbox(8).sends(5),
    }
}

/// Adds word 0.
pub const ADD: u8 = 1;
/// Replies with sum, count, errors and replies, once all messages of the call have been added.
pub const GET: u8 = 2;
/// Sends to actor word 0 from now on.
pub const LINK: u8 = 3;
/// Number word 1 of sender word 0, which must come in order.
pub const NUMBER: u8 = 4;
/// Adds word 0, and sends word 0 and word 1 to the other actor as a number.
pub const PASS: u8 = 5;
/// Passes the message on to the other actor as it is; without another actor, replies with word 0.
pub const FORWARD: u8 = 6;
/// Asks the other actor with message word 0; a reply adds 1 to the replies, a failure 1,000.
pub const ASK: u8 = 7;
/// Adds word 0, and fails up to call word 2 for place word 1. The call's other messages fail with it.
pub const FAIL_UP_TO: u8 = 8;
/// Stops.
pub const STOP: u8 = 9;
/// Kills the other actor.
pub const KILL: u8 = 10;
/// Launches a sender and sends to it from now on: first word 0, which it adds.
pub const LAUNCH: u8 = 11;
/// Sends the other actor four numbers from word 1 on as sender word 0. A call may have eight of these where a kind says
/// `sends(32)`.
pub const FOUR: u8 = 12;
/// A sender: sends the other actor the numbers from word 1 to word 2 as sender word 0.
pub const BURST: u8 = 13;

/// Starts a system with places for `calls`, all zeros.
///
/// # Errors
/// Those of [`ActorSystem::start`].
pub fn start(engine: &Engine, places: usize) -> Result<(ActorSystem, Buffer<u64>), ActorError> {
    let calls = engine.buffer_from(&vec![0; places])?;
    let config = ActorConfig {
        actors: 4096,
        messages: 1 << 16,
        ..ActorConfig::default()
    };
    let params = DevShapes {
        calls: calls.ptr(),
        reserved: 0,
    };
    // SAFETY: the caller drops the table after the system, as it gets them in this order, and messages name its places only.
    let system = unsafe { ActorSystem::start_with(engine, &SHAPES, &params, config) }?;
    Ok((system, calls))
}
