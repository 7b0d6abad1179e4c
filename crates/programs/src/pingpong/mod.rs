//! `pingpong`: two functions that spawn each other, and levels that fork and join: the latency of one
//! dependent step and of one join.

mod entry;
#[path = "pingpong.rs"]
mod twin;

use everwarp::{Engine, Error, Instance, program};

use twin::{leaf, level, ping, pong};

pub use entry::PingPong;

/// Leaves of a level.
pub const WIDTH: u32 = 32;

program! {
    /// The program.
    pub static PROGRAM: pingpong(), "pingpong.cu"; wgsl "pingpong.wgsl" {
        /// A ping; argument: how many steps follow.
        PING: lane(ping).spawns(1),
        /// A pong; its argument is the same.
        PONG: lane(pong).spawns(1),
        /// A level: a warp forks over [`WIDTH`] leaves, and the next level starts when all are done; argument: how many
        /// levels follow.
        LEVEL: warp(level).forks(WIDTH as u16),
        /// A leaf of a level.
        LEAF: lane(leaf),
    }
}

/// Runs `levels` joins one after the other.
///
/// # Errors
/// Whatever ends the engine.
pub fn run_levels(engine: &Engine, instance: &Instance, levels: u32) -> Result<u64, Error> {
    Ok(engine.run(instance.task(LEVEL).arg(levels.into()))?.value)
}

/// An instance on an engine that holds the program.
///
/// # Errors
/// As [`Engine::plain_instance`].
pub fn instance(engine: &Engine) -> Result<Instance, Error> {
    engine.plain_instance(&PROGRAM)
}

/// Runs `steps` dependent steps; returns which function ran last, as [`reference()`] does.
///
/// # Errors
/// Whatever ends the engine.
pub fn run(engine: &Engine, instance: &Instance, steps: u32) -> Result<u64, Error> {
    Ok(engine.run(instance.task(PING).arg(steps.into()))?.value)
}

/// 1 when a ping runs last, 2 when a pong does.
pub fn reference(steps: u32) -> u64 {
    u64::from(steps % 2) + 1
}
