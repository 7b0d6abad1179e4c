//! `range`: adds 1 to every cell of a range, with a task for each cell or with tasks that divide the range
//! down to grains, each worked off by a whole warp: the two ends of how fine work can be cut.

mod entry;
#[path = "range.rs"]
mod twin;

use everwarp::{Buffer, DevPtr, DevTask, Engine, Error, Instance, Pending, dev_struct, program};

use twin::{add, fan, grain, split, spread};

pub use entry::CountedRange;

/// Grains are multiples of this many cells, so that a warp moves 16 bytes a lane.
pub const GRAIN_UNIT: u32 = 128;

dev_struct! {
    /// Parameters of `range`.
    pub struct DevRange: align 16, size 16 {
        /// The cells.
        pub cells: DevPtr<u32>,
        /// How many there are.
        pub cells_len: u32,
        /// Cells in one grain.
        pub grain: u32,
    }
}

program! {
    /// The program.
    pub static PROGRAM: range(DevRange), "range.cu"; wgsl "range.wgsl" {
        /// Adds 1 to cell `lo`.
        ADD: lane(add),
        /// Halves a range (first | count << 32) down to single cells.
        SPREAD: lane(spread).spawns(2),
        /// Halves a range down to grains.
        SPLIT: lane(split).spawns(2),
        /// A warp that divides a range among up to 64 tasks, down to grains.
        FAN: warp(fan).spawns(64),
        /// A warp that adds 1 to each cell of a range.
        GRAIN: warp(grain),
    }
}

/// Cells ready to be counted up.
#[derive(Debug)]
pub struct Range {
    instance: Instance,
    cells: Buffer<u32>,
}

impl Range {
    /// Prepares `cells` cells, all 0.
    ///
    /// # Panics
    /// `grain` is no positive multiple of [`GRAIN_UNIT`].
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn new(engine: &Engine, cells: u32, grain: u32) -> Result<Self, Error> {
        assert!(
            grain > 0 && grain.is_multiple_of(GRAIN_UNIT),
            "a grain is a multiple of {GRAIN_UNIT} cells"
        );
        let buffer = engine.buffer(cells as usize)?;
        let params = DevRange {
            cells: buffer.ptr(),
            cells_len: cells,
            grain,
        };
        // SAFETY: the buffer has that many cells and lives as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            cells: buffer,
        })
    }
    /// The descriptors of one task a cell, for [`Engine::submit_all`].
    pub fn batch(&self) -> Vec<DevTask> {
        let task = |i| self.instance.task(ADD).arg(i).build();
        (0..self.cells.len() as u64).map(task).collect()
    }
    /// Runs one root over all cells: [`SPREAD`], [`SPLIT`] or [`FAN`].
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, engine: &Engine, function: u32) -> Result<(), Error> {
        match self.cells.len() {
            0 => Ok(()),
            _ => self.begin(engine, function)?.wait().map(drop),
        }
    }
    /// Submits one root over all cells as [`run`](Self::run) does, but does not wait. There must be at least one cell.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn begin(&self, engine: &Engine, function: u32) -> Result<Pending, Error> {
        let cells = self.cells.len() as u32;
        engine.submit(self.instance.task(function).args(0, cells))
    }
    /// Sets all cells to 0.
    ///
    /// # Errors
    /// The copy fails.
    pub fn clear(&self) -> Result<(), Error> {
        self.cells.fill_bytes(0)
    }
    /// The sum of all cells.
    ///
    /// # Errors
    /// The copy fails.
    pub fn sum(&self) -> Result<u64, Error> {
        Ok(self.cells.read()?.into_iter().map(u64::from).sum())
    }
    /// Whether every cell holds `rounds`.
    ///
    /// # Errors
    /// The copy fails.
    pub fn holds(&self, rounds: u32) -> Result<bool, Error> {
        Ok(self.cells.read()?.iter().all(|&c| c == rounds))
    }
}
