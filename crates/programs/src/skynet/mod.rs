//! `skynet`: a tree of actors that launch up to ten others each; the leaves' numbers are added on the way back.

mod entry;
#[path = "skynet.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorSystem, actors};
use everwarp::{Engine, dev_struct};

use twin::node;

pub use entry::Skynet;

dev_struct! {
    /// The state of an actor.
    pub struct DevSkynetNode: align 16, size 16 {
        /// The sum of the numbers that have come back.
        pub sum: u64,
        /// Children that have not answered.
        pub pending: u64,
    }
}

actors! {
    /// The program.
    pub static SKYNET: skynet(), "skynet.cu"; wgsl "skynet.wgsl" {
        /// A node of the tree.
        NODE: lane(node: DevSkynetNode).mailbox(16).sends(10),
    }
}

/// Takes the numbers from word 0 on, word 1 of them.
const START: u8 = 1;
/// The sum of a child's numbers.
const SUM: u8 = 2;

/// The sum of the first n numbers.
pub const fn reference(n: u32) -> u64 {
    (n as u64).saturating_sub(1) * n as u64 / 2
}

/// How many actors take part: the leaves, and all above them.
pub fn actors(n: u32) -> u32 {
    let mut all = 1;
    let mut level = n;
    while level > 1 {
        all += level;
        level = level.div_ceil(10);
    }
    all + 10
}

/// A system that is ready to run.
#[derive(Debug)]
pub struct Tree {
    system: ActorSystem,
    n: u32,
}

impl Tree {
    /// Prepares a tree over n numbers.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, n: u32) -> Result<Self, ActorError> {
        let config = ActorConfig {
            // The parts of a level differ by one, so that the tree may have a level more than one of a power of ten.
            actors: 2 * actors(n) + 1,
            messages: 2 * actors(n) + 64,
            ..ActorConfig::default()
        };
        let system = ActorSystem::start(engine, &SKYNET, config)?;
        Ok(Self { system, n })
    }
    /// Launches the root, which launches all others, and returns the sum when all have ended.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self) -> Result<u64, ActorError> {
        let root = self.system.launch(NODE)?;
        self.system.tell(root, START, &[0, self.n.into()])?;
        self.system.settle()?;
        let sum = self.system.state::<DevSkynetNode>(root)?.sum;
        self.system.kill(&[root])?;
        Ok(sum)
    }
}
