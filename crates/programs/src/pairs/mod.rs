//! `pairs`: pairs of tasks. The second task of a pair needs the word that the first one wrote. The dependence takes every
//! form that there is: two submissions, a spawn, a fork with its continuation, a chain of pairs.

mod entry;
#[path = "pairs.rs"]
mod twin;

use everwarp::{Buffer, DevPtr, DevTask, Engine, Error, Instance, dev_struct, program};

use twin::{chain, first, joined, link, pair, second, spread};

pub use entry::DependentPairs;

dev_struct! {
    /// Parameters of `pairs`.
    pub struct DevPairs: align 16, size 32 {
        /// The words that first stages write, one for each pair.
        pub firsts: DevPtr<u64>,
        /// The words that second stages add to, one for each pair.
        pub seconds: DevPtr<u64>,
        /// How many pairs there are.
        pub pairs: u32,
        /// Spelled-out hole.
        pub reserved: [u32; 3],
    }
}

program! {
    /// The program.
    pub static PROGRAM: pairs(DevPairs), "pairs.cu"; wgsl "pairs.wgsl" {
        /// First stage of pair `lo`: writes the pair's first word.
        FIRST: lane(first),
        /// Second stage of pair `lo`: reads that word, and adds a number that follows from it to the second word.
        SECOND: lane(second),
        /// First stage of pair `lo`; spawns the second.
        PAIR: lane(pair).spawns(1),
        /// Forks over the first stage of pair `lo`; the second is the continuation.
        JOINED: lane(joined).forks(1),
        /// Spreads over pairs (first | count << 32): `PAIR` with tag 0, `JOINED` with tag 1.
        SPREAD: lane(spread).spawns(2),
        /// As `PAIR`, then `hi` more pairs, one after the other.
        CHAIN: lane(chain).spawns(1),
        /// The second stage in a chain.
        LINK: lane(link).spawns(1),
    }
}

/// The word that the first stage of pair `i` writes.
pub const fn first_value(i: u32) -> u64 {
    (i as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(1)
}

/// The number that a second stage computes from the first stage's word.
pub const fn folded(first: u64) -> u64 {
    first ^ first >> 29
}

/// The second word of pair `i` once the pair has run `rounds` times. A second stage that ran
/// before its first would have added 0 instead.
pub const fn reference(i: u32, rounds: u64) -> u64 {
    folded(first_value(i)).wrapping_mul(rounds)
}

/// Pairs ready to run.
#[derive(Debug)]
pub struct Pairs {
    instance: Instance,
    firsts: Buffer<u64>,
    seconds: Buffer<u64>,
}

impl Pairs {
    /// Prepares `pairs` pairs.
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn new(engine: &Engine, pairs: u32) -> Result<Self, Error> {
        let (firsts, seconds) = (
            engine.buffer(pairs as usize)?,
            engine.buffer(pairs as usize)?,
        );
        let params = DevPairs {
            firsts: firsts.ptr(),
            seconds: seconds.ptr(),
            pairs,
            reserved: [0; 3],
        };
        // SAFETY: both buffers have a word for each pair and live as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            firsts,
            seconds,
        })
    }
    /// Forgets what ran so far.
    ///
    /// # Errors
    /// The copy fails.
    pub fn clear(&self) -> Result<(), Error> {
        self.firsts.fill_bytes(0)?;
        self.seconds.fill_bytes(0)
    }
    /// Runs each pair as two submissions from the host, waiting in between and after.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run_from_host(&self, engine: &Engine) -> Result<(), Error> {
        for i in 0..self.seconds.len() as u64 {
            engine.run(self.instance.task(FIRST).arg(i))?;
            engine.run(self.instance.task(SECOND).arg(i))?;
        }
        Ok(())
    }
    /// The descriptors of all pairs, for [`Engine::submit_all`]: each forks and continues on the device.
    pub fn batch(&self) -> Vec<DevTask> {
        let task = |i| self.instance.task(JOINED).arg(i).build();
        (0..self.seconds.len() as u64).map(task).collect()
    }
    /// Runs all pairs from one root that spreads over them; `joined` says whether second stages are
    /// continuations of a fork or spawned by the first.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run_on_device(&self, engine: &Engine, joined: bool) -> Result<(), Error> {
        let root = self.instance.task(SPREAD).tag(u8::from(joined));
        let root = root.args(0, self.seconds.len() as u32);
        engine.run(root).map(drop)
    }
    /// Runs all pairs one after the other, each started by the one before.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run_chain(&self, engine: &Engine) -> Result<(), Error> {
        let Some(more) = (self.seconds.len() as u32).checked_sub(1) else {
            return Ok(());
        };
        let root = self.instance.task(CHAIN).args(0, more);
        engine.run(root).map(drop)
    }
    /// The sum of all second words.
    ///
    /// # Errors
    /// The copy fails.
    pub fn sum(&self) -> Result<u64, Error> {
        Ok(self.seconds.read()?.into_iter().fold(0, u64::wrapping_add))
    }
    /// Whether every pair ran exactly `rounds` times since [`clear`](Self::clear), in the right order.
    ///
    /// # Errors
    /// The copy fails.
    pub fn ran(&self, rounds: u64) -> Result<bool, Error> {
        let seconds = self.seconds.read()?;
        Ok((0..).zip(seconds).all(|(i, s)| s == reference(i, rounds)))
    }
}
