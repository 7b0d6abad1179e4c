//! `probe`: functions that let tests see what an engine does: every task leaves a trace to be checked.

#[path = "probe.rs"]
mod twin;

use everwarp::{Buffer, DevPtr, Engine, Error, Instance, dev_struct, program};

use twin::{
    cautious, chain, check, endless, fault, greedy, hang, join, join_block, log, mark, mark_block,
    mark_warp, split, spread,
};

dev_struct! {
    /// Parameters of `probe`.
    pub struct DevProbe: align 16, size 32 {
        /// Visits by place.
        pub marks: DevPtr<u32>,
        /// The entries that `LOG` wrote.
        pub log: DevPtr<u32>,
        /// The number of entries that `LOG` wrote.
        pub logged: DevPtr<u32>,
        /// Number of places.
        pub places: u64,
    }
}

program! {
    /// The program.
    pub static PROGRAM: probe(DevProbe), "probe.cu"; wgsl "probe.wgsl" {
        /// Divides a range (first | count << 32) down to single marks; tag 1 ends in warp tasks, 2 in block tasks.
        SPLIT: lane(split).spawns(2),
        /// Counts one visit of place `lo`.
        MARK: lane(mark),
        /// A chain: counts place `lo` and spawns the next, until `hi` is 0.
        CHAIN: lane(chain).spawns(1),
        /// Forks over a range like `SPLIT`'s and runs `CHECK` once all of it is marked.
        JOIN: lane(join).forks(2),
        /// Reports how many marks there are up to place `lo`.
        CHECK: lane(check),
        /// Writes `lo` to the next free place of the log.
        LOG: lane(log),
        /// Spawns two of itself, for ever.
        ENDLESS: lane(endless).spawns(2),
        /// Does not end until the first mark is not 0.
        HANG: lane(hang),
        /// Spawns one task more than it declares.
        GREEDY: lane(greedy).spawns(1),
        /// Reports a fault with its argument as detail.
        FAULT: lane(fault),
        /// As `MARK`, by a warp: its 32 lanes count places `lo` to `lo` + 31.
        MARK_WARP: warp(mark_warp),
        /// As `MARK`, by a block: its 256 threads count places `lo` to `lo` + 255.
        MARK_BLOCK: block(mark_block),
        /// As `SPLIT`, breadth first.
        SPREAD: lane(spread).spawns(2).breadth_first(),
        /// A block that forks: marks 128 places by children, then runs `CHECK`.
        JOIN_BLOCK: block(join_block).forks(128),
        /// As `SPREAD`, but declares more than it spawns, so that queues have room for few.
        CAUTIOUS: lane(cautious).spawns(15).breadth_first(),
    }
}

/// An instance with its traces.
#[derive(Debug)]
pub struct Probe {
    /// The instance.
    pub instance: Instance,
    /// Visits by place.
    pub marks: Buffer<u32>,
    /// The log.
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
