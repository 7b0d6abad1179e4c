//! Tiny tasks without the engine: each adds 1 to a cell of its own.

use everwarp_engine::EngineError;

use super::{CHAIN, LIMIT, RawWgpu, STRIDE, pipeline, storage};
use crate::gpu::buffer;

/// Every adapter takes this number.
const MOST_WORKGROUPS: u32 = 65_535;

/// How the cells are added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawWay {
    /// For each cell: its number is written, one dispatch runs, 256 bytes are copied and mapped.
    Waited,
    /// A dispatch for each cell, 1,000 a submission; the host waits after each submission.
    Chained,
    /// One dispatch, with an invocation for each cell, or a loop over several if the adapter takes no larger dispatch.
    Bulk,
}

/// Cells in the adapter's memory.
pub struct RawCells<'r> {
    raw: &'r RawWgpu,
    add: (wgpu::ComputePipeline, wgpu::BindGroup),
    cells: wgpu::Buffer,
    way: RawWay,
    n: u32,
}

impl std::fmt::Debug for RawCells<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawCells")
            .field("way", &self.way)
            .field("n", &self.n)
            .finish_non_exhaustive()
    }
}

impl<'r> RawCells<'r> {
    /// Makes `n` cells of 0.
    ///
    /// # Errors
    /// Memory is short, or the adapter binds fewer bytes at a time than the cells need.
    pub fn new(raw: &'r RawWgpu, way: RawWay, n: u32) -> Result<Self, EngineError> {
        let gpu = &raw.gpu;
        let bytes = u64::from(n.max(1)) * 4;
        if bytes > gpu.window_bytes {
            return Err(EngineError::OutOfMemory {
                kind: "device",
                bytes,
                detail: format!("{} binds {} bytes at a time", gpu.name, gpu.window_bytes),
            });
        }
        let cells = buffer(&gpu.device, "cells", bytes, storage())?;
        let add = pipeline(gpu, &raw.module, "add", &raw.steps, &[(4, &cells)]);
        gpu.check()?;
        Ok(Self {
            raw,
            add,
            cells,
            way,
            n,
        })
    }
    /// Adds 1 to every cell, and waits for it.
    ///
    /// # Errors
    /// The device is lost.
    pub fn run(&self) -> Result<(), EngineError> {
        let (gpu, raw) = (&self.raw.gpu, self.raw);
        let (step, each) = match self.way {
            RawWay::Bulk => {
                gpu.write_words(&raw.steps, 0, &[0, self.n, 0, 0]);
                let workgroups = self.n.div_ceil(64).min(MOST_WORKGROUPS);
                return raw.run(&self.add, 1, workgroups, true).map(drop);
            }
            RawWay::Waited => (1, 4),
            RawWay::Chained => (CHAIN as u32, STRIDE as usize / 4),
        };
        let mut steps = vec![0; step as usize * each];
        for first in (0..self.n).step_by(step as usize) {
            let count = step.min(self.n - first);
            for (cell, words) in (first..first + count).zip(steps.chunks_exact_mut(each)) {
                words[..2].copy_from_slice(&[cell, 1]);
            }
            gpu.write_words(&raw.steps, 0, &steps[..count as usize * each]);
            raw.run(&self.add, count.into(), 1, true)?;
        }
        Ok(())
    }
    /// The cells.
    ///
    /// # Errors
    /// The device is lost.
    pub fn cells(&self) -> Result<Vec<u32>, EngineError> {
        let mut bytes = vec![0; 4 * self.n as usize];
        self.raw.gpu.read(&self.cells, 0, &mut bytes, LIMIT)?;
        let word = |b: &[u8]| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
        Ok(bytes.chunks_exact(4).map(word).collect())
    }
}
