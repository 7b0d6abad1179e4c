//! `actor_groups`: actors for tests of supervised groups.

#[path = "actor_groups.rs"]
mod twin;

use std::sync::LazyLock;
use std::time::Duration;

use everwarp::actor::{ActorConfig, ActorError, ActorProgram, ActorSystem, Kind, actors};
use everwarp::{Buffer, DevPtr, Engine, Params, dev_struct};

use crate::WideKind;
use twin::{careful, each, member, stubborn};

dev_struct! {
    /// Parameters of `actor_groups`.
    pub struct DevGroupParams: align 16, size 16 {
        /// For each place, how often a handler was called for it. Failures do not undo it.
        pub calls: DevPtr<u64>,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

dev_struct! {
    /// The state of an actor.
    pub struct DevMember: align 16, size 32 {
        /// The sum of what it was told.
        pub sum: u64,
        /// Messages that it has handled.
        pub handled: u64,
        /// The actor that it tells.
        pub other: u64,
        /// Ends of other actors, and 1,000 times the sum of how they ended.
        pub downs: u64,
    }
}

actors! {
    /// Actors of groups.
    pub static GROUPS: actor_groups(DevGroupParams), "actor_groups.cu" {
        /// Only its group restarts it.
        MEMBER: lane(member: DevMember).mailbox(64).sends(2).services(),
        /// Undoes what fails, and is restarted once a day without its group.
        CAREFUL: lane(careful: DevMember).mailbox(64).sends(2).atomic().restarts(1, Duration::from_secs(86_400)).services(),
        /// Handles a message up to three times, if its group restarts it.
        STUBBORN: lane(stubborn: DevMember).mailbox(64).sends(2).retries(2).services(),
    }
}

/// The same actors of warp shape.
pub static WARPS: LazyLock<ActorProgram> = LazyLock::new(|| wide("actor_groups_warps", Kind::warp));
/// The same actors of block shape.
pub static BLOCKS: LazyLock<ActorProgram> =
    LazyLock::new(|| wide("actor_groups_blocks", Kind::block));

/// The kinds of [`GROUPS`] with another shape, in their order, and then [`PATIENT`]. A call may be of 32 messages.
fn wide(name: &'static str, shape: WideKind) -> ActorProgram {
    let (state, bytes) = (Params::of::<DevMember>(), size_of::<DevMember>());
    let kind = |name| shape(name, state.clone(), bytes, each).mailbox(64);
    let kind = |name, sends| kind(name).sends(sends).services();
    let careful = kind("careful", 32).atomic();
    let kinds = vec![
        kind("member", 32),
        careful.restarts(1, Duration::from_secs(86_400)),
        kind("stubborn", 8).retries(2),
        kind("patient", 8).atomic().retries(2),
    ];
    let source = concat!(
        include_str!("actor_groups.cu"),
        include_str!("actor_groups_wide.cu")
    );
    let params = Params::of::<DevGroupParams>();
    ActorProgram::new(name.into(), kinds.into(), source.into(), "".into(), params)
}

/// The kind in [`WARPS`] and [`BLOCKS`] that is as [`STUBBORN`], and undoes what fails.
pub const PATIENT: u32 = 3;

/// The same actors, and a kind for actors of the host.
pub static WITH_HOSTS: LazyLock<ActorProgram> =
    LazyLock::new(|| GROUPS.with_kinds([Kind::host("host")]));

/// Adds word 0.
pub const ADD: u8 = 1;
/// Replies with the sum, the messages handled and the downs.
pub const GET: u8 = 2;
/// Word 0 is the other actor from now on.
pub const LINK_TO: u8 = 3;
/// Adds word 0, tells the other actor to do the same, and fails.
pub const FAIL: u8 = 4;
/// Stops.
pub const STOP: u8 = 5;
/// Fails up to call word 1 for place word 0, and then adds the number of the call and replies with it; if word 2 is not 0,
/// it replies first.
pub const FAIL_UP_TO: u8 = 6;
/// Monitors word 0.
pub const MONITOR: u8 = 7;
/// Stops and fails.
pub const FAIL_AND_STOP: u8 = 8;

/// Starts a system of one of these programs with places for `calls`, all zeros.
///
/// # Errors
/// Those of [`ActorSystem::start`].
pub fn start(
    engine: &Engine,
    program: &ActorProgram,
    places: usize,
) -> Result<(ActorSystem, Buffer<u64>), ActorError> {
    let calls = engine.buffer_from(&vec![0; places])?;
    let params = DevGroupParams {
        calls: calls.ptr(),
        reserved: 0,
    };
    let config = ActorConfig::default();
    // SAFETY: the caller drops the table after the system, as it gets them in this order, and messages name its places only.
    let system = unsafe { ActorSystem::start_with(engine, program, &params, config) }?;
    Ok((system, calls))
}
