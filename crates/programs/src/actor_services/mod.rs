//! `actor_services`: actors for tests that use what is next to messages: deadlines, timers, monitors and links.

#[path = "actor_services.rs"]
mod twin;

use std::sync::LazyLock;
use std::time::Duration;

use everwarp::actor::{ActorProgram, Kind, actors};
use everwarp::{DevNone, Params, dev_struct};

use crate::WideKind;
use twin::{agent, careful, each};

dev_struct! {
    /// The state of an actor.
    pub struct DevAgent: align 16, size 96 {
        /// The sum of what it was told.
        pub sum: u64,
        /// The actor that it asks and tells.
        pub other: u64,
        /// Its asks that ended with a reply.
        pub replies: u64,
        /// Its asks that ended at their deadline.
        pub timeouts: u64,
        /// Its asks that ended otherwise without a reply.
        pub failures: u64,
        /// Ends of other actors, and 1,000 times the sum of how they ended.
        pub downs: u64,
        /// Messages of timers.
        pub ticks: u64,
        /// Its last timer.
        pub timer: u64,
        /// The number of the last monitor, ask or timer whose message it has handled.
        pub last: u64,
        /// How often a timer's number was smaller than the one before it.
        pub disorder: u64,
        /// How often it has monitored the other actor to pass a message on.
        pub passed: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

actors! {
    /// Actors that use what is next to messages.
    pub static SERVICES: actor_services(), "actor_services.cu" {
        /// Ends when it fails.
        AGENT: lane(agent: DevAgent).mailbox(64).sends(3).services(),
        /// Undoes what fails, and goes on.
        CAREFUL: lane(careful: DevAgent).mailbox(64).sends(3).atomic().restarts(1_000_000, Duration::from_secs(3600)).services(),
    }
}

/// The same actors of warp shape.
pub static WARPS: LazyLock<ActorProgram> =
    LazyLock::new(|| wide("actor_services_warps", Kind::warp));
/// The same actors of block shape.
pub static BLOCKS: LazyLock<ActorProgram> =
    LazyLock::new(|| wide("actor_services_blocks", Kind::block));

/// The kinds of [`SERVICES`] with another shape, in their order. A call may be of 32 messages, and each of them sends up to three; a
/// kind cannot say more than 92.
fn wide(name: &'static str, shape: WideKind) -> ActorProgram {
    let (state, bytes) = (Params::of::<DevAgent>(), size_of::<DevAgent>());
    let kind = |name| shape(name, state.clone(), bytes, each).mailbox(64);
    let kind = |name| kind(name).sends(92).services();
    let careful = kind("careful").atomic();
    let careful = careful.restarts(1_000_000, Duration::from_secs(3600));
    let source = concat!(
        include_str!("actor_services.cu"),
        include_str!("actor_services_wide.cu")
    );
    let (kinds, params) = (vec![kind("agent"), careful], Params::of::<DevNone>());
    ActorProgram::new(name.into(), kinds.into(), source.into(), "".into(), params)
}

/// The same actors, and a kind for actors of the host.
pub static PARTS: LazyLock<ActorProgram> =
    LazyLock::new(|| SERVICES.with_kinds([Kind::host("host")]));
/// A program that has actors of the host only.
pub fn hosts() -> ActorProgram {
    ActorProgram::closures("hosts", vec![Kind::host("host")])
}
/// The kind of the actors of the host in [`PARTS`].
pub const HOST: u32 = 2;

/// Adds word 0 to the sum.
pub const ADD: u8 = 1;
/// Replies with the sum, the ticks, the downs and the disorder.
pub const GET: u8 = 2;
/// Word 0 is the other actor from now on.
pub const LINK_TO: u8 = 3;
/// Monitors word 0 with the number word 1.
pub const MONITOR: u8 = 4;
/// Ends the monitors on word 0.
pub const DEMONITOR: u8 = 5;
/// Links itself with word 0.
pub const LINK: u8 = 6;
/// Ends the link with word 0.
pub const UNLINK: u8 = 7;
/// Asks the other actor, with the number word 0, within word 1 nanoseconds.
pub const ASK_WITHIN: u8 = 8;
/// Sends itself a tick with word 1 after word 0 nanoseconds.
pub const AFTER: u8 = 9;
/// The same each time that word 0 nanoseconds have passed.
pub const EVERY: u8 = 10;
/// Cancels its last timer.
pub const CANCEL: u8 = 11;
/// A timer's message.
pub const TICK: u8 = 12;
/// Stops.
pub const STOP: u8 = 13;
/// Tells and monitors the other actor, and fails.
pub const FAIL: u8 = 14;
/// Monitors the other actor twice and tells it word 0.
pub const PASS: u8 = 15;
