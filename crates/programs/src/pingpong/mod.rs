//! `pingpong`: two functions that spawn each other, and levels that fork and join: the latency of one
//! dependent step and of one join.

use everwarp::{Engine, Error, Function, Instance, Layout, Program, Shape, TaskCx};

use crate::{DevNone, lane};

/// Function number of a ping; argument: how many steps follow.
pub const PING: u32 = 0;
/// Function number of a pong.
pub const PONG: u32 = 1;
/// Function number of a level: a warp that forks over [`WIDTH`] leaves and goes on with the next level when all are
/// done; argument: how many levels follow.
pub const LEVEL: u32 = 2;
/// Function number of a leaf of a level.
pub const LEAF: u32 = 3;
/// Leaves of a level.
pub const WIDTH: u32 = 32;

/// The program.
pub static PROGRAM: Program = Program {
    name: "pingpong",
    functions: &[
        Function {
            max_spawn: 1,
            spawns: true,
            ..lane("ping", ping)
        },
        Function {
            max_spawn: 1,
            spawns: true,
            ..lane("pong", pong)
        },
        Function {
            shape: Shape::Warp,
            max_spawn: WIDTH as u16,
            forks: true,
            ..lane("level", level)
        },
        lane("leaf", |_| {}),
    ],
    device_source: include_str!("pingpong.cu"),
    write_params: DevNone::write_struct,
    params_name: DevNone::NAME,
};

fn ping(t: &mut dyn TaskCx) {
    match t.lo() {
        0 => t.report_slot(0, PING + 1),
        n => t.spawn(PONG, 0, (n - 1).into()),
    }
}

fn pong(t: &mut dyn TaskCx) {
    match t.lo() {
        0 => t.report_slot(0, PONG + 1),
        n => t.spawn(PING, 0, (n - 1).into()),
    }
}

fn level(t: &mut dyn TaskCx) {
    match t.lo() {
        0 => t.report_slot(0, 1),
        n => {
            t.fork(LEVEL, 0, (n - 1).into());
            (0..WIDTH).for_each(|_| t.spawn_child(LEAF, 0, 0));
        }
    }
}

/// Runs `levels` joins one after the other.
///
/// # Errors
/// Whatever ends the engine.
pub fn run_levels(engine: &Engine, instance: &Instance, levels: u32) -> Result<u64, Error> {
    Ok(engine
        .submit(instance.task(LEVEL).arg(levels.into()))?
        .wait()?
        .value)
}

/// An instance on an engine that holds the program.
///
/// # Errors
/// As [`Engine::instance`].
pub fn instance(engine: &Engine) -> Result<Instance, Error> {
    // SAFETY: there are no parameters, so nothing that they point to.
    unsafe { engine.instance(&PROGRAM, &DevNone::NEW) }
}

/// Runs `steps` dependent steps; answers which function ran last, as [`reference()`] does.
///
/// # Errors
/// Whatever ends the engine.
pub fn run(engine: &Engine, instance: &Instance, steps: u32) -> Result<u64, Error> {
    Ok(engine
        .submit(instance.task(PING).arg(steps.into()))?
        .wait()?
        .value)
}

/// 1 when a ping runs last, 2 when a pong does.
pub fn reference(steps: u32) -> u64 {
    u64::from(steps % 2) + 1
}
