//! Breadth-first search by levels: launches, graphs, and one cooperative kernel.

use std::sync::atomic::{AtomicU64, Ordering};

use everwarp_engine::EngineError;

use super::Baseline;
use super::graph::Graph;
use super::launch::{Shape, args, blocks};
use super::memory::Memory;
use crate::driver::Pinned;

/// Edges in one entry of a queue; as `PART_EDGES` in `baselines.cu`.
const PART_EDGES: u32 = 256;
/// Words of state that the kernels keep.
const STATE: usize = 32;

/// How levels are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchWay {
    /// A launch for each level; the host reads the frontier's size.
    Launches,
    /// A graph launch for this many levels, at least 1; the host reads the frontier's size after each launch.
    Graph(u32),
    /// All levels in one cooperative kernel with a barrier of the grid.
    Cooperative,
    /// As `Cooperative`, and large frontiers are looked for from the other side. The graph must hold each edge
    /// in both directions.
    Turning,
}

/// A graph on the device, ready to be searched. Levels only: parents, which the engine's search finds too,
/// would cost the baselines more.
#[derive(Debug)]
pub struct Search<'b> {
    base: &'b Baseline,
    way: SearchWay,
    degrees: Vec<(u32, u32)>,
    rows: Memory<u32>,
    columns: Memory<u32>,
    levels: Memory<u32>,
    queues: [Memory<u64>; 2],
    state: Memory<u32>,
    /// One word that the device tells the frontier's size in: level << 32 | size.
    told: Pinned,
    shape: Shape,
    graph: Option<Graph>,
    first_size: u32,
    edges: u32,
}

impl<'b> Search<'b> {
    /// Copies a CSR graph to the device.
    ///
    /// # Panics
    /// The arrays are no CSR graph, or it has 2^31 edges or more.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(
        base: &'b Baseline,
        way: SearchWay,
        rows: &[u32],
        columns: &[u32],
    ) -> Result<Self, EngineError> {
        let vertices = rows.len() - 1;
        assert!(
            rows.is_sorted() && rows[0] == 0 && rows[vertices] as usize == columns.len(),
            "not a CSR graph"
        );
        assert!(
            columns.iter().all(|&c| (c as usize) < vertices),
            "a neighbour is no vertex"
        );
        assert!(columns.len() < 1 << 31, "offsets have 31 bits here");
        let capacity = vertices + columns.len() / PART_EDGES as usize + 1;
        let (name, block) = match way {
            SearchWay::Launches => (c"base_level", 256),
            SearchWay::Graph(_) => (c"base_level_node", 256),
            SearchWay::Cooperative | SearchWay::Turning => (c"base_search", 1024),
        };
        let kernel = base.kernel(name)?;
        // A barrier is the cheaper the fewer blocks there are: one a multiprocessor, with as many threads as it
        // takes. Where levels are kernels, as many as are resident.
        let per_multiprocessor = match way {
            SearchWay::Cooperative | SearchWay::Turning => base.resident(kernel, block)?.min(1),
            _ => 2,
        };
        let mut made = Self {
            base,
            way,
            degrees: rows.windows(2).map(|w| (w[0], w[1])).collect(),
            rows: Memory::from(base, rows)?,
            columns: Memory::from(base, columns)?,
            levels: Memory::new(base, vertices)?,
            queues: [Memory::new(base, capacity)?, Memory::new(base, capacity)?],
            state: Memory::new(base, STATE)?,
            told: Pinned::new(64)?,
            shape: Shape {
                kernel,
                grid: base.multiprocessors * per_multiprocessor,
                block,
            },
            graph: None,
            first_size: 0,
            edges: columns.len() as u32,
        };
        if let SearchWay::Graph(levels) = way {
            made.graph = Some(made.build(levels.max(1))?);
        }
        Ok(made)
    }

    fn build(&self, levels: u32) -> Result<Graph, EngineError> {
        let nodes = self.base.nodes()?;
        let (mut rows, mut columns, mut found) = (self.rows.at, self.columns.at, self.levels.at);
        let (mut even, mut odd) = (self.queues[0].at, self.queues[1].at);
        let (mut state, mut host) = (self.state.at, self.told.device);
        let mut before = Vec::new();
        for _ in 0..levels {
            let params = &mut args![rows, columns, found, even, odd, state, host];
            // SAFETY: the kernel's parameters; they live as long as the graph, and queues hold any frontier.
            before = vec![unsafe { nodes.add(self.shape, params, &before) }?];
        }
        nodes.finish()
    }

    /// Forgets the last search and puts `source` on the frontier.
    ///
    /// # Panics
    /// `source` is no vertex.
    ///
    /// # Errors
    /// The device refuses.
    pub fn reset(&mut self, source: u32) -> Result<(), EngineError> {
        let (first, end) = self.degrees[source as usize];
        let starts = (first..end).step_by(PART_EDGES as usize);
        let entry = |at: u32| u64::from((end - at).min(PART_EDGES)) << 32 | u64::from(at);
        let entries: Vec<u64> = starts.map(entry).collect();
        // The kernels of a graph launch that follow the last level must end before anything is written.
        self.base.stream.synchronize()?;
        let mut levels = vec![u32::MAX; self.degrees.len()];
        levels[source as usize] = 0;
        self.levels.write(&levels)?;
        self.queues[0].write(&entries)?;
        let mut state = [0; STATE];
        self.first_size = entries.len() as u32;
        match self.way {
            // Its kernel gets the size as a parameter and counts the next one here.
            SearchWay::Launches => {}
            _ => state[0] = self.first_size,
        }
        if matches!(self.way, SearchWay::Cooperative | SearchWay::Turning) {
            state[4] = end - first;
        }
        self.state.write(&state)?;
        self.word().store(0, Ordering::Relaxed);
        Ok(())
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: pinned, aligned, zeroed, lives as long as the process, and only accessed atomically.
        unsafe { AtomicU64::from_ptr(self.told.host.cast()) }
    }

    /// Waits until the device reports level `level` or an empty frontier; returns level and size.
    fn await_level(&self, level: u32) -> Result<(u32, u32), EngineError> {
        for spins in 1u32.. {
            let word = self.word().load(Ordering::Acquire);
            let (told, size) = ((word >> 32) as u32, word as u32);
            if told >= level || (told > 0 && size == 0) {
                return Ok((told, size));
            }
            // A kernel that crashed tells nothing.
            if spins.is_multiple_of(1 << 16)
                && self.base.stream.is_done()?
                && self.word().load(Ordering::Acquire) == word
            {
                return Err(EngineError::Lost {
                    reason: format!("level {level} ended without saying so"),
                });
            }
            std::hint::spin_loop();
        }
        unreachable!("the loop is endless")
    }

    fn by_launches(&self) -> Result<(), EngineError> {
        let (mut rows, mut columns, mut levels) = (self.rows.at, self.columns.at, self.levels.at);
        let (mut state, mut host) = (self.state.at, self.told.device);
        let (mut level, mut size) = (0u32, self.first_size);
        while size > 0 {
            let mut from = self.queues[level as usize % 2].at;
            let mut to = self.queues[(level as usize + 1) % 2].at;
            level += 1;
            // A short queue is spread over more warps than it would fill.
            let spread = blocks(size, self.shape.block / 4).min(self.base.multiprocessors * 8);
            let shape = Shape {
                grid: blocks(size, self.shape.block).max(spread),
                ..self.shape
            };
            let params = &mut args![rows, columns, levels, from, size, to, state, level, host];
            // SAFETY: the kernel's parameters; `from` holds `size` entries and `to` any frontier.
            unsafe { self.base.launch(shape, params) }?;
            size = self.await_level(level)?.1;
        }
        Ok(())
    }

    fn by_graph(&self, graph: &Graph, levels: u32) -> Result<(), EngineError> {
        let (mut level, mut size) = (0, self.first_size);
        while size > 0 {
            graph.launch(&self.base.stream)?;
            (level, size) = self.await_level(level + levels)?;
        }
        Ok(())
    }

    fn at_once(&self) -> Result<(), EngineError> {
        let (mut rows, mut columns, mut levels) = (self.rows.at, self.columns.at, self.levels.at);
        let (mut even, mut odd) = (self.queues[0].at, self.queues[1].at);
        let (mut state, mut edges) = (self.state.at, self.edges);
        let mut vertices = self.degrees.len() as u32;
        let mut turns = u32::from(self.way == SearchWay::Turning);
        let params = &mut args![
            rows, columns, levels, even, odd, state, vertices, edges, turns
        ];
        // SAFETY: the kernel's parameters; the grid has at most one block a multiprocessor, which is resident.
        unsafe { self.base.launch_cooperative(self.shape, params) }?;
        self.base.stream.synchronize()
    }

    /// Searches, after [`reset`](Self::reset); when it returns, all levels are known.
    ///
    /// # Errors
    /// The device refuses.
    pub fn run(&self) -> Result<(), EngineError> {
        match (self.way, &self.graph) {
            (SearchWay::Graph(levels), Some(graph)) => self.by_graph(graph, levels.max(1)),
            (SearchWay::Cooperative | SearchWay::Turning, _) => self.at_once(),
            _ => self.by_launches(),
        }
    }

    /// The levels that the last search found, -1 where it did not come.
    ///
    /// # Errors
    /// The device refuses.
    pub fn levels(&self) -> Result<Vec<i64>, EngineError> {
        self.base.stream.synchronize()?;
        let level = |l| if l == u32::MAX { -1 } else { i64::from(l) };
        Ok(self.levels.read()?.into_iter().map(level).collect())
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        if self.base.stream.synchronize().is_ok() {
            // SAFETY: nothing is queued that could use it, and it is freed once.
            unsafe { self.told.free() };
        }
    }
}
