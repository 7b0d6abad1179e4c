//! `asks`: actors that ask others, one question after the other. Each question waits for the last reply.

mod entry;
#[path = "asks.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, Column, actors};
use everwarp::{Engine, dev_struct};

use twin::{asked, asker};

pub use entry::Asks;

dev_struct! {
    /// The state of both kinds.
    pub struct DevAsker: align 16, size 32 {
        /// The actor that is asked.
        pub other: u64,
        /// Questions left.
        pub left: u64,
        /// Replies so far, or questions.
        pub count: u64,
        /// The sum of the replies.
        pub sum: u64,
    }
}

actors! {
    /// The program.
    pub static ASKS: asks(), "asks.cu"; wgsl "asks.wgsl" {
        /// Asks.
        ASKER: lane(asker: DevAsker).mailbox(4).sends(1),
        /// Replies with the number of questions so far.
        ASKED: lane(asked: DevAsker).mailbox(16),
    }
}

/// Pairs of actors.
#[derive(Debug)]
pub struct Questions {
    system: ActorSystem,
    askers: Vec<ActorId>,
    asked: Vec<ActorId>,
    /// Their ids, as words.
    asked_bits: Vec<u64>,
}

impl Questions {
    /// Prepares pairs.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, pairs: u32) -> Result<Self, ActorError> {
        let config = ActorConfig {
            actors: 2 * pairs,
            messages: 4 * pairs + 4096,
            ..ActorConfig::default()
        };
        let system = ActorSystem::start(engine, &ASKS, config)?;
        let mut askers = system.launch_all(ASKER, pairs as usize)?;
        // Messages of the host are sorted then.
        askers.sort_unstable();
        let asked = system.launch_all(ASKED, pairs as usize)?;
        Ok(Self {
            askers,
            asked_bits: asked.iter().map(|id| id.bits()).collect(),
            asked,
            system,
        })
    }
    /// Lets each asker ask `questions` questions. Returns how many replies each has had so far, and their sum.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, questions: u32) -> Result<Vec<(u64, u64)>, ActorError> {
        let words = [
            Column::Each(&self.asked_bits),
            Column::All(questions.into()),
        ];
        self.system.tell_columns(&self.askers, 0, &words)?;
        self.system.settle()?;
        let states: Vec<DevAsker> = self.system.states(&self.askers)?;
        Ok(states.iter().map(|s| (s.count, s.sum)).collect())
    }
    /// Asks the first of those that are asked from the host. Returns how many questions it has had, this one included.
    ///
    /// # Errors
    /// Those of [`ActorSystem::ask`].
    pub fn ask(&self) -> Result<u64, ActorError> {
        Ok(self.system.ask(self.asked[0], 0, &[])?.word(0))
    }
}
