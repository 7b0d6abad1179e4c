//! `pagerank`: the power iteration; every iteration forks over ranges of vertices and joins.
//!
//! rank'(v) = (1 - d) / n + d * (sum of rank(u) / out(u) over edges u -> v, plus the rank of vertices
//! without out-edges / n), with d = 0.85 (Page, Brin, Motwani, Winograd 1999).

mod entry;
#[path = "pagerank.rs"]
mod twin;

use everwarp::{Buffer, DevPtr, Engine, Error, Instance, dev_struct, program};

use twin::{gather, split, step};

pub use entry::{PageRanks, RankedGraph};

/// Vertices that one warp computes at once.
const RANGE: u32 = 128;
/// The most iterations of one run.
pub const MAX_ITERATIONS: u32 = 255;
/// The damping factor.
pub const DAMPING: f64 = 0.85;

dev_struct! {
    /// Parameters of `pagerank`.
    pub struct DevPageRank: align 16, size 64 {
        /// Row offsets of the edges that lead to each vertex, one more than vertices.
        pub rows: DevPtr<u32>,
        /// The vertices that these edges come from.
        pub columns: DevPtr<u32>,
        /// Out-degrees.
        pub degrees: DevPtr<u32>,
        /// Ranks: two arrays of `vertices`, one after the other, taken in turn.
        pub ranks: DevPtr<f64>,
        /// The summed rank of vertices without out-edges, by iteration.
        pub dangling: DevPtr<f64>,
        /// Number of vertices.
        pub vertices: u32,
        /// Number of iterations.
        pub iterations: u32,
        /// Spelled-out hole.
        pub reserved: [u64; 2],
    }
}

program! {
    /// The program.
    pub static PROGRAM: pagerank(DevPageRank), "pagerank.cu"; wgsl "pagerank.wgsl" {
        /// Starts an iteration; argument: its number.
        STEP: lane(step).forks(1),
        /// Halves a range of vertices down to parts for a warp; argument = first vertex | vertices << 32.
        SPLIT: lane(split).spawns(2),
        /// Computes the ranks of a range.
        GATHER: warp(gather),
    }
}

/// A graph in the engine's memory.
#[derive(Debug)]
pub struct PageRank {
    instance: Instance,
    ranks: Buffer<f64>,
    dangling: Buffer<f64>,
    vertices: usize,
    iterations: u32,
    _graph: [Buffer<u32>; 3],
}

/// The total rank of the vertices without out-edges before the first iteration, for the device and the reference.
fn first_dangling(degrees: &[u32]) -> f64 {
    degrees.iter().filter(|&&d| d == 0).count() as f64 / degrees.len() as f64
}

impl PageRank {
    /// Copies a graph to the engine: the transposed CSR arrays (edges that lead to each vertex) and the
    /// out-degrees.
    ///
    /// # Panics
    /// The arrays are no valid graph.
    ///
    /// # Errors
    /// The device has no memory left, or the engine does not hold the program.
    pub fn new(
        engine: &Engine,
        rows: &[u32],
        columns: &[u32],
        degrees: &[u32],
        iterations: u32,
    ) -> Result<Self, Error> {
        let vertices = degrees.len();
        assert!(
            iterations <= MAX_ITERATIONS,
            "at most {MAX_ITERATIONS} iterations: a task's tag holds the number"
        );
        assert!(
            rows.len() == vertices + 1
                && rows.is_sorted()
                && rows[vertices] as usize == columns.len()
        );
        assert!(
            columns.iter().all(|&c| (c as usize) < vertices),
            "a neighbour is no vertex"
        );
        let graph = [
            engine.buffer_from(rows)?,
            engine.buffer_from(columns)?,
            engine.buffer_from(degrees)?,
        ];
        let ranks = engine.buffer_from(&vec![1.0 / vertices as f64; 2 * vertices])?;
        let dangling = engine.buffer(iterations as usize + 1)?;
        dangling.write(&[first_dangling(degrees)])?;
        let params = DevPageRank {
            rows: graph[0].ptr(),
            columns: graph[1].ptr(),
            degrees: graph[2].ptr(),
            ranks: ranks.ptr(),
            dangling: dangling.ptr(),
            vertices: vertices as u32,
            iterations,
            reserved: [0; 2],
        };
        // SAFETY: the buffers hold a valid graph, and live as long as the instance.
        let instance = unsafe { engine.instance(&PROGRAM, &params) }?;
        Ok(Self {
            instance,
            ranks,
            dangling,
            vertices,
            iterations,
            _graph: graph,
        })
    }
    /// Runs all iterations; returns the ranks, which sum to 1.
    ///
    /// # Errors
    /// Whatever ends the engine.
    pub fn run(&self, engine: &Engine) -> Result<Vec<f64>, Error> {
        engine.run(self.instance.task(STEP))?;
        let mut ranks = vec![0.0; self.vertices];
        self.ranks
            .read_at(self.iterations as usize % 2 * self.vertices, &mut ranks)?;
        Ok(ranks)
    }
    /// The total rank of the vertices without out-edges before each iteration.
    ///
    /// # Errors
    /// The copy fails.
    pub fn dangling(&self) -> Result<Vec<f64>, Error> {
        self.dangling.read()
    }
}

/// The ranks, computed plainly from the same arrays as [`PageRank::new`].
pub fn reference(rows: &[u32], columns: &[u32], degrees: &[u32], iterations: u32) -> Vec<f64> {
    let n = degrees.len() as f64;
    let mut ranks = vec![1.0 / n; degrees.len()];
    for _ in 0..iterations {
        let dangling: f64 = ranks
            .iter()
            .zip(degrees)
            .filter(|&(_, &d)| d == 0)
            .map(|(r, _)| r)
            .sum();
        let gather = |v: usize| -> f64 {
            let edges = &columns[rows[v] as usize..rows[v + 1] as usize];
            edges
                .iter()
                .map(|&u| ranks[u as usize] / f64::from(degrees[u as usize]))
                .sum()
        };
        ranks = (0..degrees.len())
            .map(|v| (1.0 - DAMPING) / n + DAMPING * (gather(v) + dangling / n))
            .collect();
    }
    ranks
}
