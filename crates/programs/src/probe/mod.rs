//! `probe`: functions that let tests see what an engine does: every task leaves a trace to be checked.

mod twin;

use everwarp::{
    Buffer, DevPtr, Engine, Error, Function, Instance, Layout, Order, Program, Shape, dev_struct,
};

use crate::lane;

/// Divides a range (first | count << 32) down to single marks; tag 1 ends in warp tasks, 2 in block tasks.
pub const SPLIT: u32 = 0;
/// Counts one visit of place `lo`.
pub const MARK: u32 = 1;
/// A chain: counts place `lo` and spawns the next, until `hi` is 0.
pub const CHAIN: u32 = 2;
/// Forks over a range like `SPLIT`'s and, once all of it is marked, runs `CHECK`.
pub const JOIN: u32 = 3;
/// Reports how many marks there are up to place `lo`.
pub const CHECK: u32 = 4;
/// Writes `lo` to the next free place of the log.
pub const LOG: u32 = 5;
/// Spawns two of itself, for ever.
pub const ENDLESS: u32 = 6;
/// Does not end until the first mark is not 0.
pub const HANG: u32 = 7;
/// Spawns one task more than it declares.
pub const GREEDY: u32 = 8;
/// Reports a fault with its argument as detail.
pub const FAULT: u32 = 9;
/// As `MARK`, by a warp: its 32 lanes count places `lo` to `lo` + 31.
pub const MARK_WARP: u32 = 10;
/// As `MARK`, by a block: its 256 threads count places `lo` to `lo` + 255.
pub const MARK_BLOCK: u32 = 11;
/// As `SPLIT`, breadth first.
pub const SPREAD: u32 = 12;
/// A block that forks: marks 128 places by children, then `CHECK`.
pub const JOIN_BLOCK: u32 = 13;

dev_struct! {
    /// Parameters of `probe`.
    pub struct DevProbe: align 16, size 32 {
        /// Visits by place.
        pub marks: DevPtr<u32>,
        /// What `LOG` wrote.
        pub log: DevPtr<u32>,
        /// How much `LOG` wrote.
        pub logged: DevPtr<u32>,
        /// Number of places.
        pub places: u64,
    }
}

const fn spawning(name: &'static str, max_spawn: u16, twin: everwarp::TwinFn) -> Function {
    Function {
        max_spawn,
        spawns: true,
        ..lane(name, twin)
    }
}

/// The program.
pub static PROGRAM: Program = Program {
    name: "probe",
    functions: &[
        spawning("split", 2, twin::split),
        lane("mark", twin::mark),
        spawning("chain", 1, twin::chain),
        Function {
            max_spawn: 2,
            forks: true,
            ..lane("join", twin::join)
        },
        lane("check", twin::check),
        lane("log", twin::log),
        spawning("endless", 2, twin::endless),
        lane("hang", twin::hang),
        spawning("greedy", 1, twin::greedy),
        lane("fault", twin::fault),
        Function {
            shape: Shape::Warp,
            ..lane("mark_warp", twin::mark_warp)
        },
        Function {
            shape: Shape::Block,
            ..lane("mark_block", twin::mark_block)
        },
        Function {
            order: Order::BreadthFirst,
            ..spawning("spread", 2, twin::spread)
        },
        Function {
            shape: Shape::Block,
            max_spawn: 128,
            forks: true,
            ..lane("join_block", twin::join_block)
        },
    ],
    device_source: include_str!("probe.cu"),
    write_params: DevProbe::write_struct,
    params_name: DevProbe::NAME,
};

/// An instance with its traces.
#[derive(Debug)]
pub struct Probe {
    /// The instance.
    pub instance: Instance,
    /// Visits by place.
    pub marks: Buffer<u32>,
    /// What was logged.
    pub log: Buffer<u32>,
    _logged: Buffer<u32>,
}

impl Probe {
    /// Prepares traces for `places` places.
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn new(engine: &Engine, places: usize) -> Result<Self, Error> {
        let (marks, log, logged) = (
            engine.buffer(places)?,
            engine.buffer(places)?,
            engine.buffer(1)?,
        );
        let params = DevProbe {
            marks: marks.ptr(),
            log: log.ptr(),
            logged: logged.ptr(),
            places: places as u64,
        };
        // SAFETY: the buffers have `places` elements and live as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            marks,
            log,
            _logged: logged,
        })
    }
}
