//! `ring`: tokens that actors pass around a ring.

mod entry;
#[path = "ring.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorProgram, ActorSystem, Tell, actors};
use everwarp::{Engine, dev_struct};

use twin::member;

pub use entry::TokenRing;

dev_struct! {
    /// The state of an actor.
    pub struct DevRingMember: align 16, size 16 {
        /// The next actor.
        pub next: u64,
        /// Tokens that ended here.
        pub ended: u64,
    }
}

actors! {
    /// The program.
    pub static RING: ring(), "ring.cu"; wgsl "ring.wgsl" {
        /// A member of the ring.
        MEMBER: lane(member: DevRingMember).mailbox(8).sends(1),
    }
}

/// Word 0 is the next actor.
const LINK: u8 = 1;
/// A token that is passed on word 0 times.
const TOKEN: u8 = 2;

/// A ring that is ready to run.
#[derive(Debug)]
pub struct Ring {
    system: ActorSystem,
    members: Vec<ActorId>,
    token: u8,
    /// The message that asks an actor how many tokens ended there. Without it, its state says so.
    ended: Option<u8>,
}

impl Ring {
    /// Prepares a ring of n actors for a number of tokens.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, n: u32, tokens: u32) -> Result<Self, ActorError> {
        Self::start(engine, &RING, [LINK, TOKEN], n, tokens)
    }
    /// The same with a program whose first kind handles the messages `link`, `token` and `ended`: the module
    /// `guests/actors/member`.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    ///
    /// # Panics
    /// The program does not have these messages.
    pub fn of(
        engine: &Engine,
        program: &ActorProgram,
        n: u32,
        tokens: u32,
    ) -> Result<Self, ActorError> {
        let [link, token, ended] = ["link", "token", "ended"].map(|name| {
            let message = program.message(name);
            message.unwrap_or_else(|| panic!("no message `{name}`")).tag
        });
        let ring = Self::start(engine, program, [link, token], n, tokens)?;
        Ok(Self {
            ended: Some(ended),
            ..ring
        })
    }
    fn start(
        engine: &Engine,
        program: &ActorProgram,
        [link, token]: [u8; 2],
        n: u32,
        tokens: u32,
    ) -> Result<Self, ActorError> {
        let config = ActorConfig {
            actors: n,
            messages: 2 * tokens.max(n) + 1024,
            ..ActorConfig::default()
        };
        let system = ActorSystem::start(engine, program, config)?;
        let members = system.launch_all(MEMBER, n as usize)?;
        let next = members.iter().cycle().skip(1);
        let links: Vec<_> = (members.iter().zip(next))
            .map(|(&member, next)| Tell::new(member, link, &[next.bits()]))
            .collect();
        system.tell_all(&links)?;
        system.settle()?;
        Ok(Self {
            system,
            members,
            token,
            ended: None,
        })
    }
    /// Sends tokens, evenly spread, and waits until each was passed on `hops` times.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, tokens: u32, hops: u32) -> Result<(), ActorError> {
        let n = self.members.len() as u64;
        let at = |token: u32| self.members[(u64::from(token) * n / u64::from(tokens)) as usize];
        let tells: Vec<_> = (0..tokens)
            .map(|token| Tell::new(at(token), self.token, &[hops.into()]))
            .collect();
        self.system.tell_all(&tells)?;
        self.system.settle().map(drop)
    }
    /// How many tokens have ended at each actor.
    ///
    /// # Errors
    /// The copy or an ask fails.
    pub fn ended(&self) -> Result<Vec<u64>, ActorError> {
        let Some(tag) = self.ended else {
            let states: Vec<DevRingMember> = self.system.states(&self.members)?;
            return Ok(states.iter().map(|state| state.ended).collect());
        };
        let ask = |member: &ActorId| Ok(self.system.ask(*member, tag, &[])?.word(0));
        self.members.iter().map(ask).collect()
    }
}

/// The same, computed plainly.
pub fn reference(n: u32, tokens: u32, hops: u32) -> Vec<u64> {
    let mut ended = vec![0; n as usize];
    for token in 0..u64::from(tokens) {
        let at = token * u64::from(n) / u64::from(tokens) + u64::from(hops);
        ended[(at % u64::from(n)) as usize] += 1;
    }
    ended
}
