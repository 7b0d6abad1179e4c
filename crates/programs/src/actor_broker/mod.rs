//! `actor_broker`: actors for tests that use channels, keep asks and pass payloads on.

#[path = "actor_broker.rs"]
mod twin;

use std::sync::LazyLock;
use std::time::Duration;

use everwarp::actor::{ActorProgram, Kind, actors};
use everwarp::{DevNone, Params, dev_struct};

use crate::WideKind;
use twin::{broker, careful, carrier, carriers, steady, worker, workers};

dev_struct! {
    /// A job, which channels carry.
    pub struct DevJob: align 8, size 24 {
        /// Its number.
        pub number: u64,
        /// Its weight.
        pub weight: f64,
        /// Who sent it.
        pub sender: u32,
        /// Spelled-out hole.
        pub reserved: u32,
    }
}

dev_struct! {
    /// The state of a worker.
    pub struct DevPorter: align 16, size 96 {
        /// The channel from which it passes jobs on, or 0.
        pub from: u64,
        /// The channel to which it passes them on, or 0.
        pub to: u64,
        /// Jobs received.
        pub received: u64,
        /// The sum of their numbers.
        pub sum: u64,
        /// The sum of their weights.
        pub weight: f64,
        /// Jobs that a channel has taken from it.
        pub sent: u64,
        /// Jobs that it did not send, because an earlier one waited.
        pub refused: u64,
        /// What ended because a channel is closed.
        pub closed: u64,
        /// How often a job's number was smaller than the one before it.
        pub disorder: u64,
        /// The number of the last job.
        pub last: u64,
        /// Its own numbers of what has ended, added up.
        pub numbers: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

/// How many asks a broker knows.
pub const MOST_KEPT: usize = 8;

dev_struct! {
    /// The state of a broker.
    pub struct DevBroker: align 16, size 96 {
        /// The asks that it keeps, the oldest first.
        pub kept: [u64; 8],
        /// How many there are.
        pub count: u64,
        /// Its timer.
        pub timer: u64,
        /// Messages of timers.
        pub ticks: u64,
        /// Those of them that were not its timer's.
        pub strange: u64,
    }
}

dev_struct! {
    /// The state of a carrier.
    pub struct DevCarrier: align 16, size 48 {
        /// The actor to which it passes buffers on, or 0.
        pub next: u64,
        /// Messages handled.
        pub count: u64,
        /// The sum of the elements that it has seen.
        pub sum: u64,
        /// The sum of the buffers' lengths.
        pub elements: u64,
        /// Messages without a payload.
        pub plain: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

/// What the channels carry.
const JOB: &[Params] = &[Params::of::<DevJob>()];

actors! {
    /// Actors that use channels, that keep asks, and that pass payloads on.
    pub static BROKERS: actor_broker(), "actor_broker.cu" {
        /// Receives jobs from channels and sends them to others.
        WORKER: lane(worker: DevPorter).mailbox(64).sends(2).services().carries(JOB),
        /// Keeps asks. It begins anew when it fails.
        BROKER: lane(broker: DevBroker).mailbox(64).sends(8).restarts(1_000_000, Duration::from_secs(3600)).keeps(),
        /// The same, and what fails is undone.
        CAREFUL: lane(careful: DevBroker).mailbox(64).sends(8).atomic().restarts(1_000_000, Duration::from_secs(3600)).keeps(),
        /// Adds the elements of buffers, increments them, and passes the buffers on. It begins anew when it fails.
        CARRIER: lane(carrier: DevCarrier).mailbox(16).sends(2).restarts(1_000_000, Duration::from_secs(3600)).services(),
        /// The same, and what fails is undone and tried once more.
        STEADY: lane(steady: DevCarrier).mailbox(16).sends(2).atomic().retries(1).restarts(1_000_000, Duration::from_secs(3600)).services(),
    }
}

/// The same actors, with workers and carriers of warp shape.
pub static WARPS: LazyLock<ActorProgram> = LazyLock::new(|| wide("actor_broker_warps", Kind::warp));
/// The same actors, with workers and carriers of block shape.
pub static BLOCKS: LazyLock<ActorProgram> =
    LazyLock::new(|| wide("actor_broker_blocks", Kind::block));

/// The kinds of [`BROKERS`] in their order, with another shape of those that keep no asks. A call may be of as many messages as a
/// mailbox has.
fn wide(name: &'static str, shape: WideKind) -> ActorProgram {
    let forever = Duration::from_secs(3600);
    let carrier = |name, sends| {
        let (state, bytes) = (Params::of::<DevCarrier>(), size_of::<DevCarrier>());
        let kind = shape(name, state, bytes, carriers).mailbox(16).services();
        kind.sends(sends).restarts(1_000_000, forever)
    };
    let (state, bytes) = (Params::of::<DevPorter>(), size_of::<DevPorter>());
    let worker = shape("worker", state, bytes, workers).mailbox(64);
    let kinds = vec![
        worker.sends(64).services().carries(JOB),
        BROKERS.kinds[BROKER as usize].clone(),
        BROKERS.kinds[CAREFUL as usize].clone(),
        carrier("carrier", 32),
        carrier("steady", 32).atomic().retries(1),
    ];
    let source = concat!(
        include_str!("actor_broker.cu"),
        include_str!("actor_broker_wide.cu")
    );
    let params = Params::of::<DevNone>();
    ActorProgram::new(name.into(), kinds.into(), source.into(), "".into(), params)
}

/// Receives a job from channel word 0; word 1, which is even, is the worker's number for that.
pub const RECEIVE: u8 = 1;
/// Sends a job with the number word 2 and the weight word 3 to channel word 0; word 1, which is odd, is the worker's number.
pub const SEND: u8 = 2;
/// Closes channel word 0.
pub const CLOSE: u8 = 3;
/// Receives a number from channel word 0.
pub const WRONG: u8 = 4;
/// From now on passes jobs from channel word 0 on to channel word 1, with twice their weight, until the first one is closed;
/// then closes the second one.
pub const PIPE: u8 = 5;

/// Is replied to later.
pub const WAIT: u8 = 1;
/// Replies to the oldest word 0 asks, with word 1 and what follows it.
pub const SERVE: u8 = 2;
/// Replies with the number of asks that the broker knows, and that it keeps.
pub const COUNT: u8 = 3;
/// As `WAIT`, and fails.
pub const WAIT_AND_FAIL: u8 = 4;
/// As `SERVE`, and fails.
pub const SERVE_AND_FAIL: u8 = 5;
/// Sends itself a tick after word 0 nanoseconds.
pub const AFTER: u8 = 6;
/// Cancels its timer, and has none.
pub const CANCEL: u8 = 7;
/// A timer's message.
pub const TICK: u8 = 8;
/// Word 0 is the next actor from now on.
pub const NEXT: u8 = 1;
/// Has a buffer: adds and increments its elements, and passes it on if there is a next actor.
pub const FRAME: u8 = 2;
/// Is passed on as it is.
pub const FORWARD: u8 = 3;
/// Is passed on, and the handler fails.
pub const FORWARD_AND_FAIL: u8 = 4;
/// Fails.
pub const FAIL: u8 = 5;
/// Is passed on twice: the second message has no payload.
pub const TWICE: u8 = 6;
