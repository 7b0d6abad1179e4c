//! `philosophers`: each needs the two forks next to it to eat. Forks are actors, too. Every philosopher takes the fork with
//! the lower number first, so that they never wait for each other in a circle.

mod entry;
#[path = "philosophers.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, Tell, actors};
use everwarp::{Engine, dev_struct};

use twin::{fork, philosopher};

pub use entry::Philosophers;

dev_struct! {
    /// The state of a philosopher, and of a fork.
    pub struct DevDiner: align 16, size 48 {
        /// The fork that the philosopher takes first; the holder of a fork.
        pub first: u64,
        /// The other fork; the philosopher that waits for a fork.
        pub second: u64,
        /// Meals eaten; how often the fork was taken.
        pub count: u64,
        /// Meals left.
        pub left: u64,
        /// Forks held; rules broken.
        pub held: u64,
        /// Spelled-out hole.
        pub reserved: u64,
    }
}

actors! {
    /// The program.
    pub static PHILOSOPHERS: philosophers(), "philosophers.cu"; wgsl "philosophers.wgsl" {
        /// Takes its forks, eats, and puts them back.
        PHILOSOPHER: lane(philosopher: DevDiner).mailbox(4).sends(3),
        /// Is held by one philosopher at a time.
        FORK: lane(fork: DevDiner).mailbox(8).sends(1),
    }
}

/// To a philosopher: words 0 and 1 are its forks, word 2 the meals.
const SIT: u8 = 1;
/// To a fork.
const TAKE: u8 = 2;
/// To a philosopher: it has the fork.
const TAKEN: u8 = 3;
/// To a fork.
const PUT_BACK: u8 = 4;

/// A table.
#[derive(Debug)]
pub struct Table {
    system: ActorSystem,
    philosophers: Vec<ActorId>,
    forks: Vec<ActorId>,
}

impl Table {
    /// Prepares n philosophers, at least 2.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, n: u32) -> Result<Self, ActorError> {
        let config = ActorConfig {
            actors: 2 * n,
            messages: 16 * n + 4096,
            ..ActorConfig::default()
        };
        let system = ActorSystem::start(engine, &PHILOSOPHERS, config)?;
        Ok(Self {
            philosophers: system.launch_all(PHILOSOPHER, n as usize)?,
            forks: system.launch_all(FORK, n as usize)?,
            system,
        })
    }
    /// Lets each eat `meals` times. Returns the meals of each, and how often a fork had two holders.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, meals: u32) -> Result<(Vec<u64>, u64), ActorError> {
        let n = self.forks.len();
        let sit = |(i, &philosopher): (usize, &ActorId)| {
            let (one, two) = (i.min((i + 1) % n), i.max((i + 1) % n));
            let forks = [self.forks[one].bits(), self.forks[two].bits()];
            Tell::new(philosopher, SIT, &[forks[0], forks[1], meals.into()])
        };
        let tells: Vec<_> = self.philosophers.iter().enumerate().map(sit).collect();
        self.system.tell_all(&tells)?;
        self.system.settle()?;
        let eaten: Vec<DevDiner> = self.system.states(&self.philosophers)?;
        let forks: Vec<DevDiner> = self.system.states(&self.forks)?;
        let errors = forks.iter().map(|fork| fork.held).sum();
        Ok((eaten.iter().map(|state| state.count).collect(), errors))
    }
}
