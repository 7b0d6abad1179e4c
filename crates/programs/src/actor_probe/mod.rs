//! `actor_probe`: actors for tests, which do one thing for each tag.

#[path = "actor_probe.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, actors};
use everwarp::{Engine, dev_struct};

use twin::{narrow, wide};

dev_struct! {
    /// The state of an actor.
    pub struct DevProbeNode: align 16, size 64 {
        /// The sum of what it was told.
        pub sum: u64,
        /// How many such messages there were.
        pub count: u64,
        /// The next actor.
        pub next: u64,
        /// What was wrong.
        pub errors: u64,
        /// The next number that each of four senders must send.
        pub expected: [u64; 4],
    }
}

actors! {
    /// The program.
    pub static PROBE: actor_probe(), "actor_probe.cu"; wgsl "actor_probe.wgsl" {
        /// A mailbox of four messages.
        NARROW: lane(narrow: DevProbeNode).mailbox(4).sends(4),
        /// A mailbox of 4,000 messages.
        WIDE: lane(wide: DevProbeNode).mailbox(4000).sends(4),
    }
}

/// Adds word 0 to the sum.
pub const ADD: u8 = 1;
/// Replies with sum, count and errors.
pub const GET: u8 = 2;
/// Sets the next actor.
pub const LINK: u8 = 3;
/// Passes word 0 on, word 1 times, and adds it there.
pub const PASS: u8 = 4;
/// Sends the next actor the numbers from word 1 to word 2 as sender word 0.
pub const BURST: u8 = 5;
/// Number word 1 of sender word 0, which must come in order.
pub const NUMBER: u8 = 6;
/// Fails.
pub const FAIL: u8 = 7;
/// Stops.
pub const STOP: u8 = 8;
/// Does nothing, also not reply.
pub const QUIET: u8 = 9;
/// Forwards the message to the next actor; without a next actor, replies as `GET`.
pub const FORWARD: u8 = 10;
/// Launches an actor of kind word 0, and has it add word 1.
pub const LAUNCH: u8 = 11;
/// Asks the next actor for its sum, and adds it; or adds 1,000 and the reason to the errors.
pub const ASK: u8 = 12;
/// Kills the next actor.
pub const KILL: u8 = 13;
/// Stops the next actor once it has handled its messages.
pub const STOP_LATER: u8 = 14;
/// Sends more messages than the kind declares.
pub const TOO_MANY: u8 = 15;
/// Tries to send the next actor word 0 to be added; counts as an error if it is full.
pub const TRY: u8 = 16;

/// Starts a system with these limits.
///
/// # Errors
/// Those of [`ActorSystem::start`].
pub fn start(engine: &Engine, actors: u32, messages: u32) -> Result<ActorSystem, ActorError> {
    let config = ActorConfig {
        actors,
        messages,
        ..ActorConfig::default()
    };
    ActorSystem::start(engine, &PROBE, config)
}

/// Links actors to a ring.
///
/// # Errors
/// Those of [`ActorSystem::tell_all`].
pub fn ring(system: &ActorSystem, actors: &[ActorId]) -> Result<(), ActorError> {
    let next = actors.iter().cycle().skip(1);
    let links = actors.iter().zip(next);
    let tells: Vec<_> = links
        .map(|(&actor, next)| everwarp::actor::Tell::new(actor, LINK, &[next.bits()]))
        .collect();
    system.tell_all(&tells)
}
