//! `pairs`: pairs of tasks of which the second needs what the first wrote, in every form in which a
//! dependence can be said: two submissions, a spawn, a fork with its continuation, a chain of pairs.

mod twin;

use everwarp::{
    Buffer, DevPtr, DevTask, Engine, Error, Function, Instance, Layout, Program, dev_struct,
};

use crate::lane;

/// First stage of pair `lo`: writes a word of its own.
pub const FIRST: u32 = 0;
/// Second stage of pair `lo`: reads that word and adds what follows from it to another.
pub const SECOND: u32 = 1;
/// First stage of pair `lo`, which spawns the second.
pub const PAIR: u32 = 2;
/// Forks over the first stage of pair `lo`; the second is the continuation.
pub const JOINED: u32 = 3;
/// Spreads over pairs (first | count << 32): `PAIR` with tag 0, `JOINED` with tag 1.
pub const SPREAD: u32 = 4;
/// As `PAIR`, and `hi` more pairs one after the other.
pub const CHAIN: u32 = 5;
/// The second stage in a chain.
pub const LINK: u32 = 6;

dev_struct! {
    /// Parameters of `pairs`.
    pub struct DevPairs: align 16, size 32 {
        /// What first stages write, a word a pair.
        pub firsts: DevPtr<u64>,
        /// What second stages add to, a word a pair.
        pub seconds: DevPtr<u64>,
        /// How many pairs there are.
        pub pairs: u32,
        /// Spelled-out hole.
        pub reserved: [u32; 3],
    }
}

/// The program.
pub static PROGRAM: Program = Program {
    name: "pairs",
    functions: &[
        lane("first", twin::first),
        lane("second", twin::second),
        Function {
            max_spawn: 1,
            spawns: true,
            ..lane("pair", twin::pair)
        },
        Function {
            max_spawn: 1,
            forks: true,
            ..lane("joined", twin::joined)
        },
        Function {
            max_spawn: 2,
            spawns: true,
            ..lane("spread", twin::spread)
        },
        Function {
            max_spawn: 1,
            spawns: true,
            ..lane("chain", twin::chain)
        },
        Function {
            max_spawn: 1,
            spawns: true,
            ..lane("link", twin::link)
        },
    ],
    device_source: include_str!("pairs.cu"),
    write_params: DevPairs::write_struct,
    params_name: DevPairs::NAME,
};

/// What the first stage of pair `i` writes.
pub const fn first_value(i: u32) -> u64 {
    (i as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(1)
}

/// What a second stage makes of what the first wrote.
pub const fn folded(first: u64) -> u64 {
    first ^ first >> 29
}

/// What the second word of pair `i` holds once the pair has run `rounds` times. A second stage that ran
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
            engine.submit(self.instance.task(FIRST).arg(i))?.wait()?;
            engine.submit(self.instance.task(SECOND).arg(i))?.wait()?;
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
        engine.submit(root)?.wait().map(drop)
    }
    /// Runs all pairs one after the other, each begun by the one before.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run_chain(&self, engine: &Engine) -> Result<(), Error> {
        let Some(more) = (self.seconds.len() as u32).checked_sub(1) else {
            return Ok(());
        };
        let root = self.instance.task(CHAIN).args(0, more);
        engine.submit(root)?.wait().map(drop)
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
