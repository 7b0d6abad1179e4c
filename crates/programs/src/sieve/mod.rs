//! `sieve`: the primes below a limit. Numbers pass along a line of actors; each keeps some primes and drops their multiples.
//! The last one keeps what reaches it, and launches the next actor when it is full.

mod entry;
#[path = "sieve.rs"]
mod twin;

use everwarp::actor::{ActorConfig, ActorError, ActorId, ActorSystem, actors};
use everwarp::{Engine, dev_struct};

use twin::{filter, source};

pub use entry::Sieve;

/// Primes that one actor keeps.
pub(crate) const KEPT: usize = 26;

dev_struct! {
    /// The state of an actor.
    pub struct DevSieve: align 16, size 128 {
        /// The next actor, or 0.
        pub next: u64,
        /// The actor that counts.
        pub first: u64,
        /// How many primes it has.
        pub count: u32,
        /// Spelled-out hole.
        pub reserved: u32,
        /// The primes.
        pub primes: [u32; 26],
    }
}

actors! {
    /// The program.
    pub static SIEVE: sieve(), "sieve.cu"; wgsl "sieve.wgsl" {
        /// Keeps primes, and passes on what they do not divide.
        FILTER: lane(filter: DevSieve).mailbox(64).sends(1),
        /// Sends the odd numbers from word 0 to word 1 to the filter in word 2, a few at a time.
        SOURCE: lane(source: DevSieve).mailbox(4).sends(9),
    }
}

/// Numbers that the source sends for one message.
const AT_A_TIME: u64 = 8;

/// A line of actors that is ready to run.
#[derive(Debug)]
pub struct Line {
    system: ActorSystem,
    first: ActorId,
    source: ActorId,
}

/// How many primes there are below n, at most.
const fn most_primes(n: u32) -> u32 {
    // Rosser and Schoenfeld, 1962: fewer than 1.25506 n / ln n, and ln n is more than 0.69 times its lower logarithm to 2.
    if n < 64 {
        32
    } else {
        n / (31 - n.leading_zeros()) * 2
    }
}

impl Line {
    /// Prepares the first actor and the source.
    ///
    /// # Errors
    /// Those of [`ActorSystem::start`].
    pub fn new(engine: &Engine, n: u32) -> Result<Self, ActorError> {
        let actors = most_primes(n) / KEPT as u32 + 8;
        let config = ActorConfig {
            actors,
            messages: 72 * actors + 4096,
            ..ActorConfig::default()
        };
        let system = ActorSystem::start(engine, &SIEVE, config)?;
        Ok(Self {
            first: system.launch(FILTER)?,
            source: system.launch(SOURCE)?,
            system,
        })
    }
    /// Lets the numbers below n pass. Returns the primes.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, n: u32) -> Result<Vec<u32>, ActorError> {
        let range = [3, n.into(), self.first.bits()];
        self.system.tell(self.source, 0, &range)?;
        self.system.settle()?;
        let mut primes: Vec<u32> = (n > 2).then_some(2).into_iter().collect();
        let mut at = self.first;
        while !at.is_none() {
            let state: DevSieve = self.system.state(at)?;
            primes.extend(&state.primes[..state.count as usize]);
            at = ActorId::from_bits(state.next);
        }
        Ok(primes)
    }
}

/// The same, computed plainly.
pub fn reference(n: u32) -> Vec<u32> {
    let mut composite = vec![false; n as usize];
    let mut primes = Vec::new();
    for number in 2..n as usize {
        if !composite[number] {
            primes.push(number as u32);
            let multiples = (number * number..n as usize).step_by(number);
            multiples.for_each(|multiple| composite[multiple] = true);
        }
    }
    primes
}

#[cfg(test)]
mod tests {
    use super::{most_primes, reference};

    #[test]
    fn there_is_room_for_all_primes() {
        for n in [3, 10, 63, 64, 65, 100, 1000, 1 << 14, 100_000, 1_000_000] {
            let primes = reference(n).len() as u32;
            assert!(primes <= most_primes(n), "{primes} below {n}");
        }
    }
}
