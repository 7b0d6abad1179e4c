//! Breadth-first search without the engine.

use everwarp_engine::EngineError;

use super::{CHAIN, LIMIT, RawWgpu, STRIDE, WORKGROUPS, pipeline, storage};
use crate::gpu::buffer;

/// A search with one dispatch for each level; levels only.
pub struct RawSearch<'r> {
    raw: &'r RawWgpu,
    level: (wgpu::ComputePipeline, wgpu::BindGroup),
    levels: wgpu::Buffer,
    queue: wgpu::Buffer,
    vertices: u32,
    /// Levels of one submission.
    per: u32,
}

impl std::fmt::Debug for RawSearch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawSearch").finish_non_exhaustive()
    }
}

impl<'r> RawSearch<'r> {
    /// Copies a graph to the device. `per` levels are one submission, after which the host sees if the search has ended.
    ///
    /// # Errors
    /// Memory is short.
    pub fn new(
        raw: &'r RawWgpu,
        rows: &[u32],
        columns: &[u32],
        per: u32,
    ) -> Result<Self, EngineError> {
        assert!(per >= 1 && u64::from(per) <= CHAIN);
        let gpu = &raw.gpu;
        let make = |what, words: usize| {
            let bytes = 4 * words.max(4) as u64;
            buffer(&gpu.device, what, bytes, storage())
        };
        let vertices = rows.len() - 1;
        let (on_rows, on_columns) = (make("rows", rows.len())?, make("columns", columns.len())?);
        let (levels, queue) = (make("levels", vertices)?, make("queue", 2 * vertices)?);
        gpu.write_words(&on_rows, 0, rows);
        gpu.write_words(&on_columns, 0, columns);
        let bound = [
            (1, &raw.counts),
            (2, &on_rows),
            (3, &on_columns),
            (4, &levels),
            (5, &queue),
        ];
        let level = pipeline(gpu, &raw.module, "level", &raw.steps, &bound);
        gpu.check()?;
        Ok(Self {
            raw,
            level,
            levels,
            queue,
            vertices: vertices as u32,
            per,
        })
    }
    /// Forgets the last search.
    ///
    /// # Errors
    /// The device is lost.
    pub fn reset(&self, source: u32) -> Result<(), EngineError> {
        let gpu = &self.raw.gpu;
        gpu.write_words(&self.levels, 0, &vec![u32::MAX; self.vertices as usize]);
        gpu.write_words(&self.levels, source.into(), &[0]);
        gpu.write_words(&self.queue, 0, &[source]);
        gpu.write_words(&self.raw.counts, 0, &[1, 0, 0, 0]);
        // Waits, so that the copies are not timed.
        gpu.read(&self.raw.counts, 0, &mut [0; 4], LIMIT)?;
        gpu.check()
    }
    /// Searches, after [`reset`](Self::reset).
    ///
    /// # Errors
    /// The device is lost.
    pub fn run(&self) -> Result<(), EngineError> {
        let gpu = &self.raw.gpu;
        let mut steps = vec![0; (u64::from(self.per) * STRIDE / 4) as usize];
        let mut level = 0;
        loop {
            for (i, step) in (0..).zip(steps.chunks_exact_mut(STRIDE as usize / 4)) {
                step[..2].copy_from_slice(&[level + i, self.vertices]);
            }
            gpu.write_words(&self.raw.steps, 0, &steps);
            let n = self.per.into();
            let counts = self.raw.run(&self.level, n, WORKGROUPS, true)?;
            level += self.per;
            if counts[level as usize % 4] == 0 {
                return Ok(());
            }
        }
    }
    /// The levels of the last search; -1 for vertices that were not reached.
    ///
    /// # Errors
    /// The device is lost.
    pub fn levels(&self) -> Result<Vec<i64>, EngineError> {
        let mut bytes = vec![0; 4 * self.vertices as usize];
        self.raw.gpu.read(&self.levels, 0, &mut bytes, LIMIT)?;
        let word = |b: &[u8]| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
        let level = |word| match word {
            u32::MAX => -1,
            level => i64::from(level),
        };
        Ok(bytes.chunks_exact(4).map(word).map(level).collect())
    }
}
