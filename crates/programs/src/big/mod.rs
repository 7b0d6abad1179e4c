//! `big`: many actors that send their messages on to others at random.

mod entry;
#[path = "big.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, Column, actors};
use everwarp::{Buffer, DevPtr, Engine, dev_struct};

use twin::peer;

pub use entry::ManyToMany;

dev_struct! {
    /// Parameters of `big`.
    pub struct DevBig: align 16, size 16 {
        /// The ids of all actors.
        pub peers: DevPtr<u64>,
        /// How many there are.
        pub count: u64,
    }
}

dev_struct! {
    /// The state of an actor.
    pub struct DevPeer: align 16, size 16 {
        /// Messages handled.
        pub handled: u64,
        /// Messages that ended here.
        pub ended: u64,
    }
}

actors! {
    /// The program.
    pub static BIG: big(DevBig), "big.cu"; wgsl "big.wgsl" {
        /// Sends a message on word 0 times; word 1 is a random number that says to whom.
        PEER: lane(peer: DevPeer).mailbox(64).sends(1),
    }
}

/// The next random number.
const fn next_random(seed: u64) -> u64 {
    seed.wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}
/// The place of the actor that a random number names.
const fn place(seed: u64, count: u64) -> u64 {
    ((seed >> 32) * count) >> 32
}

/// A system that is ready to run.
#[derive(Debug)]
pub struct Crowd {
    system: ActorSystem,
    /// In the order of their ids: messages of the host to them are sorted then.
    peers: Vec<ActorId>,
    /// The random number of each first message.
    seeds: Vec<u64>,
    _table: Buffer<u64>,
}

impl Crowd {
    /// Prepares n actors.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, n: u32) -> Result<Self, ActorError> {
        let config = ActorConfig {
            actors: n,
            messages: 2 * n + 4096,
            ..ActorConfig::default()
        };
        let table = engine.buffer(n as usize)?;
        let params = DevBig {
            peers: table.ptr(),
            count: n.into(),
        };
        // SAFETY: the table has n ids, which are written before the first message, and is dropped after the system.
        let system = unsafe { ActorSystem::start_with(engine, &BIG, &params, config) }?;
        let mut peers = system.launch_all(PEER, n as usize)?;
        peers.sort_unstable();
        let ids: Vec<_> = peers.iter().map(|peer| peer.bits()).collect();
        table.write(&ids)?;
        Ok(Self {
            system,
            peers,
            seeds: (0..n.into()).map(next_random).collect(),
            _table: table,
        })
    }
    /// Sends a message to each actor; each is sent on `hops` times.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, hops: u32) -> Result<(), ActorError> {
        let words = [Column::All(hops.into()), Column::Each(&self.seeds)];
        self.system.tell_columns(&self.peers, 0, &words)?;
        self.system.settle().map(drop)
    }
    /// How many messages each actor has handled, and how many ended there.
    ///
    /// # Errors
    /// The copy fails.
    pub fn handled(&self) -> Result<Vec<(u64, u64)>, ActorError> {
        let states: Vec<DevPeer> = self.system.states(&self.peers)?;
        Ok(states
            .iter()
            .map(|state| (state.handled, state.ended))
            .collect())
    }
}

/// The same, computed plainly.
pub fn reference(n: u32, hops: u32) -> Vec<(u64, u64)> {
    let mut all = vec![(0, 0); n as usize];
    for i in 0..n {
        let (mut at, mut seed) = (i as usize, next_random(i.into()));
        for _ in 0..hops {
            all[at].0 += 1;
            at = place(seed, n.into()) as usize;
            seed = next_random(seed);
        }
        all[at].0 += 1;
        all[at].1 += 1;
    }
    all
}
