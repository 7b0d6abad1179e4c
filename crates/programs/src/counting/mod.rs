//! `counting`: actors that send numbers to one that adds them. It handles them as fast as one actor can, and its senders
//! are muted meanwhile.

mod entry;
#[path = "counting.rs"]
mod twin;
mod wide;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorProgram, ActorSystem, Tell, actors};
use everwarp::{Engine, dev_struct};

use twin::{counter, producer};

pub use entry::Counting;
pub use wide::{BLOCK_COUNTER, WARP_COUNTER, WIDE};

dev_struct! {
    /// The state of the counter.
    pub struct DevCounter: align 16, size 16 {
        /// The sum of the numbers.
        pub sum: u64,
        /// How many there were.
        pub count: u64,
    }
}

actors! {
    /// The program.
    pub static COUNTING: counting(), "counting.cu"; wgsl "counting.wgsl" {
        /// Adds numbers.
        COUNTER: lane(counter: DevCounter).mailbox(1024),
        /// Has no state. Sends the numbers from word 0 to word 1 to the counter in word 2, a few at a time.
        PRODUCER: lane(producer: DevCounter).mailbox(4).sends(9),
    }
}

/// Numbers that a producer sends for one message.
const AT_A_TIME: u64 = 8;

/// A system that is ready to run.
#[derive(Debug)]
pub struct Count {
    system: ActorSystem,
    counter: ActorId,
    producers: Vec<ActorId>,
}

impl Count {
    /// Prepares a counter and its producers.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, producers: u32) -> Result<Self, ActorError> {
        Self::of(engine, &COUNTING, (COUNTER, PRODUCER), producers)
    }
    /// The same of a counter of warp or block shape: `counter` is [`WARP_COUNTER`] or [`BLOCK_COUNTER`], and the engine holds
    /// [`WIDE`].
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn wide(engine: &Engine, counter: u32, producers: u32) -> Result<Self, ActorError> {
        Self::of(engine, &WIDE, (counter, wide::PRODUCER), producers)
    }
    fn of(
        engine: &Engine,
        program: &ActorProgram,
        (counter, producer): (u32, u32),
        producers: u32,
    ) -> Result<Self, ActorError> {
        let config = ActorConfig {
            actors: producers + 1,
            messages: 16 * producers + 8192,
            ..ActorConfig::default()
        };
        let system = ActorSystem::start(engine, program, config)?;
        Ok(Self {
            counter: system.launch(counter)?,
            producers: system.launch_all(producer, producers as usize)?,
            system,
        })
    }
    /// Each producer sends its part of n numbers. Returns the sum so far, and how many there were.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, n: u32) -> Result<(u64, u64), ActorError> {
        let (n, parts) = (u64::from(n), self.producers.len() as u64);
        let part = |i: u64| n * i / parts;
        let tells: Vec<_> = ((0..).zip(&self.producers))
            .map(|(i, &producer)| {
                Tell::new(producer, 0, &[part(i), part(i + 1), self.counter.bits()])
            })
            .collect();
        self.system.tell_all(&tells)?;
        self.system.settle()?;
        let state: DevCounter = self.system.state(self.counter)?;
        Ok((state.sum, state.count))
    }
}
