//! `chameneos`: creatures that meet in pairs at one mall and change their colours. Every meeting goes through one actor.

mod entry;
#[path = "chameneos.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, Tell, actors};
use everwarp::{Engine, dev_struct};

use twin::{creature, mall};

pub use entry::Chameneos;

dev_struct! {
    /// The state of a creature, and of the mall.
    pub struct DevChameneo: align 16, size 48 {
        /// The mall of a creature; the creature that waits at a mall, or 0.
        pub other: u64,
        /// The colour: 0, 1 or 2.
        pub colour: u64,
        /// Meetings so far; at the mall, those that are left.
        pub meetings: u64,
        /// Meetings with itself, which must not be.
        pub errors: u64,
        /// Spelled-out hole.
        pub reserved: [u64; 2],
    }
}

actors! {
    /// The program.
    pub static CHAMENEOS: chameneos(), "chameneos.cu"; wgsl "chameneos.wgsl" {
        /// Lets pairs of creatures meet.
        MALL: lane(mall: DevChameneo).mailbox(1024).sends(2),
        /// Goes to the mall, and again after each meeting.
        CREATURE: lane(creature: DevChameneo).mailbox(4).sends(1),
    }
}

/// To the mall: word 0 is the number of meetings.
const OPEN: u8 = 1;
/// To a creature: word 0 is the mall, word 1 its first colour. To the mall: a creature of colour word 0 is there.
const GO: u8 = 2;
/// To a creature: it meets creature word 0 of colour word 1.
const MEET: u8 = 3;

/// The colour of a creature after it has met another.
const fn changed(own: u64, other: u64) -> u64 {
    if own == other { own } else { 3 - own - other }
}

/// A mall and its creatures.
#[derive(Debug)]
pub struct Meetings {
    system: ActorSystem,
    mall: ActorId,
    creatures: Vec<ActorId>,
}

/// What the creatures did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// The sum of the meetings that the creatures count: two for each.
    pub counted: u64,
    /// Creatures that met themselves, and colours that there are not.
    pub errors: u64,
}

impl Meetings {
    /// Prepares n creatures.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, n: u32) -> Result<Self, ActorError> {
        let config = ActorConfig {
            actors: n + 1,
            messages: 4 * n + 4096,
            ..ActorConfig::default()
        };
        let system = ActorSystem::start(engine, &CHAMENEOS, config)?;
        Ok(Self {
            mall: system.launch(MALL)?,
            creatures: system.launch_all(CREATURE, n as usize)?,
            system,
        })
    }
    /// Lets creatures meet `meetings` times.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, meetings: u32) -> Result<Met, ActorError> {
        self.system.tell(self.mall, OPEN, &[meetings.into()])?;
        let go: Vec<_> = ((0..).zip(&self.creatures))
            .map(|(i, &creature)| Tell::new(creature, GO, &[self.mall.bits(), i % 3]))
            .collect();
        self.system.tell_all(&go)?;
        self.system.settle()?;
        let states: Vec<DevChameneo> = self.system.states(&self.creatures)?;
        let strange = states.iter().filter(|state| state.colour > 2).count() as u64;
        Ok(Met {
            counted: states.iter().map(|state| state.meetings).sum(),
            errors: strange + states.iter().map(|state| state.errors).sum::<u64>(),
        })
    }
}
